//! The shell of one device and its core: locks the core, lets it decide, unlocks it, awaits the
//! device, locks again and reports the result. Contains opening and recovery, lookups and the
//! background.

pub(crate) mod background;
pub(crate) mod close;
pub(crate) mod cluster_contents;
pub(crate) mod core_lock;
pub(crate) mod create;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod operation_times;
pub(crate) mod piece_run;
pub(crate) mod placements;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod slot_recovery;
pub(crate) mod superblocks;
pub(crate) mod volume;
pub(crate) mod write_breaker;
