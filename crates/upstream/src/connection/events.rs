//! Events on upstream connections, counted by the owner of the connections.

/// An event on an upstream connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was opened.
    Connected,
    /// A request was sent on a connection that was already open.
    Reused,
    /// A request was sent again, because a reused connection had died or to another server.
    Retried,
    /// Bytes arrived after the end of a response, and the connection was closed.
    Overrun,
}

/// A counter of events.
pub trait Events: Send + Sync {
    /// Counts one event.
    fn count(&self, event: Event);
}
