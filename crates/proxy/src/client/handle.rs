//! The client of a request, for the code that answers it: its address, its connection, and the way
//! to send 1xx answers.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{Response, StatusCode};
use message::informational;
use upstream::connection::pinned::PinnedConnection;

use crate::client::connection_state::ConnectionState;
use crate::client::link::Transport;

/// A client, as one of its requests sees it.
pub(crate) struct Client {
    /// The state of its connection.
    pub state: Rc<ConnectionState>,
    pub address: SocketAddr,
    pub link: Rc<Transport>,
    /// The connection to an origin on which this client logs in; `None` in HTTP/2, where a
    /// connection may carry the requests of several users, and for another node.
    pub login: Option<Rc<PinnedConnection>>,
    /// The stream of the request in HTTP/2, where each request has a `Client` of its own.
    pub reply: Option<RefCell<SendResponse<Bytes>>>,
}

impl Client {
    /// Returns the client for the request of one stream, which comes from `address`: that of the
    /// connection, or where another node asks on its behalf its own.
    pub fn of_stream(&self, reply: SendResponse<Bytes>, address: SocketAddr) -> Rc<Client> {
        let Client { state, link, .. } = self;
        let (state, link, reply) = (state.clone(), link.clone(), Some(RefCell::new(reply)));
        Rc::new(Client { state, address, link, login: None, reply })
    }

    /// Returns whether it has logged in at an origin on a connection of its own.
    pub fn is_logged_in(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_logged_in())
    }

    /// Sends a 1xx answer. In HTTP/1 it is queued: what the service answers later has to wait for
    /// [`Client::has_informed`].
    pub fn inform(&self, head: Response<()>) {
        match &self.reply {
            None => self.state.push_interim(informational::serialise(&head)),
            Some(reply) => {
                if let Err(error) = reply.borrow_mut().send_informational(head) {
                    log::debug!("a 1xx answer was not sent: {error}");
                }
            }
        }
    }

    /// Returns whether no 1xx answer waits.
    pub fn has_informed(&self) -> bool {
        self.state.interim_sent()
    }

    /// Asks a client that waits for it to send its body. (In HTTP/1 the body does this
    /// when it is first read.)
    pub fn ask_for_body(&self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::CONTINUE;
        self.inform(head);
    }
}
