//! A fill: one fetch from an origin, followed by any number of clients on any worker.
//!
//! Stages of a fill: it is *waiting* for the head, and then *failed* (no response), *validated* (a
//! 304: the stored body is current), *sparse* (the response is stored in parts, each with a fill of
//! its own) or *streaming* (a body follows). The fill of a gap in a sparse object becomes a *part*,
//! whose bytes follow, or *absent*. A body ends *whole* or *broken*. A fill leaves *waiting* once
//! and never returns to it.
//!
//! Pieces of the body pass through a window in memory. A fill that is stored ([`Fill::is_stored`])
//! drops bytes from the window that the store can return, and lagging readers read those from the
//! store. A fill that is not stored keeps the bytes that its readers still need, and its fetch
//! waits (`fill::pump`) while there are too many. A reader that delays others is detached: the
//! window drops bytes that it needs, and it continues elsewhere or breaks off.
//!
//! Guarantees: a reader sees only bytes that the fetch delivered, in their order. A reader whose
//! fill broke gets an error, never a clean end. The lock is never held across an await.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use semantics::range::ByteRange;
use semantics::{Spellings, StoredHead, VaryMarker};
use smallvec::SmallVec;
use store::{FetchToken, Key, Unfinished};

use crate::fill::fill_budget::WindowShare;
use crate::fill::registry::{BegunCount, HitForMiss};
use crate::fill::window::Window;
use crate::object::store_lease::Followed;
use crate::observe::outcome::{Denied, Error};
use crate::origin::failure::Failure;

/// Maximum number of ranges requested from the origin although a fill will bring them.
const PASSED_MAX: u8 = 2;

pub(crate) struct Fill {
    state: Mutex<State>,
    /// Start of the fetch; a response purged since then must not be joined.
    token: FetchToken,
    begun: Instant,
    /// Number in the registry; `None` if not registered.
    number: Option<BegunCount>,
    /// True if the response stored under the fill's key came from this fill.
    renews: AtomicBool,
    /// Number of ranges requested from the origin although this fill will bring them.
    passed: AtomicU8,
    /// Hop count with which another node may be asked to fetch; `None` if none may.
    waits_with: Option<u8>,
    /// True if no other request waits for the head.
    waits_alone: bool,
    /// Mark of the rule that matched the request that began the fill, if the key includes the rule.
    rule_mark: Option<HeaderValue>,
    /// The window's share of the memory budget. It also wakes the fill's task.
    share: Arc<WindowShare>,
}

#[derive(Default)]
struct State {
    stage: FillStage,
    window: Window,
    end: Option<End>,
    /// The source for lagging readers; `None` when the fill is not stored.
    unfinished: Option<Unfinished>,
    /// Bytes that the store received before this fill's first byte.
    before: u64,
    /// Number of bytes that the store takes, after it refused the rest.
    stored_end: Option<u64>,
    /// One slot per client, from join to drop.
    readers: SmallVec<[Option<ReaderSlot>; 1]>,
    interested: usize,
    /// True if the fetch ends before its body because no reader is left.
    is_abandoned: bool,
}

#[derive(Clone, Default)]
pub(crate) enum FillStage {
    #[default]
    Waiting,
    Failed(Arc<Failed>),
    /// 304: the object stored as `meta` is current, with this head in place of its own.
    Validated(Arc<Validated>),
    Streaming(Arc<FillHead>),
    /// 206: the response is being stored in parts.
    Sparse(Arc<SparseStage>),
    /// The fill of a gap: these bytes follow.
    Part(Arc<PartStage>),
    /// Nothing to follow. For a gap: the origin did not send this part, and with `true` it has
    /// another representation now. For a HEAD: with `true` its response has arrived. Also set, with
    /// `false`, when no client waits for the head or a neighbour's validation brought nothing.
    Absent(bool),
}

/// Key and parts of a response that is stored in parts.
pub(crate) struct SparseStage {
    pub key: Key,
    pub marker: Option<VaryMarker>,
    pub epoch: u128,
    /// Why waiting requests may not use the response, if they may not.
    pub hit_for_miss: Option<HitForMiss>,
}

/// Part that the fill of a gap brings.
pub(crate) struct PartStage {
    /// The range of the whole that is this fill's body.
    pub range: ByteRange,
    /// Can be upgraded while a holder also wants the bytes after the part.
    pub interest: Weak<()>,
}

