//! Simulated disks in virtual time: drives of many kinds, the executor that advances their clock,
//! and their faults. With the feature `tokio`, also a simulated network, and both on the clock of a
//! tokio runtime.
//!
//! The engine that runs on a real disk runs here unchanged: on a disk of 1996, on one that loses
//! writes, and on one that fails. It runs as fast as the processor permits, and identically for the
//! same seed.
//!
//! Guarantees: no code here reads a real clock or an unseeded source of randomness.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod disk;
pub mod drives;
pub mod ffs;
#[cfg(feature = "tokio")]
pub mod network;
mod time;

pub use disk::contents::Contents;
pub use disk::fault_plan::{Fault, FaultPlan, SurvivalGuarantee};
pub use disk::host_queue::Order;
pub use disk::sim_disk::{Options, SimDisk};
#[cfg(feature = "tokio")]
pub use disk::tokio_disk::TokioDisk;
pub use drives::constant_latency::Uniform;
pub use time::clock::until;
pub use time::executor::{Executor, Handle, Happening, Stop, Task};
