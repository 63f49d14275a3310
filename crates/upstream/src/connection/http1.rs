//! One HTTP/1.1 connection to an origin. The task that asks sends the request and reads the answer
//! itself: there is no task of the connection, and an idle one is only a socket. (hyper's client
//! has a task for each, which every request and every piece of a body crosses twice.)
//!
//! It promises: an answer is read as RFC 9112 (6.3) has it, and what could be read in two ways is
//! an error; a connection is used again only when both messages have ended, the origin keeps it,
//! and nothing came behind the answer; a request body that the origin does not read holds up no
//! answer; a request that got no answer is as it was; what an origin sends at once takes turns with
//! the other tasks.

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

use bytes::{Buf as _, BytesMut};
use http::{Request, Response, StatusCode};
use http1::{HeaderMaps, ResponseFraming, ResponseHead};
use message::informational::Informational;
use semantics::Spellings;
use tokio::io::AsyncReadExt;
use tokio::task::coop::consume_budget;

pub use self::error::Http1Error;
pub(crate) use self::incoming::Incoming;
use self::request::Sending;
use crate::connection::overrun::LastAnswer;
use crate::connection::request_body::OutBody;
use crate::connection::stream::{Stream, Unread};

/// Bytes that are read at once as long as it is not known how many are to come: a head and, most of
/// the time, all of the body.
const FIRST_READ: usize = 16 << 10;
/// Bytes of a longer body that are read at once.
const BODY_READ: usize = 64 << 10;
/// With less room than this within a body more is made first.
const LEAST_READ: usize = 8 << 10;
/// Bytes of the 1xx answers before one answer at most.
const INTERIM_MAX: usize = 1 << 20;

/// Fields that are added to a head on its way.
const FIELDS_ADDED: usize = 6;
/// The memory of a head with more bytes is not kept.
const HEAD_KEPT_MAX: usize = 8 << 10;

/// One connection, which is closed when it is dropped.
pub(crate) struct Http1 {
    stream: Stream,
    /// Bytes that were read and not taken yet.
    input: BytesMut,
    /// The place of heads of requests, kept for the next.
    output: Vec<u8>,
    /// The head of the last answer, and the memory of maps of such heads. The map of a request's
    /// fields becomes the next answer's.
    head: ResponseHead,
    maps: HeaderMaps,
    /// The memory of the last request, which is done with.
    pub spare: Option<Box<Request<OutBody>>>,
    /// The address of the other end; `None` for a socket in the file system.
    pub address: Option<IpAddr>,
    /// Bytes of an answer's head at most.
    head_max: usize,
    /// The kind of its last answer; `None`: there was none yet.
    pub last: Option<LastAnswer>,
    /// The kind of answer that bytes behind any answer are put down to: its latest one that ended
    /// with its head, if there was one. What came late behind it may have been read as a later one.
    pub suspect: LastAnswer,
}

/// The failure of a request without an answer.
pub(crate) struct Broke {
    /// The request, when it is as it was.
    pub request: Option<Box<Request<OutBody>>>,
    /// Nothing of it was sent.
    pub is_unsent: bool,
    /// The kind of earlier answer on this connection that the bytes read probably came behind: they
    /// came before the request, or are no answer.
    pub overran: Option<LastAnswer>,
    pub error: Http1Error,
}

impl Http1 {
    /// Makes a connection of a stream. `head_max`: bytes of an answer's head at most.
    pub fn new(stream: Stream, address: Option<IpAddr>, head_max: usize) -> Http1 {
        let (input, output, suspect) = (BytesMut::new(), Vec::new(), LastAnswer::Framed);
        let (head, maps, spare, last) =
            (ResponseHead::default(), HeaderMaps::default(), None, None);
        Http1 { stream, input, output, head, maps, spare, address, head_max, last, suspect }
    }

    /// Returns what lies unread on an idle connection, which can be used if there is nothing. What
    /// was read already, or decrypted, counts.
    pub fn unread(&mut self) -> Unread {
        if self.has_input() { Unread::Bytes } else { self.stream.unread() }
    }