/// Why a fill has no response, for all waiting requests.
pub(crate) struct Failed {
    pub status: StatusCode,
    pub reason: Error,
    /// Cause, appended to the server's name; for a denial, the text for the client.
    pub text: String,
    /// Set if an access rule denied the request that began the fill; other requests fetch for
    /// themselves.
    pub denied: Option<Denied>,
}

impl Failed {
    /// Converts the failure of an upstream request.
    pub fn of(failure: Failure) -> Failed {
        let status = failure.status();
        match failure {
            Failure::Denied(denial) => {
                let denied = Some(denial.reason);
                Failed { status, reason: Error::Connect, text: denial.text, denied }
            }
            Failure::Failed(reason, text) => Failed { status, reason, text, denied: None },
            // A fetch for several clients sends no request body.
            Failure::Request(_, text) => {
                Failed { status, reason: Error::Internal, text, denied: None }
            }
        }
    }
}

pub(crate) struct Validated {
    pub meta: Bytes,
    pub head: StoredHead,
    /// Fields for the client that began the fill only.
    pub for_asker: HeaderMap,
    /// False if the 304 was only for the client that began the fill.
    pub shareable: bool,
    /// Why waiting requests must still fetch for themselves, if they must.
    pub hit_for_miss: Option<HitForMiss>,
}

/// Response fields for the client that began the fill, and the spelling of their names. Taken once,
/// by that client's request.
pub(crate) struct AskerFields(Mutex<Option<(HeaderMap, Spellings)>>);

impl AskerFields {
    pub fn new(fields: HeaderMap, spellings: Spellings) -> AskerFields {
        AskerFields(Mutex::new(Some((fields, spellings))))
    }

    /// Takes the fields; `None` if they were taken before.
    pub fn take(&self) -> Option<(HeaderMap, Spellings)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The head of a response with a body.
pub(crate) struct FillHead {
    pub status: StatusCode,
    /// The origin's fields, for the client that began the fill.
    pub asker_fields: AskerFields,
    /// Head as stored and shared; `None` if the response is for one client only.
    pub shared: Option<StoredHead>,
    /// Why waiting requests must fetch for themselves. Also `None` if only the next response will
    /// tell.
    pub hit_for_miss: Option<HitForMiss>,
    /// Key of the response. A follower's request must lead to the same key.
    pub key: Key,
    /// True when the response is being stored.
    pub stored: bool,
    /// Body length in bytes, if the origin states it.
    pub length: Option<u64>,
    /// True if the body is that of a stored response, which the origin selected with a 304.
    pub selected: bool,
    /// True if the response came from another node's store.
    pub of_peer: bool,
}

#[derive(Clone)]
pub(crate) enum End {
    Whole(Option<Arc<HeaderMap>>),
    Broken(Error),
}

#[derive(Default)]
struct ReaderSlot {
    at: u64,
    /// The reader's position at the last check for progress.
    checked_at: u64,
    /// True if the fetch does not wait for this reader.
    is_detached: bool,
    /// True if the reader can continue elsewhere after it is detached.
    can_resume: bool,
    waker: Option<Waker>,
}

pub(crate) enum Next {
    Bytes(Bytes),
    /// The body ended, with these trailers.
    End(Option<Arc<HeaderMap>>),
    Broken(Error),
    /// The bytes have left the window; read them from the store at this offset.
    Lagging(Unfinished, u64),
}

impl Fill {
    pub fn new(token: FetchToken, begun: Instant, share: Arc<WindowShare>) -> Fill {
        let (state, waits_with) = (Mutex::default(), None);
        let (waits_alone, rule_mark, number) = (false, None, None);
        let (renews, passed) = (AtomicBool::new(false), AtomicU8::new(0));
        Fill {
            state,
            token,
            begun,
            number,
            renews,
            passed,
            waits_with,
            waits_alone,
            rule_mark,
            share,
        }
    }

    /// Records that the response stored under the fill's key came from this fill.
    pub fn note_renewal(&self) {
        self.renews.store(true, Ordering::Release);
    }

    /// Returns the fill's number in the registry if the response stored under its key came from it.
    pub fn renewal(&self) -> Option<BegunCount> {
        self.number.filter(|_| self.renews.load(Ordering::Acquire))
    }

    /// Sets the fill's number in the registry.
    pub fn numbered(self, number: BegunCount) -> Fill {
        Fill { number: Some(number), ..self }
    }

    /// Returns whether this fill began after `begun` was read.
    pub fn began_after(&self, begun: BegunCount) -> bool {
        self.number.is_some_and(|number| number > begun)
    }

