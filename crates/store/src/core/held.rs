//! What the readers of large objects hold: a body that somebody has begun to read stays readable to
//! its end, from the version that it began with.
//!
//! The pieces that a reader has still to read are pinned where they lie, so that eviction passes
//! them by. When the version is removed, replaced or purged its pieces are dead like any others: no
//! index entry leads to them, the journal says so, and no restart brings them back. But they are
//! noted down here first, and who reads already finds them by that until its last byte.
//!
//! It promises: nobody but a reader that had begun before reads what is dead; all readers together
//! hold no more than a share of the device ([`Options::held_percent`]), beyond which those are let
//! down that got on least lately; and none holds anything for longer than a time
//! ([`Options::held_time`]). Who is let down finds what is still alive, like everybody.
//!
//! [`Options::held_percent`]: crate::Options::held_percent
//! [`Options::held_time`]: crate::Options::held_time

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use device::Nanos;

use super::lookup::ReadPlan;
use super::{Core, Now};
use crate::base::record::Place;
use crate::config::options::Options;
use crate::format::device_layout::Areas;
use crate::index::Slot;
use crate::memory::memory_tier::Weighed;
use crate::memory::object::Object;
use crate::space::Location;
use crate::space::cluster_table::ClusterId;

/// Pieces that are looked up under one lock.
pub(crate) const HELD_STEP: u32 = 512;

/// The part of the memory tier that dead pieces may take besides, for those who read them.
const IN_MEMORY: usize = 16;

/// That something was let down is told once in this time.
const TOLD_EVERY: Nanos = 10_000_000_000;

/// A reader's number: a later one has a higher.
pub(crate) type ReaderId = u64;

/// Where a piece is that somebody is going to read.
enum Piece {
    /// On the device, or on its way there: pinned.
    Placed { place: Place, location: Location },
    /// It was removed before it was ever placed.
    InMemory(Arc<Object>),
}

/// A version of an object that is being read.
#[derive(Default)]
struct Version {
    /// Its place among those that hold something on the device.
    rank: Option<Rank>,
    /// Somebody reads its body, and does not only have it at hand.
    is_read: bool,
    /// How many readers are to read on from a piece of this number.
    readers: BTreeMap<u32, u32>,
    pieces: BTreeMap<u32, Piece>,
    /// It held too much: nothing more of it is held.
    let_down: bool,
}

/// The lowest is let down first: versions that nobody reads the body of, then those in which
/// nobody got on for longest.
type Rank = (bool, u64);

struct Reader {
    object_id: u64,
    /// The piece that it reads next.
    at: u32,
    begun: Nanos,
}

/// What is held on one device.
pub(crate) struct Held {
    /// By the number of the object's version.
    versions: BTreeMap<u64, Version>,
    /// The oldest first.
    readers: BTreeMap<ReaderId, Reader>,
    last: ReaderId,
    /// Versions that hold something on the device.
    holders: BTreeMap<Rank, u64>,
    last_rank: u64,
    /// How many pieces are held in a cluster: all of it is pinned.
    clusters: BTreeMap<ClusterId, u32>,
    /// Bytes of the device that are pinned, and of memory; what they may be.
    placed: u64,
    placed_max: u64,
    in_memory: usize,
    in_memory_max: usize,
    time: Nanos,
    /// Versions that were let down for want of room, and readers for having read for too long.
    let_down: u64,
    timed_out: u64,
    /// As many of both had been told of when, last.
    told: (LetDown, Option<Nanos>),
}

/// How many were let down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LetDown {
    /// Versions, for want of room.
    pub(crate) objects: u64,
    /// Readers, for having read for too long.
    pub(crate) transfers: u64,
}

/// What readers hold on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldStats {
    /// Readers of large objects.
    pub readers: usize,
    /// Bytes on the device that wait for them.
    pub bytes: u64,
    /// Bytes in memory that do.
    pub memory_bytes: usize,
    /// Versions whose readers were let down because all held more than their share.
    pub let_down: u64,
    /// Readers that were let down because they took too long.
    pub timed_out: u64,
}

