//! Purges in force, and which labels stored objects bear.

pub(crate) mod label_filters;
pub(crate) mod purges;
pub(crate) mod tables;
