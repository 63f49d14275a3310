//! The HTTP side of Larder: front ends, fills, the upstream pool, the admin interface.
//!
//! [`run()`] is the way in. Each worker is a thread with a tokio `current_thread` runtime; it
//! accepts (`listener`), runs hyper's server on each connection (`connection`, over the socket
//! wrapper `client_io`), checks what a request means (`request`) and decides what becomes of it
//! (`serve`). What goes to an upstream is an `errand` through the pool (`upstream`), and what
//! comes back is made to say one thing about its body (`framing`); what the cache takes no part in
//! is passed on by `forward`.

// How large is in `clippy.toml`.
#![warn(clippy::large_futures)]

pub mod access;
pub mod access_log;
mod account;
pub mod address;
mod addresses;
pub mod admin;
pub mod aliases;
mod answer;
mod arrival;
mod body;
pub mod cache;
pub mod cache_status;
mod caching;
pub mod certificate;
mod client_io;
mod clock;
mod connection;
mod control;
mod crowd;
pub mod edits;
mod entry_body;
mod errand;
mod explain;
mod fill;
mod filler;
mod fills;
mod follow;
mod forward;
mod framing;
mod framing_watch;
mod gap;
mod headers;
mod heads;
pub mod http2;
mod interim;
pub mod keyring;
mod labels;
mod ledger;
mod listener;
pub mod metrics;
mod neighbours;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod network_fuzz;
pub mod notify;
mod opening;
mod operator;
pub mod options;
mod out_body;
pub mod outcome;
mod parts;
mod parts_body;
mod pem;
mod proxy_header;
mod purger;
mod release;
mod reply;
mod request;
mod request_body;
mod rescue;
pub mod resolve;
pub mod rules;
mod run;
mod scheme;
mod selection;
mod serve;
mod shortage;
mod sink;
mod socket;
mod sparse;
mod stream;
pub mod tunnel;
mod upgrade;
pub mod upstream;
mod variants;
mod visit;
mod waiting;
mod wall_clock;
pub mod welcome;
mod window;
mod windows;
mod worker;

pub use account::{Finished, Observer, Texts, Unobserved};
pub use arrival::{CacheSource, Later};
pub use clock::TokioClock;
pub use control::Control;
pub use ledger::Ledger;
pub use listener::{ListenSocket, Listener};
pub use operator::{AdminSetup, Reload};
pub use run::{CacheSetup, Devices, Ended, Setup, run};
