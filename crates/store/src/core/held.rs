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
//! ([`Options::held_time`]). Readers whose hold is revoked find what is still alive, as any lookup
//! does.
//!
//! [`Options::held_percent`]: crate::Options::held_percent
//! [`Options::held_time`]: crate::Options::held_time

use std::collections::BTreeMap;
use std::sync::Arc;

use device::Nanos;

use crate::base::limits::ClusterId;
use crate::base::record::Place;
use crate::config::options::Options;
use crate::format::device_layout::Areas;
use crate::memory::memory_tier::Weighed;
use crate::memory::object::Object;
use crate::space::Location;

/// The part of the memory tier that dead pieces may take besides, for those who read them.
const IN_MEMORY: usize = 16;

/// Revoked holds are reported once in this time.
const REPORT_INTERVAL: Nanos = 10_000_000_000;

/// A reader's number: a later one has a higher.
pub(crate) type ReaderId = u64;

/// Where a piece is that somebody is going to read.
pub(super) enum Piece {
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
    revoked: bool,
}

/// The hold of the lowest is revoked first: versions that nobody reads the body of, then those in
/// which nobody got on for longest.
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
    /// Versions whose hold was revoked for want of room, and readers whose was for their duration.
    revoked: u64,
    timed_out: u64,
    /// What the last report said, and when it was.
    reported: (HoldsRevoked, Option<Nanos>),
}

/// How many holds were revoked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldsRevoked {
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
    /// Versions whose hold was revoked because all together held more than their share.
    pub revoked: u64,
    /// Readers whose hold was revoked because they took too long.
    pub timed_out: u64,
}

