//! An HTTP/2 connection: requests on its streams, and their responses.
//!
//! The `h2` crate implements the protocol. Its futures are polled here whenever the socket is
//! ready, without a runtime. As in HTTP/1, a request whose connection was already closed, or that
//! the server refused without processing it (RFC 9113, section 8.7), is sent once more on a new
//! connection.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll as Polled, Wake, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Nanos;
use super::connection::{ABORTED, Ended, NO_HTTP, Request, connect, kind_of};
use super::expectation::Checking;
use super::incoming::{Head, Listener};
use super::request_text::{Addressing, http2_request};
use crate::poll::Poll;

/// Flow-control windows of a stream and of a connection, in bytes. Data is consumed at once; the
/// windows are large so that no server ever waits for this client.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The resources for sending, and the place where outcomes are reported.
pub struct Sending<'a> {
    /// The sockets.
    pub poll: &'a Poll,
    /// How requests name the target.
    pub addressing: &'a Addressing,
    /// Returns the number of requests for the next connection.
    pub draw: &'a mut dyn FnMut() -> u32,
    /// The outcomes of requests, each with its place.
    pub ended: &'a mut Vec<(usize, Ended)>,
}

/// One HTTP/2 connection.
pub struct Http2Connection {
    to: SocketAddr,
    /// The token of the socket.
    token: u64,
    /// The place of its first stream.
    first: usize,
    link: Link,
    /// The current requests, by stream.
    streams: Vec<Option<UnderWay>>,
    /// The streams whose requests have not been sent yet.
    waiting: VecDeque<usize>,
    /// Requests that may still be sent before the connection is closed.
    left: u32,
    /// Responses received on the connection.
    answers: u32,
    woken: Arc<Woken>,
    waker: Waker,
}

type Made = (SendRequest<Bytes>, Connection<Socket<TcpStream>, Bytes>);
type Handshake = Pin<Box<dyn Future<Output = Result<Made, h2::Error>>>>;

enum Link {
    Closed,
    Opening(Handshake),
    Open(Box<Made>),
    /// The server responds only to the requests that it already has.
    Leaving(Box<Made>),
}

struct UnderWay {
    request: Request,
    checking: Checking,
    stage: Stage,
    /// True if an earlier connection was already used for the request.
    is_repeated: bool,
}

enum Stage {
    Waiting,
    Head(ResponseFuture),
    Body(RecvStream),
}

