//! One HTTP/1.1 connection to an origin. The task that makes the request also writes it and reads
//! the response: a connection has no task of its own, and an idle one is only a socket. (hyper's
//! client runs a task per connection, which every request and every piece of a body crosses twice.)
//!
//! Guarantees: responses are read as RFC 9112 (6.3) specifies, and ambiguous framing is an error. A
//! connection is reused only when both messages have ended, the origin keeps it open, and no byte
//! followed the response. A request body that the origin does not read does not delay the response.
//! A request that got no response is returned only if it is unmodified, ready to be retried. A
//! response that arrives all at once takes turns with other tasks.

mod error;
mod incoming;
mod request;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use crate::message::informational::Informational;
use bytes::{Buf as _, BytesMut};
use http::{Request, Response, StatusCode};
use http1::{HeaderMaps, ResponseFraming, ResponseHead};
use semantics::Spellings;
use tokio::io::AsyncReadExt;
use tokio::task::coop::consume_budget;

pub use self::error::Http1Error;
pub(crate) use self::incoming::Incoming;
use self::request::Sending;
use crate::connection::overrun::ResponseKind;
use crate::connection::request_body::OutBody;
use crate::connection::stream::{Stream, Unread};

/// Bytes per read while the length of the response is unknown: room for a head and usually the
/// whole body.
const FIRST_READ: usize = 16 << 10;
/// Bytes per read of a longer body.
const BODY_READ: usize = 64 << 10;
/// Free buffer space in bytes below which the buffer grows before more of a body is read.
const LEAST_READ: usize = 8 << 10;
/// Maximum total bytes of 1xx responses before one final response.
const INTERIM_MAX: usize = 1 << 20;

/// Number of fields that will be added to a response head later, reserved in its map.
const FIELDS_ADDED: usize = 6;
/// Size in bytes above which the memory of a head is not kept.
const HEAD_KEPT_MAX: usize = 8 << 10;

/// HTTP/1.1 connection to an origin, closed on drop.
pub(crate) struct Http1 {
    stream: Stream,
    /// Bytes read but not yet consumed.
    input: BytesMut,
    /// Buffer for request heads, kept for the next request.
    output: Vec<u8>,
    /// Head of the last response, and reusable maps for such heads. The map of a request's fields
    /// becomes that of the next response.
    head: ResponseHead,
    maps: HeaderMaps,
    /// Memory of the last request after its end, for the next one.
    pub spare: Option<Box<Request<OutBody>>>,
    /// Address of the server; `None` for a Unix socket.
    pub address: Option<IpAddr>,
    /// Maximum size of a response head in bytes.
    head_max: usize,
    /// Kind of the last response; `None` before the first.
    pub last: Option<ResponseKind>,
    /// Kind of response to which stray bytes on the connection are attributed: the latest one
    /// without a body, if there was any. Bytes that arrived late after it may have been read as a
    /// later response.
    pub suspect: ResponseKind,
}

/// A request that failed without a response.
pub(crate) struct FailedRequest {
    /// The request, if it is unmodified and can be retried.
    pub request: Option<Box<Request<OutBody>>>,
    /// True if no byte was sent and nothing was taken from the body.
    pub is_unsent: bool,
    /// Kind of the earlier response that the bytes read probably belong to. Set if the bytes came
    /// before the request or are not a response.
    pub overran: Option<ResponseKind>,
    pub error: Http1Error,
}

impl Http1 {
    /// Creates a connection over a stream. `head_max` is the maximum size of a response head in
    /// bytes.
    pub fn new(stream: Stream, address: Option<IpAddr>, head_max: usize) -> Http1 {
        let (input, output, suspect) = (BytesMut::new(), Vec::new(), ResponseKind::Framed);
        let (head, maps, spare, last) =
            (ResponseHead::default(), HeaderMaps::default(), None, None);
        Http1 { stream, input, output, head, maps, spare, address, head_max, last, suspect }
    }

