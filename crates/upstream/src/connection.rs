//! Upstream connections: HTTP/1.1 and HTTP/2, bodies, tunnels, and the connection pool.

pub mod events;
pub mod fetch_timer;
pub mod http1;
pub(crate) mod http2;
pub mod origin_body;
pub mod overrun;
pub mod pinned;
pub(crate) mod pool;
pub mod put_back;
pub mod raw_target;
pub mod request_body;
pub mod send_file;
pub(crate) mod stream;
pub(crate) mod tls_stream;
pub(crate) mod tls_transport;
pub mod tunnel;
