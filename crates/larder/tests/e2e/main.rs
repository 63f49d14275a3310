//! End-to-end tests: the real program, real sockets, a scripted origin in this process.
//!
//! Every body follows from its URL, so every response is checked byte by byte. The origin's faults
//! are written in the URLs. Tests are plain statements; their tools are in `testkit`.

#![allow(clippy::unwrap_used)]

mod admission;
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
mod partial;
mod presets;
mod process;
mod purge_stream;
mod purging;
mod reloading;
mod rules;
mod soak;
mod soak_files;
mod transfers;
