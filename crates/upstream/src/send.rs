//! Requests on their way: what answers them, one server or several, connections that are opened for
//! them, and what is counted meanwhile.

pub mod attempts;
pub mod checks;
pub mod client;
pub mod descriptors;
pub(crate) mod dial;
pub mod events;
pub(crate) mod failover;
pub mod origin;
pub mod outgoing;
