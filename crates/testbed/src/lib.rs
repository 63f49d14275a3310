//! Support for benchmarks and end-to-end tests: block devices that the kernel counts and holds
//! to so many operations a second, streams of pages such as those of the web, what browsers send, and
//! free addresses.
//!
//! The benchmarks of the engine alone and those of whole products share it, so that their figures
//! can be compared. It knows nothing of the engine.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod address;
pub mod browser;
pub mod file_system;
pub mod loop_device;
pub mod memory_group;
pub mod mounts;
pub mod pages;
pub mod throttle;
