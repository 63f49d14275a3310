//! Purges in force, and which labels stored objects bear.

pub(crate) mod bearers;
pub(crate) mod purges;
