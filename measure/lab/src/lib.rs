//! The lab: the product's engine, and models of other systems, driven in virtual time.
//!
//! Readers of the papers can reproduce their figures, and operators can try their own logs before
//! they choose settings.

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
