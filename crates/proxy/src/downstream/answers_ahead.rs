//! Plain requests, answered ahead of hyper: between two requests, when hyper wants to read and
//! holds nothing of the connection, what has come is looked at first (`exchange::plain_hit`). The
//! answer to a plain hit is written to the socket at once, and hyper never sees the request. So it
//! is with other plain requests whose answer has come whole with its head
//! (`exchange::plain_decision`); any other answer waits until hyper has read the request, and is
//! sent by it. Everything else is handed to hyper as it came.

use std::cell::RefCell;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::Response;
use tokio::io::{AsyncWrite, ReadBuf};

use crate::client::handle::Client;
use crate::downstream::stream::Stream;
use crate::exchange::plain_decision::Decision;
use crate::exchange::plain_hit::{Reading, Step};
use crate::exchange::{plain_decision, plain_hit};
use crate::request::plain_request::Spare;
use crate::response::response_body::ResponseBody;
use crate::services::Services;

/// The answers of one connection that hyper does not see.
pub(crate) struct AnswersAhead {
    services: Rc<Services>,
    client: Rc<Client>,
    /// What the socket has not taken yet of an answer.
    unsent: Option<Box<Unsent>>,
    /// What is done for the request that `held` begins with.
    begun: Option<Begun>,
    /// The answer to the request that hyper reads next, if there is one already.
    left_answer: Rc<LeftAnswer>,
    /// What came and was neither answered nor handed to hyper.
    held: Vec<u8>,
    /// What is held begins with a request that is hyper's.
    is_hypers: bool,
    spare: Spare,
    /// Requests in a row that were left to hyper.
    left: u32,
}

/// After so many requests in a row that were left to hyper only one in so many is looked at: a
/// client that asks for nothing else, or whose requests have a field that decides, pays little for
/// those that do.
const LEFT_IN_A_ROW: u32 = 16;

/// What has to be waited for.
enum Begun {
    Reading(Reading),
    Decision(Decision),
}

/// The place of an answer that hyper has to send.
pub(crate) type LeftAnswer = RefCell<Option<Response<ResponseBody>>>;

/// The rest of an answer.
struct Unsent {
    head: Bytes,
    body: Bytes,
}

