//! The document root of a static web server.

pub mod watch;
