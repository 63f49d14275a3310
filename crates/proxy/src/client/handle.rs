//! A request's view of its client: address, connection, and a way to send 1xx responses.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{Response, StatusCode};
use upstream::connection::pinned::PinnedConnection;
use upstream::message::informational;

use crate::client::connection_state::ConnectionState;
use crate::client::link::Transport;

/// A client, as seen by one of its requests.
pub(crate) struct Client {
    pub state: Rc<ConnectionState>,
    pub address: SocketAddr,
    pub link: Rc<Transport>,
    /// Upstream connection on which this client authenticates. `None` on HTTP/2, where one
    /// connection may carry requests of several users, and for another node.
    pub login: Option<Rc<PinnedConnection>>,
    /// Response stream of the request on HTTP/2, where each request has its own `Client`.
    pub reply: Option<RefCell<SendResponse<Bytes>>>,
}

impl Client {
    /// Returns the client for the request of one HTTP/2 stream.
    pub fn of_stream(&self, reply: SendResponse<Bytes>) -> Rc<Client> {
        let Client { state, address, link, .. } = self;
        let (state, link, reply) = (state.clone(), link.clone(), Some(RefCell::new(reply)));
        Rc::new(Client { state, address: *address, link, login: None, reply })
    }

    /// Returns the client at `address`, for which another node asks.
    pub fn on_behalf_of(&self, address: SocketAddr) -> Rc<Client> {
        let Client { state, link, .. } = self;
        let (state, link) = (state.clone(), link.clone());
        Rc::new(Client { state, address, link, login: None, reply: None })
    }

    /// Returns whether the client has authenticated at an origin on a connection of its own.
    pub fn is_logged_in(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_logged_in())
    }

    /// Sends a 1xx response. On HTTP/1 it is queued: the service must wait for
    /// [`Client::has_informed`] before it responds.
    pub fn inform(&self, head: Response<()>) {
        match &self.reply {
            None => self.state.push_interim(informational::serialise(&head)),
            Some(reply) => {
                if let Err(error) = reply.borrow_mut().send_informational(head) {
                    log::debug!("a 1xx response was not sent: {error}");
                }
            }
        }
    }

    /// Returns whether no 1xx response is queued.
    pub fn has_informed(&self) -> bool {
        self.state.interim_sent()
    }

    /// Sends 100 Continue to a client that waits for it. (On HTTP/1 the first read of the body does
    /// this.)
    pub fn ask_for_body(&self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::CONTINUE;
        self.inform(head);
    }
}
