//! A fill: one fetch from an origin, and any number of clients on any worker that follow it.
//!
//! The life of a fill: *waiting* for the head; then one of *failed* (no answer), *validated* (a
//! 304: there is no body, the stored one is good), *sparse* (the answer is stored in parts, each of
//! which has a fill of its own) or *streaming* (a body follows). The fill of a gap in such an
//! object is at a *part*, whose bytes follow, or the part is *absent*. Bodies end *whole* or
//! *broken*. A fill leaves *waiting* once and never returns to it.
//!
//! Pieces of the body pass through a window in memory. A fill that is stored ([`Fill::is_stored`])
//! drops from the window what the store can give back; a reader that lags reads on from there. One
//! that is not stored keeps what its readers still need, and its fetch waits (`fill::pump`) while
//! that is too much. A reader that makes others wait is detached: the window drops what it needs,
//! and it reads on elsewhere or breaks off.
//!
//! It promises: no reader sees a byte that the fetch did not deliver, in its order; a reader whose
//! fill broke gets an error, never a clean end. The lock is never held over an await.

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
use crate::fill::registry::{BegunSoFar, HitForMiss};
use crate::fill::window::Window;
use crate::object::store_lease::Followed;
use crate::observe::outcome::{Denied, Error};
use crate::origin::failure::Failure;

/// Largest number of ranges that are asked of the origin although a fill brings them.
const PASSED_MAX: u8 = 2;

/// The state of one fill, shared by its task and its readers.
pub(crate) struct Fill {
    state: Mutex<State>,
    /// Proof of when the fetch began: an answer that was purged since must not be joined.
    token: FetchToken,
    begun: Instant,
    /// Its number among the fills of the table; `None`: it is not in the table.
    number: Option<BegunSoFar>,
    /// Its answer is the one that is stored under its key.
    renews: AtomicBool,
    /// Ranges that were asked of the origin although this fill brings them.
    passed: AtomicU8,
    /// Another node may be asked to fetch, with so many hops.
    waits_with: Option<u8>,
    /// The request that began it carries credentials.
    has_credentials: bool,
    /// The mark of the rule that decides the request that began it, if the rule is part of the key.
    rule_mark: Option<HeaderValue>,
    /// The window's part of the memory for windows, and the fill's task.
    share: Arc<WindowShare>,
}

#[derive(Default)]
struct State {
    stage: FillStage,
    window: Window,
    end: Option<End>,
    /// What lagging readers read from; `None` when the fill is not stored.
    unfinished: Option<Unfinished>,
    /// How many bytes the store was given before those of this fill.
    before: u64,
    /// The store takes no more of it than so many bytes.
    stored_end: Option<u64>,
    /// One place for each client, from when it joins.
    readers: SmallVec<[Option<ReaderSlot>; 1]>,
    /// Places in use.
    interested: usize,
    /// The fetch ends before its body does, for it has no reader.
    is_abandoned: bool,
}

/// The state of the head.
#[derive(Clone, Default)]
pub(crate) enum FillStage {
    /// The origin has not answered yet.
    #[default]
    Waiting,
    /// There is no answer.
    Failed(Arc<Failed>),
    /// 304: what was stored as `meta` is good, with this head in place of its own.
    Validated(Arc<Validated>),
    /// A body follows.
    Streaming(Arc<FillHead>),
    /// 206: the answer is being stored in parts.
    Sparse(Arc<SparseStage>),
    /// The fill of a gap: these bytes follow.
    Part(Arc<PartStage>),
    /// The fill of a gap: the origin did not send such a part. With `true` it has something else
    /// now.
    Absent(bool),
}

/// The place of an answer that is stored in parts.
pub(crate) struct SparseStage {
    pub key: Key,
    pub marker: Option<VaryMarker>,
    pub epoch: u128,
    /// Why the requests that wait may not have it, if so.
    pub hit_for_miss: Option<HitForMiss>,
}

/// The part that the fill of a gap brings.
pub(crate) struct PartStage {
    /// The part of the whole that is this fill's body.
    pub range: ByteRange,
    /// Alive while a holder wants what follows the part, too.
    pub interest: Weak<()>,
}

/// The reason why a fill has no answer, for all that waited.
pub(crate) struct Failed {
    pub status: StatusCode,
    pub reason: Error,
    /// The cause, to be put behind the server's name; for a denial, the text for the client.
    pub text: String,
    /// An access rule denied it to the client that began the fill: others ask for themselves.
    pub denied: Option<Denied>,
}

