//! What a request is: target, facts, rule, and the request that is sent upstream for it.

pub(crate) mod context;
pub(crate) mod control;
pub mod options;
pub(crate) mod target;
pub(crate) mod upstream_request;
