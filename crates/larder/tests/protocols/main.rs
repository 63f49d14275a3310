//! Protocols of clients below HTTP semantics: TLS, HTTP/2, the PROXY protocol, Unix sockets, IPv6.
//! Also the protocols with origin servers.
//!
//! The real program and real clients: rustls and hyper on the other end of real sockets. Bodies
//! follow from their URLs as in the end-to-end tests, whose origin and runner are also used here.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../e2e/body.rs"]
mod body;
#[allow(dead_code)]
#[path = "../e2e/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "../e2e/fleet_nodes.rs"]
mod fleet_nodes;
#[allow(dead_code)]
#[path = "../e2e/message.rs"]
mod message;
#[allow(dead_code)]
#[path = "../e2e/origin.rs"]
mod origin;
#[allow(dead_code)]
#[path = "../e2e/runner.rs"]
mod runner;
#[path = "../e2e/skip.rs"]
mod skip;

mod authority;
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
