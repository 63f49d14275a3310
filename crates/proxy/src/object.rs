//! Stored objects: responses, their variants, and the labels by which they are purged. Also the
//! leases of the store, and removals that wait until the store is open.

pub mod ban;
pub(crate) mod buffers;
pub(crate) mod deferred_invalidations;
pub(crate) mod epoch;
pub(crate) mod head;
pub mod key;
pub(crate) mod lookup;
pub(crate) mod metadata;
pub(crate) mod object_writer;
pub(crate) mod purge_labels;
pub(crate) mod resident;
pub mod store;
pub(crate) mod store_lease;
pub(crate) mod stored_response;
pub(crate) mod variants;
