//! Events on upstream connections, counted by the owner of the connections.

use std::time::Duration;

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

/// A point of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchPoint {
    /// The head has arrived.
    Head,
    /// The body has ended, or is no longer wanted.
    End,
}

/// A counter of events.
pub trait Events: Send + Sync {
    /// Counts one event.
    fn count(&self, event: Event);

    /// Reports the time from the begin of a fetch to this point of its response. `label` is that of
    /// [`Upstream::timer`](crate::send::client::Upstream::timer).
    fn fetched(&self, _label: u8, _until: FetchPoint, _time: Duration) {}
}
