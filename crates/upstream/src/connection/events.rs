//! The events that the owner of connections to origins counts.

/// An event on a connection to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was opened.
    Connected,
    /// A request was sent on a connection that was open already.
    Reused,
    /// A request was sent again, because a connection kept open had died or to another server.
    Retried,
    /// Bytes came behind the end of an answer, and the connection was closed.
    Overrun,
}

/// A counter of events.
pub trait Events: Send + Sync {
    /// Counts one event.
    fn count(&self, event: Event);
}
