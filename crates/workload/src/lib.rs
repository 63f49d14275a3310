//! What is asked for: requests and bodies, generators, traces, and the two-level cache that turns
//! requests into operations on a disk.
//!
//! The lab's experiments and the load generator share it, so that both mean the same by a name.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod contents;
pub mod generator;
pub mod lru_stack;
pub mod request;
pub mod trace;
pub mod two_level;
