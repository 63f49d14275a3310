//! The HTTP side of Larder: front ends, fills, the upstream pool, the admin interface.

pub mod access;
pub mod access_log;
pub mod address;
pub mod cache_status;
mod client_io;
mod control;
mod headers;
pub mod options;
pub mod outcome;

pub use control::Control;
