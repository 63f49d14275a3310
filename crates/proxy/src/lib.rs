//! The HTTP side of Larder: front ends, answers from the cache, fetches for it, the admin
//! interface.
//!
//! [`run()`] starts it. The folders, from the top to the bottom; each imports only those below it
//! (`package.metadata.folders` in `Cargo.toml`, checked by `cargo xtask tidy`):
//!
//! - `server` starts and stops: threads, their connections, caches that open while requests come;
//! - `admin` is the operator's HTTP interface;
//! - `downstream` is the client's side: listeners, handshakes, HTTP/1.1 and HTTP/2 connections,
//!   tunnels;
//! - `exchange` decides which way a request goes;
//! - `get` answers what the cache may answer: look up, serve, validate, join a fetch, fetch;
//! - `fetch` fetches for the cache and stores what comes, as `get` does for HEAD; `partial` reads,
//!   fetches and stores the parts of objects;
//! - `response` makes responses and keeps the record of each; `body` has the sources of their
//!   bytes;
//! - `request` is what a request means, and the request that is sent upstream for it;
//! - `fleet_control` is what nodes of a fleet tell each other besides documents;
//! - `services` is what the requests of a worker share;
//! - `peers` is this node's part in a fleet: what it knows of the others and asks them;
//! - `fill` is a running fetch and its readers;
//! - `origin` is the sites, the targets of requests, and failures as clients are told of them;
//!   `object` is what is stored, the writer of all heads, and who needs the store; `rules` is the
//!   rules of operators;
//! - `client` is the state and the limits of clients' connections; `observe` is events, metrics and
//!   logs.
//!
//! Below them are crates: `upstream`, the connections to the origin servers; `message`, HTTP
//! messages; `net`, sockets, addresses, certificates and clocks.

// The limit is in `clippy.toml`.
#![warn(clippy::large_futures)]

pub mod admin;
mod body;
pub mod client;
pub mod downstream;
pub mod exchange;
mod fetch;
mod fill;
mod fleet_control;
mod get;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod network_fuzz;
pub mod object;
pub mod observe;
pub mod options;
pub mod origin;
mod partial;
pub mod peers;
pub mod request;
mod response;
pub mod rules;
mod server;
mod services;

// The crates below, by the paths that the folders import them by.

pub use admin::backend::{AdminSetup, Reload};
pub use downstream::listener::Listener;
pub use fleet_control::upkeep::FleetSetup;
pub use net::clock::TokioClock;
pub use net::network::{ListenSocket, Network};
pub use observe::log_fields::LogFields;
pub use observe::observer::{Observer, RequestRecord, Unobserved};
pub use observe::recorder::Recorder;
pub use options::control::Control;
pub use server::cache_opening::{CacheSource, PendingCache};
pub use server::run::{CacheSetup, Devices, Ended, Setup, run, run_here};
