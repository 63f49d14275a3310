//! The origin servers: names, connections, TLS, HTTP/1.1 and HTTP/2, groups, balancing, health,
//! failover.
//!
//! Requests are answered by an [`Origin`](send::origin::Origin): one server, a group of them, or
//! another implementation. The folders, from the top to the bottom; each imports those below it
//! alone (`package.metadata.folders` in `Cargo.toml`):
//!
//! - `send` sends requests;
//! - `connection` is the connections, their bodies, and the pool; `names` resolves names to
//!   addresses;
//! - `servers` is the servers of one site: balancing, health, the queue for them;
//! - `settings` is where servers are and how they are reached;
//! - `failure` is the reasons why there is no answer.
//!
//! It declares what it needs of its owner: a counter of events ([`connection::events`]), a way to
//! free descriptors ([`send::descriptors`]), and a closure that says of each address whether it may
//! be connected to ([`settings::limits::Check`]). It does not depend on caches or clients.

// The limit is in `clippy.toml`.
#![warn(clippy::large_futures)]

pub mod connection;
pub mod failure;
pub mod names;
pub mod send;
pub mod servers;
pub mod settings;
