//! The lab: the product's engine, and models of everyone else's systems, driven in virtual time.
//!
//! It exists so that a reader of the papers sees their figures again, that an operator tries his
//! own log before he chooses, and that the engine meets every fault before a user does.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod missratio;
pub mod trace;
