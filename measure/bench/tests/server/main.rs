//! The load generator and the parts of `larder bench scale` with a real server: the debug build of
//! the server's workspace.

#![allow(clippy::unwrap_used)]

mod load;
mod scale;
mod server;
