//! One HTTP/1.0 or HTTP/1.1 client connection: reads requests and sends their responses in order
//! (RFC 9112).
//!
//! Guarantees: each request is read once, and bytes after it are read as another request only if no
//! other parser could disagree. A connection that waits for a request keeps only its socket. A
//! client that pipelines requests takes turns with other connections.

mod request_body;
mod sender;
mod wire;

use std::cell::RefCell;
use std::error::Error;
use std::fmt::Display;
use std::future::{pending, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::message::date;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http1::{
    HeadError, RequestFraming, RequestHead, may_end, write_field, write_number_field,
    write_status_line,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::timeout;
use upstream::message::request_body::RequestBody;
use upstream::message::upgrade;

use crate::client::connection_state::{CloseReason, ConnectionState, Phase};
use crate::client::handle::Client;
use crate::client::pool::Pooled;
use crate::downstream::connection::{tunnel_through, unless_cut};
use crate::downstream::connections::Connections;
use crate::downstream::http1::request_body::WireBody;
use crate::downstream::http1::sender::{Encoding, Form, Sender, Unsent, try_send};
use crate::downstream::http1::wire::Wire;
use crate::downstream::stream::Stream;
use crate::exchange::dispatch;
use crate::exchange::dispatch::{Answering, Unanswered};
use crate::observe::event::Event;
use crate::response::client_response::ClientResponse;
use crate::response::response_body::ResponseBody;
use crate::response::stored_fields::{Common, Written};
use crate::response::tunnel::Tunnel;
use crate::services::Services;

/// Limits on reading from a client that still sends after the last response. Closing with unread
/// bytes would reset the connection, and the client might lose the response (RFC 9112, 9.6).
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 32 << 20;

const TIMEOUT_RESPONSE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 37\r\n\r\nThe request's head came too slowly.\r\n";

/// Responses and response bytes per turn: a fraction of a millisecond of a worker's time.
const TURN: Turn = Turn { responses: 8, bytes: 128 << 10 };

/// Maximum size in bytes of a request head from another node: a client's request plus the fields
/// that nodes add.
const HEAD_OF_NODE: usize = 256 << 10;

thread_local! {
    /// Buffer for the response head being written.
    static HEAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Upper bound on the responses and bytes sent before other connections have their turn.
#[derive(Clone, Copy)]
struct Turn {
    responses: u32,
    bytes: usize,
}

impl Turn {
    fn take(&mut self, bytes: usize) {
        self.responses = self.responses.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn is_over(self) -> bool {
        self.responses == 0 || self.bytes == 0
    }
}

enum End {
    /// All responses were sent, and no further request is expected.
    Done,
    /// The sweep or the drain closed it.
    Closed(CloseReason),
    /// The bytes are not a valid request head, or exceed the size limit.
    Refused(HeadError),
    /// The socket failed, or a response broke off.
    Broken(Box<dyn Error>),
    Tunnel(Box<Tunnel>),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(error.into())
    }
}

enum Step {
    Wait(Waiting),
    Send(Sending),
}

struct Waiting {
    answering: Unanswered,
    form: Form,
    closes: bool,
}

/// Response of which the first part was sent, as much as the socket took at once.
struct Sending {
    rest: Option<Rest>,
    tunnel: Option<Box<Tunnel>>,
    closes: bool,
}

struct Connection {
    connections: Rc<Connections>,
    client: Rc<Client>,
    wire: Rc<RefCell<Wire>>,
}

pub(crate) async fn serve(connections: Rc<Connections>, client: Rc<Client>, stream: Stream) {
    let wire = Rc::new(RefCell::new(Wire::new(stream, client.state.clone())));
    let mut connection = Connection { connections, client, wire };
    let Err(end) = connection.requests().await;
    // Boxed so that a connection waiting for requests does not carry the future.
    Box::pin(connection.finish(end)).await;
}

impl Connection {
    /// Answers requests until the connection ends. Large values such as a response must not live
    /// across an `await` here, because many connections wait at once.
    async fn requests(&mut self) -> Result<std::convert::Infallible, End> {
        let mut turn = TURN;
        loop {
            if turn.is_over() {
                yield_now().await;
                turn = TURN;
            }
            let sending = match poll_fn(|cx| self.poll_request(cx, &mut turn)).await? {
                Step::Send(sending) => sending,
                Step::Wait(mut waiting) => {
                    poll_fn(|cx| self.poll_response(cx, &mut waiting, &mut turn)).await?
                }
            };
            self.send(sending, &mut turn).await?;
        }
    }

    /// Waits for the next request, and begins to answer it.
    fn poll_request(&self, cx: &mut Context<'_>, turn: &mut Turn) -> Poll<Result<Step, End>> {
        let (head, framing) = ready!(self.poll_head(cx, turn))?;
        let form = Form::of(&head.method, head.version);
        let wants_tunnel = form.is_connect || upgrade::protocols(&head.fields).is_some();
        let closes = wants_tunnel || framing.is_ambiguous || !framing.keeps_open;
        let body = self.begin_body(&framing);
        Poll::Ready(match dispatch::answer(&self.connections.services, &self.client, head, body) {
            Answering::Now(response) => {
                self.begin(cx, response, form, closes, turn).map(Step::Send)
            }
            Answering::Later(answering) => Ok(Step::Wait(Waiting { answering, form, closes })),
        })
    }

    /// Waits for the head of the next request.
    fn poll_head(
        &self,
        cx: &mut Context<'_>,
        turn: &mut Turn,
    ) -> Poll<Result<(Pooled<RequestHead>, RequestFraming), End>> {
        let (services, state) = (&self.connections.services, &self.client.state);
        state.note_task(cx);
        if let Some(cut) = state.cut() {
            return Poll::Ready(Err(End::Closed(cut)));
        }
        let mut wire = self.wire.borrow_mut();
        let longest = match self.client.link.is_peer {
            true => HEAD_OF_NODE,
            false => services.borrow_options().client.head_bytes,
        };
        let mut take = |bytes: &[u8], seen: usize| {
            let blank = RequestHead::empty_lines(bytes);
            if blank == bytes.len() {
                return (blank, None);
            }
            if seen > 0 && bytes.len() < longest && !may_end(bytes, seen) {
                return (0, None);
            }
            let mut head = services.heads.take();
            match head.read(&bytes[blank..], longest) {
                Ok(Some((length, framing))) => (blank + length, Some(Ok((head, framing)))),
                Ok(None) => {
                    if state.phase() == Phase::Idle {
                        state.set_phase(Phase::Head);
                    }
                    (blank, None)
                }
                Err(error) => (0, Some(Err(End::Refused(error)))),
            }
        };
        match wire.poll_take(cx, &mut take) {
            Poll::Ready(Ok(Some(taken))) => Poll::Ready(taken),
            // A client that closed within a head gets no response.
            Poll::Ready(Ok(None)) => Poll::Ready(Err(match wire.has_input() {
                true => End::Broken("the client closed within a head".into()),
                false => End::Done,
            })),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending if state.closes_idle() && !wire.has_input() => {
                Poll::Ready(Err(End::Done))
            }
            Poll::Pending => {
                // The client waits for responses before it sends another request.
                *turn = TURN;
                Poll::Pending
            }
        }
    }

    /// Returns the body of the request whose head was read.
    fn begin_body(&self, framing: &RequestFraming) -> RequestBody {
        let (wire, state) = (&self.wire, &self.client.state);
        wire.borrow_mut().begin_body(framing.body);
        if framing.is_without_body() {
            return RequestBody::Empty;
        }
        let body = WireBody::new(wire, state.clone(), framing.expects_continue);
        RequestBody::Stream(Box::pin(body))
    }

    /// Waits for the response to a request, sending 1xx responses meanwhile, and begins to send it.
    fn poll_response(
        &self,
        cx: &mut Context<'_>,
        Waiting { answering, form, closes }: &mut Waiting,
        turn: &mut Turn,
    ) -> Poll<Result<Sending, End>> {
        let state = &self.client.state;
        state.note_task(cx);
        loop {
            if let Some(cut) = state.cut() {
                return Poll::Ready(Err(End::Closed(cut)));
            }
            if let Poll::Ready(response) = answering.poll(cx) {
                return Poll::Ready(self.begin(cx, response, *form, *closes, turn));
            }
            let mut wire = self.wire.borrow_mut();
            if state.interim_sent() {
                wire.look_for_end(cx, answering.is_unsafe);
                if state.cut().is_none() {
                    return Poll::Pending;
                }
            } else if let Poll::Ready(sent) = wire.poll_interim(cx) {
                // The service waits for the 1xx heads before it returns the response.
                sent?;
            } else {
                return Poll::Pending;
            }
        }
    }

    /// Writes the head of a response, and sends as much as the socket takes at once.
    fn begin(
        &self,
        cx: &mut Context<'_>,
        response: ClientResponse,
        form: Form,
        closes: bool,
        turn: &mut Turn,
    ) -> Result<Sending, End> {
        let state = &self.client.state;
        state.request_is_read();
        let (parts, mut body) = response.into_parts();
        let tunnel = body.take_tunnel();
        let (status, fields) = (parts.status, &parts.headers);
        let encoding = form.encoding(status, fields, &body);
        let ends = state.is_last_answer() || state.draining();
        let closes = closes || ends || encoding == Encoding::UntilClose || self.is_early();
        if closes {
            state.end_after_answer();
        }
        let closes = closes && tunnel.is_none();
        let rest = HEAD.with_borrow_mut(|head| {
            head.clear();
            let has_length = self.write_fields(form, (status, fields), encoding, &mut body, head);
            form.write_end(status, encoding, (closes, has_length), head);
            body.note_head(|| head.len() as u64);
            turn.take(head.len());
            self.begin_sending(cx, head, (fields, &mut body), encoding)
        })?;
        Ok(Sending { rest, tunnel, closes })
    }

    /// Sends the rest of a response. Returns an error if it was the last of the connection.
    async fn send(&self, sending: Sending, turn: &mut Turn) -> Result<(), End> {
        let Sending { rest, tunnel, closes } = sending;
        if let Some(mut rest) = rest {
            turn.take(TURN.bytes);
            self.unless_cut(poll_fn(|cx| rest.poll(cx, &self.wire))).await?.map_err(End::Broken)?;
        }
        match tunnel {
            Some(tunnel) => Err(End::Tunnel(tunnel)),
            None if closes => Err(End::Done),
            None => self.end_body(),
        }
    }

    /// Writes the header fields of a response, and adds `Date` if it is missing. Returns whether
    /// the fields include `Content-Length`.
    fn write_fields(
        &self,
        form: Form,
        (status, fields): (StatusCode, &HeaderMap),
        encoding: Encoding,
        body: &mut ResponseBody,
        head: &mut Vec<u8>,
    ) -> bool {
        let services = &self.connections.services;
        write_status_line(status, form.is_old, head);
        let mut written = Written::default();
        let bytes = body.size_hint().exact();
        if let Some(stored) = body.take_stored_fields() {
            let options = services.borrow_options();
            let with_length = form.takes_stored_length(status, encoding);
            let common = Common::of(services, &options, self.client.link.is_peer);
            written = stored.write(common, with_length, head);
            if form.is_head && !written.has_length && form.may_have_length(status) {
                write_number_field(b"content-length", stored.length, head);
                written.has_length = true;
            }
        }
        let fields = (fields, body.spellings());
        form.write_fields(status, fields, encoding, &mut written, head);
        // A HEAD response states the length that GET would have, if that is known here.
        if let Some(length @ 1..) = bytes
            && form.is_head
            && !written.has_length
            && form.may_have_length(status)
        {
            write_number_field(b"content-length", length, head);
            written.has_length = true;
        }
        if !written.has_date {
            write_field(b"date", date::now(services.clock).as_bytes(), head);
        }
        written.has_length
    }

    /// Sends as much of a response as the socket takes at once. Returns the rest.
    fn begin_sending(
        &self,
        cx: &mut Context<'_>,
        head: &[u8],
        (fields, body): (&HeaderMap, &mut ResponseBody),
        encoding: Encoding,
    ) -> io::Result<Option<Rest>> {
        let bytes = match encoding {
            Encoding::Nothing => {
                body.end_with_head();
                Bytes::new()
            }
            _ => match self.take_whole(body) {
                Some(bytes) => bytes,
                None => {
                    let (wire, body) = (self.wire.clone(), std::mem::take(body));
                    let sender = Sender::new(wire, head, fields, body, encoding);
                    return Ok(Some(Rest::Stream(Box::new(sender))));
                }
            },
        };
        let unsent = try_send(cx, &mut self.wire.borrow_mut(), head, bytes)?;
        Ok(unsent.map(|unsent| Rest::Bytes(Box::new((unsent, std::mem::take(body))))))
    }

    /// Takes a body that is complete in memory, unless the kernel is to send it.
    fn take_whole(&self, body: &mut ResponseBody) -> Option<Bytes> {
        let is_file = body.prefers_kernel() && self.wire.borrow().sends_files();
        if is_file { None } else { body.take_whole() }
    }

    /// Returns whether the response precedes the end of the request body. The rest of the body is
    /// then not awaited (RFC 9112, 9.6).
    fn is_early(&self) -> bool {
        let mut wire = self.wire.borrow_mut();
        if Rc::weak_count(&self.wire) == 0 {
            wire.discard_body();
        }
        !wire.body_has_arrived()
    }

    /// Prepares the connection for the next request.
    fn end_body(&self) -> Result<(), End> {
        let mut wire = self.wire.borrow_mut();
        wire.discard_body();
        if wire.body_is_done() { Ok(()) } else { Err(End::Done) }
    }

    /// Waits for `work`, unless the sweep or the drain cuts the connection.
    async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let state = &self.client.state;
        let done = unless_cut(state, work).await;
        done.ok_or_else(|| End::Closed(state.cut().unwrap_or(CloseReason::Stall)))
    }

    /// Ends the connection: sends an error response or runs the tunnel, if any, and closes it.
    async fn finish(self, end: End) {
        let Connection { connections, client, wire } = self;
        let (services, state) = (&connections.services, &client.state);
        // Request bodies hold weak references; their reads fail from here on.
        let Some(wire) = Rc::into_inner(wire) else { return };
        let (mut stream, input) = wire.into_inner().into_parts();
        let refused = |status, why: &dyn Display| {
            services.observer.refused(client.address, status, why);
        };
        if state.open_ended() {
            // An orderly close would look like the end of the body. Only a reset shows the client
            // that it is incomplete.
            stream.reset_at_close();
            if let End::Broken(error) = &end {
                refused(None, error);
            }
            return;
        }
        let last = match end {
            End::Done => None,
            End::Closed(CloseReason::Head) => {
                refused(Some(StatusCode::REQUEST_TIMEOUT), &"head too slow");
                Some(TIMEOUT_RESPONSE)
            }
            End::Closed(_) => return,
            End::Refused(error) => {
                let (status, response) = refusal(error);
                refused(Some(status), &error);
                Some(response)
            }
            End::Broken(error) => {
                refused(None, &error);
                None
            }
            End::Tunnel(tunnel) => {
                return run_tunnel(services, state, stream, input, *tunnel).await;
            }
        };
        if let Some(response) = last {
            // The connection was waiting for a head, so no other response is being sent. The client
            // may be gone.
            let _ = timeout(LINGER_TIME, stream.write_all(response)).await;
        }
        unless_cut(state, close(stream, state.eof())).await;
    }
}

enum Rest {
    /// Bytes of a body, and the emptied body, whose drop ends the transaction record.
    Bytes(Box<(Unsent, ResponseBody)>),
    Stream(Box<Sender>),
}

impl Rest {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &RefCell<Wire>,
    ) -> Poll<Result<(), Box<dyn Error>>> {
        match self {
            Rest::Bytes(rest) => rest.0.poll(cx, &mut wire.borrow_mut()).map_err(Into::into),
            Rest::Stream(sender) => sender.poll(cx),
        }
    }
}

/// Returns the status and the response for an invalid request head.
fn refusal(error: HeadError) -> (StatusCode, &'static [u8]) {
    match error {
        HeadError::TooLarge => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
              content-length: 0\r\n\r\n",
        ),
        HeadError::TargetTooLong => (
            StatusCode::URI_TOO_LONG,
            b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        ),
        HeadError::Malformed(_) => (
            StatusCode::BAD_REQUEST,
            b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        ),
    }
}

/// Runs a tunnel. `early` holds bytes that the client sent before the response.
async fn run_tunnel(
    services: &Services,
    state: &ConnectionState,
    stream: Stream,
    early: Bytes,
    tunnel: Tunnel,
) {
    let cut = unless_cut(state, pending::<()>());
    // The connection has already counted these bytes.
    let counted = early.len() as u64;
    let ended = tunnel_through(services, stream, early, tunnel, cut).await;
    services.observer.count(Event::BytesReceived, ended.sent.saturating_sub(counted));
    services.observer.count(Event::BytesSent, ended.received);
}

/// Closes a connection so that the last response arrives.
async fn close(mut stream: Stream, seen_eof: bool) {
    if stream.shutdown().await.is_err() || seen_eof {
        return;
    }
    let mut left = LINGER_BYTES;
    let mut sink = [0u8; 2048];
    let drain = async {
        while left > 0 {
            match stream.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(n) => left = left.saturating_sub(n),
            }
        }
    };
    // Whether the drain finished or timed out, the connection is dropped now.
    let _ = timeout(LINGER_TIME, drain).await;
}
