//! Responses to the client: from the cache, from the origin, or made here; and the transaction of
//! each.

pub(crate) mod builder;
pub(crate) mod client_response;
pub(crate) mod error_response;
pub(crate) mod failure;
pub(crate) mod failure_text;
pub(crate) mod pass_through;
pub(crate) mod response_body;
pub(crate) mod stored_fields;
pub(crate) mod trailers;
pub(crate) mod transaction;
pub(crate) mod tunnel;
