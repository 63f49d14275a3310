//! Structures on the device: superblock, areas, journal, checkpoints, dumps, purge log.

pub(crate) mod checkpoint;
pub(crate) mod device_layout;
pub(crate) mod index_dump;
pub(crate) mod journal;
pub(crate) mod label_filters_dump;
pub(crate) mod pending_deletions;
pub(crate) mod purge_log;
pub(crate) mod staging_memory;
pub(crate) mod superblock;
pub(crate) mod table_size;
