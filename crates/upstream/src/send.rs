//! Sending requests: the origins that answer them, connections that are opened for them, and the
//! events that are counted meanwhile.

pub mod attempts;
pub mod checks;
pub mod client;
pub mod descriptors;
pub(crate) mod dial;
pub(crate) mod failover;
pub mod origin;
pub mod outgoing;
pub(crate) mod timers;