    /// Returns the unread data on an idle connection, including bytes already read or decrypted.
    /// The connection can be reused only if there is none.
    pub fn unread(&mut self) -> Unread {
        if self.has_input() { Unread::Bytes } else { self.stream.unread() }
    }

    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Frees the memory that is kept for further requests.
    pub fn shrink(&mut self) {
        (self.input, self.output) = (BytesMut::new(), Vec::new());
        (self.head, self.maps) = (ResponseHead::default(), HeaderMaps::default());
        self.spare = None;
    }

    /// Sends a request and waits for the head of the response. `spellings` is the spelling of the
    /// request's field names. 1xx responses are passed to `interim`.
    pub async fn send(
        mut self: Box<Self>,
        request: Box<Request<OutBody>>,
        spellings: &Spellings,
        interim: Option<&Informational>,
    ) -> Result<Response<Incoming>, FailedRequest> {
        let sending = Sending::new(&request, spellings, std::mem::take(&mut self.output));
        let (connection, broken) = (self, None);
        let mut exchange = Exchange { connection, request, sending, broken, seen: 0, interim: 0 };
        match poll_fn(|cx| exchange.poll_head(interim, cx)).await {
            Ok(answer) => Ok(exchange.answered(answer)),
            Err(error) => {
                let Exchange { connection, request, sending, .. } = exchange;
                let is_unsent = sending.is_untouched();
                let is_as_it_was = is_unsent || matches!(request.body(), OutBody::Empty);
                let overran = connection.last.filter(|_| error.may_be_overrun());
                let overran = overran.map(|_| connection.suspect);
                let request = is_as_it_was.then_some(request);
                Err(FailedRequest { request, is_unsent, overran, error })
            }
        }
    }

    /// Builds a response from the head taken last, with the spelling of its field names.
    fn take_response(&mut self) -> Result<Response<Spellings>, Http1Error> {
        let Http1 { head, maps, .. } = self;
        let (fields, spellings) = maps.make(&head.fields, FIELDS_ADDED)?;
        let mut response = Response::new(spellings);
        *response.status_mut() = head.status;
        *response.version_mut() = head.version;
        *response.headers_mut() = fields;
        if head.capacity() > HEAD_KEPT_MAX {
            *head = ResponseHead::default();
        }
        Ok(response)
    }

    /// Reads more bytes. `left` is the number of bytes to come, if known.
    fn poll_more(&mut self, left: Option<u64>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Http1 { stream, input, .. } = self;
        // With room for one byte more than expected, a short read tells the socket that nothing is
        // left, and the next attempt needs no system call.
        let wanted = left.map_or(FIRST_READ, |left| {
            usize::try_from(left).unwrap_or(BODY_READ).saturating_add(1).min(BODY_READ)
        });
        // A head is read into the whole buffer, which usually is free again.
        let least =
            if input.is_empty() && left.is_none() { wanted } else { wanted.min(LEAST_READ) };
        if input.capacity() - input.len() < least {
            input.reserve(wanted);
        }
        pin!(stream.read_buf(input)).poll(cx)
    }
}

/// Head and framing of a final (not 1xx) response.
struct Answer {
    response: Response<Spellings>,
    framing: ResponseFraming,
}

struct Exchange {
    connection: Box<Http1>,
    request: Box<Request<OutBody>>,
    sending: Sending,
    /// Error of the sending; the response may arrive nevertheless.
    broken: Option<Http1Error>,
    /// Length of the input already searched for the end of the head.
    seen: usize,
    /// Bytes of the 1xx responses so far.
    interim: usize,
}

