//! Origin servers: names, connections, TLS, HTTP/1.1 and HTTP/2, groups, balancing, health,
//! failover.

pub(crate) mod attempts;
pub mod balance;
pub(crate) mod cause;
pub mod client;
pub(crate) mod dial;
pub(crate) mod error;
pub(crate) mod failover;
pub(crate) mod failure_log;
pub mod group;
pub(crate) mod health;
pub mod health_check;
pub(crate) mod http2;
pub mod limits;
pub mod lookup;
pub mod origin;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod request_body;
pub mod resolver;
pub(crate) mod response_body;
pub mod site;
pub(crate) mod stream;
pub mod target;
pub mod tls;
pub(crate) mod tunnel;
