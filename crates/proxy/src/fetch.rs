//! Fetches from the origin that write to the store.

pub(crate) mod fetch_task;
pub(crate) mod piggyback_validation;
pub(crate) mod store_partial;
pub(crate) mod validation;
pub(crate) mod variant_validation;
