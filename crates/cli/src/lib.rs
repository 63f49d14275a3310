//! Parts that the command lines of Larder's programs share: quantities, the end of a command, and
//! what is to be removed when one is interrupted.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cleanup;
pub mod outcome;
pub mod units;
