//! What the owner of connections to origins is told of them, to count it.

/// Things that happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was opened.
    Connected,
    /// A request went out on a connection that was open already.
    Reused,
    /// A request was sent again, because a connection kept open had died or to another server.
    Retried,
}

/// A counter of events.
pub trait Events: Send + Sync {
    /// Counts something that happened once.
    fn count(&self, event: Event);
}
