//! Resolution of host names to addresses.

pub mod resolver;
