//! The admin interface: metrics, health, purges and explanations over HTTP.

pub(crate) mod backend;
pub(crate) mod guard;
pub mod interface;
pub(crate) mod seats;
