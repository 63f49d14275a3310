//! Code shared by the command lines of all programs: written quantities and command results.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod outcome;
pub mod units;
