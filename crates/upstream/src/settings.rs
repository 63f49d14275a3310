//! Servers and how they are reached: addresses, TLS, limits, where names are looked up.

pub mod endpoint;
pub mod limits;
pub mod lookup;
pub mod tls;
