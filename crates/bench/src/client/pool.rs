//! The connections of the client, and which of them sends which request.
//!
//! The dispatcher knows places, each of which has a request at a time. In HTTP/1 a place is a
//! connection; in HTTP/2 so many places following on each other are the streams of one.

use std::io;
use std::net::SocketAddr;

use super::Nanos;
use super::connection::{Connection, Ended, Request};
use super::http2::{Http2Connection, Sending};
use super::request_text::{Addressing, write_request};
use crate::poll::{Poll, Ready};

/// How servers are spoken to, without encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A request at a time on each connection.
    #[default]
    Http1,
    /// The same, in HTTP/1.0 with connections that are kept.
    Http10,
    /// So many requests at a time on each connection, from its first byte on (RFC 9113, section
    /// 3.3, "prior knowledge").
    Http2 {
        /// Streams of a connection at most, at a time.
        streams: usize,
    },
}

impl Protocol {
    /// Whether it is HTTP/2.
    pub fn is_http2(self) -> bool {
        matches!(self, Protocol::Http2 { .. })
    }

    /// Requests at a time on a connection.
    pub fn streams(self) -> usize {
        match self {
            Protocol::Http1 | Protocol::Http10 => 1,
            Protocol::Http2 { streams } => streams.max(1),
        }
    }
}

/// Bytes that are read at a time.
const READ: usize = 256 << 10;

/// See the module.
pub struct Pool {
    to: SocketAddr,
    addressing: Addressing,
    /// Requests of the next connection.
    draw: Box<dyn FnMut() -> u32>,
    connections: Connections,
    /// What became of requests, each with its place.
    ended: Vec<(usize, Ended)>,
    path: String,
    buffer: Vec<u8>,
}

enum Connections {
    Http1(Vec<Connection>),
    Http2 { streams: usize, all: Vec<Http2Connection> },
}

impl Pool {
    /// No connections yet. `draw` says how many requests the next is opened for.
    pub fn new(
        to: SocketAddr,
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
        Pool { to, addressing, draw, connections, ended, path, buffer }
    }

    /// Sends a request from a place that has none under way.
    ///
    /// # Errors
    /// There is no socket, or the address cannot be reached.
    pub fn send(&mut self, poll: &Poll, place: usize, request: Request) -> io::Result<()> {
        let Pool { to, addressing, draw, ended, path, .. } = self;
        match &mut self.connections {
            Connections::Http1(all) => {
                while place >= all.len() {
                    all.push(Connection::new(*to, all.len() as u64));
                }
                let connection = &mut all[place];
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
                    all.push(Http2Connection::new(*to, token, first, *streams));
                }
                let mut sending = Sending { poll, addressing, draw, ended };
                all[number].send(place % *streams, request, &mut sending)?;
            }
        }
        Ok(())
    }

    /// Goes on with a connection that is ready, at a time in seconds since 1970.
    pub fn hear(&mut self, poll: &Poll, ready: Ready, now: u64) {
        let Pool { addressing, draw, ended, buffer, .. } = self;
        let place = ready.token as usize;
        match &mut self.connections {
            Connections::Http1(all) => {
                let connection = &mut all[place];
                if ready.write {
                    ended.extend(connection.write().map(|end| (place, end)));
                }
                if ready.read {
                    ended.extend(connection.read(buffer, now, ready.end).map(|end| (place, end)));
                }
                repeat(connection, place, poll, draw, ended);
            }
            Connections::Http2 { all, .. } => {
                all[place].go_on(now, &mut Sending { poll, addressing, draw, ended });
            }
        }
    }

    /// Gives up the requests that were sent before a time.
    pub fn give_up(&mut self, why: &'static str, before: Nanos) {
        let ended = &mut self.ended;
        match &mut self.connections {
            Connections::Http1(all) => {
                for (place, connection) in all.iter_mut().enumerate() {
                    if connection.sent_at().is_some_and(|sent| sent < before) {
                        ended.extend(connection.give_up(why).map(|end| (place, end)));
                    }
                }
            }
            Connections::Http2 { all, .. } => {
                all.iter_mut().for_each(|connection| connection.give_up(why, before, ended));
            }
        }
    }

    /// Takes what became of requests since the last time, each with its place.
    pub fn ended(&mut self) -> impl Iterator<Item = (usize, Ended)> + '_ {
        self.ended.drain(..)
    }
}

/// Sends a request once more whose connection had been closed before it came there.
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
