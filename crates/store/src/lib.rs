//! The engine: objects of any size on devices that it manages itself.
//!
//! A *pure core* (index, layout, memory tier, eviction, journal) decides under one lock per
//! device; a *thin shell* (the async functions of [`Store`]) does what was decided: lock, decide,
//! unlock, await the device, lock, commit. The store knows nothing of HTTP: a key is bytes,
//! metadata is bytes, a body is bytes.
//!
//! It promises: what it returns for a key is what was last committed under exactly that key, every
//! byte checked; or nothing. What was removed or superseded never comes back, whatever crashes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
#[allow(dead_code)]
mod cluster_table;
#[allow(dead_code)]
mod digest;
#[allow(dead_code)]
mod grouping;
#[allow(dead_code)]
mod index;
mod key;
#[allow(dead_code)]
mod size_class;
#[cfg(test)]
mod test_seed;
#[allow(dead_code)]
mod tier;

pub use api::{
    Body, Entry, FetchToken, Hint, Kind, Lookup, Options, Partial, PartialRead, ReadError, Refusal,
    Source, Store, Writer,
};
pub use key::{Key, Locality};