impl Failed {
    /// Returns what clients are told of a request that got no answer.
    pub fn of(failure: Failure) -> Failed {
        let status = failure.status();
        match failure {
            Failure::Denied(denial) => {
                let denied = Some(denial.reason);
                Failed { status, reason: Error::Connect, text: denial.text, denied }
            }
            Failure::Failed(reason, text) => Failed { status, reason, text, denied: None },
            // A fetch for several has no body.
            Failure::Request(_, text) => {
                Failed { status, reason: Error::Internal, text, denied: None }
            }
        }
    }
}

/// A successful validation.
pub(crate) struct Validated {
    /// The metadata of the object that was validated.
    pub meta: Bytes,
    pub head: StoredHead,
    /// Fields that only the client that began the fill gets.
    pub for_asker: HeaderMap,
    /// False when the 304 was only for the client that began the fill.
    pub shareable: bool,
    /// Why requests that waited must ask for themselves all the same.
    pub hit_for_miss: Option<HitForMiss>,
}

/// The fields of an answer for the client that asked, and the spelling of their names. The client's
/// request takes them.
pub(crate) struct AskerFields(Mutex<Option<(HeaderMap, Spellings)>>);

impl AskerFields {
    pub fn new(fields: HeaderMap, spellings: Spellings) -> AskerFields {
        AskerFields(Mutex::new(Some((fields, spellings))))
    }

    /// Takes the fields; `None` when they were taken.
    pub fn take(&self) -> Option<(HeaderMap, Spellings)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The head of an answer with a body.
pub(crate) struct FillHead {
    pub status: StatusCode,
    /// The fields for the client that began the fill: those of the origin.
    pub asker_fields: AskerFields,
    /// The head as it is stored and shared; `None` when the answer is for one client alone.
    pub shared: Option<StoredHead>,
    /// Why requests that waited must ask for themselves; `None` also when only the next answer will
    /// tell.
    pub hit_for_miss: Option<HitForMiss>,
    /// The key that the answer is stored under, and that a follower's request must lead to.
    pub key: Key,
    /// True when the answer goes into the store.
    pub stored: bool,
    /// Body length in bytes, when the origin says so.
    pub length: Option<u64>,
    /// The origin selected a stored answer with a 304, whose body this is.
    pub selected: bool,
    /// It came from another node, which had stored it.
    pub of_peer: bool,
}

/// The end of a body.
#[derive(Clone)]
pub(crate) enum End {
    /// With all its bytes.
    Whole(Option<Arc<HeaderMap>>),
    /// Without them.
    Broken(Error),
}

#[derive(Default)]
struct ReaderSlot {
    at: u64,
    /// Where it was when readers were last checked for progress.
    checked_at: u64,
    /// The fetch does not wait for it.
    is_detached: bool,
    /// It goes on elsewhere when it is left behind.
    can_resume: bool,
    waker: Option<Waker>,
}

/// The next event of a body for one reader.
pub(crate) enum Next {
    /// The next bytes.
    Bytes(Bytes),
    /// The body ended; its trailers.
    End(Option<Arc<HeaderMap>>),
    /// The body broke off.
    Broken(Error),
    /// The bytes are no longer in the window: read them from the store, at this offset there.
    Lagging(Unfinished, u64),
}

impl Fill {
    pub fn new(token: FetchToken, begun: Instant, share: Arc<WindowShare>) -> Fill {
        let (state, waits_with) = (Mutex::default(), None);
        let (has_credentials, rule_mark, number) = (false, None, None);
        let (renews, passed) = (AtomicBool::new(false), AtomicU8::new(0));
        Fill {
            state,
            token,
            begun,
            number,
            renews,
            passed,
            waits_with,
            has_credentials,
            rule_mark,
            share,
        }
    }

    /// Notes that what is stored under its key is from it.
    pub fn note_renewal(&self) {
        self.renews.store(true, Ordering::Release);
    }

    /// Returns its number in the table, if what is stored under its key is from it.
    pub fn renewal(&self) -> Option<BegunSoFar> {
        self.number.filter(|_| self.renews.load(Ordering::Acquire))
    }

    /// Sets its number in the table.
    pub fn numbered(self, number: BegunSoFar) -> Fill {
        Fill { number: Some(number), ..self }
    }

    /// Returns whether it began after so many had begun.
    pub fn began_after(&self, begun: BegunSoFar) -> bool {
        self.number.is_some_and(|number| number > begun)
    }

