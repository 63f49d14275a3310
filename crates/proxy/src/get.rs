//! GET and HEAD requests that the cache may serve: look up, serve, validate, join a fill, fetch.

pub(crate) mod cache_request;
pub(crate) mod cached;
pub(crate) mod collapse;
pub(crate) mod compressed_form;
pub(crate) mod direct_fetch;
pub(crate) mod fill_response;
pub(crate) mod fit;
pub(crate) mod head_request;
pub(crate) mod partial_response;
pub(crate) mod plan;
pub(crate) mod vouching;
pub(crate) mod waiting;