/// What a reader finds that is not to be found any more.
pub(crate) enum HeldPiece {
    /// To be read by this plan.
    Read(ReadPlan),
    /// Here.
    Object(Arc<Object>),
}

impl Held {
    /// What the options allow on a device with these `areas`, beside a memory tier of `tier` bytes.
    pub(crate) fn of(options: &Options, areas: &Areas, tier: usize) -> Held {
        let space = u64::from(areas.clusters) * u64::from(areas.cluster_size);
        let placed_max = space * u64::from(options.held_percent) / 100;
        let in_memory_max = tier / IN_MEMORY;
        let time = options.held_time.as_nanos() as Nanos;
        Held {
            versions: BTreeMap::new(),
            readers: BTreeMap::new(),
            last: 0,
            holders: BTreeMap::new(),
            last_rank: 0,
            clusters: BTreeMap::new(),
            placed: 0,
            placed_max,
            in_memory: 0,
            in_memory_max,
            time,
            let_down: 0,
            timed_out: 0,
            told: Default::default(),
        }
    }

    /// When it is time to tell of those who were let down and not told of yet; `None` without any.
    pub(super) fn tell_due(&self) -> Option<Nanos> {
        let (told, at) = self.told;
        let news = (told.objects, told.transfers) != (self.let_down, self.timed_out);
        news.then(|| at.map_or(0, |at| at.saturating_add(TOLD_EVERY)))
    }

    /// Those who were let down and are now told of.
    pub(super) fn tell(&mut self, now: Nanos) -> Option<LetDown> {
        self.tell_due().filter(|due| *due <= now)?;
        let all = LetDown { objects: self.let_down, transfers: self.timed_out };
        let (told, _) = std::mem::replace(&mut self.told, (all, Some(now)));
        let transfers = all.transfers - told.transfers;
        Some(LetDown { objects: all.objects - told.objects, transfers })
    }

    pub(crate) fn stats(&self) -> HeldStats {
        HeldStats {
            readers: self.readers.len(),
            bytes: self.placed,
            memory_bytes: self.in_memory,
            let_down: self.let_down,
            timed_out: self.timed_out,
        }
    }

    /// Whether somebody reads the version and it may hold more.
    pub(super) fn may_hold(&self, object_id: u64) -> bool {
        self.versions.get(&object_id).is_some_and(|version| !version.let_down)
    }

    fn has(&self, object_id: u64, number: u32) -> bool {
        let version = self.versions.get(&object_id);
        version.is_some_and(|version| version.pieces.contains_key(&number))
    }

    /// The version to let down so that `object_id` may hold more; `None` when that is the lowest,
    /// or nobody reads the body of `object_id`: then it holds what there is room for.
    fn lower_than(&self, object_id: u64) -> Option<u64> {
        let (rank, lowest) = self.holders.first_key_value()?;
        let version = self.versions.get(&object_id).filter(|version| version.is_read)?;
        let own = version.rank.unwrap_or((version.is_read, self.last_rank + 1));
        (*rank < own).then_some(*lowest)
    }

    /// Bytes that are pinned besides, when a piece is held at this place.
    fn cost(&self, cluster: Option<(ClusterId, u32)>, location: &Location) -> u64 {
        match cluster {
            Some((cluster, _)) if self.clusters.contains_key(&cluster) => 0,
            Some((_, size)) => size.into(),
            None => location.bytes(),
        }
    }

    /// A piece at this place is held.
    fn add(&mut self, cluster: Option<(ClusterId, u32)>, location: &Location) {
        self.placed += self.cost(cluster, location);
        if let Some((cluster, _)) = cluster {
            *self.clusters.entry(cluster).or_default() += 1;
        }
    }

    /// It is not any more.
    fn subtract(&mut self, cluster: Option<(ClusterId, u32)>, location: &Location) {
        if let Some((cluster, _)) = cluster
            && let Some(count) = self.clusters.get_mut(&cluster)
        {
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.clusters.remove(&cluster);
        }
        self.placed -= self.cost(cluster, location);
    }

