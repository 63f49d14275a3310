//! Carries a body to the readers of a fill and into the store: all of one, or window by window one
//! that is stored in parts.
//!
//! It promises: readers never wait for the store; what the store can give back does not stay in
//! the window of the fill; and while the store may be written to, a lease is held.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use store::{PIECE_MAX, Refusal};

use crate::fill::fill_budget::FillBudget;
use crate::fill::sink::{BodyEvent, ByteStream, Sink, UNSTORED_WINDOW, next_frame};
use crate::fill::state::Fill;
use crate::object::store_lease::{Lease, Leases};
use crate::observe::outcome::Error;
use crate::options::fill::FillOptions;

/// A body that is being carried.
pub(crate) struct Incoming<B> {
    body: B,
    /// Bytes that have come and were not carried yet.
    rest: Bytes,
}

impl<B> Incoming<B> {
    pub fn new(body: B) -> Incoming<B> {
        Incoming { body, rest: Bytes::new() }
    }

    /// Makes a body of which `rest` has come already.
    pub fn behind(rest: Bytes, body: B) -> Incoming<B> {
        Incoming { body, rest }
    }
}

/// A task's means to carry bodies into one fill and one sink.
pub(crate) struct Pump<'a> {
    leases: &'a Rc<Leases>,
    budget: &'a FillBudget,
    options: &'a FillOptions,
    fill: &'a Fill,
    sink: &'a mut Sink,
    /// Bytes that the sink took before those of this fill.
    before: u64,
    /// Larger bodies, in bytes, are not stored.
    store_max: Option<u64>,
    /// Held while bytes may reach the store.
    lease: Option<Lease>,
    /// Bytes that have been carried.
    carried: u64,
}

/// The progress of a fill without readers.
pub(crate) struct Unwatched {
    /// Bytes that have been carried.
    pub carried: u64,
    /// How many had been carried when the last reader left.
    pub since: u64,
    /// The store takes it, or has it: [`Sink::stores`].
    pub is_stored: bool,
}

/// The end of a body, or of a window of it.
pub(crate) enum Carried {
    /// With its last byte. The last piece is in the sink, but no reader has it yet: a client that
    /// has it and asks again is to find the whole in the store.
    Complete { last: Bytes, trailers: Option<HeaderMap> },
    /// It broke off.
    Broken(Error),
    /// No reader is left, and the rest is not wanted without one.
    Abandoned,
}

impl<'a> Pump<'a> {
    /// Makes a pump into `fill` and `sink`, which took `before` bytes already.
    pub fn new(
        leases: &'a Rc<Leases>,
        budget: &'a FillBudget,
        options: &'a FillOptions,
        fill: &'a Fill,
        (sink, before): (&'a mut Sink, u64),
    ) -> Pump<'a> {
        let lease = sink.stores().then(|| leases.lease_until_done());
        let (store_max, carried) = (None, 0);
        Pump { leases, budget, options, fill, sink, before, store_max, lease, carried }
    }

    /// Sets the largest body, in bytes, that is stored.
    pub fn with_store_max(mut self, bytes: Option<u64>) -> Pump<'a> {
        self.store_max = bytes;
        self
    }

    /// Carries `count` bytes, or without a count all that come. `is_wanted` says whether to go on
    /// while there is no reader.
    pub async fn carry<B: ByteStream>(
        &mut self,
        incoming: &mut Incoming<B>,
        count: Option<u64>,
        is_wanted: impl Fn(Unwatched) -> bool,
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
                self.sink.write(piece.clone()).await;
                return Carried::Complete { last: piece, trailers };
            }
            self.fill.push(piece.clone());
            self.sink.write(piece).await;
            self.trim();
        }
    }

    /// Commits what was carried to the store, with other metadata if they changed on the way,
    /// unless the fetch was overtaken.
    pub async fn commit(&mut self, is_overtaken: bool, meta: Option<Bytes>) {
        if is_overtaken {
            self.sink.refuse_open(Refusal::Overtaken);
            self.sink.let_go(self.fill).await;
        }
        match meta {
            Some(meta) => {
                self.sink.commit_as(meta).await;
            }
            None => self.sink.commit().await,
        }
    }

    /// Drops what was carried, once no reader needs it from the store.
    pub async fn discard(&mut self, why: Refusal) {
        self.sink.refuse_open(why);
        self.sink.let_go(self.fill).await;
    }

    /// Waits, when nothing is stored, until the readers have taken enough of what has come.
    async fn make_room(&mut self) {
        self.sink.let_go(self.fill).await;
        if !self.sink.stores() {
            self.lease = None;
            poll_fn(|cx| self.fill.poll_room(cx, UNSTORED_WINDOW)).await;
        }
    }

    fn poll_next(
        &mut self,
        body: &mut impl ByteStream,
        is_wanted: &impl Fn(Unwatched) -> bool,
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
                is_wanted(Unwatched { carried, since, is_stored })
            }
        };
        if is_wanted { next_frame(body, cx) } else { Poll::Ready(BodyEvent::Abandoned) }
    }

    /// Drops from the fill's window what the store can give back, which is all but the last
    /// [`PIECE_MAX`] bytes that it was given.
    fn trim(&self) {
        if self.sink.stores() {
            let own = u64::from(PIECE_MAX);
            let keep = self.budget.keep(own, self.options.window as u64);
            let written = self.before + self.carried;
            self.fill.trim(keep, written.saturating_sub(own).saturating_sub(self.before));
        }
    }
}
