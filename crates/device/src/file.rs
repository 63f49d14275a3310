//! Files and block devices: opening, locking, allocating and recognising them.

pub(crate) mod allocate;
pub(crate) mod cache_file;
pub(crate) mod fallback;
pub(crate) mod occupant;
pub(crate) mod open;
pub mod signature;
pub(crate) mod thread_pool;
