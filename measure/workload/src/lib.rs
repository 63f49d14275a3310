//! Workloads: requests and bodies, generators, traces, and the two-level cache that turns requests
//! into disk operations.
//!
//! The lab's experiments and the load generator share this crate, so that a name means the same in
//! both.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cleanup;
pub mod contents;
pub mod generator;
pub mod lru_stack;
pub mod request;
pub mod trace;
pub mod two_level;
pub mod unified_paper;
