//! Tests of the store through its public API, on a device in memory and with a clock that the tests
//! advance: against a map, through crashes at every point, on devices that fail or return wrong
//! bytes, and over months of sparse traffic.
//!
//! Randomised tests print `LARDER_SEED`; set it in the environment to replay one.

#![allow(clippy::unwrap_used)]

mod any_sequence;
mod computed;
mod crash;
mod damage;
mod devices;
mod evictions;
mod faults;
mod fixtures;
mod handle;
mod held;
mod home;
mod insertions;
mod memory;
mod neighbours;
mod opening;
mod piece_runs;
mod probe;
mod promises;
mod purge_log;
mod purging;
mod readme;
mod rig;
mod seeds;
mod slots;
mod steps;
mod tiers;
mod trickle;
mod ucfs_paper;
mod windows;
mod write_stalls;