/// A flag that is set when a future of this connection can make progress.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Http2Connection {
    /// Creates a connection that is not open yet, with `streams` streams whose places begin at
    /// `first`.
    pub fn new(to: SocketAddr, token: u64, first: usize, streams: usize) -> Http2Connection {
        let woken = Arc::new(Woken::default());
        Http2Connection {
            to,
            token,
            first,
            link: Link::Closed,
            streams: (0..streams).map(|_| None).collect(),
            waiting: VecDeque::new(),
            left: 0,
            answers: 0,
            waker: Waker::from(Arc::clone(&woken)),
            woken,
        }
    }

    /// Sends a request on a stream without a current one. If other streams are active, a connection
    /// that was due to be closed carries this request as well.
    ///
    /// # Errors
    /// Fails if there is no socket or the address is unreachable.
    pub fn send(
        &mut self,
        stream: usize,
        request: Request,
        sending: &mut Sending<'_>,
    ) -> io::Result<()> {
        if matches!(self.link, Link::Closed) {
            self.open(sending)?;
        }
        let checking = Checking::new(request.expected);
        let stage = Stage::Waiting;
        self.streams[stream] = Some(UnderWay { request, checking, stage, is_repeated: false });
        self.waiting.push_back(stream);
        self.go_on(request.expected.sent, sending);
        Ok(())
    }

    /// Makes as much progress as possible; `now` is in seconds since 1970.
    pub fn go_on(&mut self, now: u64, sending: &mut Sending<'_>) {
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            let has_moved = self.step(now, sending);
            if !has_moved && !self.woken.0.load(Ordering::Relaxed) {
                break;
            }
        }
        if self.left == 0 && self.streams.iter().all(Option::is_none) {
            self.link = Link::Closed;
        }
    }

    /// Gives up the requests that were sent before the time `before`.
    pub fn give_up(&mut self, why: &'static str, before: Nanos, ended: &mut Vec<(usize, Ended)>) {
        for stream in 0..self.streams.len() {
            if self.streams[stream].as_ref().is_some_and(|there| there.request.at < before) {
                self.fail(stream, why, ended);
            }
        }
    }

    fn open(&mut self, sending: &mut Sending<'_>) -> io::Result<()> {
        let socket = connect(self.to)?;
        sending.poll.add(&socket, self.token)?;
        let handshake = async move {
            let mut builder = Builder::new();
            builder.enable_push(false).initial_window_size(STREAM_WINDOW);
            builder.initial_connection_window_size(CONNECTION_WINDOW);
            builder.handshake(Socket(socket)).await
        };
        self.link = Link::Opening(Box::pin(handshake));
        (self.left, self.answers) = ((sending.draw)().max(1), 0);
        Ok(())
    }

    /// Polls everything once; returns whether there is more to do immediately.
    fn step(&mut self, now: u64, sending: &mut Sending<'_>) -> bool {
        let waker = self.waker.clone();
        let context = &mut Context::from_waker(&waker);
        let over = match &mut self.link {
            Link::Closed => return self.open_again(sending),
            Link::Opening(handshake) => match handshake.as_mut().poll(context) {
                Polled::Pending => return false,
                Polled::Ready(Ok(made)) => {
                    self.link = Link::Open(Box::new(made));
                    return true;
                }
                Polled::Ready(Err(error)) => Some(said(&error)),
            },
            Link::Open(made) | Link::Leaving(made) => match Pin::new(&mut made.1).poll(context) {
                Polled::Pending => None,
                Polled::Ready(Ok(())) => Some("closed"),
                Polled::Ready(Err(error)) => Some(said(&error)),
            },
        };
        let mut has_moved = self.send_waiting(context, sending);
        has_moved |= self.receive_all(now, context, sending.ended);
        if over.is_some() && has_moved {
            // The bytes received so far may complete a response.
            while self.receive_all(now, context, sending.ended) {}
        }
        let is_idle = self.waiting.len() == self.streams.iter().flatten().count();
        let has_left = is_idle && matches!(self.link, Link::Leaving(_));
        if let Some(why) = over.or(has_left.then_some("closed")) {
            self.end(why, sending.ended);
            return true;
        }
        has_moved
    }

    /// Opens a new connection for the waiting streams.
    fn open_again(&mut self, sending: &mut Sending<'_>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if self.open(sending).is_err() {
            while let Some(stream) = self.waiting.front().copied() {
                self.fail(stream, "no connection", sending.ended);
            }
        }
        true
    }

    fn send_waiting(&mut self, context: &mut Context<'_>, sending: &mut Sending<'_>) -> bool {
        let mut has_moved = false;
        while let (Link::Open(made), Some(stream)) = (&mut self.link, self.waiting.front().copied())
        {
            match made.0.poll_ready(context) {
                Polled::Pending => break,
                Polled::Ready(Ok(())) => {}
                Polled::Ready(Err(_)) => {
                    let Link::Open(made) = std::mem::replace(&mut self.link, Link::Closed) else {
                        break;
                    };
                    self.link = Link::Leaving(made);
                    break;
                }
            }
            has_moved = true;
            self.left = self.left.saturating_sub(1);
            let Some(under_way) = self.streams[stream].as_mut() else {
                self.waiting.pop_front();
                continue;
            };
            let message = http2_request(sending.addressing, &under_way.request.expected);
            let sent = message.map_err(|_| "no request").and_then(|(message, body)| {
                let (answer, mut to) =
                    made.0.send_request(message, body.is_none()).map_err(|error| said(&error))?;
                if let Some(body) = body {
                    to.send_data(body, true).map_err(|error| said(&error))?;
                }
                Ok(answer)
            });
            match sent {
                Ok(answer) => {
                    self.waiting.pop_front();
                    under_way.stage = Stage::Head(answer);
                }
                // The connection is about to end: the request waits for the next one.
                Err("closed") => break,
                Err(why) => self.fail(stream, why, sending.ended),
            }
        }
        has_moved
    }

    /// Receives on each stream; returns whether anything has arrived.
    fn receive_all(
        &mut self,
        now: u64,
        context: &mut Context<'_>,
        ended: &mut Vec<(usize, Ended)>,
    ) -> bool {
        let streams = 0..self.streams.len();
        streams.fold(false, |moved, stream| self.receive(stream, now, context, ended) | moved)
    }

    /// Receives on a stream; returns whether anything has arrived.
    fn receive(
        &mut self,
        stream: usize,
        now: u64,
        context: &mut Context<'_>,
        ended: &mut Vec<(usize, Ended)>,
    ) -> bool {
        let Some(under_way) = self.streams[stream].as_mut() else { return false };
        let Some(taken) = under_way.take(now, context) else { return false };
        match taken {
            Ok(Taken::More) => {}
            Ok(Taken::All) => {
                self.answers += 1;
                self.report(stream, None, ended);
            }
            Err(Broken { why, is_unread }) => {
                if is_unread && self.answers > 0 && !under_way.is_repeated {
                    self.repeat(stream);
                } else {
                    self.fail(stream, why, ended);
                }
            }
        }
        true
    }

    /// Ends the connection together with all requests sent on it; others wait for the next
    /// connection.
    fn end(&mut self, why: &'static str, ended: &mut Vec<(usize, Ended)>) {
        self.link = Link::Closed;
        for stream in 0..self.streams.len() {
            let Some(under_way) = self.streams[stream].as_ref() else { continue };
            // A server that never responds must not be retried endlessly.
            let goes_on = self.answers > 0
                && match under_way.stage {
                    Stage::Waiting => true,
                    Stage::Head(_) => !under_way.is_repeated && why != NO_HTTP,
                    Stage::Body(_) => false,
                };
            match goes_on {
                true if matches!(under_way.stage, Stage::Waiting) => {}
                true => self.repeat(stream),
                false => self.fail(stream, why, ended),
            }
        }
    }

    fn repeat(&mut self, stream: usize) {
        let Some(under_way) = self.streams[stream].as_mut() else { return };
        under_way.checking = Checking::new(under_way.request.expected);
        (under_way.stage, under_way.is_repeated) = (Stage::Waiting, true);
        if !self.waiting.contains(&stream) {
            self.waiting.push_back(stream);
        }
    }

    fn fail(&mut self, stream: usize, why: &'static str, ended: &mut Vec<(usize, Ended)>) {
        self.waiting.retain(|waiting| *waiting != stream);
        self.report(stream, Some(why), ended);
    }

    /// Reports the outcome of a stream's request.
    fn report(
        &mut self,
        stream: usize,
        error: Option<&'static str>,
        ended: &mut Vec<(usize, Ended)>,
    ) {
        let Some(under_way) = self.streams[stream].take() else { return };
        let UnderWay { request, checking, is_repeated, .. } = under_way;
        let verdict = if error.is_some() { checking.broken() } else { checking.done() };
        ended.push((self.first + stream, Ended { request, verdict, error, is_repeated }));
    }
}

