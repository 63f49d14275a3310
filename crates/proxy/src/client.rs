//! State, limits and request bodies of a client connection.

pub(crate) mod addresses;
pub(crate) mod connection_state;
pub(crate) mod handle;
pub(crate) mod http2_body;
pub mod http2_options;
pub mod limits;
pub(crate) mod link;
pub(crate) mod password_checks;
pub(crate) mod pool;
pub(crate) mod reclaimer;
pub(crate) mod tunnel_permits;
pub(crate) mod upload_rate;
