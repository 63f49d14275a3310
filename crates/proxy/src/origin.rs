//! Sites and their origins: the addresses that requests may go to, and how failures are reported to
//! clients. The connections themselves are in the crate `upstream`.

pub(crate) mod address_check;
pub(crate) mod authorized;
pub(crate) mod events;
pub(crate) mod failure;
pub(crate) mod outages;
pub mod path_prefix;
pub(crate) mod redirects;
pub mod site;
pub(crate) mod target;
pub(crate) mod try_root;