thread_local! {
    /// The head of the answer that is written.
    static HEAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AnswersAhead {
    /// Makes it for a connection of HTTP/1. In `left_answer` is then what answers the request that
    /// hyper reads next, if that is known already.
    pub fn new(
        services: Rc<Services>,
        client: Rc<Client>,
        left_answer: Rc<LeftAnswer>,
    ) -> AnswersAhead {
        AnswersAhead {
            services,
            client,
            unsent: None,
            begun: None,
            left_answer,
            held: Vec::new(),
            is_hypers: false,
            spare: Spare::default(),
            left: 0,
        }
    }

    /// Waits until the answer that was begun is sent, and what was begun for the next has ended.
    pub fn poll_begun(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_unsent(cx, stream))?;
            let step = match &mut self.begun {
                None => return Poll::Ready(Ok(())),
                Some(Begun::Reading(reading)) => {
                    let (services, ends) = (&self.services, self.client.state.draining());
                    ready!(HEAD.with_borrow_mut(|head| reading.poll(cx, services, ends, head)))
                }
                Some(Begun::Decision(decision)) => {
                    let (answer, length) = ready!(decision.poll(cx));
                    self.decided(answer, length)
                }
            };
            self.begun = None;
            self.client.state.set_answering_ahead(false);
            match step {
                Step::Answer { length, .. } => {
                    self.held.drain(..length);
                    self.send(cx, stream, step)?;
                }
                Step::Leave | Step::Read(_) | Step::Decide(_) => {
                    self.is_hypers = true;
                    if self.client.state.draining() {
                        self.client.state.end_after_answer();
                    }
                }
            }
        }
    }

    /// Returns the step for a request of so many bytes with this answer, which is left to hyper if
    /// it is not to be sent at once.
    fn decided(&mut self, mut answer: Response<ResponseBody>, length: usize) -> Step {
        let (services, state) = (&self.services, &self.client.state);
        let ends = state.draining() || state.is_last_answer();
        let written = match ends {
            true => None,
            false => {
                HEAD.with_borrow_mut(|head| plain_decision::write(services, &mut answer, head))
            }
        };
        match written {
            Some((body, transaction)) => {
                self.spare.fields = std::mem::take(answer.headers_mut());
                Step::Answer { length, body, transaction }
            }
            None => {
                self.left = self.left.wrapping_add(1);
                *self.left_answer.borrow_mut() = Some(answer);
                Step::Leave
            }
        }
    }

    /// Returns whether a part of an answer waits to be sent.
    pub fn has_unsent(&self) -> bool {
        self.unsent.is_some()
    }

    /// Puts bytes that are held into `buf`; returns whether there were any.
    pub fn put_held(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.held.len().min(buf.remaining());
        buf.put_slice(&self.held[..count]);
        self.held.drain(..count);
        count > 0
    }

    /// Looks at what has come, which is in `buf` behind `before`. Returns whether it is hyper's;
    /// else it is no longer in `buf`.
    pub fn look(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        buf: &mut ReadBuf<'_>,
        before: usize,
    ) -> io::Result<bool> {
        let state = &self.client.state;
        if std::mem::take(&mut self.is_hypers) || !state.is_between_requests() {
            return Ok(true);
        }
        if self.left >= LEFT_IN_A_ROW && !self.left.is_multiple_of(LEFT_IN_A_ROW) {
            self.left = self.left.wrapping_add(1);
            return Ok(true);
        }
        let bytes = &buf.filled()[before..];
        let (services, client, spare) = (&self.services, &self.client, &mut self.spare);
        let step =
            HEAD.with_borrow_mut(|head| plain_hit::step(services, client, bytes, (head, spare)));
        match step {
            Step::Leave => {
                self.left = self.left.wrapping_add(1);
                return Ok(true);
            }
            Step::Answer { length, .. } => {
                self.hold(&bytes[length..]);
                self.send(cx, stream, step)?;
            }
            Step::Read(reading) => self.begin(Begun::Reading(reading), bytes),
            Step::Decide(decision) => self.begin(Begun::Decision(decision), bytes),
        }
        buf.set_filled(before);
        Ok(false)
    }

    /// Begins what is to be waited for, for the request that `bytes` begin with.
    fn begin(&mut self, begun: Begun, bytes: &[u8]) {
        self.client.state.set_answering_ahead(true);
        self.hold(bytes);
        self.begun = Some(begun);
    }

    /// Holds bytes that came before those that are held.
    fn hold(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.held.splice(..0, bytes.iter().copied());
        }
    }

    /// Sends an answer, whose head is in `HEAD`: as much as the socket takes.
    fn send(&mut self, cx: &mut Context<'_>, stream: &mut Stream, step: Step) -> io::Result<()> {
        let Step::Answer { length, mut body, transaction } = step else { return Ok(()) };
        let state = &self.client.state;
        state.pass_request(length);
        self.left = 0;
        let unsent = HEAD.with_borrow(|head| {
            let parts = [IoSlice::new(head), IoSlice::new(&body)];
            let polled = Pin::new(&mut *stream).poll_write_vectored(cx, &parts);
            state.wrote(&polled);
            let sent = match polled {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            let of_head = sent.min(head.len());
            body.advance(sent - of_head);
            let is_sent = of_head == head.len() && body.is_empty();
            if is_sent && state.flushed(Pin::new(stream).poll_flush(cx))?.is_ready() {
                return Ok::<_, io::Error>(None);
            }
            Ok(Some(Box::new(Unsent { head: Bytes::copy_from_slice(&head[of_head..]), body })))
        })?;
        if unsent.is_some() {
            state.set_answering_ahead(true);
            self.unsent = unsent;
        }
        drop(transaction);
        Ok(())
    }

    /// Sends what is left of an answer. Who calls it for anything but a read has to see to it that
    /// hyper reads again.
    pub fn poll_unsent(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<io::Result<()>> {
        let Some(unsent) = &mut self.unsent else { return Poll::Ready(Ok(())) };
        let state = &self.client.state;
        let Unsent { head, body } = &mut **unsent;
        while !head.is_empty() || !body.is_empty() {
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            let polled = Pin::new(&mut *stream).poll_write_vectored(cx, &parts);
            state.wrote(&polled);
            let sent = ready!(polled)?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = sent.min(head.len());
            head.advance(of_head);
            body.advance(sent - of_head);
        }
        ready!(state.flushed(Pin::new(stream).poll_flush(cx))?);
        self.unsent = None;
        state.set_answering_ahead(false);
        Poll::Ready(Ok(()))
    }
}
