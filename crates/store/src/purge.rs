//! Purges in force, and the labels that stored objects may bear.

pub(crate) mod label_filters;
pub(crate) mod patterns;
pub(crate) mod purges;
pub(crate) mod tables;
