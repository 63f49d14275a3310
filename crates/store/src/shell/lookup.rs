//! The shell of a lookup: locks the core, lets it decide, unlocks it, performs the reads it decided
//! on, and reports the result. There is at most one locked section between two awaits.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use device::{BufPool, Clock, Device, Extent, IoBuf, Nanos};

use crate::base::join::yield_now;
use crate::base::keyed_checksum::Secret;
use crate::base::now::Now;
use crate::base::record::{Found, RecordKind};
use crate::base::source::Source;
use crate::core::{
    Expected, Finding, LookupRequest, MetaPlan, Neighbour, NeighbourScan, ReadFailure, ReadPlan,
    WaitPolicy, ahead_verified, neighbours, verified,
};
use crate::memory::object::{Buffer, Object};
use crate::read::ahead::Ahead;
use crate::read::queue::{Ticket, Turn};
use crate::read::reads::{ReadTiming, WindowId};
use crate::shell::volume::{Shared, Volume};

mod neighbour_read;

/// An object that does not enter memory is sent from its read buffer without a copy, if the buffer
/// exceeds the object by no more than the object's own size and this many bytes.
const PASSING_SPARE: usize = 8192;

pub(crate) struct LookupOutcome {
    /// The object, and whether it came from memory or the device.
    pub(crate) found: Option<(Arc<Object>, Source)>,
    /// True if the lookup was already counted.
    pub(crate) counted: bool,
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Finds an object or piece in memory or by a read. A memory hit takes the lock once.
    pub(crate) async fn lookup(&self, request: LookupRequest<'_>) -> LookupOutcome {
        let mut wait_policy = WaitPolicy::Join;
        loop {
            let now = self.clock.unix_seconds() as u32;
            let (finding, counted) = self.shared.lock().find(&request, wait_policy, now);
            let source = if wait_policy == WaitPolicy::Join { Source::Ram } else { Source::Disk };
            let found = match finding {
                // After waiting for another lookup's read, the object came from the device.
                Finding::Object(object, _) => Some((object, source)),
                Finding::Ahead(ahead, bytes) => match self.take_ahead(&ahead, &bytes, &request) {
                    Some(found) => found.map(|object| (object, source)),
                    // The damaged record is forgotten, so the next attempt reads it from the
                    // device.
                    None => continue,
                },
                Finding::InFlight(window) => {
                    self.ended(window).await;
                    wait_policy = WaitPolicy::ReadAlone;
                    continue;
                }
                Finding::Read(plan) if !self.shared.may_read(self.clock.now()) => {
                    self.shared.lock().read_failed(&plan, ReadFailure::NotRead);
                    None
                }
                Finding::Read(plan) => {
                    // Boxed so that memory lookups do not carry the read future.
                    let loaded = Box::pin(self.load(plan, request.expected)).await;
                    loaded.map(|object| (object, Source::Disk))
                }
                Finding::Nothing => None,
            };
            return LookupOutcome { found, counted };
        }
    }

    /// Verifies an object that an earlier read brought along. Returns `None` if it is damaged, and
    /// `Some(None)` if it is no longer live.
    fn take_ahead(
        &self,
        ahead: &Ahead,
        bytes: &Bytes,
        request: &LookupRequest<'_>,
    ) -> Option<Option<Arc<Object>>> {
        let object = ahead_verified(&self.shared.secret, ahead, bytes);
        let object = object.filter(|object| request.expected.is(object));
        let (options, now) = (request.options, self.now());
        let lives = self.shared.lock().loaded_ahead(ahead, object.as_ref(), options, now);
        let object = object?;
        Some(lives.then_some(object))
    }

