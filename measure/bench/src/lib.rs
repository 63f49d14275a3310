//! `larder bench`: a load generator and an origin server for any web cache.
//!
//! The origin's bodies are a function of the request, so the client verifies every byte that a
//! cache returns. The origin records which requests reached it, so a hit is known by a request that
//! did not, whatever the cache reports. Load is offered by a schedule that does not wait for
//! responses (an open loop), or by a number of clients that do (a closed loop). Response times are
//! counted from the moment a request was due. The generator measures its own cost, and reports when
//! it was the bottleneck.
//!
//! It does not depend on the engine or the proxy: the program under test is behind a socket.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod commands;
pub mod compare;
pub mod files;
pub mod fleet;
pub mod instructions;
pub mod load;
pub mod measure;
pub mod object;
pub mod origin;
mod poll;
pub mod report;
mod repository;
pub mod run;
pub mod scale;
pub mod steps;
pub mod systems;
pub mod unified;
