//! One client connection from accept to close: the handshakes (`handshake`), then HTTP/1 (`http1`)
//! or HTTP/2 (`http2`), and a tunnel if the connection becomes one.

use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use net::socket::Socket;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::connection_state::ConnectionState;
use crate::client::handle::Client;
use crate::downstream::connections::Connections;
use crate::downstream::handshake::{ListenerProtocol, Negotiated, Protocol, negotiate};
use crate::downstream::tunnel::End;
use crate::downstream::{http1, http2, tunnel};
use crate::observe::event::Event;
use crate::response::tunnel::Tunnel;
use crate::services::Services;

pub(crate) async fn run(
    connections: Rc<Connections>,
    socket: Socket,
    peer: SocketAddr,
    protocol: &ListenerProtocol,
) {
    let state = Rc::new(ConnectionState::new(connections.services.clock));
    let _watched = connections.watch(&state, protocol.group());
    let Services { observer, .. } = &*connections.services;
    let (options, addresses) =
        (connections.services.options(), &connections.connection_limit.addresses);
    let clock = connections.services.clock;
    let ready =
        Box::pin(negotiate(socket, peer, protocol, &options, addresses, &**observer, clock));
    let Some(Some(ready)) = unless_cut(&state, ready).await else { return };
    let Negotiated { stream, client: address, link, protocol, address_slot: _slot } = ready;
    let login = (protocol == Protocol::Http1 && !link.is_peer).then(Rc::default);
    let client = Client { state: state.clone(), address, link: Rc::new(link), login, reply: None };
    let client = Rc::new(client);
    match protocol {
        Protocol::Http1 => {
            observer.count(Event::Http1Connection, 1);
            Box::pin(http1::serve(connections.clone(), client, stream)).await;
        }
        Protocol::Http2 => {
            observer.count(Event::Http2Connection, 1);
            state.set_multiplexed();
            Box::pin(http2::serve(&connections, &client, stream)).await;
        }
    }
}

/// Waits for `work`; returns `None` if the connection is cut first.
pub(crate) async fn unless_cut<T>(
    state: &ConnectionState,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        state.note_task(cx);
        match state.cut() {
            Some(_) => Poll::Ready(None),
            None => work.as_mut().poll(cx).map(Some),
        }
    })
    .await
}

/// Relays bytes between client and upstream until both have ended. `early` holds bytes that the
/// client sent before the response.
pub(crate) async fn tunnel_through<T>(
    services: &Services,
    client: impl AsyncRead + AsyncWrite + Unpin,
    early: Bytes,
    tunnel: Tunnel,
    cut: impl Future<Output = T>,
) -> tunnel::Ended {
    let Tunnel { upstream, mut transaction, lifetime, held } = tunnel;
    let place = held.as_ref().and_then(|held| held.tunnel.as_ref());
    let displaced = async {
        match place {
            Some(place) => place.displaced().await,
            None => pending().await,
        }
    };
    let cut = async {
        tokio::select! {
            _ = cut => End::Cut,
            () = displaced => End::Displaced,
        }
    };
    let Services { observer, clock, .. } = services;
    observer.count(Event::TunnelOpened, 1);
    let moved = |now| place.iter().for_each(|place| place.note_moved(now));
    let ended = tunnel::join(client, early, upstream, lifetime, *clock, cut, moved).await;
    observer.count(Event::TunnelClosed, 1);
    transaction.count_sent(ended.received);
    match &ended.how {
        End::Displaced => {
            observer.count(Event::TunnelDisplaced, 1);
            transaction.note_whole();
        }
        End::Closed | End::Idle | End::Expired => transaction.note_whole(),
        End::Cut => log::debug!("a tunnel was cut at the end of the drain"),
        End::Broken(error) => log::debug!("a tunnel failed: {error}"),
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size in bytes of the future that `begin` returns.
    fn size<A, F>(_begin: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_connection_needs_little_memory() {
        // Larger futures are boxed while they run.
        let run = size(|(all, socket, peer, protocol): (_, _, _, &'static _)| {
            run(all, socket, peer, protocol)
        });
        let serve = size(|(all, client, stream)| http1::serve(all, client, stream));
        let state = size_of::<ConnectionState>();
        assert!(run < 512 && serve < 1024 && state < 512, "{run}, {serve}, {state} bytes");
    }
}
