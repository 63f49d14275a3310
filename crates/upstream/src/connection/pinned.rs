//! The connection to an origin that belongs to one client's connection: the client has logged in on
//! it (NTLM, Negotiate), and the origin takes every request on it for this client's.
//!
//! It promises: nothing else gets the connection, and it is closed with the client's.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::connection::http1::Http1;
use crate::settings::endpoint::Endpoint;

/// The pinned connection of a client's connection: at most one, to the origin where it logged in
/// last.
#[derive(Default)]
pub struct PinnedConnection {
    /// `None` also while a request uses it.
    idle: RefCell<Option<(Arc<Endpoint>, Box<Http1>)>>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The client has not logged in.
    #[default]
    Anonymous,
    LoggedIn,
    /// The client's connection may carry requests of several users.
    Refused,
}

impl PinnedConnection {
    /// Notes that the client logs in: its further requests are this user's, whatever their fields.
    pub fn log_in(&self) {
        if self.state.get() == State::Anonymous {
            self.state.set(State::LoggedIn);
        }
    }

    /// Ends the pinning, for good: the client's connection may carry requests of several users.
    pub fn refuse(&self) {
        self.state.set(State::Refused);
        self.idle.take();
    }

    /// Returns whether the client has logged in on this connection.
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
