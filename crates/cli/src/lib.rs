//! Code shared by the command lines of Larder's programs: quantities, command results, and cleanup
//! when a command is interrupted.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cleanup;
pub mod outcome;
pub mod units;