    /// Returns whether one more request may ask the origin for a range that is far from what has
    /// come: only a few may.
    pub fn may_be_passed(&self) -> bool {
        let one_more = |passed: u8| (passed < PASSED_MAX).then_some(passed + 1);
        self.passed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Notes the mark of the rule that decides the request that begins it: its answer is for
    /// requests that the same rule decides.
    pub fn with_rule_mark(mut self, rule_mark: Option<HeaderValue>) -> Fill {
        self.rule_mark = rule_mark;
        self
    }

    /// Returns the mark of the rule that decides the request that began it.
    pub fn rule_mark(&self) -> Option<&HeaderValue> {
        self.rule_mark.as_ref()
    }

    /// Notes whether the request that begins it carries credentials: its answer may then be for
    /// that client alone, and other requests do not wait to find out.
    pub fn with_credentials(mut self, has_credentials: bool) -> Fill {
        self.has_credentials = has_credentials;
        self
    }

    /// Returns whether the request that began it carries credentials.
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// Notes that another node may be asked to fetch, with so many hops.
    pub fn waiting_with(mut self, waits_with: Option<u8>) -> Fill {
        self.waits_with = waits_with;
        self
    }

    /// Returns with how many hops another node may be asked to fetch, if one may be
    /// ([`fleet::lookup::may_wait`]).
    pub fn waits_with(&self) -> Option<u8> {
        self.waits_with
    }

    pub fn token(&self) -> &FetchToken {
        &self.token
    }

    /// Returns whether a new request may join: nothing that concerns the answer was purged since
    /// the fetch began, and the fetch did not fail.
    pub fn joinable(&self) -> bool {
        if self.token.overtaken() || self.lock().is_abandoned {
            return false;
        }
        match self.stage() {
            FillStage::Failed(_) | FillStage::Absent(_) => false,
            // Whether a purge concerns a fill without a head is checked when the head has come.
            FillStage::Streaming(head) => !self.is_purged(&head),
            _ => true,
        }
    }

    /// Returns the stage.
    pub fn stage(&self) -> FillStage {
        self.lock().stage.clone()
    }

    /// Returns whether the head has still to come.
    pub fn is_waiting(&self) -> bool {
        matches!(self.lock().stage, FillStage::Waiting)
    }

    /// Returns when the fetch began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns whether a new reader can still have the begin of the body.
    pub fn has_begin(&self) -> bool {
        self.lock().has_begin()
    }

    /// Returns whether a purge that came after the fetch began concerns its answer.
    fn is_purged(&self, head: &FillHead) -> bool {
        let shared = head.shared.as_ref();
        shared.is_some_and(|shared| self.token.purged(&head.key, || shared.encode()))
    }

    /// Registers a client at the begin of the body, until the [`Reader`] is dropped. Returns `None`
    /// when the begin of the body is no longer to be had.
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

    /// Publishes the head; only the first call counts.
    pub fn publish(&self, stage: FillStage, unfinished: Option<Unfinished>) {
        let mut state = self.lock();
        if !matches!(state.stage, FillStage::Waiting) {
            return;
        }
        state.stage = stage;
        state.unfinished = unfinished;
        state.wake_readers();
    }

    /// Does as [`Fill::publish`], when the store was given `before` bytes ahead of this fill's.
    pub fn publish_behind(&self, stage: FillStage, unfinished: Option<Unfinished>, before: u64) {
        self.lock().before = before;
        self.publish(stage, unfinished);
    }

    /// Makes lagging readers of a body without a head read from what the store takes of it.
    pub fn publish_spill(&self, unfinished: Unfinished) {
        self.lock().unfinished = Some(unfinished);
    }

    /// Returns whether the store has, or is to have, the body.
    pub fn is_stored(&self) -> bool {
        self.lock().unfinished.is_some()
    }

    /// Appends a piece of the body.
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

    /// Appends the last piece of the body.
    pub fn push_last(&self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.window.push_last(piece);
        self.count(&state);
        state.wake_readers();
    }

    /// Drops from the window of a fill that is stored what the store can give back (the first
    /// `readable` bytes of the body), unless a reader still needs it and the memory allows the
    /// window more than `least` bytes, up to `most`.
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

    /// Notes that the store has the first `bytes` of the body and takes no more. From now on no
    /// reader joins that would need them. Only the first call counts.
    pub fn refuse(&self, bytes: u64) {
        self.lock().stored_end.get_or_insert(bytes);
    }

    /// Waits, after the store refused the rest, until no reader that is waited for needs what the
    /// store has.
    pub fn poll_caught_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = self.lock();
        if state.slowest().is_none_or(|at| at >= state.window.begin()) {
            return Poll::Ready(());
        }
        self.share.set_task(cx.waker());
        Poll::Pending
    }

    /// Waits, after the store refused the rest, until no reader needs what the store has.
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