    /// `object_id` holds something on the device from now on.
    fn enter_ranks(&mut self, object_id: u64) {
        if self.versions.get(&object_id).is_some_and(|version| version.rank.is_none()) {
            self.rank_highest(object_id);
        }
    }

    fn rank_highest(&mut self, object_id: u64) {
        let Some(version) = self.versions.get_mut(&object_id) else { return };
        if let Some(rank) = version.rank {
            self.holders.remove(&rank);
        }
        self.last_rank += 1;
        let rank = (version.is_read, self.last_rank);
        version.rank = Some(rank);
        self.holders.insert(rank, object_id);
    }

    /// Somebody reads the body of `object_id`, or gets on with it.
    fn got_on(&mut self, object_id: u64) {
        let Some(version) = self.versions.get_mut(&object_id) else { return };
        version.is_read = true;
        if version.rank.is_some() {
            self.rank_highest(object_id);
        }
    }

    /// A reader of `object_id` moves from piece to piece, or ends (`None`); returns the pieces that
    /// nobody is going to read any more.
    fn moved(&mut self, object_id: u64, from: u32, to: Option<u32>) -> Vec<Piece> {
        let Some(version) = self.versions.get_mut(&object_id) else { return Vec::new() };
        if let Some(count) = version.readers.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                version.readers.remove(&from);
            }
        }
        if let Some(to) = to {
            *version.readers.entry(to).or_default() += 1;
        }
        let Some(first) = version.readers.keys().next().copied() else {
            let Some(version) = self.versions.remove(&object_id) else { return Vec::new() };
            if let Some(rank) = version.rank {
                self.holders.remove(&rank);
            }
            return version.pieces.into_values().collect();
        };
        let wanted = version.pieces.split_off(&first);
        std::mem::replace(&mut version.pieces, wanted).into_values().collect()
    }
}

impl Core {
    /// Somebody begins to read the version at piece `at`.
    pub(crate) fn begin_reading(&mut self, object_id: u64, at: u32, now: Now) -> ReaderId {
        self.end_overdue(now.monotonic);
        let held = &mut self.held;
        held.last += 1;
        held.readers.insert(held.last, Reader { object_id, at, begun: now.monotonic });
        let version = held.versions.entry(object_id).or_default();
        *version.readers.entry(at).or_default() += 1;
        held.last
    }

    /// The reader has read what lies before piece `at`.
    pub(crate) fn read_on(&mut self, id: ReaderId, at: u32) {
        let Some(reader) = self.held.readers.get_mut(&id).filter(|reader| reader.at != at) else {
            return;
        };
        let from = std::mem::replace(&mut reader.at, at);
        let object_id = reader.object_id;
        let done = self.held.moved(object_id, from, Some(at));
        self.held.got_on(object_id);
        self.release_held(done);
    }

    /// The reader reads the body, and does not only have it at hand.
    pub(crate) fn reads_body(&mut self, id: ReaderId) {
        if let Some(reader) = self.held.readers.get(&id) {
            self.held.got_on(reader.object_id);
        }
    }

    /// The reader has ended.
    pub(crate) fn end_reading(&mut self, id: ReaderId) {
        // It may have been let down.
        let Some(reader) = self.held.readers.remove(&id) else { return };
        let done = self.held.moved(reader.object_id, reader.at, None);
        self.release_held(done);
    }

    /// Readers that have taken too long hold nothing any more.
    pub(crate) fn end_overdue(&mut self, now: Nanos) {
        while let Some(entry) = self.held.readers.first_entry()
            && now.saturating_sub(entry.get().begun) > self.held.time
        {
            let id = *entry.key();
            self.held.timed_out += 1;
            self.end_reading(id);
            self.kick();
        }
    }

    /// Pins the pieces of a version that is being read, as far as they are placed: they stay.
    pub(crate) fn hold(&mut self, object_id: u64, pieces: Range<u32>) {
        for number in pieces {
            let digest = self.digester.piece(object_id, number);
            if let Some(slot) = self.index.get(&digest)
                && !self.hold_placed(object_id, number, slot)
            {
                return;
            }
        }
    }

