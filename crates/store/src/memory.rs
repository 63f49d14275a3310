//! Objects in memory: the memory tier, the structures around it, and pieces in transit.

pub(crate) mod doorkeeper;
pub(crate) mod eviction_queue;
pub(crate) mod grouping;
pub(crate) mod in_transit;
pub(crate) mod locality_staging;
pub(crate) mod memory_tier;
pub(crate) mod object;
