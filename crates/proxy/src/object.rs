//! Stored objects: responses, their variants, the labels they are purged by.

pub(crate) mod epoch;
pub(crate) mod object_writer;
pub(crate) mod purge_labels;
pub mod stored_response;
pub(crate) mod variants;
