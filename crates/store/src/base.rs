//! Types shared by all parts: digests, records and their encoding, labels, events, counters.

pub(crate) mod content;
pub(crate) mod counters;
pub(crate) mod digest;
pub(crate) mod event;
pub(crate) mod home;
pub(crate) mod join;
pub(crate) mod key;
pub(crate) mod keyed_checksum;
pub(crate) mod labels;
pub(crate) mod limits;
pub(crate) mod logged_purge;
pub(crate) mod now;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod size_class;
pub(crate) mod source;
pub(crate) mod summary;
pub(crate) mod wire;