    /// Counts one more request that may fetch a range from the origin that is far from the bytes
    /// received so far. Returns false once `PASSED_MAX` have done so.
    pub fn may_be_passed(&self) -> bool {
        let one_more = |passed: u8| (passed < PASSED_MAX).then_some(passed + 1);
        self.passed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Sets the mark of the rule that matched the request that begins the fill. The response is
    /// only for requests that the same rule matches.
    pub fn with_rule_mark(mut self, rule_mark: Option<HeaderValue>) -> Fill {
        self.rule_mark = rule_mark;
        self
    }

    /// Returns the mark of the rule that matched the request that began the fill.
    pub fn rule_mark(&self) -> Option<&HeaderValue> {
        self.rule_mark.as_ref()
    }

    /// Records whether other requests should not wait for the head: the request that begins the
    /// fill carries credentials, or is for a stream of events.
    pub fn waiting_alone_if(mut self, waits_alone: bool) -> Fill {
        self.waits_alone = waits_alone;
        self
    }

    pub fn waits_alone(&self) -> bool {
        self.waits_alone
    }

    /// Sets the hop count with which another node may be asked to fetch.
    pub fn waiting_with(mut self, waits_with: Option<u8>) -> Fill {
        self.waits_with = waits_with;
        self
    }

    /// Returns the hop count with which another node may be asked to fetch, or `None` if none may
    /// ([`fleet::lookup::may_wait`]).
    pub fn waits_with(&self) -> Option<u8> {
        self.waits_with
    }

    pub fn token(&self) -> &FetchToken {
        &self.token
    }

    /// Returns whether a new request may join: no purge since the fetch began concerns the
    /// response, and the fetch has neither failed nor been abandoned.
    pub fn joinable(&self) -> bool {
        if self.token.overtaken() || self.lock().is_abandoned {
            return false;
        }
        match self.stage() {
            FillStage::Failed(_) | FillStage::Absent(_) => false,
            // Without a head, check for purges when the head arrives.
            FillStage::Streaming(head) => !self.is_purged(&head),
            _ => true,
        }
    }

    pub fn stage(&self) -> FillStage {
        self.lock().stage.clone()
    }

    /// Returns whether the head has not arrived yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.lock().stage, FillStage::Waiting)
    }

    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns whether a new reader can still get the body from its first byte.
    pub fn has_begin(&self) -> bool {
        self.lock().has_begin()
    }

    /// Returns whether a purge since the fetch began concerns the response.
    fn is_purged(&self, head: &FillHead) -> bool {
        let shared = head.shared.as_ref();
        shared.is_some_and(|shared| self.token.purged(&head.key, || shared.encode()))
    }

    /// Registers a client at the start of the body, until the [`Reader`] is dropped. Returns `None`
    /// when the start of the body is no longer available or the fill is abandoned.
    pub fn join(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.lock();
        if !state.has_begin() || state.is_abandoned {
            return None;
        }
        let waited = matches!(state.stage, FillStage::Waiting);
        state.interested += 1;
        let place = Some(ReaderSlot::default());
        let id = match state.readers.iter().position(Option::is_none) {
            Some(free) => {
                state.readers[free] = place;
                free
            }
            None => {
                state.readers.push(place);
                state.readers.len() - 1
            }
        };
        Some(Reader { fill: self.clone(), id, at: 0, limit: u64::MAX, waited })
    }

    /// Publishes the head. Only the first call has an effect.
    pub fn publish(&self, stage: FillStage, unfinished: Option<Unfinished>) {
        let mut state = self.lock();
        if !matches!(state.stage, FillStage::Waiting) {
            return;
        }
        state.stage = stage;
        state.unfinished = unfinished;
        state.wake_readers();
    }

    /// Publishes the head like [`Fill::publish`]; the store received `before` bytes ahead of this
    /// fill's first byte.
    pub fn publish_behind(&self, stage: FillStage, unfinished: Option<Unfinished>, before: u64) {
        self.lock().before = before;
        self.publish(stage, unfinished);
    }

    /// Lets lagging readers of a body without a head read from `unfinished`.
    pub fn publish_spill(&self, unfinished: Unfinished) {
        self.lock().unfinished = Some(unfinished);
    }

    /// Returns whether the store has the body or is receiving it.
    pub fn is_stored(&self) -> bool {
        self.lock().unfinished.is_some()
    }

    pub fn push(&self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.share.advance(piece.len() as u64);
        let mut state = self.lock();
        state.window.push(piece);
        self.count(&state);
        state.wake_readers();
        drop(state);
        self.share.relieve();
    }

