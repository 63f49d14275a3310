//! Connections and what they carry: HTTP/1.1 and HTTP/2, bodies, tunnels, and the pool.

pub mod http1;
pub(crate) mod http2;
pub mod origin_body;
pub(crate) mod pool;
pub mod request_body;
pub(crate) mod stream;
pub mod tunnel;
