//! The objects in memory: the tier, and the tables beside it.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::digest::Digest;
use crate::base::record::{Header, RecordKind};
use crate::base::summary;
use crate::config::options::{Options, WritePolicy};
use crate::core::evictions::Evictions;
use crate::core::sizing::MemoryPlan;
use crate::memory::doorkeeper;
use crate::memory::doorkeeper::Doorkeeper;
use crate::memory::grouping;
use crate::memory::grouping::Group;
use crate::memory::in_transit::InTransit;
use crate::memory::locality_staging::LocalityStaging;
use crate::memory::memory_tier::{Resident, Tier};
use crate::memory::object::Object;
use crate::read::ahead::ReadAhead;
use crate::read::reads::Reads;
use crate::read::window::{DistanceBand, Memory};

/// Divisor of the tier's capacity: larger objects in pieces would sweep the tier and do not enter.
const SWEEPING: u64 = 16;

/// Returns the entry of the memory tier for `object`.
pub(super) fn resident_of(
    object: &Arc<Object>,
    dirty: bool,
    prefetched: Option<DistanceBand>,
    cluster: Option<u32>,
    accesses: u32,
) -> Resident<Arc<Object>> {
    let header = &object.header;
    Resident {
        object: Arc::clone(object),
        dirty,
        prefetched,
        html: header.html,
        cluster,
        accesses,
        group: header.group,
        site: header.site,
    }
}

pub(crate) struct Residents {
    pub(super) tier: Tier<Arc<Object>>,
    /// Decides which objects enter the tier when they are read; without one all do.
    doorkeeper: Option<Doorkeeper>,
    /// Objects that wait for others to be placed beside, if enabled.
    pub(super) staging: Option<LocalityStaging>,
    /// Pieces that are being sent.
    pub(super) in_transit: InTransit,
    /// Offers of the objects that leave the tier.
    pub(super) evictions: Evictions,
    /// True if objects are written only when they leave the tier.
    writes_on_evict: bool,
}

impl Residents {
    /// Creates empty tables of the sizes in `plan`, for a space of clusters or of slots.
    pub(super) fn new(
        options: &Options,
        doorkeeper: Option<Doorkeeper>,
        clusters: bool,
        plan: &MemoryPlan,
    ) -> Residents {
        Residents {
            tier: Tier::new(plan.tier, options.tier_shares, options.tier_admission),
            doorkeeper,
            staging: LocalityStaging::new(options, clusters, plan.unwritten_max),
            in_transit: InTransit::default(),
            evictions: Evictions::default(),
            writes_on_evict: options.write_policy == WritePolicy::OnEvict,
        }
    }

    /// Returns the offers of objects that leave the tier.
    pub(crate) fn evictions(&mut self) -> &mut Evictions {
        &mut self.evictions
    }

    /// Returns the memory of the tier's own structures and of the doorkeeper, in bytes.
    pub(super) fn overhead_bytes(&self) -> usize {
        self.tier.overhead_bytes() + self.doorkeeper.as_ref().map_or(0, Doorkeeper::memory_bytes)
    }

    /// Returns the size in bytes above which an object in pieces does not enter the tier.
    pub(super) fn share_max(&self) -> u64 {
        self.tier.capacity() as u64 / SWEEPING
    }

    /// Returns whether an object with this header and weight may be kept in memory: it fits, and is
    /// not a piece of an object so large that it would sweep the tier.
    pub(super) fn fits(&self, header: &Header, weight: usize) -> bool {
        let sweeps = header.kind == RecordKind::Piece && header.object_len > self.share_max();
        !sweeps && self.tier.fits(weight)
    }

    /// Returns whether an object with a record of this kind and `len` bytes enters the tier when it
    /// is read for a request.
    pub(super) fn admits_read(
        &mut self,
        digest: &Digest,
        kind: RecordKind,
        len: usize,
        reads: &Reads,
    ) -> bool {
        let Some(doorkeeper) = &mut self.doorkeeper else { return true };
        let seen = doorkeeper.seen(digest, kind);
        let slow = reads.cost().0.per_operation > doorkeeper::SLOW_READ;
        seen || slow || self.tier.has_space(len)
    }

    /// Makes the object of `digest` enter the tier when it is read next. Called for a requested
    /// object that leaves the tier, and for a neighbour that is read on purpose.
    pub(super) fn expect(&mut self, digest: &Digest) {
        if let Some(doorkeeper) = &mut self.doorkeeper {
            doorkeeper.seen(digest, RecordKind::Object);
        }
    }

    /// Returns whether a record with this header stays in memory only until it is evicted from it.
    /// Objects so large that they would sweep the tier do not; since a head is worth little without
    /// its pieces, all of such an object is written at once.
    pub(super) fn delays_write(&self, header: &Header) -> bool {
        let in_pieces = header.piece_size > 0;
        self.writes_on_evict && !(in_pieces && header.object_len > self.share_max())
    }

    /// Returns whether an object with this header waits for others. Pieces of large objects need no
    /// neighbours.
    pub(super) fn stages(&self, header: &Header) -> bool {
        self.staging.is_some() && header.kind == RecordKind::Object && header.piece_size == 0
    }

    /// Returns whether objects of one group lie in runs; otherwise the surroundings of an object
    /// are those that arrived at the same time.
    pub(super) fn writes_runs(&self) -> bool {
        self.staging.as_ref().is_some_and(LocalityStaging::sorts)
    }

