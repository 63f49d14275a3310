//! One keep-alive HTTP/1 connection, with one request at a time.
//!
//! If a reused connection is closed before any byte of the response arrives, the request is sent
//! once more on a new connection, as every HTTP/1.1 client does: the server closed a connection
//! that it considered idle, which a client cannot know. [`Ended::is_repeated`] says so.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::expectation::{Checking, Expectation, Verdict};
use super::incoming::{Incoming, Progress};
use super::{Due, Nanos};
use crate::poll::Poll;

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// When the request was due.
    pub due: Due,
    /// When the request was sent.
    pub at: Nanos,
    /// The expected response.
    pub expected: Expectation,
    /// True if an infinite cache would have the response.
    pub is_repeat: bool,
    /// True if the client aborts the request once part of the response has arrived.
    pub aborts: bool,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct Ended {
    /// The request.
    pub request: Request,
    /// The verdict on the received bytes.
    pub verdict: Verdict,
    /// Why there is no complete response, in a word or two; `None` if it is complete.
    pub error: Option<&'static str>,
    /// True if the request was sent once more, on a new connection.
    pub is_repeated: bool,
}

/// The error of a request whose response is not HTTP.
pub const NO_HTTP: &str = "no HTTP";

/// The errors of a request that waited too long, in a phase and at the end of a run.
pub const TIMED_OUT: [&str; 2] = ["timed out", "unanswered"];

/// The error of a request that was aborted intentionally.
pub const ABORTED: &str = "aborted";

/// Number of response bytes after which a request is aborted.
const ABORT: usize = 1_024;

struct UnderWay {
    request: Request,
    checking: Checking,
    /// True if the request may be sent once more.
    may_repeat: bool,
    is_repeated: bool,
}

/// One HTTP/1 connection.
pub struct Connection {
    to: SocketAddr,
    /// The token of the socket.
    token: u64,
    socket: Option<TcpStream>,
    incoming: Incoming,
    under_way: Option<UnderWay>,
    /// The request's text, and the number of its bytes already sent.
    text: Vec<u8>,
    sent: usize,
    /// Requests that may still be sent before the connection is closed.
    left: u32,
    /// Responses received on the connection.
    answers: u32,
    /// True if bytes came while no request was under way.
    has_unasked: bool,
}

impl Connection {
    /// Creates a connection that is not open yet.
    pub fn new(to: SocketAddr, token: u64) -> Connection {
        Connection {
            to,
            token,
            socket: None,
            incoming: Incoming::default(),
            under_way: None,
            text: Vec::new(),
            sent: 0,
            left: 0,
            answers: 0,
            has_unasked: false,
        }
    }

    /// Returns whether the next request needs a new connection, for which the caller chooses the
    /// number of requests.
    pub fn needs_opening(&self) -> bool {
        self.socket.is_none()
    }

    /// Opens the connection for `requests` requests.
    ///
    /// # Errors
    /// Fails if there is no socket or the address is unreachable.
    pub fn open(&mut self, poll: &Poll, requests: u32) -> io::Result<()> {
        let socket = connect(self.to)?;
        poll.add(&socket, self.token)?;
        self.socket = Some(socket);
        (self.left, self.answers, self.incoming) = (requests.max(1), 0, Incoming::default());
        Ok(())
    }

    /// Returns the empty buffer for the next request's text.
    pub fn text(&mut self) -> &mut Vec<u8> {
        self.text.clear();
        &mut self.text
    }

    /// Sends the text as this request.
    pub fn send(&mut self, request: Request) -> Option<Ended> {
        let checking = Checking::new(request.expected);
        let may_repeat = self.answers > 0;
        self.under_way = Some(UnderWay { request, checking, may_repeat, is_repeated: false });
        self.left = self.left.saturating_sub(1);
        self.sent = 0;
        self.write()
    }

    /// Continues to send.
    pub fn write(&mut self) -> Option<Ended> {
        while self.under_way.is_some() && self.sent < self.text.len() {
            let socket = self.socket.as_mut()?;
            match socket.write(&self.text[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Not connected yet, or the send buffer is full.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) =>
                {
                    return None;
                }
                Err(error) => return self.fail(kind_of(&error)),
            }
        }
        None
    }