    pub fn push_last(&self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.window.push_last(piece);
        self.count(&state);
        state.wake_readers();
    }

    /// Drops bytes from the window of a stored fill that the store can return (the first `readable`
    /// bytes of the body). Bytes that a reader still needs stay while the window is at most `least`
    /// bytes, or up to `most` if the memory budget allows it.
    pub fn trim(&self, (least, most): (u64, u64), readable: u64) {
        let keep = self.share.keep(least, most);
        let mut state = self.lock();
        let slowest = state.slowest();
        while let Some(end) = state.window.first_end() {
            let needed = slowest.is_some_and(|at| at < end);
            if end > readable || (needed && state.window.occupied() <= keep) {
                break;
            }
            state.window.drop_first();
        }
        self.count(&state);
    }

    /// Records that the store has the first `bytes` of the body and takes no more. Readers that
    /// would need those bytes cannot join from now on. Only the first call has an effect.
    pub fn refuse(&self, bytes: u64) {
        self.lock().stored_end.get_or_insert(bytes);
    }

    /// Waits, after the store refused the rest, until all attached readers have passed the bytes
    /// that only the store has.
    pub fn poll_caught_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = self.lock();
        if state.slowest().is_none_or(|at| at >= state.window.begin()) {
            return Poll::Ready(());
        }
        self.share.set_task(cx.waker());
        Poll::Pending
    }

    /// Waits, after the store refused the rest, until no reader needs bytes from the store.
    pub fn poll_unneeded(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let (begin, end) = (state.window.begin(), state.stored_end.unwrap_or(u64::MAX));
        if state.readers.iter().flatten().all(|place| place.at >= begin.min(end)) {
            state.unfinished = None;
            return Poll::Ready(());
        }
        self.share.set_task(cx.waker());
        Poll::Pending
    }

    /// Detaches readers that are behind the fastest one and took too few bytes since the last call:
    /// fewer than `resumable` if they can continue elsewhere, else fewer than `other`.
    pub fn detach_slow(&self, (resumable, other): (u64, u64)) {
        let mut state = self.lock();
        let first = state.readers.iter().flatten().map(|place| place.at).max().unwrap_or(0);
        for place in state.readers.iter_mut().flatten() {
            let taken = place.at - std::mem::replace(&mut place.checked_at, place.at);
            let least = if place.can_resume { resumable } else { other };
            place.is_detached |= place.at < first && taken < least;
        }
    }

