//! Support for tests and benchmarks.
//!
//! For tests of the proxy and of the program, with the feature `http`: a byte-exact HTTP/1.1 client
//! (`client`), an origin (`origin`) whose responses are written in the URLs or sent by a script
//! of the test, and messages without I/O (`message`), which both use on real sockets and in
//! virtual time. `scripts` plays pages of text; `larder`, `fleet_nodes` and `peer` start
//! Larder and other proxies.
//!
//! For benchmarks: block devices whose operations the kernel counts and limits, page request
//! streams like those of the web, browser request fields, free addresses. It does not depend on the
//! engine or the proxy, so that both can be tested and compared with it.

#![allow(clippy::unwrap_used, missing_docs)]

pub mod address;
pub mod browser;
pub mod file_system;
pub mod loop_device;
pub mod memory_group;
pub mod mounts;
pub mod pages;
pub mod program;
pub mod skip;
pub mod throttle;

#[cfg(feature = "http")]
mod http;

#[cfg(feature = "http")]
pub use http::*;
