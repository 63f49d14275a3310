//! Upstream connection that belongs to one client connection. The client has authenticated on it
//! (NTLM, Negotiate), and the origin attributes every request on it to this client.
//!
//! Guarantees: no other client uses the connection, and it is closed with the client's.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::connection::http1::Http1;
use crate::settings::endpoint::Endpoint;

/// Pinned upstream connection of a client connection: at most one, to the origin where the client
/// last authenticated.
#[derive(Default)]
pub struct PinnedConnection {
    /// Also `None` while a request uses it.
    idle: RefCell<Option<(Arc<Endpoint>, Box<Http1>)>>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The client has not authenticated.
    #[default]
    Anonymous,
    LoggedIn,
    /// The client connection may carry requests of several users.
    Refused,
}

impl PinnedConnection {
    /// Records that the client authenticates. Its further requests belong to this user, whatever
    /// their fields.
    pub fn log_in(&self) {
        if self.state.get() == State::Anonymous {
            self.state.set(State::LoggedIn);
        }
    }

    /// Disables pinning for good, because the client connection may carry requests of several
    /// users.
    pub fn refuse(&self) {
        self.state.set(State::Refused);
        self.idle.take();
    }

    /// Returns whether the client has authenticated on this connection.
    pub fn is_logged_in(&self) -> bool {
        self.state.get() == State::LoggedIn
    }

    /// Returns whether the idle connection leads to this server.
    pub(crate) fn leads_to(&self, endpoint: &Endpoint) -> bool {
        self.idle.borrow().as_ref().is_some_and(|(to, _)| **to == *endpoint)
    }

    /// Takes the idle connection, if it leads to this server.
    pub(crate) fn take(&self, endpoint: &Endpoint) -> Option<Box<Http1>> {
        let idle = self.leads_to(endpoint).then(|| self.idle.take()).flatten();
        idle.map(|(_, connection)| connection)
    }

    /// Keeps a connection for the client's next request.
    pub(crate) fn put(&self, endpoint: Arc<Endpoint>, mut connection: Box<Http1>) {
        if self.is_logged_in() {
            connection.shrink();
            self.idle.replace(Some((endpoint, connection)));
        }
    }
}
