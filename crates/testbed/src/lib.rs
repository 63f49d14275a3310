//! Support for benchmarks and end-to-end tests: block devices whose operations the kernel counts
//! and limits, page request streams like those of the web, browser request fields, free addresses,
//! and built programs.
//!
//! The benchmarks of the engine and those of whole products share it, so that their figures can be
//! compared. It does not depend on the engine.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod address;
pub mod browser;
pub mod file_system;
pub mod loop_device;
pub mod memory_group;
pub mod mounts;
pub mod pages;
pub mod program;
pub mod throttle;