impl Exchange {
    /// Sends as much of the request as possible.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http1Error>> {
        self.sending.poll(&mut self.connection.stream, self.request.body_mut(), cx)
    }

    fn poll_head(
        &mut self,
        interim: Option<&Informational>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, Http1Error>> {
        self.send_on(cx)?;
        let answered = ready!(self.poll_answer(interim, cx));
        Poll::Ready(answered.map_err(|error| self.broken.take().unwrap_or(error)))
    }

    /// Sends as much of the request as possible. On failure the response is still awaited, because
    /// an origin that stops reading may have responded.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), Http1Error> {
        if self.broken.is_none()
            && let Poll::Ready(Err(error)) = self.poll_send(cx)
        {
            if matches!(error, Http1Error::RequestBody) {
                // The client broke off, so the response is not needed.
                return Err(error);
            }
            self.broken = Some(error);
        }
        Ok(())
    }

    fn poll_answer(
        &mut self,
        interim: Option<&Informational>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, Http1Error>> {
        loop {
            while let Some(framing) = self.take_head()? {
                let Http1 { head, maps, .. } = &mut *self.connection;
                if !head.is_interim() {
                    let response = self.connection.take_response()?;
                    return Poll::Ready(Ok(Answer { response, framing }));
                }
                let is_continue = head.status == StatusCode::CONTINUE;
                if let Some(interim) = interim {
                    let (fields, _) = maps.make(&head.fields, 0)?;
                    interim.receive(head.status, &fields);
                    maps.keep(fields);
                }
                if self.interim > INTERIM_MAX {
                    let why = "it sends 1xx responses without end";
                    return Poll::Ready(Err(Http1Error::Malformed(why)));
                }
                if is_continue && !self.sending.is_done() {
                    // Forward the 100 Continue to the client even if the final response has already
                    // arrived.
                    self.send_on(cx)?;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                ready!(pin!(consume_budget()).poll(cx));
            }
            let is_first = self.connection.input.is_empty() && self.interim == 0;
            if ready!(self.connection.poll_more(None, cx)).map_err(Http1Error::Io)? == 0 {
                return Poll::Ready(Err(Http1Error::Closed));
            }
            if is_first && self.is_premature() {
                return Poll::Ready(Err(Http1Error::Premature));
            }
        }
    }

    /// Returns whether the first bytes read on a reused connection cannot belong to the response,
    /// because the request has not reached the origin. A request with a body may be answered early.
    fn is_premature(&self) -> bool {
        self.connection.last.is_some()
            && matches!(self.request.body(), OutBody::Empty)
            && (!self.sending.is_done() || self.connection.stream.has_unacknowledged())
    }

    /// Takes a complete head into the connection, and returns the framing of its response.
    fn take_head(&mut self) -> Result<Option<ResponseFraming>, Http1Error> {
        let Http1 { input, head, head_max, .. } = &mut *self.connection;
        let before = input.len();
        if before > 0 && (self.seen == 0 || http1::may_end(input, self.seen)) {
            let read = head.read(input, self.request.method(), *head_max)?;
            if let Some((length, framing)) = read {
                input.advance(length);
                self.seen = 0;
                self.interim += length;
                return Ok(Some(framing));
            }
        }
        self.seen = before;
        if before >= *head_max { Err(Http1Error::HeadTooLarge) } else { Ok(None) }
    }

    /// Returns the response, whose body is still to be read.
    fn answered(self, answer: Answer) -> Response<Incoming> {
        let Answer { response, framing } = answer;
        let status = response.status();
        let last = ResponseKind::of(self.request.method(), status);
        let keeps_open = framing.keeps_open && status != StatusCode::SWITCHING_PROTOCOLS;
        response.map(|spellings| match self.sending.is_done() {
            true => {
                let Exchange { mut connection, mut request, sending, .. } = self;
                connection.output = sending.into_buffer();
                connection.last = Some(last);
                if last != ResponseKind::Framed {
                    connection.suspect = last;
                    // Bytes that the origin wrongly sends after it should arrive before the
                    // connection is reused.
                    connection.stream.acknowledge_at_once();
                }
                connection.maps.keep(std::mem::take(request.headers_mut()));
                *request = Request::new(OutBody::Empty);
                connection.spare = Some(request);
                Incoming::new(connection, framing.body, keeps_open, spellings)
            }
            false => Incoming::while_sending(self, framing.body, spellings),
        })
    }
}
