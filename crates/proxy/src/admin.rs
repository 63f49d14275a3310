//! The admin interface: metrics, health, purges and explanations over HTTP.

pub(crate) mod backend;
pub mod guard;
pub mod interface;
pub(crate) mod seats;
pub(crate) mod server_status;