/// The progress of a stream.
enum Taken {
    More,
    All,
}

/// Why a stream broke off.
struct Broken {
    why: &'static str,
    /// True if the server may not have read the request.
    is_unread: bool,
}

impl UnderWay {
    /// Returns `None` if nothing has arrived.
    fn take(&mut self, now: u64, context: &mut Context<'_>) -> Option<Result<Taken, Broken>> {
        match &mut self.stage {
            Stage::Waiting => None,
            Stage::Head(answer) => {
                let Polled::Ready(answer) = Pin::new(answer).poll(context) else { return None };
                Some(match answer {
                    Ok(answer) => self.take_head(now, answer),
                    Err(error) => {
                        let is_unread = error.is_io()
                            || error.is_go_away()
                            || error.reason() == Some(Reason::REFUSED_STREAM);
                        Err(Broken { why: said(&error), is_unread })
                    }
                })
            }
            Stage::Body(body) => {
                let Polled::Ready(part) = body.poll_data(context) else { return None };
                Some(match part {
                    Some(Ok(bytes)) => {
                        self.checking.set_time(now);
                        self.checking.body(&bytes);
                        if self.request.aborts {
                            return Some(Err(Broken { why: ABORTED, is_unread: false }));
                        }
                        let released = body.flow_control().release_capacity(bytes.len());
                        match (released.is_ok(), body.is_end_stream()) {
                            (true, true) => Ok(Taken::All),
                            (true, false) => Ok(Taken::More),
                            (false, _) => Err(Broken { why: NO_HTTP, is_unread: false }),
                        }
                    }
                    Some(Err(error)) => {
                        let is_closed = error.is_io() || error.is_go_away();
                        let why = if is_closed { "cut short" } else { said(&error) };
                        Err(Broken { why, is_unread: false })
                    }
                    None => Ok(Taken::All),
                })
            }
        }
    }

    fn take_head(&mut self, now: u64, answer: http::Response<RecvStream>) -> Result<Taken, Broken> {
        let mut head = Head { status: answer.status().as_u16(), ..Head::default() };
        for (name, value) in answer.headers() {
            let noted = head.note(name.as_str(), value.as_bytes());
            noted.map_err(|_| Broken { why: NO_HTTP, is_unread: false })?;
        }
        self.checking.set_time(now);
        let has_body = self.checking.head(&head);
        let body = answer.into_body();
        match has_body && !body.is_end_stream() {
            true => {
                self.stage = Stage::Body(body);
                Ok(Taken::More)
            }
            false => Ok(Taken::All),
        }
    }
}

/// Describes an error in a word or two.
fn said(error: &h2::Error) -> &'static str {
    match error.get_io() {
        Some(error) if error.kind() == ErrorKind::UnexpectedEof => "closed",
        Some(error) => kind_of(error),
        None if error.is_go_away() && error.is_remote() => "closed",
        None if error.is_reset() && error.is_remote() => "stream reset",
        None => NO_HTTP,
    }
}

/// A non-blocking stream for futures that are polled when its socket is ready.
pub struct Socket<S>(pub S);

/// Returns `Pending` if the operation would block.
fn polled<T>(mut what: impl FnMut() -> io::Result<T>) -> Polled<io::Result<T>> {
    loop {
        match what() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) =>
            {
                return Polled::Pending;
            }
            done => return Polled::Ready(done),
        }
    }
}

impl<S: Read + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Polled<io::Result<()>> {
        let room = to.initialize_unfilled();
        polled(|| self.0.read(room)).map_ok(|len| to.advance(len))
    }
}

impl<S: Write + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Polled<io::Result<usize>> {
        polled(|| self.0.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Polled<io::Result<usize>> {
        polled(|| self.0.write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled<io::Result<()>> {
        polled(|| self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<io::Result<()>> {
        self.poll_flush(context)
    }
}
