//! End-to-end tests: the real program, real sockets, a scripted origin in this process.
//!
//! Every body follows from its URL ([`body`]), so every response is checked byte by byte. The
//! origin's faults are written in the URLs ([`origin`]). Tests are plain statements; their tools
//! are in [`runner`] (the program), [`fleet_nodes`] (several of it) and [`client`] (one side of a
//! socket).

#![allow(clippy::unwrap_used)]

mod body;
mod client;
mod fleet_nodes;
mod message;
mod origin;
mod runner;
mod skip;

mod admission;
mod broken_origins;
mod cache_file;
mod file_clients;
mod files;
mod fleet;
mod fleet_attacks;
mod fleet_partition;
mod fleet_troubles;
mod fleet_without_cache;
mod fronts;
mod hanging_files;
mod large;
mod layouts;
mod metrics_page;
mod names;
mod neighbours;
mod outcomes;
mod partial;
mod presets;
mod process;
mod purging;
mod restart;
mod rules;
mod sharing;
mod soak;
mod soak_files;
mod transfers;
