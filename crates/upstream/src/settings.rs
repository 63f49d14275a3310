//! Settings of servers and connections: addresses, TLS, limits, the lookup of names.

pub mod endpoint;
pub mod limits;
pub mod lookup;
pub mod tls;
