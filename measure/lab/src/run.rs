//! The drivers: operations on a space manager, and requests to a whole cache.

pub mod replay;
pub mod space_benchmark;
pub mod whole_cache;
