//! Protocols of clients below HTTP semantics: TLS, HTTP/2, the PROXY protocol, Unix sockets, IPv6.
//! Also the protocols with origin servers.
//!
//! The real program and real clients: rustls and hyper on the other end of real sockets. Bodies
//! follow from their URLs as in the end-to-end tests.

#![allow(clippy::unwrap_used)]

mod caller;

mod failures;
mod http2;
mod interim;
mod sockets;
mod tls;
mod upgrade;
mod upstreams;
mod websocket;
mod websocket_origin;
