//! The structures on the device: superblock, areas, journal, checkpoints, dumps.

pub(crate) mod bearers_dump;
pub(crate) mod checkpoint;
pub(crate) mod device_layout;
pub(crate) mod index_dump;
pub(crate) mod journal;
pub(crate) mod pending_deletions;
pub(crate) mod superblock;
pub(crate) mod table_size;
