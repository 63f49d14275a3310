//! The origin server: a thread that serves every object, and records which requests it has served.
//!
//! It stores no objects: a response follows from the path and the time. Each response carries
//! `Bench-Answer: NUMBER.VERSION`, the number of the request that it was produced for and the
//! version of the object, so that a client can identify a response from a cache.

mod answer;
mod asked;
mod seen;
mod server;
mod think;

pub use seen::{Seen, Sent};
pub use server::{Counts, Options, Origin};
pub use think::Think;
