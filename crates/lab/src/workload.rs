//! What is asked for: requests and bodies, generators, traces, and the two-level cache that turns
//! requests into operations on a disk.

pub mod contents;
pub mod generator;
pub(crate) mod lru_stack;
pub mod request;
pub mod trace;
pub mod two_level;
