//! Response bodies: from the store, from a running fill, from the origin, and from another node. A
//! rest that the store or the node cannot deliver is fetched by range.

pub(crate) mod encoded_body;
pub(crate) mod fill_body;
pub(crate) mod peer_body;
pub(crate) mod relayed_body;
pub(crate) mod resume;
pub(crate) mod stored_body;