    /// Returns whether staged objects found no place and no more can be accepted.
    pub(super) fn staging_is_stuck(&self) -> bool {
        self.staging.as_ref().is_some_and(LocalityStaging::is_stuck)
    }

    /// Returns whether no object leaves the staging yet, and the background knows when one will
    /// because an earlier object waits there.
    pub(super) fn staging_is_expected(&self) -> bool {
        self.staging.as_ref().is_some_and(LocalityStaging::is_expected)
    }

    /// Returns whether insertions stop at half of the bound of unwritten bytes: objects that leave
    /// memory, or the staging, take the other half.
    pub(super) fn places_late(&self) -> bool {
        self.writes_on_evict || self.staging.is_some()
    }

    /// Returns whether the object was neither removed, superseded nor written since it was staged.
    pub(super) fn awaits_place(&self, digest: &Digest) -> bool {
        self.tier.peek(digest).is_some_and(|resident| {
            resident.dirty && resident.cluster.is_none() && resident.object.place.is_none()
        })
    }

    /// Returns the hits on earlier read-ahead, and the price of the memory that read-ahead takes.
    /// `ahead` is the read-ahead that is kept beside the tier, if any.
    pub(super) fn read_ahead_price(&self, ahead: &ReadAhead) -> Memory {
        let (tier, apart) = (self.tier.space_price(), ahead.space_price());
        let mut band_hits = tier.band_hits;
        band_hits.iter_mut().zip(&apart.band_hits).for_each(|(all, apart)| *all += apart);
        let prefetched_bytes = tier.prefetched_bytes + apart.prefetched_bytes;
        // Read-ahead that is kept apart displaces older read-ahead, and nothing of the tier.
        let enters = if ahead.capacity() > 0 { apart } else { tier };
        Memory { band_hits, prefetched_bytes, ..enters }
    }

    /// Chooses the next group of cold dirty objects to write into a cluster of `cluster_size` bytes
    /// in granules of `granule` bytes.
    pub(super) fn choose_group(
        &self,
        options: &Options,
        cluster_size: u32,
        granule: u32,
    ) -> Option<Group> {
        let candidates: Vec<grouping::Candidate> = self
            .tier
            .oldest_of_cold(options.group_share)
            .filter(|(_, resident)| resident.dirty && resident.cluster.is_none())
            .map(|(digest, resident)| grouping::Candidate {
                digest: *digest,
                html: resident.html,
                group: resident.group,
                bytes: resident.object.record_len().next_multiple_of(granule as usize) as u32,
                accesses: resident.accesses,
            })
            .collect();
        let sizes = grouping::Sizes {
            cluster: cluster_size - summary::TRAILER_LEN as u32,
            each: summary::ENTRY_LEN as u32,
            small: options.group_small,
            slack: options.group_slack,
        };
        grouping::choose(&candidates, sizes)
    }

    /// Returns the dirty objects without a place, in order of group.
    pub(super) fn dirty_by_group(&self) -> Vec<Digest> {
        let mut dirty: Vec<(u64, Digest)> = self
            .tier
            .iter()
            .filter(|(_, resident)| resident.dirty && resident.cluster.is_none())
            .map(|(digest, resident)| (resident.group, *digest))
            .collect();
        dirty.sort_by_key(|(group, _)| *group);
        dirty.into_iter().map(|(_, digest)| digest).collect()
    }

    /// Returns the most requested objects with their number of requests, at most `count`, in
    /// arbitrary order. Objects in pieces are left out.
    pub(crate) fn most_used(&self, count: usize) -> Vec<(u32, Arc<Object>)> {
        let whole = self.tier.iter().map(|(_, resident)| resident).filter(|resident| {
            let object = &resident.object;
            object.header.kind == RecordKind::Object && !object.in_pieces()
        });
        let mut all: Vec<_> = whole.map(|resident| (resident.accesses, &resident.object)).collect();
        if all.len() > count {
            all.select_nth_unstable_by_key(count, |(accesses, _)| Reverse(*accesses));
            all.truncate(count);
        }
        all.into_iter().map(|(accesses, object)| (accesses, Arc::clone(object))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_objects_that_would_sweep_the_tier_stay_out() {
        let options = Options { write_policy: WritePolicy::OnEvict, ..Options::default() };
        let plan = MemoryPlan {
            unwritten_max: 1 << 20,
            buffers: 0,
            tier: 16 << 20,
            ahead: 0,
            label_filters: 0,
            staging: 0,
        };
        let residents = Residents::new(&options, None, true, &plan);
        let header = |kind, object_len| Header {
            kind,
            html: false,
            digest: Digest([1; 16]),
            sequence: 1,
            object_id: 1,
            object_len,
            piece_size: 1 << 16,
            stored_at: 0,
            site: 0,
            group: 0,
            references: 0,
            stamp: 0,
        };
        let most = residents.share_max();
        assert_eq!(most, 1 << 20);
        assert!(residents.fits(&header(RecordKind::Piece, most), 1 << 16));
        assert!(!residents.fits(&header(RecordKind::Piece, most + 1), 1 << 16));
        assert!(residents.fits(&header(RecordKind::Object, most + 1), 1 << 10), "its head may");
        assert!(residents.delays_write(&header(RecordKind::Object, most)));
        assert!(!residents.delays_write(&header(RecordKind::Object, most + 1)), "all at once");
    }
}