    /// Ends the body. Only the first call has an effect.
    pub fn end(&self, end: End) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(end);
        }
        state.wake_readers();
    }

    /// Waits, for a fill that is not stored, until its window holds at most `least` bytes, or
    /// `most` if the memory budget allows it; or until it has no reader or must end. First drops
    /// the bytes that all attached readers have taken.
    pub fn poll_room(&self, cx: &mut Context<'_>, (least, most): (u64, u64)) -> Poll<()> {
        let mut state = self.lock();
        let slowest = state.slowest().unwrap_or(u64::MAX);
        while state.window.first_end().is_some_and(|end| end <= slowest) {
            state.window.drop_first();
        }
        self.count(&state);
        let has_room = state.window.occupied() <= self.share.keep(least, most);
        // Ending the fill wakes the task set here.
        self.share.set_task(cx.waker());
        if has_room || state.interested == 0 || self.share.is_ended() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Ends a fill that has neither a head nor a waiting client, and returns whether it did.
    /// Otherwise wakes the task when a client leaves.
    pub fn is_abandoned(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        if !matches!(state.stage, FillStage::Waiting) {
            return false;
        }
        if state.interested == 0 {
            // A request that still finds this fill then looks up again.
            state.stage = FillStage::Absent(false);
            return true;
        }
        self.share.set_task(cx.waker());
        false
    }

    /// Returns whether the fill has a client. Wakes the task when a client leaves.
    pub fn poll_interest(&self, cx: &mut Context<'_>) -> bool {
        let state = self.lock();
        self.share.set_task(cx.waker());
        state.interested > 0
    }

    /// Closes the fill to new readers if it has none. Returns whether it did.
    pub fn abandon(&self) -> bool {
        let mut state = self.lock();
        state.is_abandoned = state.interested == 0;
        state.is_abandoned
    }

    /// Returns the number of body bytes received so far.
    pub fn produced(&self) -> u64 {
        self.lock().window.end()
    }

    /// Returns whether the fetch must end because the memory of its window is needed.
    pub fn must_end(&self) -> bool {
        self.share.is_ended()
    }

    /// Updates the memory budget with the size of the window.
    fn count(&self, state: &State) {
        self.share.set(state.window.occupied());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic under the lock the plain data are still consistent enough to fail with.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Followed for Fill {
    fn lags(&self) -> bool {
        let state = self.lock();
        let begin = state.window.begin();
        state.unfinished.is_some() && state.readers.iter().flatten().any(|place| place.at < begin)
    }

    fn wake(&self) {
        self.share.wake_task();
    }
}

impl State {
    fn has_begin(&self) -> bool {
        let is_stored = self.stored_end.is_none() && self.unfinished.is_some();
        self.window.begin() == 0 || is_stored
    }

    /// Returns the position of the slowest attached reader.
    fn slowest(&self) -> Option<u64> {
        let attached = self.readers.iter().flatten().filter(|place| !place.is_detached);
        attached.map(|place| place.at).min()
    }

    fn wait(&mut self, id: usize, cx: &mut Context<'_>) {
        if let Some(place) = &mut self.readers[id] {
            place.waker = Some(cx.waker().clone());
        }
    }

    fn wake_readers(&mut self) {
        for place in self.readers.iter_mut().flatten() {
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Client of a fill: waits for the head, then reads the body.
pub(crate) struct Reader {
    fill: Arc<Fill>,
    id: usize,
    at: u64,
    limit: u64,
    waited: bool,
}

impl Reader {
    pub async fn head(&mut self) -> FillStage {
        std::future::poll_fn(|cx| self.poll_head(cx)).await
    }

    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<FillStage> {
        let mut state = self.fill.lock();
        if matches!(state.stage, FillStage::Waiting) {
            state.wait(self.id, cx);
            return Poll::Pending;
        }
        Poll::Ready(state.stage.clone())
    }

    /// Returns whether the reader joined before the head arrived.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// Returns whether a purge since the fetch began concerns the response, which is to be stored
    /// under `key` with this head.
    pub fn is_purged(&self, key: &Key, head: &StoredHead) -> bool {
        self.fill.token.purged(key, || head.encode())
    }

    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Returns the number of body bytes received so far.
    pub fn produced(&self) -> u64 {
        self.fill.produced()
    }

    /// Records that the reader can continue elsewhere when it is detached.
    pub fn set_resumable(&self) {
        if let Some(place) = &mut self.fill.lock().readers[self.id] {
            place.can_resume = true;
        }
    }

    /// Returns the whole body if it has ended without trailers and is in the window in one piece.
    pub fn whole(&self) -> Option<Bytes> {
        let state = self.fill.lock();
        match state.end {
            Some(End::Whole(None)) if self.at == 0 => state.window.whole(),
            _ => None,
        }
    }

    /// Limits reading to `range` of the body, which may end earlier.
    pub fn seek(&mut self, range: std::ops::Range<u64>) {
        self.limit = range.end;
        self.advance(range.start - self.at);
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    /// Polls for the next event of the body.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.fill.lock();
        if self.at >= self.limit {
            return Poll::Ready(Next::End(None));
        }
        if self.at < state.window.begin() {
            let is_there = state.stored_end.is_none_or(|end| self.at < end);
            return Poll::Ready(match &state.unfinished {
                Some(unfinished) if is_there => {
                    Next::Lagging(unfinished.clone(), state.before + self.at)
                }
                _ => Next::Broken(Error::Store),
            });
        }
        if let Some(bytes) = state.window.read(self.at, self.limit) {
            drop(state);
            self.advance(bytes.len() as u64);
            return Poll::Ready(Next::Bytes(bytes));
        }
        match &state.end {
            Some(End::Whole(trailers)) => Poll::Ready(Next::End(trailers.clone())),
            Some(End::Broken(why)) => Poll::Ready(Next::Broken(*why)),
            None => {
                state.wait(self.id, cx);
                Poll::Pending
            }
        }
    }

    /// Moves the reader past bytes that it took from the window, the store or elsewhere.
    pub fn advance(&mut self, bytes: u64) {
        self.at += bytes;
        self.fill.share.advance(bytes);
        let mut state = self.fill.lock();
        if let Some(place) = &mut state.readers[self.id] {
            place.at = self.at;
        }
        drop(state);
        self.fill.share.wake_task();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.fill.lock();
        state.readers[self.id] = None;
        state.interested -= 1;
        drop(state);
        self.fill.share.wake_task();
    }
}
