//! Metadata stored beside a body, and the cache keys.

pub mod cache_key;
pub(crate) mod encoding;
pub mod meta;
pub mod packed;
pub mod sparse;
pub mod stored_head;
pub mod tags;
pub(crate) mod vary_marker;
