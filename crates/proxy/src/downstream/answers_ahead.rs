//! Plain requests, answered ahead of hyper: between two requests, when hyper wants to read and
//! holds nothing of the connection, what has come is looked at first (`exchange::plain_hit`). The
//! answer to a plain hit is written to the socket at once, and hyper never sees the request. So it
//! is with other plain requests whose answer has come whole with its head
//! (`exchange::plain_decision`); any other answer waits until hyper has read the request, and is
//! sent by it. Everything else is handed to hyper as it came.
//!
//! It promises: a connection whose client sends request after request without waiting has a turn of
//! so many answers; then the others have theirs.

use std::cell::RefCell;
use std::io;
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::Response;
use tokio::io::{AsyncWrite, ReadBuf};
use tokio::task::yield_now;

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
    held: BytesMut,
    /// What is held begins with a request that is hyper's.
    is_hypers: bool,
    spare: Spare,
    /// What is left of the turn.
    turn: Turn,
    /// Requests in a row that were left to hyper.
    left: u32,
}

/// After so many requests in a row that were left to hyper only one in so many is looked at: a
/// client that asks for nothing else, or whose requests have a field that decides, pays little for
/// those that do.
const LEFT_IN_A_ROW: u32 = 16;

/// Answers, and bytes of them, in one turn: what takes a worker a fraction of a millisecond.
const TURN: Turn = Turn { answers: 8, bytes: 128 << 10 };

/// What may be sent before other connections have their turn.
#[derive(Clone, Copy)]
struct Turn {
    answers: u32,
    bytes: usize,
}

impl Turn {
    fn take(&mut self, bytes: usize) {
        self.answers = self.answers.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn is_over(self) -> bool {
        self.answers == 0 || self.bytes == 0
    }
}

/// What is done with the bytes behind those that were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// They are given to hyper.
    Give,
    /// They are held until what was begun has ended.
    Hold,
}

/// What became of the bytes that were held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// There are none, or none any more.
    Nothing,
    /// Some were given to hyper.
    Given,
    /// What was begun has not ended.
    Answering,
}

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
            held: BytesMut::new(),
            is_hypers: false,
            spare: Spare::default(),
            turn: TURN,
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
                None => {
                    self.client.state.set_answering_ahead(false);
                    return Poll::Ready(Ok(()));
                }
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
                    self.held.advance(length);
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
                // Its values are parts of what was read from the origin.
                self.spare.fields.clear();
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

    /// Waits for the next turn, when this one is over.
    pub fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.turn.is_over() {
            return Poll::Ready(());
        }
        self.turn = TURN;
        if !self.held.is_empty() {
            // It came before whatever ends the connection meanwhile.
            self.client.state.set_answering_ahead(true);
        }
        // The task is woken when all others that are ready have had their turn.
        pin!(yield_now()).poll(cx)
    }

    /// Notes that the client waits for answers before it asks again: a new turn begins.
    pub fn end_turn(&mut self) {
        self.turn = TURN;
    }

    /// Puts what is held and hyper's into `buf`; returns whether there is any. All that is held
    /// before it is answered, as far as it can be now.
    pub fn put_held(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        buf: &mut ReadBuf<'_>,
    ) -> io::Result<Held> {
        if self.held.is_empty() {
            // An idle connection keeps no memory.
            self.held = BytesMut::new();
            return Ok(Held::Nothing);
        }
        let held = std::mem::take(&mut self.held);
        let (answered, rest) = self.look(cx, stream, &held)?;
        self.held = held;
        self.held.advance(answered);
        if rest == Rest::Hold {
            return Ok(Held::Answering);
        }
        let count = self.held.len().min(buf.remaining());
        buf.put_slice(&self.held[..count]);
        self.held.advance(count);
        Ok(if count > 0 { Held::Given } else { Held::Nothing })
    }

    /// Looks at what has come, which is in `buf` behind `before`. Returns whether something of it
    /// is left there, which is hyper's.
    pub fn look_at_new(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        buf: &mut ReadBuf<'_>,
        before: usize,
    ) -> io::Result<bool> {
        let (answered, rest) = self.look(cx, stream, &buf.filled()[before..])?;
        let from = before + answered;
        if rest == Rest::Hold {
            self.held.extend_from_slice(&buf.filled()[from..]);
            buf.set_filled(before);
            return Ok(false);
        }
        if answered > 0 {
            let end = buf.filled().len();
            buf.filled_mut().copy_within(from..end, before);
            buf.set_filled(end - answered);
        }
        Ok(buf.filled().len() > before)
    }

    /// Answers the plain requests that `bytes` begin with, until one has to be waited for or the
    /// turn is over. Returns how many bytes of requests were answered, and what is done with the
    /// rest.
    fn look(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        bytes: &[u8],
    ) -> io::Result<(usize, Rest)> {
        let mut answered = 0;
        loop {
            let bytes = &bytes[answered..];
            if !bytes.is_empty() && self.turn.is_over() {
                // What is begun now would go on under whatever options are in force then.
                return Ok((answered, Rest::Hold));
            }
            if bytes.is_empty() || !self.is_looked_at() {
                return Ok((answered, Rest::Give));
            }
            let (services, client, spare) = (&self.services, &self.client, &mut self.spare);
            let step = HEAD
                .with_borrow_mut(|head| plain_hit::step(services, client, bytes, (head, spare)));
            match step {
                Step::Leave => {
                    self.left = self.left.wrapping_add(1);
                    return Ok((answered, Rest::Give));
                }
                Step::Answer { length, .. } => {
                    answered += length;
                    self.send(cx, stream, step)?;
                }
                Step::Read(reading) => {
                    self.begin(Begun::Reading(reading));
                    return Ok((answered, Rest::Hold));
                }
                Step::Decide(decision) => {
                    self.begin(Begun::Decision(decision));
                    return Ok((answered, Rest::Hold));
                }
            }
            if self.has_unsent() {
                return Ok((answered, Rest::Hold));
            }
        }
    }

    /// Returns whether what comes next is looked at before hyper sees it.
    fn is_looked_at(&mut self) -> bool {
        if std::mem::take(&mut self.is_hypers) || !self.client.state.is_between_requests() {
            return false;
        }
        let is_one_of_many = self.left < LEFT_IN_A_ROW || self.left.is_multiple_of(LEFT_IN_A_ROW);
        if !is_one_of_many {
            self.left = self.left.wrapping_add(1);
        }
        is_one_of_many
    }

    /// Begins what is to be waited for, for the request that is held first.
    fn begin(&mut self, begun: Begun) {
        self.client.state.set_answering_ahead(true);
        self.begun = Some(begun);
    }

    /// Sends an answer, whose head is in `HEAD`: as much as the socket takes.
    fn send(&mut self, cx: &mut Context<'_>, stream: &mut Stream, step: Step) -> io::Result<()> {
        let Step::Answer { length, mut body, transaction } = step else { return Ok(()) };
        let state = &self.client.state;
        state.pass_request(length);
        self.left = 0;
        self.turn.take(body.len());
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
