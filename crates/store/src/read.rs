//! Reads from the device: in which order, how much at once, at what price.

pub(crate) mod ahead;
pub(crate) mod device_cost;
pub(crate) mod queue;
pub(crate) mod reads;
pub(crate) mod window;
