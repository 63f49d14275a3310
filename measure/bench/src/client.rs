//! The client: when requests are due, which connection sends them, and what the responses must be.
//!
//! The decisions are pure and take the time as an argument, in nanoseconds since the run began:
//! [`Arrivals`] schedules requests, [`Dispatcher`] assigns them to connections, [`Incoming`] parses
//! responses, [`Expectation`] verifies them. [`Pool`] owns the sockets: HTTP/1 with one request at
//! a time on each, or HTTP/2.

mod arrivals;
mod connection;
mod dispatcher;
mod expectation;
mod http2;
mod incoming;
mod pool;
mod request_text;

pub use arrivals::{Arrivals, Spacing};
pub use connection::{ABORTED, Ended, Request, TIMED_OUT};
pub use dispatcher::{Dispatcher, Due};
pub use expectation::{Checking, Expectation, Failure, Verdict};
pub use http2::Socket;
pub use incoming::{Head, Incoming, Listener, Progress};
pub use pool::{Pool, Protocol};
pub use request_text::Addressing;

/// Nanoseconds since the run began.
pub type Nanos = u64;

/// Nanoseconds per second.
pub const SECOND: Nanos = 1_000_000_000;
