//! Client side: listeners, PROXY protocol and TLS handshakes, HTTP/1.1 and HTTP/2 connections,
//! tunnels.

pub(crate) mod connection;
pub(crate) mod connection_limit;
pub(crate) mod connections;
pub mod handshake;
pub(crate) mod http1;
pub mod http2;
pub(crate) mod listener;
pub(crate) mod listener_changes;
pub(crate) mod proxy_protocol;
pub(crate) mod shortage;
pub(crate) mod stream;
pub mod tunnel;
