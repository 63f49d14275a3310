//! Reads from the device: their order, size and cost.

pub(crate) mod ahead;
pub(crate) mod device_cost;
pub(crate) mod queue;
pub(crate) mod reads;
pub(crate) mod window;
