//! A directory of files as an origin: the requests that a cache sends to a server are answered here
//! from the file system, and what the cache has stored of it is known to be current or not
//! ([`files::watch`]).
//!
//! It promises: no worker waits for a disk; an answer that ends cleanly is of one version of its
//! file.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod options;
pub mod origin;

mod body;
mod compress;
mod current;
mod finding;
mod grouping;
mod listings;
mod page;
mod pool;
mod references;
mod response;
mod threads;
mod transfers;
mod upkeep;
mod voucher;
