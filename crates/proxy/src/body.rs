//! Bodies of responses: from the store, from a running fill, and the rest from the origin when the
//! store loses it.

pub(crate) mod fill_body;
pub(crate) mod peer_body;
pub(crate) mod relayed_body;
pub(crate) mod resume;
pub(crate) mod stored_body;