    /// Reads all available bytes through `buffer`; `now` is in seconds since 1970. `end` means that
    /// the peer has closed the connection, which is reported only once.
    pub fn read(&mut self, buffer: &mut [u8], now: u64, end: bool) -> Option<Ended> {
        loop {
            let socket = self.socket.as_mut()?;
            let aborts = self.under_way.as_ref().is_some_and(|there| there.request.aborts);
            let room = if aborts { ABORT.min(buffer.len()) } else { buffer.len() };
            match socket.read(&mut buffer[..room]) {
                Ok(0) => return self.closed(),
                Ok(len) => {
                    let Some(under_way) = self.under_way.as_mut() else {
                        self.has_unasked = true;
                        self.close();
                        return None;
                    };
                    under_way.checking.set_time(now);
                    match self.incoming.take(&buffer[..len], &mut under_way.checking) {
                        Ok(Progress::More) if aborts => return self.give_up(ABORTED),
                        Ok(Progress::More) if len < room && !end => return None,
                        Ok(Progress::More) => {}
                        // The end is not reported again, so a further request would wait forever.
                        Ok(Progress::Done { keep }) => return self.answered(keep && !end),
                        Err(_) => return self.fail(NO_HTTP),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.fail(kind_of(&error)),
            }
        }
    }

    /// Gives up the current request.
    pub fn give_up(&mut self, why: &'static str) -> Option<Ended> {
        if let Some(under_way) = self.under_way.as_mut() {
            under_way.may_repeat = false;
        }
        self.fail(why)
    }

    /// Returns whether bytes came while no request was under way, since the last call.
    pub fn take_unasked(&mut self) -> bool {
        std::mem::take(&mut self.has_unasked)
    }

    /// Returns when the current request was sent.
    pub fn sent_at(&self) -> Option<Nanos> {
        self.under_way.as_ref().map(|under_way| under_way.request.at)
    }

    /// Returns whether a sent request must be sent once more on a new connection.
    pub fn is_to_repeat(&self) -> bool {
        self.socket.is_none() && self.under_way.is_some()
    }

    /// Sends the current request once more on the new connection.
    pub fn repeat(&mut self) -> Option<Ended> {
        let under_way = self.under_way.as_mut()?;
        (under_way.may_repeat, under_way.is_repeated) = (false, true);
        under_way.checking = Checking::new(under_way.request.expected);
        self.sent = 0;
        self.left = self.left.saturating_sub(1);
        self.write()
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.socket = None;
        self.incoming = Incoming::default();
    }

    /// Handles the close by the peer.
    fn closed(&mut self) -> Option<Ended> {
        if self.under_way.is_none() {
            self.close();
            return None;
        }
        match self.incoming.end() {
            Ok(_) => self.answered(false),
            Err(_) if self.incoming.is_untouched() => self.fail("closed"),
            Err(_) => self.fail("cut short"),
        }
    }

    fn answered(&mut self, keep: bool) -> Option<Ended> {
        let UnderWay { request, checking, is_repeated, .. } = self.under_way.take()?;
        self.answers += 1;
        if !keep || self.left == 0 {
            self.close();
        }
        Some(Ended { request, verdict: checking.done(), error: None, is_repeated })
    }

    fn fail(&mut self, why: &'static str) -> Option<Ended> {
        // Bytes that are no response leave the reader untouched, too.
        let is_unanswered = self.incoming.is_untouched() && why != NO_HTTP;
        self.close();
        if is_unanswered && self.under_way.as_ref().is_some_and(|under_way| under_way.may_repeat) {
            return None;
        }
        let UnderWay { request, checking, is_repeated, .. } = self.under_way.take()?;
        Some(Ended { request, verdict: checking.broken(), error: Some(why), is_repeated })
    }
}

/// Starts to connect.
///
/// # Errors
/// Fails if there is no socket or the address is unreachable.
pub fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&to.into()) {
        Err(error)
            if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(TcpStream::from(socket)),
    }
}

/// Describes an error in a word or two.
pub fn kind_of(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConnectionRefused => "refused",
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset",
        ErrorKind::TimedOut => "timed out",
        _ => "socket",
    }
}
