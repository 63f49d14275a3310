//! Operations through io_uring: a worker's ring, the operations in flight on it, the device on it.

pub(crate) mod device;
#[cfg(feature = "tokio")]
pub(crate) mod drive;
pub(crate) mod in_flight;
pub(crate) mod ring;
