//! The simulated disk: a drive, what is on it, the host's queue, and faults.

pub(crate) mod contents;
pub(crate) mod fault_plan;
pub(crate) mod host_queue;
pub(crate) mod sim_disk;
#[cfg(feature = "tokio")]
pub(crate) mod tokio_disk;
