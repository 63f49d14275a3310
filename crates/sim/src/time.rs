//! Virtual time: the executor, its event queue, and its clock.

pub(crate) mod clock;
pub(crate) mod event_queue;
pub(crate) mod executor;
#[cfg(feature = "tokio")]
mod follow;
