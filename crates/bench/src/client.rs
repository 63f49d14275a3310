//! The client: when requests are due, who sends them, and what has to come back.
//!
//! What decides is pure and has the time as an argument, in nanoseconds since the run began:
//! [`Arrivals`] says when requests are due, [`Dispatcher`] which connection sends which,
//! [`Incoming`] reads answers, [`Expectation`] judges them. The sockets are those of [`Pool`]: of
//! HTTP/1, a request at a time on each, or of HTTP/2.

mod arrivals;
mod connection;
mod dispatcher;
mod expectation;
mod http2;
mod incoming;
mod pool;
mod request_text;

pub use arrivals::{Arrivals, Spacing};
pub use connection::{ABORTED, Ended, Request};
pub use dispatcher::{Dispatcher, Due};
pub use expectation::{Checking, Expectation, Failure, Verdict};
pub use incoming::{Head, Incoming, Listener, Progress};
pub use pool::{Pool, Protocol};
pub use request_text::Addressing;

/// Nanoseconds since the run began.
pub type Nanos = u64;

/// Nanoseconds of a second.
pub const SECOND: Nanos = 1_000_000_000;
