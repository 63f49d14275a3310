//! Stored objects: responses, their variants, the labels they are purged by. Who needs the store,
//! and what is removed from it as soon as it is open.

pub(crate) mod deferred_invalidations;
pub(crate) mod epoch;
pub(crate) mod object_writer;
pub(crate) mod purge_labels;
pub(crate) mod store_lease;
pub mod stored_response;
pub(crate) mod variants;
