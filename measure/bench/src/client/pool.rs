//! The connections of the client, and their assignment to requests.
//!
//! The dispatcher deals with places, each of which carries one request at a time. In HTTP/1 a place
//! is a connection; in HTTP/2 consecutive places are the streams of one connection.

use std::io;
use std::net::SocketAddr;

use super::Nanos;
use super::connection::{Connection, Ended, Request};
use super::http2::{Http2Connection, Sending};
use super::request_text::{Addressing, write_request};
use crate::poll::{Poll, Ready};

/// The protocol towards servers, without encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// One request at a time on each connection.
    #[default]
    Http1,
    /// The same in HTTP/1.0, with persistent connections.
    Http10,
    /// Several requests at a time on each connection, without an upgrade (RFC 9113, section 3.3,
    /// "prior knowledge").
    Http2 {
        /// Maximum number of concurrent streams per connection.
        streams: usize,
    },
}

impl Protocol {
    /// Returns whether the protocol is HTTP/2.
    pub fn is_http2(self) -> bool {
        matches!(self, Protocol::Http2 { .. })
    }

    /// Returns the number of concurrent requests per connection.
    pub fn streams(self) -> usize {
        match self {
            Protocol::Http1 | Protocol::Http10 => 1,
            Protocol::Http2 { streams } => streams.max(1),
        }
    }
}

/// Size of a read in bytes.
const READ: usize = 256 << 10;

/// The connections to the targets.
pub struct Pool {
    /// The targets; there are several in HTTP/1 only.
    to: Vec<SocketAddr>,
    addressing: Addressing,
    /// Returns the number of requests for the next connection.
    draw: Box<dyn FnMut() -> u32>,
    connections: Connections,
    /// The outcomes of requests, each with its place.
    ended: Vec<(usize, Ended)>,
    /// Number of connections on which bytes came while no request was under way.
    unasked: u64,
    path: String,
    buffer: Vec<u8>,
}

enum Connections {
    Http1(Vec<Connection>),
    Http2 { streams: usize, all: Vec<Http2Connection> },
}

impl Pool {
    /// Creates a pool without connections. `draw` returns the number of requests for the next
    /// connection.
    pub fn new(
        to: Vec<SocketAddr>,
        protocol: Protocol,
        addressing: Addressing,
        draw: Box<dyn FnMut() -> u32>,
    ) -> Pool {
        let (connections, read) = match protocol {
            Protocol::Http1 | Protocol::Http10 => (Connections::Http1(Vec::new()), READ),
            Protocol::Http2 { .. } => {
                (Connections::Http2 { streams: protocol.streams(), all: Vec::new() }, 0)
            }
        };
        let (ended, path, buffer) = (Vec::new(), String::new(), vec![0; read]);
        Pool { to, addressing, draw, connections, ended, unasked: 0, path, buffer }
    }

    /// Sets the targets, before the first request.
    pub fn set_targets(&mut self, targets: Vec<SocketAddr>) {
        self.to = targets;
    }

    /// Sends a request from a place without a current one.
    ///
    /// # Errors
    /// Fails if there is no socket or the address is unreachable.
    pub fn send(&mut self, poll: &Poll, place: usize, request: Request) -> io::Result<()> {
        let Pool { to, addressing, draw, ended, path, .. } = self;
        match &mut self.connections {
            Connections::Http1(all) => {
                while place * to.len() >= all.len() {
                    for target in to.iter() {
                        all.push(Connection::new(*target, all.len() as u64));
                    }
                }
                let connection = &mut all[place * to.len() + request.expected.node];
                if connection.needs_opening() {
                    connection.open(poll, draw())?;
                }
                write_request(connection.text(), path, addressing, &request.expected);
                ended.extend(connection.send(request).map(|end| (place, end)));
                repeat(connection, place, poll, draw, ended);
            }
            Connections::Http2 { streams, all } => {
                let number = place / *streams;
                while number >= all.len() {
                    let (first, token) = (all.len() * *streams, all.len() as u64);
                    all.push(Http2Connection::new(to[0], token, first, *streams));
                }
                let mut sending = Sending { poll, addressing, draw, ended };
                all[number].send(place % *streams, request, &mut sending)?;
            }
        }
        Ok(())
    }

    /// Handles a connection that is ready; `now` is in seconds since 1970.
    pub fn hear(&mut self, poll: &Poll, ready: Ready, now: u64) {
        let Pool { to, addressing, draw, ended, unasked, buffer, .. } = self;
        let token = ready.token as usize;
        match &mut self.connections {
            Connections::Http1(all) => {
                let (connection, place) = (&mut all[token], token / to.len());
                if ready.write {
                    ended.extend(connection.write().map(|end| (place, end)));
                }
                if ready.read {
                    ended.extend(connection.read(buffer, now, ready.end).map(|end| (place, end)));
                    *unasked += u64::from(connection.take_unasked());
                }
                repeat(connection, place, poll, draw, ended);
            }
            Connections::Http2 { all, .. } => {
                all[token].go_on(now, &mut Sending { poll, addressing, draw, ended });
            }
        }
    }

    /// Gives up the requests that were sent before the time `before`.
    pub fn give_up(&mut self, why: &'static str, before: Nanos) {
        let ended = &mut self.ended;
        match &mut self.connections {
            Connections::Http1(all) => {
                for (number, connection) in all.iter_mut().enumerate() {
                    if connection.sent_at().is_some_and(|sent| sent < before) {
                        let place = number / self.to.len();
                        ended.extend(connection.give_up(why).map(|end| (place, end)));
                    }
                }
            }
            Connections::Http2 { all, .. } => {
                all.iter_mut().for_each(|connection| connection.give_up(why, before, ended));
            }
        }
    }

    /// Returns the number of connections, since the last call, on which bytes came while no request
    /// was under way.
    pub fn take_unasked(&mut self) -> u64 {
        std::mem::take(&mut self.unasked)
    }

    /// Removes and returns the outcomes since the last call, each with its place.
    pub fn ended(&mut self) -> impl Iterator<Item = (usize, Ended)> + '_ {
        self.ended.drain(..)
    }
}

/// Sends a request once more if its connection was closed before the request arrived.
fn repeat(
    connection: &mut Connection,
    place: usize,
    poll: &Poll,
    draw: &mut Box<dyn FnMut() -> u32>,
    ended: &mut Vec<(usize, Ended)>,
) {
    if connection.is_to_repeat() {
        let end = match connection.open(poll, draw()) {
            Ok(()) => connection.repeat(),
            Err(_) => connection.give_up("no connection"),
        };
        ended.extend(end.map(|end| (place, end)));
    }
}
