//! Simulated disks in virtual time: drives of many kinds, the executor that moves their clock, and
//! the faults that they suffer.
//!
//! It exists so that the engine that runs on a real disk runs unchanged on a disk of 1996, on one
//! that lies, and on one that dies, as fast as the processor permits and always the same for a
//! seed.
//!
//! It promises: nothing here reads a real clock or a source of randomness that was not seeded.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod contents;
pub mod drive;
pub mod drive_file;
pub mod drives;
mod executor;
mod fault_plan;
pub mod ffs;
pub mod flash;
mod host_queue;
pub mod mechanical;
mod sim_disk;
pub mod striped;
mod timetable;
mod uniform;

pub use clock::until;
pub use contents::Contents;
pub use executor::{Executor, Handle, Happening, Stop, Task};
pub use fault_plan::{Fault, FaultPlan, Promise};
pub use host_queue::Order;
pub use sim_disk::{Options, SimDisk};
pub use uniform::Uniform;
