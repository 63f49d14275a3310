//! The admin interface: metrics, health, purges and explanations over HTTP.

pub(crate) mod backend;
pub(crate) mod connection_slots;
pub mod guard;
pub mod interface;
pub(crate) mod live;
pub(crate) mod process_status;
pub(crate) mod server_status;
