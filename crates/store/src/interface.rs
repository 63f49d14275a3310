//! What callers use: the store, its entries and writers, figures, neighbours.

pub(crate) mod entry;
pub(crate) mod evictions;
pub(crate) mod fetch_token;
pub(crate) mod glance;
pub(crate) mod neighbours;
pub(crate) mod purging;
pub(crate) mod store;
pub(crate) mod writer;
