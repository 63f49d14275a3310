//! Interpretation of a request: its target, its facts, the operator's rule for it, and the request
//! sent upstream on its behalf.

pub(crate) mod admission;
pub(crate) mod buffering;
pub(crate) mod context;
pub(crate) mod held;
pub(crate) mod key_check;
pub(crate) mod login;
pub(crate) mod negotiated;
pub(crate) mod prepare;
pub(crate) mod purge_dialect;
pub(crate) mod purge_names;
pub mod purge_order;
mod purge_pattern;
pub(crate) mod request_values;
pub(crate) mod route;
pub(crate) mod server_choice;
pub(crate) mod substituted_body;
pub(crate) mod target;
pub(crate) mod upstream_request;
