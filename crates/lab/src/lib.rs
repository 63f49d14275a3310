//! The lab: the product's engine, and models of everyone else's systems, driven in virtual time.
//!
//! It exists so that a reader of the papers sees their figures again, and that an operator tries
//! his own log before he chooses.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod advise;
pub mod commands;
mod csv_text;
pub mod disks;
pub mod experiment;
pub mod experiments;
pub mod layouts;
pub mod report;
pub mod run;
pub mod space;
