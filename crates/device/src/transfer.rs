//! The parts of an operation: extents, buffers and their pool, payloads, counters.

mod arena;
pub(crate) mod buffer;
pub(crate) mod buffer_pool;
pub(crate) mod counters;
pub(crate) mod extent;
pub(crate) mod payload;