    /// A piece is about to die: who reads its version holds it.
    pub(super) fn hold_dying(&mut self, object_id: u64, number: u32) {
        if self.held.has(object_id, number) {
            return;
        }
        let digest = &self.digester.piece(object_id, number);
        if let Some(slot) = self.index.get(digest).filter(|slot| self.has_place(*slot)) {
            self.hold_placed(object_id, number, slot);
            return;
        }
        let Some(object) = self.tier.peek(digest).map(|r| Arc::clone(&r.object)) else { return };
        let bytes = object.weight();
        if self.held.in_memory + bytes <= self.held.in_memory_max
            && let Some(version) = self.held.versions.get_mut(&object_id)
        {
            self.held.in_memory += bytes;
            version.pieces.insert(number, Piece::InMemory(object));
        }
    }

    fn has_place(&self, slot: Slot) -> bool {
        self.place_at(slot.position).is_some()
    }

    /// False when the version may hold no more.
    fn hold_placed(&mut self, object_id: u64, number: u32, slot: Slot) -> bool {
        let Some(place) = self.place_at(slot.position) else { return true };
        if !self.held.may_hold(object_id) {
            return false;
        }
        if self.held.has(object_id, number) {
            return true;
        }
        let location = self.space.locate(&self.areas, slot);
        let cluster = self.cluster_held(place);
        while self.held.placed + self.held.cost(cluster, &location) > self.held.placed_max {
            match self.held.lower_than(object_id) {
                Some(lower) => self.let_down(lower),
                None => return false,
            }
        }
        self.held.enter_ranks(object_id);
        self.held.add(cluster, &location);
        self.space.pin(&self.areas, place.position);
        if let Some(version) = self.held.versions.get_mut(&object_id) {
            version.pieces.insert(number, Piece::Placed { place, location });
        }
        true
    }

    /// The cluster that `place` lies in, and its bytes.
    fn cluster_held(&self, place: Place) -> Option<(ClusterId, u32)> {
        let cluster = self.space.cluster_of(&self.areas, place.position)?;
        Some((cluster, self.areas.cluster_size))
    }

    /// The readers of a version hold nothing any more.
    fn let_down(&mut self, object_id: u64) {
        let Some(version) = self.held.versions.get_mut(&object_id) else { return };
        version.let_down = true;
        if let Some(rank) = version.rank.take() {
            self.held.holders.remove(&rank);
        }
        self.held.let_down += 1;
        let pieces = std::mem::take(&mut version.pieces);
        self.release_held(pieces.into_values().collect());
        self.kick();
    }

    fn release_held(&mut self, pieces: Vec<Piece>) {
        let mut freed = false;
        for piece in pieces {
            match piece {
                Piece::Placed { place, location } => {
                    self.held.subtract(self.cluster_held(place), &location);
                    freed |= self.space.unpin(&self.areas, place.position);
                }
                Piece::InMemory(object) => self.held.in_memory -= object.weight(),
            }
        }
        if freed {
            self.wake();
            self.kick();
        }
    }

    /// Piece `number` of a version that somebody reads and that is not to be found any more; `None`
    /// when it is not held. The plan is pinned like any other.
    pub(crate) fn find_held(&mut self, object_id: u64, number: u32) -> Option<HeldPiece> {
        if !self.online() {
            return None;
        }
        let version = self.held.versions.get(&object_id)?;
        let (place, location) = match version.pieces.get(&number)? {
            Piece::InMemory(object) => return Some(HeldPiece::Object(Arc::clone(object))),
            Piece::Placed { place, location } => (*place, location.clone()),
        };
        let digest = self.digester.piece(object_id, number);
        if let Some(piece) = self.in_transit.get(&digest) {
            return Some(HeldPiece::Object(piece));
        }
        if let Some(record) = self.space.waiting(place) {
            let object = Object::from_record(record, Some(place));
            return Some(HeldPiece::Object(Arc::new(object)));
        }
        self.space.pin(&self.areas, place.position);
        self.reading.counters.exact += 1;
        Some(HeldPiece::Read(ReadPlan::of_held(digest, place, location)))
    }
}
