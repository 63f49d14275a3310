//! The proxy over real sockets: a proxy in this process, an origin that a test scripts byte by
//! byte, and a client that sees every byte.

#![allow(clippy::unwrap_used, missing_docs)]
// Real sockets take real time.
#![allow(clippy::disallowed_methods)]

mod adversary;
mod caching;
mod client_edits;
mod collapsing;
mod compression;
mod edge;
mod filling;
mod forwarding;
mod http2;
mod http2_clients;
mod http2_origin;
mod limits;
mod logins;
mod memory_hits;
mod mutations;
mod names;
mod no_server;
mod overruns;
mod reclaimer;
mod refusals;
mod rig;
mod secure;
mod sent_files;
mod servers;
mod slow_clients;
mod stages;
mod stalled_disk;
mod traffic;
mod waiting;
