//! The HTTP side of Larder: front ends, fills, the upstream pool, the admin interface.

mod client_io;
mod control;
mod headers;
pub mod options;

pub use control::Control;
