//! The public API: the store, its entries and writers, eviction offers, purges, neighbours.

pub(crate) mod entry;
pub(crate) mod evictions;
pub(crate) mod fetch_token;
pub(crate) mod format;
pub(crate) mod neighbours;
pub(crate) mod purging;
pub(crate) mod store;
pub(crate) mod try_lookup;
pub(crate) mod writer;
