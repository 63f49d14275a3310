//! Holds of readers of large objects: once a reader has begun a body, it can read that version to
//! its end.
//!
//! The pieces that a reader has still to read are pinned in place, so that eviction skips them.
//! When the version is removed, replaced or purged, its pieces die like any others: no index entry
//! leads to them, the journal says so, and no restart brings them back. But they are recorded here
//! first, and existing readers find them through that record until the last byte.
//!
//! Guarantees: only readers that began before read dead pieces. All readers together hold no more
//! than a share of the device ([`Options::held_percent`]); beyond it, the holds of the readers that
//! made progress least recently are revoked. No reader holds anything for longer than
//! [`Options::held_time`]. Readers with a revoked hold find the pieces that are still alive, like
//! any lookup.
//!
//! [`Options::held_percent`]: crate::Options::held_percent
//! [`Options::held_time`]: crate::Options::held_time

use std::collections::BTreeMap;
use std::sync::Arc;

use device::Nanos;

use crate::base::limits::ClusterId;
use crate::base::record::Place;
use crate::config::options::Options;
use crate::core::placement::Placement;
use crate::format::device_layout::Areas;
use crate::memory::memory_tier::Weighed;
use crate::memory::object::Object;
use crate::space::Location;

/// Divisor of the memory tier: dead pieces may take that share of memory in addition, for their
/// readers.
const IN_MEMORY: usize = 16;

/// Minimum time between two reports of revoked holds.
const REPORT_INTERVAL: Nanos = 10_000_000_000;

/// The number of a reader; later readers have higher numbers.
pub(crate) type ReaderId = u64;

/// The location of a held piece.
pub(super) enum Piece {
    /// On the device, or on its way there: pinned.
    Placed { place: Place, location: Location },
    /// In memory: it was removed before it was placed.
    InMemory(Arc<Object>),
}

/// A version of an object that is being read.
#[derive(Default)]
struct Version {
    /// Its rank among the versions that hold something on the device.
    rank: Option<Rank>,
    /// True if a reader has begun to read its body, rather than only having opened it.
    is_read: bool,
    /// Number of readers that continue at each piece, by number of the piece.
    readers: BTreeMap<u32, u32>,
    pieces: BTreeMap<u32, Piece>,
    /// True if its hold was revoked: nothing more of it is held.
    revoked: bool,
}

/// Revocation order, lowest first: versions whose body is not being read, then those whose readers
/// made progress least recently.
type Rank = (bool, u64);

struct Reader {
    object_id: u64,
    /// The piece that it reads next.
    at: u32,
    begun: Nanos,
}

/// The holds on one device.
pub(crate) struct ReaderHolds {
    /// By object id.
    versions: BTreeMap<u64, Version>,
    /// Oldest first.
    readers: BTreeMap<ReaderId, Reader>,
    last: ReaderId,
    /// Versions that hold something on the device.
    holders: BTreeMap<Rank, u64>,
    last_rank: u64,
    /// Number of pieces held in each cluster; a held piece pins all of its cluster.
    clusters: BTreeMap<ClusterId, u32>,
    /// Pinned bytes of the device, held bytes of memory, and the maximum of each.
    placed: u64,
    placed_max: u64,
    in_memory: usize,
    in_memory_max: usize,
    time: Nanos,
    /// Number of versions whose hold was revoked for lack of space, and of readers whose hold was
    /// revoked for its duration.
    revoked: u64,
    timed_out: u64,
    /// The numbers in the last report, and its time.
    reported: (HoldsRevoked, Option<Nanos>),
}

/// Numbers of revoked holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldsRevoked {
    /// Versions, for lack of space.
    pub(crate) objects: u64,
    /// Readers that took too long.
    pub(crate) transfers: u64,
}

/// Figures of the holds on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldStats {
    /// Number of readers of large objects.
    pub readers: usize,
    /// Bytes on the device that are held for them.
    pub bytes: u64,
    /// Bytes in memory that are held for them.
    pub memory_bytes: usize,
    /// Number of versions whose hold was revoked because all holds together exceeded their share.
    pub revoked: u64,
    /// Number of readers whose hold was revoked because they took too long.
    pub timed_out: u64,
}

