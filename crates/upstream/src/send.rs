//! Sending requests: origins, the connections opened for requests, failover, and timeouts.

pub mod attempts;
pub mod checks;
pub mod client;
pub mod descriptors;
pub(crate) mod dial;
pub(crate) mod failover;
pub mod origin;
pub mod outgoing;
pub(crate) mod timers;