    /// Returns whether bytes were read that nothing has taken.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Gives up the memory that it keeps for further requests.
    pub fn shrink(&mut self) {
        (self.input, self.output) = (BytesMut::new(), Vec::new());
        (self.head, self.maps) = (ResponseHead::default(), HeaderMaps::default());
        self.spare = None;
    }

    /// Sends a request, whose names are spelled so, and waits for the head of the answer. 1xx
    /// answers go to `interim`.
    pub async fn send(
        mut self: Box<Self>,
        request: Box<Request<OutBody>>,
        spellings: &Spellings,
        interim: Option<&Informational>,
    ) -> Result<Response<Incoming>, Broke> {
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
                Err(Broke { request, is_unsent, overran, error })
            }
        }
    }

    /// Makes a response of the head that was taken last, with the spelling of its names.
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

    /// Reads more bytes. `left`: how many are to come, when that is known.
    fn poll_more(&mut self, left: Option<u64>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Http1 { stream, input, .. } = self;
        // With room for one more than are to come, the socket knows by a short read that there are
        // none, and the next attempt asks the system for nothing.
        let wanted = left.map_or(FIRST_READ, |left| {
            usize::try_from(left).unwrap_or(BODY_READ).saturating_add(1).min(BODY_READ)
        });
        // A head is read into all of the buffer, which is free again most of the time.
        let least =
            if input.is_empty() && left.is_none() { wanted } else { wanted.min(LEAST_READ) };
        if input.capacity() - input.len() < least {
            input.reserve(wanted);
        }
        pin!(stream.read_buf(input)).poll(cx)
    }
}

/// The head of an answer that is not a 1xx.
struct Answer {
    response: Response<Spellings>,
    framing: ResponseFraming,
}

/// A request under way.
struct Exchange {
    connection: Box<Http1>,
    request: Box<Request<OutBody>>,
    sending: Sending,
    /// The error of the sending; the answer may have come all the same.
    broken: Option<Http1Error>,
    /// Bytes of the answer's head in which there is no end of it.
    seen: usize,
    /// Bytes of the 1xx answers so far.
    interim: usize,
}

impl Exchange {
    /// Sends on what can be sent.
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

    /// Sends on what can be sent. An origin that takes no more may have answered all the same.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), Http1Error> {
        if self.broken.is_none()
            && let Poll::Ready(Err(error)) = self.poll_send(cx)
        {
            if matches!(error, Http1Error::RequestBody) {
                // The client broke off: nobody waits for what the origin says.
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
                    let why = "there are 1xx answers before its answer without end";
                    return Poll::Ready(Err(Http1Error::Malformed(why)));
                }
                if is_continue && !self.sending.is_done() {
                    // Even if the answer is there already, the client is told first.
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

    /// Returns whether the first bytes that were read on a connection in use before cannot be of
    /// the answer: the request has not reached the origin. One with a body may be answered early.
    fn is_premature(&self) -> bool {
        self.connection.last.is_some()
            && matches!(self.request.body(), OutBody::Empty)
            && (!self.sending.is_done() || self.connection.stream.has_unacknowledged())
    }

    /// Takes a head that has come whole, which is the connection's then, and returns the framing of
    /// its answer.
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

    /// Returns the answer, whose body is still to be read.
    fn answered(self, answer: Answer) -> Response<Incoming> {
        let Answer { response, framing } = answer;
        let status = response.status();
        let last = LastAnswer::of(self.request.method(), status);
        let keeps_open = framing.keeps_open && status != StatusCode::SWITCHING_PROTOCOLS;
        response.map(|spellings| match self.sending.is_done() {
            true => {
                let Exchange { mut connection, mut request, sending, .. } = self;
                connection.output = sending.into_place();
                connection.last = Some(last);
                if last != LastAnswer::Framed {
                    connection.suspect = last;
                    // What the origin may wrongly send behind it is to come before the next use.
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
