//! The way to the origins as a cache goes it: sites, whose addresses may be reached, and what is
//! told of failures. The connections themselves are the crate `upstream`.

pub(crate) mod address_check;
pub(crate) mod events;
pub(crate) mod failure;
pub mod site;
pub(crate) mod target;
