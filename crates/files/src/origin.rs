//! A directory of files as an origin. Requests that a cache would send to a server are served from
//! the file system, and the origin knows whether a response that the cache stored is still current
//! ([`crate::watch`]).
//!
//! Guarantees: no worker waits for a disk; a body that ends cleanly is of one version of its file.

pub mod file_origin;
pub mod options;

mod body;
mod compress;
mod current;
mod finding;
mod grouping;
mod listings;
mod page;
mod pool;
mod process_limit;
mod references;
mod response;
mod threads;
mod transfers;
mod upkeep;
mod voucher;