impl ReaderHolds {
    /// Creates an empty table with the bounds of the options, for a device with these `areas` and a
    /// memory tier of `tier` bytes.
    pub(super) fn new(options: &Options, areas: &Areas, tier: usize) -> ReaderHolds {
        let space = u64::from(areas.clusters) * u64::from(areas.cluster_size);
        let placed_max = space * u64::from(options.held_percent) / 100;
        let in_memory_max = tier / IN_MEMORY;
        let time = options.held_time.as_nanos() as Nanos;
        ReaderHolds {
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

    /// Returns when revoked holds that are not reported yet are to be reported; `None` when there
    /// are none.
    pub(super) fn report_due(&self) -> Option<Nanos> {
        let (reported, at) = self.reported;
        let news = (reported.objects, reported.transfers) != (self.revoked, self.timed_out);
        news.then(|| at.map_or(0, |at| at.saturating_add(REPORT_INTERVAL)))
    }

    /// Returns the revoked holds to report now.
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

    /// Returns whether the version has readers and may hold more.
    pub(super) fn may_hold(&self, object_id: u64) -> bool {
        self.versions.get(&object_id).is_some_and(|version| !version.revoked)
    }

    /// Returns whether the piece is held.
    pub(super) fn has(&self, object_id: u64, number: u32) -> bool {
        let version = self.versions.get(&object_id);
        version.is_some_and(|version| version.pieces.contains_key(&number))
    }

    /// Returns the version whose hold must be revoked so that `object_id` may hold more. Returns
    /// `None` when `object_id` itself ranks lowest, or its body is not being read: then it holds
    /// only what fits.
    pub(super) fn lowest_ranked_below(&self, object_id: u64) -> Option<u64> {
        let (rank, lowest) = self.holders.first_key_value()?;
        let version = self.versions.get(&object_id).filter(|version| version.is_read)?;
        let own = version.rank.unwrap_or((version.is_read, self.last_rank + 1));
        (*rank < own).then_some(*lowest)
    }

    /// Returns the additional bytes that are pinned when a piece at this place is held.
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

    /// Counts a piece at this place as no longer held.
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

    /// Records that a reader of the body of `object_id` made progress.
    fn progressed(&mut self, object_id: u64) {
        let Some(version) = self.versions.get_mut(&object_id) else { return };
        version.is_read = true;
        if version.rank.is_some() {
            self.rank_highest(object_id);
        }
    }

    /// Moves a reader of `object_id` from piece `from` to piece `to`, or ends it (`None`). Returns
    /// the pieces that no reader needs any more.
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

    /// Adds a reader of the version that starts at piece `at`.
    pub(super) fn begin(&mut self, object_id: u64, at: u32, now: Nanos) -> ReaderId {
        self.last += 1;
        self.readers.insert(self.last, Reader { object_id, at, begun: now });
        let version = self.versions.entry(object_id).or_default();
        *version.readers.entry(at).or_default() += 1;
        self.last
    }

    /// Records that the reader has read everything before piece `at`; returns the pieces that no
    /// reader needs any more.
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

    /// Records that the reader has begun to read the body, rather than only having opened it.
    pub(super) fn reads_body(&mut self, id: ReaderId) {
        if let Some(reader) = self.readers.get(&id) {
            self.progressed(reader.object_id);
        }
    }

    /// Ends the reader, unless its hold was revoked before; returns the pieces that no reader needs
    /// any more.
    pub(super) fn end(&mut self, id: ReaderId) -> Vec<Piece> {
        let Some(reader) = self.readers.remove(&id) else { return Vec::new() };
        self.moved(reader.object_id, reader.at, None)
    }

    /// Ends the oldest reader if it has taken too long; returns the pieces that no reader needs any
    /// more.
    pub(super) fn end_overdue(&mut self, now: Nanos) -> Option<Vec<Piece>> {
        let (id, reader) = self.readers.first_key_value()?;
        if now.saturating_sub(reader.begun) <= self.time {
            return None;
        }
        let id = *id;
        self.timed_out += 1;
        Some(self.end(id))
    }

    /// Returns the location of the piece if it is held.
    pub(super) fn piece(&self, object_id: u64, number: u32) -> Option<&Piece> {
        self.versions.get(&object_id)?.pieces.get(&number)
    }

    /// Returns whether there is space to hold a piece at this place in addition to all others.
    pub(super) fn has_space(&self, cluster: Option<(ClusterId, u32)>, location: &Location) -> bool {
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

    /// Holds the piece, which was never placed, if there is space.
    pub(super) fn hold_in_memory(&mut self, object_id: u64, number: u32, object: Arc<Object>) {
        let bytes = object.weight();
        if self.in_memory + bytes <= self.in_memory_max
            && let Some(version) = self.versions.get_mut(&object_id)
        {
            self.in_memory += bytes;
            version.pieces.insert(number, Piece::InMemory(object));
        }
    }

    /// Releases pieces that are no longer held. Returns whether that made space free.
    pub(super) fn release(&mut self, pieces: Vec<Piece>, placement: &mut Placement) -> bool {
        let mut freed = false;
        for piece in pieces {
            match piece {
                Piece::Placed { place, location } => {
                    self.subtract(placement.cluster_held(place), &location);
                    freed |= placement.unpin(place.position);
                }
                Piece::InMemory(object) => self.in_memory -= object.weight(),
            }
        }
        freed
    }

    /// Revokes the hold of a version's readers; returns the pieces held.
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
