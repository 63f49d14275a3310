//! Carries a body to the readers of a fill and into the store: all of it, or window by window for
//! an object that is stored in parts.
//!
//! Guarantees: readers get every piece but the last before the store does, and never wait long for
//! another reader. Of bytes that the store can return, the window keeps at most `fill.window`. A
//! lease is held while the store may be written to.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use net::clock::TokioClock;
use store::{PIECE_MAX, Refusal};
use tokio::time::timeout;

use crate::fill::sink::{BodyEvent, ByteStream, Sink, UNSTORED_WINDOW_MIN, next_frame};
use crate::fill::state::Fill;
use crate::object::store_lease::{Lease, Leases};
use crate::observe::outcome::Error;
use crate::options::fill::FillOptions;

/// Time that readers wait for the slowest of them before that one is detached.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes that a reader must take between two checks to stay attached: for one that can continue
/// from the origin, and for one whose transfer would break off.
const SLOW: (u64, u64) = (4 << 20, 64 << 10);

pub(crate) struct Incoming<B> {
    body: B,
    /// Bytes received and not carried yet.
    rest: Bytes,
}

impl<B> Incoming<B> {
    pub fn new(body: B) -> Incoming<B> {
        Incoming { body, rest: Bytes::new() }
    }

    /// Creates a body whose bytes `rest` have already been received.
    pub fn behind(rest: Bytes, body: B) -> Incoming<B> {
        Incoming { body, rest }
    }
}

/// A pump that carries bodies into one fill and one sink, on behalf of a task.
pub(crate) struct Pump<'a> {
    leases: &'a Rc<Leases>,
    clock: TokioClock,
    options: &'a FillOptions,
    fill: &'a Fill,
    sink: &'a mut Sink,
    /// Bytes that the sink took before this fill's first byte.
    before: u64,
    /// Size in bytes above which bodies are not stored.
    store_max: Option<u64>,
    /// Held while bytes may reach the store.
    lease: Option<Lease>,
    carried: u64,
    /// Time that readers have waited for the slowest since the last check for progress.
    blocked: Duration,
}

pub(crate) struct ReaderlessProgress {
    pub carried: u64,
    /// Bytes that had been carried when the last reader left.
    pub since: u64,
    /// True if the store takes the body or has it ([`Sink::stores`]).
    pub is_stored: bool,
}

/// The end of a body, or of a window of it.
pub(crate) enum Carried {
    /// Complete. The last piece is in the sink, but no reader has it yet: a client that has it and
    /// repeats its request must find the whole body in the store.
    Complete { last: Bytes, trailers: Option<HeaderMap> },
    /// The body broke off.
    Broken(Error),
    /// No reader is left, and the rest is not wanted without one.
    Abandoned,
}

impl<'a> Pump<'a> {
    /// Creates a pump into `fill` and `sink`, which already took `before` bytes.
    pub fn new(
        leases: &'a Rc<Leases>,
        clock: TokioClock,
        options: &'a FillOptions,
        fill: &'a Fill,
        (sink, before): (&'a mut Sink, u64),
    ) -> Pump<'a> {
        let lease = sink.stores().then(|| leases.lease_until_done());
        let (store_max, carried, blocked) = (None, 0, Duration::ZERO);
        Pump { leases, clock, options, fill, sink, before, store_max, lease, carried, blocked }
    }

