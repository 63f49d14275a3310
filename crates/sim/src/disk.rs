//! Simulated disks: the drive, its contents, the host's request queue, and injected faults.

pub(crate) mod contents;
pub(crate) mod fault_plan;
pub(crate) mod host_queue;
pub(crate) mod sim_disk;
#[cfg(feature = "tokio")]
pub(crate) mod tokio_disk;