    /// Detaches the readers that others wait for and that took fewer than `least` bytes since the
    /// last call: so many if they can go on elsewhere, so many if not.
    pub fn detach_slow(&self, (resumable, other): (u64, u64)) {
        let mut state = self.lock();
        let first = state.readers.iter().flatten().map(|place| place.at).max().unwrap_or(0);
        for place in state.readers.iter_mut().flatten() {
            let taken = place.at - std::mem::replace(&mut place.checked_at, place.at);
            let least = if place.can_resume { resumable } else { other };
            place.is_detached |= place.at < first && taken < least;
        }
    }

    /// Ends the body; only the first call counts.
    pub fn end(&self, end: End) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(end);
        }
        state.wake_readers();
    }

    /// Waits, for a fill that is not stored, until at most `least` bytes wait for a reader, `most`
    /// bytes if the memory allows it; or until there is no reader, or the fill is to end. Drops
    /// first what all readers have.
    pub fn poll_room(&self, cx: &mut Context<'_>, (least, most): (u64, u64)) -> Poll<()> {
        let mut state = self.lock();
        let slowest = state.slowest().unwrap_or(u64::MAX);
        while state.window.first_end().is_some_and(|end| end <= slowest) {
            state.window.drop_first();
        }
        self.count(&state);
        let has_room = state.window.occupied() <= self.share.keep(least, most);
        // The end of the fill wakes the task that is set by then.
        self.share.set_task(cx.waker());
        if has_room || state.interested == 0 || self.share.is_ended() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Ends a fill without a head that no client waits for any more, and returns whether it did.
    /// The task is woken when the last client leaves.
    pub fn is_abandoned(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        if !matches!(state.stage, FillStage::Waiting) {
            return false;
        }
        if state.interested == 0 {
            // A request that finds it all the same looks again.
            state.stage = FillStage::Absent(false);
            return true;
        }
        self.share.set_task(cx.waker());
        false
    }

    /// Returns whether any client still wants this. The task is woken when that changes.
    pub fn poll_interest(&self, cx: &mut Context<'_>) -> bool {
        let state = self.lock();
        self.share.set_task(cx.waker());
        state.interested > 0
    }

    /// Ends the fetch for readers, if there is none: from now on none joins. Returns whether it
    /// does.
    pub fn abandon(&self) -> bool {
        let mut state = self.lock();
        state.is_abandoned = state.interested == 0;
        state.is_abandoned
    }

    /// Returns how many bytes of the body have come.
    pub fn produced(&self) -> u64 {
        self.lock().window.end()
    }

    /// Returns whether the fetch is to end: it makes no progress, and others need the memory of its
    /// window.
    pub fn is_to_end(&self) -> bool {
        self.share.is_ended()
    }

    /// Counts what the window occupies now.
    fn count(&self, state: &State) {
        self.share.set(state.window.occupied());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves plain data that is still consistent enough to fail with.
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

    /// Returns the position of the slowest reader that is waited for.
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

/// A client of a fill, which waits for the head and then reads the body.
pub(crate) struct Reader {
    fill: Arc<Fill>,
    id: usize,
    at: u64,
    limit: u64,
    waited: bool,
}

impl Reader {
    /// Waits for the head.
    pub async fn head(&mut self) -> FillStage {
        std::future::poll_fn(|cx| self.poll_head(cx)).await
    }

    /// Polls for the head, as [`Reader::head`].
    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<FillStage> {
        let mut state = self.fill.lock();
        if matches!(state.stage, FillStage::Waiting) {
            state.wait(self.id, cx);
            return Poll::Pending;
        }
        Poll::Ready(state.stage.clone())
    }

    /// Returns whether it joined before the head was there.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// Returns whether a purge that came after the fetch began concerns its answer, which is to be
    /// stored under `key` with this head.
    pub fn is_purged(&self, key: &Key, head: &StoredHead) -> bool {
        self.fill.token.purged(key, || head.encode())
    }

    /// Returns the fill that is followed.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Returns how many bytes of the body have come already.
    pub fn produced(&self) -> u64 {
        self.fill.produced()
    }

    /// Notes that the reader goes on elsewhere when it is left behind.
    pub fn set_resumable(&self) {
        if let Some(place) = &mut self.fill.lock().readers[self.id] {
            place.can_resume = true;
        }
    }

    /// Returns all of the body, if it has ended without trailers, and lies in the window in one
    /// piece.
    pub fn whole(&self) -> Option<Bytes> {
        let state = self.fill.lock();
        match state.end {
            Some(End::Whole(None)) if self.at == 0 => state.window.whole(),
            _ => None,
        }
    }

    /// Limits what is read to `range` of the body (which may end before).
    pub fn seek(&mut self, range: std::ops::Range<u64>) {
        self.limit = range.end;
        self.advance(range.start - self.at);
    }

    /// Returns the position of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Waits for what comes next.
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

    /// Moves on by bytes that were taken, from the window or from the store.
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