impl Held {
    /// Returns what the options allow on a device with these `areas`, beside a memory tier of
    /// `tier` bytes.
    pub(super) fn of(options: &Options, areas: &Areas, tier: usize) -> Held {
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
            revoked: 0,
            timed_out: 0,
            reported: Default::default(),
        }
    }

    /// Returns when revoked holds that are not reported yet are to be; `None` without any.
    pub(super) fn report_due(&self) -> Option<Nanos> {
        let (reported, at) = self.reported;
        let news = (reported.objects, reported.transfers) != (self.revoked, self.timed_out);
        news.then(|| at.map_or(0, |at| at.saturating_add(REPORT_INTERVAL)))
    }

    /// Returns the revoked holds to be reported now.
    pub(super) fn report(&mut self, now: Nanos) -> Option<HoldsRevoked> {
        self.report_due().filter(|due| *due <= now)?;
        let all = HoldsRevoked { objects: self.revoked, transfers: self.timed_out };
        let (reported, _) = std::mem::replace(&mut self.reported, (all, Some(now)));
        let transfers = all.transfers - reported.transfers;
        Some(HoldsRevoked { objects: all.objects - reported.objects, transfers })
    }

    pub(crate) fn stats(&self) -> HeldStats {
        HeldStats {
            readers: self.readers.len(),
            bytes: self.placed,
            memory_bytes: self.in_memory,
            revoked: self.revoked,
            timed_out: self.timed_out,
        }
    }

    /// Returns whether somebody reads the version and it may hold more.
    pub(super) fn may_hold(&self, object_id: u64) -> bool {
        self.versions.get(&object_id).is_some_and(|version| !version.revoked)
    }

    /// Returns whether the piece is held.
    pub(super) fn has(&self, object_id: u64, number: u32) -> bool {
        let version = self.versions.get(&object_id);
        version.is_some_and(|version| version.pieces.contains_key(&number))
    }

    /// Returns the version whose hold is to be revoked so that `object_id` may hold more; `None`
    /// when that is the lowest, or nobody reads the body of `object_id`: then it holds what there
    /// is room for.
    pub(super) fn lower_than(&self, object_id: u64) -> Option<u64> {
        let (rank, lowest) = self.holders.first_key_value()?;
        let version = self.versions.get(&object_id).filter(|version| version.is_read)?;
        let own = version.rank.unwrap_or((version.is_read, self.last_rank + 1));
        (*rank < own).then_some(*lowest)
    }

    /// Returns the bytes that are pinned besides, when a piece is held at this place.
    fn cost(&self, cluster: Option<(ClusterId, u32)>, location: &Location) -> u64 {
        match cluster {
            Some((cluster, _)) if self.clusters.contains_key(&cluster) => 0,
            Some((_, size)) => size.into(),
            None => location.bytes(),
        }
    }

    /// Counts a piece at this place as held.
    fn add(&mut self, cluster: Option<(ClusterId, u32)>, location: &Location) {
        self.placed += self.cost(cluster, location);
        if let Some((cluster, _)) = cluster {
            *self.clusters.entry(cluster).or_default() += 1;
        }
    }

    /// Counts it as held no more.
    pub(super) fn subtract(&mut self, cluster: Option<(ClusterId, u32)>, location: &Location) {
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

    /// Ranks `object_id`, which holds something on the device from now on.
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

    /// Notes that the body of `object_id` is being read, and read further.
    fn progressed(&mut self, object_id: u64) {
        let Some(version) = self.versions.get_mut(&object_id) else { return };
        version.is_read = true;
        if version.rank.is_some() {
            self.rank_highest(object_id);
        }
    }

    /// Moves a reader of `object_id` from piece to piece, or ends it (`None`); returns the pieces
    /// that nobody is going to read any more.
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

    /// Begins to read the version at piece `at`.
    pub(super) fn begin(&mut self, object_id: u64, at: u32, now: Nanos) -> ReaderId {
        self.last += 1;
        self.readers.insert(self.last, Reader { object_id, at, begun: now });
        let version = self.versions.entry(object_id).or_default();
        *version.readers.entry(at).or_default() += 1;
        self.last
    }

    /// Notes that the reader has read what lies before piece `at`; returns the pieces that nobody
    /// is going to read any more.
    pub(super) fn read_on(&mut self, id: ReaderId, at: u32) -> Vec<Piece> {
        let Some(reader) = self.readers.get_mut(&id).filter(|reader| reader.at != at) else {
            return Vec::new();
        };
        let from = std::mem::replace(&mut reader.at, at);
        let object_id = reader.object_id;
        let done = self.moved(object_id, from, Some(at));
        self.progressed(object_id);
        done
    }

    /// Notes that the reader reads the body, and does not only have it at hand.
    pub(super) fn reads_body(&mut self, id: ReaderId) {
        if let Some(reader) = self.readers.get(&id) {
            self.progressed(reader.object_id);
        }
    }

    /// Ends the reader, if its hold was not revoked before; returns the pieces that nobody is
    /// going to read any more.
    pub(super) fn end(&mut self, id: ReaderId) -> Vec<Piece> {
        let Some(reader) = self.readers.remove(&id) else { return Vec::new() };
        self.moved(reader.object_id, reader.at, None)
    }

    /// Ends the oldest reader, when it has taken too long; returns the pieces that nobody is going
    /// to read any more.
    pub(super) fn end_overdue(&mut self, now: Nanos) -> Option<Vec<Piece>> {
        let (id, reader) = self.readers.first_key_value()?;
        if now.saturating_sub(reader.begun) <= self.time {
            return None;
        }
        let id = *id;
        self.timed_out += 1;
        Some(self.end(id))
    }

    /// Returns where the piece is, when it is held.
    pub(super) fn piece(&self, object_id: u64, number: u32) -> Option<&Piece> {
        self.versions.get(&object_id)?.pieces.get(&number)
    }

    /// Returns whether a piece at this place may be held besides all others.
    pub(super) fn has_room(&self, cluster: Option<(ClusterId, u32)>, location: &Location) -> bool {
        self.placed + self.cost(cluster, location) <= self.placed_max
    }

    /// Holds the piece at this place, which the caller pins.
    pub(super) fn hold_placed(
        &mut self,
        object_id: u64,
        number: u32,
        cluster: Option<(ClusterId, u32)>,
        (place, location): (Place, Location),
    ) {
        self.enter_ranks(object_id);
        self.add(cluster, &location);
        if let Some(version) = self.versions.get_mut(&object_id) {
            version.pieces.insert(number, Piece::Placed { place, location });
        }
    }

    /// Holds the piece, which was never placed, if there is room.
    pub(super) fn hold_in_memory(&mut self, object_id: u64, number: u32, object: Arc<Object>) {
        let bytes = object.weight();
        if self.in_memory + bytes <= self.in_memory_max
            && let Some(version) = self.versions.get_mut(&object_id)
        {
            self.in_memory += bytes;
            version.pieces.insert(number, Piece::InMemory(object));
        }
    }

    /// Counts a piece in memory as held no more.
    pub(super) fn forget_in_memory(&mut self, object: &Arc<Object>) {
        self.in_memory -= object.weight();
    }

    /// Revokes what the readers of a version hold, and returns it.
    pub(super) fn revoke(&mut self, object_id: u64) -> Option<Vec<Piece>> {
        let version = self.versions.get_mut(&object_id)?;
        version.revoked = true;
        if let Some(rank) = version.rank.take() {
            self.holders.remove(&rank);
        }
        self.revoked += 1;
        let version = self.versions.get_mut(&object_id)?;
        Some(std::mem::take(&mut version.pieces).into_values().collect())
    }
}
