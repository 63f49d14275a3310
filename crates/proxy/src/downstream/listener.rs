//! Accepts connections. All workers accept from the same listening sockets and pass each connection
//! to the worker that has the fewest. With SO_REUSEPORT the kernel's hash would leave workers idle
//! when connections are few, and a second process could bind the same address unnoticed.
//!
//! When the connection limit is reached or file descriptors run out, idle connections are closed
//! (`client::reclaimer`). If all are busy, accepting pauses, with one log line and without a busy
//! loop. Each accepting task then holds at most one client that waits for a permit.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::descriptors::lacks_resource;
use net::network::{AcceptSocket, ListenSocket, MovingSocket};
use net::socket::Socket;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::client::reclaimer::Group;
use crate::downstream::connection;
use crate::downstream::connection_limit::{ConnectionLimit, GroupPermits};
use crate::downstream::connections::Connections;
use crate::downstream::handshake::ListenerProtocol;

/// Longest pause between two searches for a connection to close. Also the pause after an accept
/// that failed for lack of resources when no connection could be closed.
const PAUSE: Duration = Duration::from_millis(200);

/// Pause after connections were told to close, which takes effect at once. Also the first pause
/// when none could be closed.
const SHORT_PAUSE: Duration = Duration::from_millis(5);

/// A listening socket, and the protocol of its connections.
#[derive(Debug)]
pub struct Listener {
    /// Listening socket.
    pub socket: ListenSocket,
    /// Protocol of its connections.
    pub protocol: Arc<ListenerProtocol>,
}

impl Listener {
    /// Creates another handle to the same socket, with the same protocol.
    ///
    /// # Errors
    ///
    /// Fails if the process has no free descriptor.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, protocol: self.protocol.clone() })
    }

    pub(crate) fn into_tokio(self) -> io::Result<Accepting> {
        Ok(Accepting { socket: self.socket.into_tokio()?, protocol: self.protocol })
    }
}

pub(crate) struct Accepting {
    socket: AcceptSocket,
    protocol: Arc<ListenerProtocol>,
}

pub(crate) struct Accepted {
    socket: MovingSocket,
    from: AcceptedFrom,
}

/// Listener and peer of a connection, and its permit.
struct AcceptedFrom {
    client: SocketAddr,
    protocol: Arc<ListenerProtocol>,
    /// `None` if accepted before the drain began, without a permit.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Waits for a connection permit of a group. Closes an idle connection, or waits for another to
/// end.
async fn connection_permit(limit: &ConnectionLimit, group: Group) -> Option<OwnedSemaphorePermit> {
    let GroupPermits { permits, was_exhausted } = limit.group(group);
    if let Ok(permit) = permits.clone().try_acquire_owned() {
        // Warn again only after many permits were free, not whenever one connection ends.
        if was_exhausted.load(Ordering::Relaxed)
            && permits.available_permits() >= limit.workers() * 4
        {
            was_exhausted.store(false, Ordering::Relaxed);
        }
        return Some(permit);
    }
    // One search at a time, so that the next client does not take the permit freed for this one.
    let _turn = limit.reclaimer.turn(group).await;
    let mut pause = SHORT_PAUSE;
    loop {
        // An earlier search may have freed more permits than it needed.
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Some(permit);
        }
        let makes_way = limit.reclaimer.close_idle(Some(group)).await > 0;
        // A new connection is registered shortly after accept, and cannot be closed before.
        if !makes_way && pause == PAUSE && !was_exhausted.swap(true, Ordering::Relaxed) {
            log::warn!("{}", exhaustion_warning(group));
        }
        let wait = if makes_way { PAUSE } else { pause };
        if let Ok(permit) = timeout(wait, permits.clone().acquire_owned()).await {
            return permit.ok();
        }
        pause = (pause * 2).min(PAUSE);
    }
}

/// Returns the warning for a group without free permits.
fn exhaustion_warning(group: Group) -> &'static str {
    match group {
        Group::Clients => {
            "all client connections are busy: further clients wait (raise \
             client.connections, or the limit of open files)"
        }
        Group::Nodes => {
            "all connections for other nodes are busy: further nodes wait (raise \
             client.connections)"
        }
    }
}

/// Accepts connections from one listener until `stop` is true.
pub(crate) async fn accept(
    connections: Rc<Connections>,
    listener: Accepting,
    peers: Rc<[mpsc::UnboundedSender<Accepted>]>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|&stop| stop) => return,
            accepted = listener.socket.accept() => accepted,
        };
        match accepted {
            Ok((socket, client)) => {
                if connections
                    .connection_limit
                    .descriptors
                    .relieved(connections.services.clock.instant())
                {
                    log::warn!("accepting connections again");
                }
                let protocol = listener.protocol.clone();
                let limit = &connections.connection_limit;
                let permit = tokio::select! {
                    biased;
                    permit = connection_permit(limit, protocol.group()) => permit,
                    _ = stop.wait_for(|&stop| stop) => None,
                };
                place(
                    &connections,
                    socket,
                    AcceptedFrom { client, protocol, _permit: permit },
                    &peers,
                );
            }
            Err(error) if lacks_resource(&error) => free_descriptors(&connections, &error).await,
            // For example, the client disconnected before accept.
            Err(error) => log::debug!("accept: {error}"),
        }
    }
}

/// Closes idle connections to free descriptors, and waits until the next accept may be tried.
async fn free_descriptors(connections: &Connections, error: &io::Error) {
    let ConnectionLimit { reclaimer, descriptors, .. } = &*connections.connection_limit;
    let _turn = reclaimer.turn(Group::Clients).await;
    if reclaimer.close_idle(None).await > 0 || reclaimer.close_idle_upstreams().await > 0 {
        return sleep(SHORT_PAUSE).await;
    }
    if descriptors.felt(connections.services.clock.instant()) {
        log::error!(
            "cannot accept connections: {error}; trying again every {} ms (raise the limit of \
             open files, or lower the limit of connections)",
            PAUSE.as_millis()
        );
    }
    sleep(PAUSE).await;
}

/// Serves connections that other workers accepted for this one.
pub(crate) async fn serve_assigned(
    connections: Rc<Connections>,
    mut inbox: mpsc::UnboundedReceiver<Accepted>,
) {
    while let Some(Accepted { socket, from }) = inbox.recv().await {
        match socket.unpack() {
            Ok(socket) => start(&connections, socket, from),
            Err(error) => {
                connections.connection_limit.connection_ended(connections.index);
                log::debug!("taking over a connection: {error}");
            }
        }
    }
}

fn place(
    connections: &Rc<Connections>,
    socket: Socket,
    from: AcceptedFrom,
    peers: &[mpsc::UnboundedSender<Accepted>],
) {
    let connection_limit = &connections.connection_limit;
    let least = connection_limit.least_loaded(connections.index);
    connection_limit.connection_assigned(least);
    if least == connections.index {
        return start(connections, socket, from);
    }
    match MovingSocket::pack(socket) {
        Ok(socket) => {
            if peers[least].send(Accepted { socket, from }).is_err() {
                // The other worker has ended: the process is shutting down.
                connection_limit.connection_ended(least);
            }
        }
        Err(error) => {
            connection_limit.connection_ended(least);
            log::debug!("handing a connection over: {error}");
        }
    }
}

fn start(connections: &Rc<Connections>, socket: Socket, from: AcceptedFrom) {
    let connections = connections.clone();
    spawn_local(async move {
        connection::run(connections, socket, from.client, &from.protocol).await;
        drop(from);
    });
}
