//! Origin servers: names, connections, TLS, HTTP/1.1 and HTTP/2, groups, balancing, health,
//! failover.
//!
//! An [`Origin`](send::origin::Origin) answers requests: a single server, a group of them, or
//! another implementation. The folders, from top to bottom; each imports only those below it
//! (`package.metadata.folders` in `Cargo.toml`):
//!
//! - `send` sends requests;
//! - `connection` has the connections, their bodies, and the pool; `names` resolves names to
//!   addresses;
//! - `servers` has the servers of one site: balancing, health, and the queue for them;
//! - `settings` says where servers are and how to reach them;
//! - `failure` has the reasons why there is no response.
//!
//! The owner of the crate provides a counter of events ([`connection::events`]), a way to free file
//! descriptors ([`send::descriptors`]), and a closure that decides for each address whether
//! connecting to it is permitted ([`settings::limits::Check`]). The crate does not depend on caches
//! or clients.

// The limit is in `clippy.toml`.
#![warn(clippy::large_futures)]

pub mod connection;
pub mod failure;
pub mod message;
pub mod names;
pub mod send;
pub mod servers;
pub mod settings;