    /// Sets the size in bytes above which bodies are not stored.
    pub fn with_store_max(mut self, bytes: Option<u64>) -> Pump<'a> {
        self.store_max = bytes;
        self
    }

    /// Carries `count` bytes, or the whole body without a count. `is_wanted` decides whether to
    /// continue while there is no reader.
    pub async fn carry<B: ByteStream>(
        &mut self,
        incoming: &mut Incoming<B>,
        count: Option<u64>,
        is_wanted: impl Fn(ReaderlessProgress) -> bool,
    ) -> Carried {
        let (mut trailers, mut since) = (None, None);
        loop {
            self.make_room().await;
            if incoming.rest.is_empty() {
                let (body, next) = (&mut incoming.body, Pump::poll_next);
                match poll_fn(|cx| next(self, body, &is_wanted, &mut since, cx)).await {
                    BodyEvent::Data(piece) => incoming.rest = piece,
                    BodyEvent::Trailers(fields) => trailers = Some(fields),
                    BodyEvent::Unstored => self.sink.refused(Refusal::Offline),
                    BodyEvent::Abandoned => return Carried::Abandoned,
                    BodyEvent::Broken(why) => return Carried::Broken(why),
                    BodyEvent::End if count.is_some() => return Carried::Broken(Error::Upstream),
                    BodyEvent::End => return Carried::Complete { last: Bytes::new(), trailers },
                }
                continue;
            }
            let left = count.map_or(u64::MAX, |count| count - self.carried);
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(incoming.rest.len());
            let piece = incoming.rest.split_to(take);
            self.carried += piece.len() as u64;
            if self.store_max.is_some_and(|max| self.carried > max) {
                self.sink.refuse_open(Refusal::TooLarge);
            }
            let is_last = match count {
                Some(count) => self.carried == count,
                None => incoming.rest.is_empty() && incoming.body.is_end_stream(),
            };
            if is_last {
                self.store(piece.clone()).await;
                return Carried::Complete { last: piece, trailers };
            }
            self.fill.push(piece.clone());
            self.store(piece).await;
            self.trim();
        }
    }

    /// Stores a piece that was carried, unless the store refuses it.
    async fn store(&mut self, piece: Bytes) {
        let before = self.carried - piece.len() as u64;
        self.sink.write(piece).await;
        if matches!(self.sink, Sink::Refused(_)) {
            self.fill.refuse(before);
        }
    }

    /// Commits the carried bytes to the store, with `meta` if the metadata have changed. Does not
    /// commit an overtaken fetch, nor a response older than the one that is stored.
    pub async fn commit(&mut self, is_overtaken: bool, meta: Option<Bytes>) {
        if is_overtaken || self.sink.is_superseded() {
            self.sink.refuse_open(Refusal::Overtaken);
            self.fill.refuse(self.carried);
        }
        match meta {
            Some(meta) => {
                self.sink.commit_as(meta).await;
            }
            None => self.sink.commit().await,
        }
    }

    /// Drops the carried bytes from the store once no reader needs them.
    pub async fn discard(&mut self, why: Refusal) {
        self.sink.refuse_open(why);
        self.sink.drop_when_unneeded(self.fill).await;
    }

    /// Waits until the readers have taken enough of the received bytes, once nothing more is
    /// stored.
    async fn make_room(&mut self) {
        if matches!(self.sink, Sink::Open(_) | Sink::Committed) {
            return;
        }
        if let Sink::Refused(_) = self.sink {
            self.fill.refuse(self.carried);
            self.wait_for_readers(|fill, cx| fill.poll_caught_up(cx)).await;
            self.sink.drop_if_unneeded(self.fill);
        }
        if !self.sink.stores() {
            self.lease = None;
        }
        let window = (UNSTORED_WINDOW_MIN, self.options.window as u64);
        self.wait_for_readers(|fill, cx| fill.poll_room(cx, window)).await;
    }

    /// Waits for the readers of the fill. Detaches slow readers that others wait for.
    async fn wait_for_readers(&mut self, ready: impl Fn(&Fill, &mut Context<'_>) -> Poll<()>) {
        loop {
            let mut waiting = poll_fn(|cx| ready(self.fill, cx));
            // Usually the wait is already over, and no timer is needed.
            let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut waiting).poll(cx).is_ready()));
            if at_once.await {
                return;
            }
            let begun = self.clock.instant();
            let ended = timeout(PATIENCE.saturating_sub(self.blocked), waiting).await;
            self.blocked += self.clock.since(begun);
            if ended.is_ok() {
                return;
            }
            self.blocked = Duration::ZERO;
            self.fill.detach_slow(SLOW);
        }
    }

    fn poll_next(
        &mut self,
        body: &mut impl ByteStream,
        is_wanted: &impl Fn(ReaderlessProgress) -> bool,
        since: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<BodyEvent> {
        if matches!(self.sink, Sink::Open(_)) && self.leases.is_ending() {
            return Poll::Ready(BodyEvent::Unstored);
        }
        let carried = self.carried;
        let is_wanted = match self.fill.poll_interest(cx) {
            true => {
                *since = None;
                true
            }
            false => {
                let (since, is_stored) = (*since.get_or_insert(carried), self.sink.stores());
                is_wanted(ReaderlessProgress { carried, since, is_stored })
            }
        };
        if self.fill.must_end() {
            return Poll::Ready(BodyEvent::Broken(Error::Memory));
        }
        match is_wanted || !self.fill.abandon() {
            true => next_frame(body, cx),
            false => Poll::Ready(BodyEvent::Abandoned),
        }
    }

    /// Drops bytes that the store can return from the fill's window: all but the last [`PIECE_MAX`]
    /// that it was given.
    fn trim(&self) {
        if matches!(self.sink, Sink::Open(_)) {
            let own = u64::from(PIECE_MAX);
            let written = self.before + self.carried;
            let readable = written.saturating_sub(own).saturating_sub(self.before);
            self.fill.trim((own, self.options.window as u64), readable);
        }
    }
}
