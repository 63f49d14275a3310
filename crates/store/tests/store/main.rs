//! The store as its users see it, on a device in memory and in time that the tests move: against
//! a map, through crashes at every point, over failing and lying devices, and over months of
//! trickling traffic.
//!
//! Tests with randomness print `LARDER_SEED`; setting it in the environment replays one.

#![allow(clippy::unwrap_used)]

mod any_sequence;
mod computed;
mod content;
mod crash;
mod damage;
mod devices;
mod evictions;
mod faults;
mod fixtures;
mod handle;
mod held;
mod history;
mod home;
mod memory;
mod neighbours;
mod opening;
mod piece_runs;
mod probe;
mod promises;
mod purge_log;
mod purging;
mod rig;
mod seeds;
mod slots;
mod steps;
mod tiers;
mod trickle;
mod ucfs_paper;
mod windows;
mod write_stalls;
