//! Simulated disks in virtual time: drives of many kinds, the executor that moves their clock, and
//! the faults that they suffer.
//!
//! It exists so that the engine that runs on a real disk runs unchanged on a disk of 1996, on one
//! that lies, and on one that dies, as fast as the processor permits and always the same for a
//! seed.
//!
//! It promises: nothing here reads a real clock or a source of randomness that was not seeded.

pub mod drive;
pub mod drives;
