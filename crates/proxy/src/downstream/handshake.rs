//! Steps from an accepted socket to an HTTP connection: the PROXY protocol header, the TLS
//! handshake, and the choice of the HTTP version.
//!
//! They run before the first request, on the connection's worker, with a timeout. Failures are
//! counted and logged at debug level only, so that a port scan does not fill the log.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::message::scheme::Scheme;
use bytes::Bytes;
use ipnet::IpNet;
use membership::warning_limiter::WarningLimiter;
use net::address;
use net::clock::TokioClock;
use net::fleet_tls::FleetTls;
use net::socket::Socket;
use rustls::ProtocolVersion;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::addresses::{AddressSlot, Addresses};
use crate::client::link::Transport;
use crate::client::reclaimer::Group;
use crate::downstream::proxy_protocol;
use crate::downstream::stream;
use crate::downstream::stream::{Raw, Stream};
use crate::observe::event::Event;
use crate::observe::observer::Observer;
use crate::observe::tls_facts::TlsFacts;
use crate::options::Options;

/// Connection preface of HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Protocol of a listener's connections.
#[derive(Clone, Debug, Default)]
pub struct ListenerProtocol {
    /// The configured address, by which rules know the listener.
    pub name: Option<Arc<str>>,
    /// Serve TLS.
    pub tls: bool,
    /// True to serve HTTP/2 without TLS to clients that send its preface.
    pub h2c: bool,
    /// Networks of peers that must send a PROXY protocol header; other peers are refused. Clients
    /// of a Unix socket have no address and are trusted if the list is not empty. An empty list
    /// disables the PROXY protocol.
    pub proxies: Vec<IpNet>,
    /// Set for a listener that serves only other fleet nodes.
    pub fleet: Option<Arc<FleetProtocol>>,
}

impl ListenerProtocol {
    /// Returns the group whose connection limit applies.
    pub(crate) fn group(&self) -> Group {
        if self.fleet.is_some() { Group::Nodes } else { Group::Clients }
    }
}

/// Protocol between fleet nodes: HTTP/1.1, without negotiation.
#[derive(Debug, Default)]
pub struct FleetProtocol {
    /// Mutual TLS that proves membership. `None` trusts any host that can connect.
    pub tls: Option<FleetTls>,
    /// Limits the rate of warnings about hosts that are not fleet nodes.
    pub strangers: WarningLimiter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Connection that is ready for its first request.
pub(crate) struct Negotiated {
    pub stream: Stream,
    /// Client address, as given by the PROXY protocol header or else by the socket.
    pub client: SocketAddr,
    pub link: Transport,
    pub protocol: Protocol,
    /// Counts against the limit per client address while the connection is open.
    pub address_slot: Option<AddressSlot>,
}

/// Performs the handshakes. Returns `None` for a connection that was refused or failed.
pub(crate) async fn negotiate(
    socket: Socket,
    peer: SocketAddr,
    listener: &ListenerProtocol,
    options: &Options,
    addresses: &Arc<Addresses>,
    observer: &dyn Observer,
    clock: TokioClock,
) -> Option<Negotiated> {
    let on_unix_socket = matches!(socket, Socket::Unix(_));
    let (mut raw, mut client) = (stream::raw(socket), peer);
    // A client of a Unix socket has no address unless a load balancer states one.
    let mut has_address = !on_unix_socket;
    let name = listener.name.clone();
    let mut link = Transport { scheme: Scheme::Http, tls: None, listener: name, is_peer: false };
    if let Some(fleet) = &listener.fleet {
        link.is_peer = true;
        return node_handshake((raw, client), link, fleet, options, observer, clock).await;
    }
    if !listener.proxies.is_empty() {
        let ip = address::canonical(peer.ip());
        if !on_unix_socket && !listener.proxies.iter().any(|network| network.contains(&ip)) {
            observer.count(Event::ProxyHeaderRefused, 1);
            log::debug!("{peer}: not a trusted sender of the PROXY protocol");
            return None;
        }
        let header = timeout(options.client.head_timeout, proxy_protocol::read(&mut raw)).await;
        let why = match header {
            Ok(Ok((told, early))) => {
                raw.put_back(early);
                client = told.client.unwrap_or(peer);
                has_address |= told.client.is_some();
                if told.is_tls {
                    link.scheme = Scheme::Https;
                }
                None
            }
            Ok(Err(why)) => Some(why.to_string()),
            Err(_) => Some("its PROXY protocol header arrived too slowly".to_owned()),
        };
        if let Some(why) = why {
            observer.count(Event::ProxyHeaderRefused, 1);
            log::debug!("{peer}: {why}");
            return None;
        }
    }
    let address_slot = match options.client.per_address {
        Some(most) if has_address && !options.forwarded.trusts(client.ip()) => {
            let Some(address_slot) = addresses.enter(client.ip(), most) else {
                observer.count(Event::AddressLimitReached, 1);
                log::debug!("{client}: the address has reached its connection limit");
                return None;
            };
            Some(address_slot)
        }
        _ => None,
    };
    if listener.tls {
        return secure(raw, client, link, address_slot, options, observer).await;
    }
    let mut protocol = Protocol::Http1;
    if listener.h2c {
        match timeout(options.client.idle_timeout, begins_with_preface(&mut raw)).await {
            Ok(true) => protocol = Protocol::Http2,
            Ok(false) => {}
            Err(_) => return None,
        }
    }
    Some(Negotiated { stream: Stream::Plain(raw), client, link, protocol, address_slot })
}

async fn secure(
    raw: Raw,
    client: SocketAddr,
    mut link: Transport,
    address_slot: Option<AddressSlot>,
    options: &Options,
    observer: &dyn Observer,
) -> Option<Negotiated> {
    let keyring = options.keyring.as_ref()?;
    let accept = TlsAcceptor::from(keyring.config.clone()).accept(raw);
    let why = match timeout(keyring.handshake_timeout, accept).await {
        Ok(Ok(stream)) => {
            observer.count(Event::TlsHandshake, 1);
            let facts = facts(&stream);
            let protocol = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => Protocol::Http2,
                _ => Protocol::Http1,
            };
            if stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed) {
                observer.count(Event::TlsResumed, 1);
            }
            link.scheme = Scheme::Https;
            link.tls = Some(facts);
            let stream = Stream::Tls(Box::new(stream));
            return Some(Negotiated { stream, client, link, protocol, address_slot });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "too slow".to_owned(),
    };
    observer.count(Event::TlsFailed, 1);
    log::debug!("{client}: TLS handshake: {why}");
    None
}

