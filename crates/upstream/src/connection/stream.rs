//! Transport of an upstream connection.

use std::io::{self, Read};

use crate::connection::tls_stream::TlsStream;
use net::socket::{Socket, transport};

/// A transport with or without TLS, as one type so that the HTTP code is compiled once.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream>),
}

transport!(Stream { Plain, Tls });

/// Kind of unread data on an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Nothing,
    /// Bytes, or part of a TLS record, which may hold some.
    Bytes,
    /// The end of the connection, an error, or the 408 response by which servers announce the end.
    End,
}

/// First bytes of the response by which a server closes an idle connection.
const TIMED_OUT: [&[u8; 12]; 2] = [b"HTTP/1.1 408", b"HTTP/1.0 408"];

impl Unread {
    /// Classifies unread bytes by their first ones.
    fn of(begin: [u8; 12]) -> Unread {
        if TIMED_OUT.contains(&&begin) { Unread::End } else { Unread::Bytes }
    }
}

/// Bytes per read from an idle TLS connection: a session ticket or two.
const IDLE_READ: usize = 1024;
/// Maximum number of reads from an idle TLS connection. More data than that cannot be session
/// tickets.
const IDLE_READS: usize = 16;

impl Stream {
    /// Returns whether both sides chose HTTP/2 by ALPN.
    pub fn chose_http2(&self) -> bool {
        let chosen = match self {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        };
        chosen == Some(b"h2")
    }

    /// Returns whether written bytes are known not to have reached the origin.
    pub fn has_unacknowledged(&self) -> bool {
        match self {
            Stream::Plain(socket) => socket.has_unacknowledged(),
            Stream::Tls(stream) => stream.get_ref().0.has_unacknowledged(),
        }
    }

    /// Makes the kernel acknowledge received bytes at once.
    pub fn acknowledge_at_once(&self) {
        match self {
            Stream::Plain(socket) => socket.acknowledge_at_once(),
            Stream::Tls(stream) => stream.get_ref().0.acknowledge_at_once(),
        }
    }

    /// Asks the kernel what is unread on the socket, because the runtime would notice only when it
    /// next polls for events. TLS messages without data (session tickets, key updates) are
    /// processed.
    pub fn unread(&mut self) -> Unread {
        match self {
            Stream::Plain(socket) => {
                let mut begin = [0; TIMED_OUT[0].len()];
                match socket.read_now(&mut begin) {
                    Ok(1..) => Unread::of(begin),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Unread::Nothing,
                    Ok(0) | Err(_) => Unread::End,
                }
            }
            Stream::Tls(stream) => unread_in_tls(stream),
        }
    }
}

fn unread_in_tls(stream: &mut TlsStream) -> Unread {
    let (transport, session) = stream.get_mut();
    let mut buffer = [0; IDLE_READ];
    for _ in 0..IDLE_READS {
        let read = transport.read_now(&mut buffer);
        let mut bytes = &buffer[..*read.as_ref().unwrap_or(&0)];
        loop {
            let Ok(state) = session.process_new_packets() else { return Unread::End };
            if state.plaintext_bytes_to_read() > 0 {
                let mut begin = [0; TIMED_OUT[0].len()];
                return session
                    .reader()
                    .read(&mut begin)
                    .map_or(Unread::End, |_| Unread::of(begin));
            }
            if state.peer_has_closed() {
                return Unread::End;
            }
            if bytes.is_empty() {
                break;
            }
            if !matches!(session.read_tls(&mut bytes), Ok(1..)) {
                return Unread::End;
            }
        }
        match read {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return match transport.is_between_records() {
                    true => Unread::Nothing,
                    false => Unread::Bytes,
                };
            }
            Ok(0) | Err(_) => return Unread::End,
        }
    }
    Unread::Bytes
}
