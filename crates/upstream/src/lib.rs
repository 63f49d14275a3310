//! The origin servers: names, connections, TLS, HTTP/1.1 and HTTP/2, groups, balancing, health,
//! failover.
//!
//! What answers requests is an [`Origin`](send::origin::Origin): one server, a group of them, or
//! whatever else has answers. The folders, from the top to the bottom; each imports those below it
//! alone (`package.metadata.folders` in `Cargo.toml`):
//!
//! - `send` is a request on its way;
//! - `connection` is what carries it, and the pool; `names` are addresses of names;
//! - `servers` are those of one site: balancing, health, the queue for them;
//! - `settings` is where servers are and how they are reached;
//! - `failure` is why there is no answer.
//!
//! What it needs of its owner it declares itself: who counts ([`send::events`]), who makes room
//! ([`send::descriptors`]), and a closure that says of each address whether it may be connected to
//! ([`settings::limits::Check`]). It knows neither caches nor clients.

// How large is in `clippy.toml`.
#![warn(clippy::large_futures)]

pub mod connection;
pub mod failure;
pub mod names;
pub mod send;
pub mod servers;
pub mod settings;