/// Performs the handshake with another node, within the client timeout for a request head.
async fn node_handshake(
    (raw, client): (Raw, SocketAddr),
    link: Transport,
    fleet: &FleetProtocol,
    options: &Options,
    observer: &dyn Observer,
    clock: TokioClock,
) -> Option<Negotiated> {
    let met =
        |stream| Negotiated { stream, client, link, protocol: Protocol::Http1, address_slot: None };
    let Some(tls) = &fleet.tls else { return Some(met(Stream::Plain(raw))) };
    let accept = TlsAcceptor::from(tls.server.clone()).accept(raw);
    let why = match timeout(options.client.head_timeout, accept).await {
        Ok(Ok(stream)) => return Some(met(Stream::Tls(Box::new(stream)))),
        Ok(Err(error)) => {
            let why = tls.reason(&error);
            if FleetTls::is_of_stranger(&error)
                && let Some(more) = fleet.strangers.due(clock.running())
            {
                log::warn!("{client} is not a node of this fleet: {why}{more}");
            }
            why
        }
        Err(_) => "it is too slow".to_owned(),
    };
    observer.count(Event::TlsFailed, 1);
    log::debug!("{client}: not a node of this fleet: {why}");
    None
}

fn facts(stream: &TlsStream<Raw>) -> TlsFacts {
    let connection = stream.get_ref().1;
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "unknown",
    };
    let suite = connection.negotiated_cipher_suite();
    let cipher = suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
    TlsFacts { version, cipher, sni: connection.server_name().map(Box::from) }
}

/// Returns whether the client sent the HTTP/2 preface. Puts the bytes read back.
async fn begins_with_preface(raw: &mut Raw) -> bool {
    let mut bytes = Vec::with_capacity(PREFACE.len());
    while bytes.len() < PREFACE.len() && PREFACE.starts_with(&bytes) {
        let room = (PREFACE.len() - bytes.len()) as u64;
        match (&mut *raw).take(room).read_buf(&mut bytes).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let found = bytes == PREFACE;
    raw.put_back(Bytes::from(bytes));
    found
}
