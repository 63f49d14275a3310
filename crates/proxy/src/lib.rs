//! HTTP side of Larder: listeners, responses from the cache, fetches for it, and the admin
//! interface.
//!
//! [`run()`] starts it. The folders, from top to bottom; each imports only those below it
//! (`package.metadata.folders` in `Cargo.toml`, checked by `cargo xtask tidy`):
//!
//! - `server` starts and stops everything: threads, their connections, caches that open while
//!   requests arrive;
//! - `admin` is the operator's HTTP interface;
//! - `downstream` is the client side: listeners, handshakes, HTTP/1.1 and HTTP/2 connections,
//!   tunnels;
//! - `exchange` decides how a request is handled;
//! - `get` answers requests that the cache may answer: it looks up, serves, validates, joins a
//!   fetch or fetches;
//! - `fetch` fetches for the cache and stores the response (for HEAD `get` does so); `partial`
//!   reads, fetches and stores parts of objects;
//! - `response` makes responses and keeps the transaction of each; `body` has the sources of their
//!   bytes;
//! - `request` interprets a request and makes the upstream request for it;
//! - `fleet_control` handles all messages between fleet nodes except requests for objects;
//! - `services` is the state shared by the requests of a worker;
//! - `peers` is this node's view of the other fleet nodes, and how it asks them;
//! - `fill` is a running fetch and its readers;
//! - `origin` has the sites, the targets of requests, and origin failures as reported to clients;
//!   `object` has stored objects, the writer of all heads, and the leases of the store; `rules` has
//!   the operator's rules;
//! - `client` has the state and limits of client connections; `message` edits messages on their
//!   way; `observe` has events, metrics and logs.
//!
//! Crates below these: `upstream`, connections to origin servers; `net`,
//! sockets, addresses, certificates and clocks.

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
pub mod message;
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

// The interface that the program uses.

pub use admin::backend::{Act, AdminSetup, Facts};
pub use admin::interface::Action;
pub use downstream::listener::Listener;
pub use downstream::listener_changes::{ListenerChange, ListenerChanges};
pub use fleet_control::upkeep::FleetSetup;
pub use message::trace_context::TraceContext;
pub use net::clock::TokioClock;
pub use net::network::{ListenSocket, Network};
pub use observe::log_fields::LogFields;
pub use observe::observer::{Observer, RequestRecord, Unobserved};
pub use observe::recorder::Recorder;
pub use observe::span_sink::SpanSink;
pub use options::control::Control;
pub use server::cache_opening::{CacheSource, PendingCache};
pub use server::run::{CacheSetup, Devices, Ended, Setup, run, run_here};
