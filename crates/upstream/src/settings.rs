//! Settings of servers and connections: addresses, TLS, limits, and name lookup.

pub mod endpoint;
pub mod limits;
pub mod lookup;
pub mod tls;