    /// Waits until a read with neighbours has ended.
    async fn ended(&self, window: WindowId) {
        // A read ends within the stall bound, or when it is dropped.
        poll_fn(|context| {
            let under_way = self.shared.lock().reads().await_window(window, context.waker());
            if under_way { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    pub(crate) async fn load(&self, plan: ReadPlan, expected: Expected<'_>) -> Option<Arc<Object>> {
        let window = plan.window.map(|id| Window { shared: &self.shared, id });
        let mut pinned = Pinned::new(&self.shared, plan);
        let (bytes, timing) = self.read_in_turn(pinned.plan().extent).await?;
        pinned.timing(timing);
        let plan = pinned.plan();
        let bytes = self.join_runs(plan.place, bytes, plan.split.as_deref()).await?;
        let meta = match &plan.meta {
            Some(MetaPlan::Read { place, location, .. }) => {
                let (bytes, _) = self.read_in_turn(location.extent).await?;
                Some(self.join_runs(*place, bytes, location.split.as_deref()).await?)
            }
            _ => None,
        };
        let buffer = plan.extent.aligned(self.device.geometry().block).len as usize;
        let buffer = BufPool::room_for(buffer);
        let object = match examine(&self.shared.secret, plan, &bytes, buffer, meta.as_ref()) {
            Ok(object) => Arc::new(object),
            Err(why) => {
                pinned.failed(why);
                return None;
            }
        };
        if !expected.is(&object) {
            pinned.failed(ReadFailure::OtherKey);
            return None;
        }
        let beside = neighbours(&self.shared.secret, plan, &bytes);
        let (plan, beside, lives) = pinned.loaded(&object, beside, &bytes, self.now());
        if window.is_some() && !beside.is_empty() {
            self.admit_prefetched(&plan, beside, &bytes).await;
        }
        lives.then_some(object)
    }

    /// Adds the neighbours of the record of `plan` to memory.
    async fn admit_prefetched(&self, plan: &ReadPlan, beside: Vec<Neighbour>, bytes: &Bytes) {
        yield_now().await;
        let objects = verified(&self.shared.secret, plan, &beside, bytes);
        let whole = plan.surroundings.and_then(|surroundings| surroundings.whole());
        self.shared.lock().prefetch(whole, &beside, objects, self.now());
    }

    async fn read_in_turn(&self, extent: Extent) -> Option<(Bytes, ReadTiming)> {
        self.read_into(extent, |len| self.shared.buffers.take(len)).await
    }

    /// Reads when it is this read's turn (M8), into a buffer obtained from `take`. Also returns the
    /// timing of the read.
    pub(super) async fn read_into(
        &self,
        extent: Extent,
        take: impl FnOnce(usize) -> IoBuf,
    ) -> Option<(Bytes, ReadTiming)> {
        let ticket = self.shared.lock().reads().join(extent.offset, self.clock.now());
        let queued = match ticket {
            Some(ticket) => Some(self.turn(ticket).await),
            None => None,
        };
        let begin = self.clock.now();
        let begun = || {
            if let Some(queued) = &queued {
                queued.volume.shared.lock().reads().begun();
            }
        };
        let bytes = self.read_reporting(extent, take, begun).await?;
        let moved = extent.aligned(self.device.geometry().block).len;
        Some((bytes, ReadTiming { begin, end: self.clock.now(), bytes: moved }))
    }

    /// Waits for the read's turn. The read stays in the queue until the result is dropped.
    async fn turn(&self, ticket: Ticket) -> Queued<'_, D, C> {
        let queued = Queued { volume: self, ticket };
        let mut sleep: Option<(Nanos, Pin<Box<_>>)> = None;
        poll_fn(|context| {
            loop {
                let now = self.clock.now();
                let turn = self.shared.lock().reads().turn(ticket, now, context.waker());
                let Turn::Wait(until) = turn else { return Poll::Ready(()) };
                let timer = match &mut sleep {
                    Some((armed, timer)) if *armed == until => timer,
                    other => {
                        let timer = Box::pin(self.clock.sleep_until(until));
                        &mut other.insert((until, timer)).1
                    }
                };
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
        queued
    }
}

/// A read's entry in the queue, removed on drop.
struct Queued<'a, D: Device, C: Clock> {
    volume: &'a Volume<D, C>,
    ticket: Ticket,
}

impl<D: Device, C: Clock> Drop for Queued<'_, D, C> {
    fn drop(&mut self) {
        let now = self.volume.clock.now();
        self.volume.shared.lock().reads().ended(self.ticket, now);
    }
}

/// A read in flight that other lookups may wait for. They are woken when it is dropped.
pub(super) struct Window<'a> {
    pub(super) shared: &'a Shared,
    pub(super) id: WindowId,
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        self.shared.lock().reads().end_window(self.id);
    }
}

/// Extracts the object of a plan from the bytes read, which are part of a buffer of `buffer` bytes.
pub(super) fn examine(
    secret: &Secret,
    plan: &ReadPlan,
    bytes: &Bytes,
    buffer: usize,
    meta: Option<&Bytes>,
) -> Result<Object, ReadFailure> {
    let start = plan.start_in_extent();
    let record = bytes.slice(start.min(bytes.len())..);
    let found = Found::decode(secret, plan.place, &record).ok_or(ReadFailure::Damaged)?;
    if found.header.digest != plan.digest {
        return Err(ReadFailure::OtherKey);
    }
    if !found.verify_body(secret, &record) {
        return Err(ReadFailure::Damaged);
    }
    let spare = if plan.keep { found.len() / 4 } else { found.len() + PASSING_SPARE };
    let object = Object::from_found(&found, plan.place, &record, Buffer { len: buffer, spare });
    match &plan.meta {
        None => Ok(object),
        Some(MetaPlan::Ready { meta, target, sequence, .. })
            if *target == object.header.sequence =>
        {
            Ok(object.with_meta(meta.clone(), *sequence))
        }
        Some(MetaPlan::Ready { .. }) => Err(ReadFailure::Damaged),
        Some(MetaPlan::Read { place, .. }) => {
            let bytes = meta.ok_or(ReadFailure::Damaged)?;
            let found = Found::decode(secret, *place, bytes).ok_or(ReadFailure::Damaged)?;
            let header = &found.header;
            let ours = header.kind == RecordKind::Meta
                && header.digest == plan.digest
                && header.object_id == object.header.sequence;
            if !ours {
                return Err(ReadFailure::Damaged);
            }
            let sequence = header.sequence;
            Ok(object.with_meta(Bytes::copy_from_slice(&bytes[found.meta]), sequence))
        }
    }
}

/// A plan whose clusters stay pinned until it is resolved or dropped.
pub(super) struct Pinned<'a> {
    shared: &'a Shared,
    plan: Option<ReadPlan>,
}

impl<'a> Pinned<'a> {
    pub(super) fn new(shared: &'a Shared, plan: ReadPlan) -> Pinned<'a> {
        Pinned { shared, plan: Some(plan) }
    }

    pub(super) fn plan(&self) -> &ReadPlan {
        self.plan.as_ref().expect("resolved only once")
    }

    pub(super) fn timing(&mut self, timing: ReadTiming) {
        self.plan.as_mut().expect("resolved only once").timing = Some(timing);
    }

    /// Resolves the plan with its record, see [`Core::loaded`](crate::core::Core::loaded). Also
    /// returns the plan.
    pub(super) fn loaded(
        mut self,
        object: &Arc<Object>,
        scan: NeighbourScan,
        bytes: &Bytes,
        now: Now,
    ) -> (ReadPlan, Vec<Neighbour>, bool) {
        let plan = self.plan.take().expect("resolved only once");
        let (lives, neighbours) = self.shared.lock().loaded(&plan, object, scan, bytes, now);
        (plan, neighbours, lives)
    }

    /// Resolves the plan without using the record itself. Returns the plan and the neighbours.
    fn read(mut self, scan: NeighbourScan, len: usize) -> (ReadPlan, Vec<Neighbour>) {
        let plan = self.plan.take().expect("resolved only once");
        let neighbours = self.shared.lock().neighbours_read(&plan, scan, len);
        (plan, neighbours)
    }

    pub(super) fn failed(&mut self, why: ReadFailure) {
        if let Some(plan) = self.plan.take() {
            self.shared.lock().read_failed(&plan, why);
        }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.failed(ReadFailure::NotRead);
    }
}
