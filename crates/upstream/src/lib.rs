//! The origin servers: names, connections, TLS, HTTP/1.1 and HTTP/2, groups, balancing, health,
//! failover.
//!
//! What it needs of its owner it declares itself: who counts ([`events`]), who makes room
//! ([`descriptors`]), and a closure that says of each address whether it may be connected to
//! ([`origin::Check`]). It knows neither caches nor clients.

// How large is in `clippy.toml`.
#![warn(clippy::large_futures)]

pub mod attempts;
pub mod balance;
pub(crate) mod cause;
pub mod checks;
pub mod client;
pub mod descriptors;
pub(crate) mod dial;
pub mod endpoint;
pub mod error;
pub mod events;
pub(crate) mod failover;
pub mod failure_log;
pub mod group;
pub mod health;
pub mod health_check;
pub(crate) mod http2;
pub mod limits;
pub mod lookup;
pub mod origin;
pub mod origin_body;
pub(crate) mod pool;
pub(crate) mod queue;
pub mod request_body;
pub mod resolver;
pub mod status;
pub(crate) mod stream;
pub mod tls;
pub mod tunnel;
