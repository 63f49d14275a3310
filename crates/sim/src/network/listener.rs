//! A listener, and the connections that wait to be accepted.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::network::{Connection, Network, lock};

/// Connections that wait at a listener.
#[derive(Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    connections: VecDeque<(Connection, SocketAddr)>,
    acceptors: Vec<Waker>,
}

impl Queue {
    pub fn push(&self, connection: Connection, from: SocketAddr) {
        let mut waiting = lock(&self.0);
        waiting.connections.push_back((connection, from));
        waiting.acceptors.drain(..).for_each(Waker::wake);
    }
}

/// A listener. Clones accept from the same queue. Dropping the last one closes it and resets the
/// connections that wait.
#[derive(Clone)]
pub struct Listener(Arc<Inner>);

struct Inner {
    network: Network,
    address: SocketAddr,
    queue: Arc<Queue>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.address)
    }
}

impl Listener {
    pub(super) fn new(network: Network, address: SocketAddr, queue: Arc<Queue>) -> Listener {
        Listener(Arc::new(Inner { network, address, queue }))
    }

    /// Returns the address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.address
    }

    /// Waits for the next connection; returns it and its client's address.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<(Connection, SocketAddr)> {
        let mut waiting = lock(&self.0.queue.0);
        match waiting.connections.pop_front() {
            Some(accepted) => Poll::Ready(accepted),
            None => {
                waiting.acceptors.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for the next connection; returns it and its client's address.
    ///
    /// # Errors
    ///
    /// Never fails; the signature is that of the system's sockets.
    pub async fn accept(&self) -> io::Result<(Connection, SocketAddr)> {
        Ok(std::future::poll_fn(|cx| self.poll_accept(cx)).await)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.network.state().listeners.remove(&self.address);
        let waiting = std::mem::take(&mut lock(&self.queue.0).connections);
        for (connection, _) in waiting {
            connection.reset_at_close();
        }
    }
}
