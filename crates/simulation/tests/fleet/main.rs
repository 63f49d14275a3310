//! Several proxies in virtual time, on a network that fails, with disks that are killed with them.

#![allow(clippy::unwrap_used, missing_docs)]

mod broken_bodies;
mod circles;
mod classes;
mod client;
mod departures;
mod histories;
mod hot_documents;
mod liars;
mod nodes;
mod objects;
mod origin;
mod scale;
mod shield;
mod substitutes;
