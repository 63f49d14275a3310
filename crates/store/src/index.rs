//! The index: finds the position of a digest's record without a device access.
//!
//! There are two kinds. [`compact`] is Larder's own: nine bytes per object, a partial key.
//! [`exact`] is the file lookup table of the UCFS paper (C1): slightly more than 24 bytes per
//! object, the whole digest, also for objects in memory only.
//!
//! Both guarantee that an entry is found until it is removed, replaced, or dropped and *returned*
//! as displaced. The number of entries is fixed and the time per call bounded. The same operations
//! give the same table, byte for byte.

mod compact;
mod cuckoo;
mod exact;

use std::fmt;
use std::ops::Range;

use crate::base::digest::Digest;
use crate::base::size_class::SizeClass;
use compact::CompactIndex;
use exact::ExactIndex;

/// The kind of index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Nine bytes per object. The key stored with the record tells equal tags apart.
    #[default]
    Compact,
    /// The file lookup table of the UCFS paper (C1): slightly more than 24 bytes per object, the
    /// whole digest of its key. For the layout `cluster` only, because it does not hold the length
    /// of a record.
    Exact,
}

impl IndexKind {
    /// All kinds, in the order in which they are documented.
    pub const ALL: [IndexKind; 2] = [IndexKind::Compact, IndexKind::Exact];
    /// Their names, in the order of [`IndexKind::ALL`].
    pub const NAMES: &[&str] = &["compact", "exact"];

    /// Returns the name, as one of [`IndexKind::NAMES`].
    pub fn as_str(self) -> &'static str {
        match self {
            IndexKind::Compact => "compact",
            IndexKind::Exact => "exact",
        }
    }

    /// Returns the kind of this name, one of [`IndexKind::NAMES`].
    pub fn from_name(name: &str) -> Option<IndexKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The kind and size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexOptions {
    /// The kind of index.
    pub kind: IndexKind,
    /// Capacity in entries; `None`: one for every object of the expected mean size that the cache
    /// can hold, in an exact index at most [`IndexOptions::EXACT_ENTRIES`].
    pub entries: Option<u64>,
}

impl IndexOptions {
    /// Capacity of the paper's table in entries: 4 M (2.3.2, C18).
    pub const EXACT_ENTRIES: u64 = 4 << 20;

    /// Returns the capacity in entries for a cache of `cache_size` bytes with objects of
    /// `mean_object` bytes.
    pub fn entries_for(&self, cache_size: u64, mean_object: u32) -> u64 {
        let expected = cache_size / u64::from(mean_object.max(1));
        let most = match self.kind {
            IndexKind::Compact => u64::MAX,
            IndexKind::Exact => Self::EXACT_ENTRIES,
        };
        self.entries.unwrap_or(expected.min(most))
    }

    /// Returns the bytes of memory that the index of such a cache takes.
    pub fn bytes(&self, cache_size: u64, mean_object: u32) -> u64 {
        let entries = self.capacity(cache_size, mean_object);
        let bytes = match self.kind {
            IndexKind::Compact => CompactIndex::bytes_for(entries),
            IndexKind::Exact => ExactIndex::bytes_for(entries),
        };
        bytes as u64
    }

    /// Returns the length in bytes of the dump of such a cache's index.
    pub(crate) fn dump_bytes(&self, cache_size: u64, mean_object: u32) -> u64 {
        let entries = self.capacity(cache_size, mean_object);
        let bytes = match self.kind {
            IndexKind::Compact => CompactIndex::bytes_for(entries),
            IndexKind::Exact => ExactIndex::dump_bytes_for(entries),
        };
        bytes as u64
    }

    fn capacity(&self, cache_size: u64, mean_object: u32) -> usize {
        usize::try_from(self.entries_for(cache_size, mean_object)).unwrap_or(usize::MAX)
    }
}

/// The index entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Granule number on the device.
    pub position: u32,
    /// Length of the read. The exact index does not store it and returns the largest class.
    pub class: SizeClass,
    /// True if the object's metadata were replaced: a second entry then stands under the derived
    /// digest.
    pub refreshed: bool,
}

/// The side effects of an insertion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// The entry that the new one replaced. Its record is no longer reachable.
    pub old: Option<Slot>,
    /// An unrelated entry that was dropped because no slot could be freed. Its record is no longer
    /// reachable.
    pub displaced: Option<Slot>,
    /// The digest of the dropped entry if its object is in memory. The object must leave memory,
    /// because in an exact index every object has an entry.
    pub expelled: Option<Digest>,
}

/// The reason why bytes are not the dump of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadDump {
    /// The bytes are not whole buckets, or reach past the last one.
    Length,
    /// The slot with this number is not a possible entry.
    Slot(u64),
}

pub(crate) struct Index(Variant);

enum Variant {
    Compact(CompactIndex),
    Exact(ExactIndex),
}

/// Dispatches to the index of either kind. The kind never changes, so the branch is predicted.
macro_rules! each {
    ($self:ident, $index:ident => $call:expr) => {
        match &$self.0 {
            Variant::Compact($index) => $call,
            Variant::Exact($index) => $call,
        }
    };
    (mut $self:ident, $index:ident => $call:expr) => {
        match &mut $self.0 {
            Variant::Compact($index) => $call,
            Variant::Exact($index) => $call,
        }
    };
}

impl Index {
    /// Returns an empty index for a cache of `cache_size` bytes with objects of `mean_object`
    /// bytes.
    pub(crate) fn new(options: IndexOptions, cache_size: u64, mean_object: u32) -> Index {
        Index::with_capacity(options.kind, options.capacity(cache_size, mean_object))
    }

    /// Returns an empty index with room for `entries` entries.
    pub(crate) fn with_capacity(kind: IndexKind, entries: usize) -> Index {
        Index(match kind {
            IndexKind::Compact => Variant::Compact(CompactIndex::with_capacity(entries)),
            IndexKind::Exact => Variant::Exact(ExactIndex::with_capacity(entries)),
        })
    }

    pub(crate) fn kind(&self) -> IndexKind {
        match &self.0 {
            Variant::Compact(_) => IndexKind::Compact,
            Variant::Exact(_) => IndexKind::Exact,
        }
    }

    /// Returns the entry of `digest` if it has a record on the device. The compact index may return
    /// the entry of another digest with the same tag and buckets.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Slot> {
        each!(self, index => index.get(digest))
    }

    /// Sets the entry of `digest`, replacing any earlier one.
    pub(crate) fn insert(&mut self, digest: &Digest, slot: Slot) -> Inserted {
        each!(mut self, index => index.insert(digest, slot))
    }

    /// Inserts an entry for `digest` unless there is one, which is then returned as the error.
    pub(crate) fn insert_if_absent(
        &mut self,
        digest: &Digest,
        slot: Slot,
    ) -> Result<Inserted, Slot> {
        each!(mut self, index => index.insert_if_absent(digest, slot))
    }

    /// Removes the record of `digest` and returns its entry.
    pub(crate) fn remove(&mut self, digest: &Digest) -> Option<Slot> {
        each!(mut self, index => index.remove(digest))
    }

    /// Removes the record of `digest` if it is at `position`; returns whether it was.
    pub(crate) fn remove_at(&mut self, digest: &Digest, position: u32) -> bool {
        each!(mut self, index => index.remove_at(digest, position))
    }

    /// Sets the flag `refreshed` of the entry of `digest` if its record is at `position`; returns
    /// whether it is.
    pub(crate) fn update_flag(&mut self, digest: &Digest, position: u32, refreshed: bool) -> bool {
        each!(mut self, index => index.update_flag(digest, position, refreshed))
    }

    /// Notes that the object of `digest` entered memory (C1: MEM bit set). The compact index
    /// ignores it.
    pub(crate) fn enter_memory(&mut self, digest: &Digest, stamp: u32) -> Inserted {
        match &mut self.0 {
            Variant::Compact(_) => Inserted::default(),
            Variant::Exact(index) => index.enter_memory(digest, stamp),
        }
    }

    /// Notes that the object of `digest` left memory (C1: MEM bit cleared). The compact index
    /// ignores it.
    pub(crate) fn leave_memory(&mut self, digest: &Digest) {
        if let Variant::Exact(index) = &mut self.0 {
            index.leave_memory(digest);
        }
    }

    /// Stores the caller's stamp with the entry of `digest`. The compact index ignores it.
    pub(crate) fn set_stamp(&mut self, digest: &Digest, stamp: u32) {
        if let Variant::Exact(index) = &mut self.0 {
            index.set_stamp(digest, stamp);
        }
    }

    /// Returns the stamp of `digest`; `None` when there is no entry, or the index has no stamps.
    pub(crate) fn stamp(&self, digest: &Digest) -> Option<u32> {
        match &self.0 {
            Variant::Compact(_) => None,
            Variant::Exact(index) => index.stamp(digest),
        }
    }

    pub(crate) fn clear(&mut self) {
        each!(mut self, index => index.clear());
    }

    pub(crate) fn len(&self) -> usize {
        each!(self, index => index.len())
    }

    /// Returns the load: the share of slots that are taken, 0 to 1.
    pub(crate) fn load(&self) -> f64 {
        each!(self, index => index.load())
    }

    /// Returns the bytes of memory that the index takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        each!(self, index => index.memory_bytes())
    }

    /// Returns the number of buckets, the unit of sweeps and dumps.
    pub(crate) fn bucket_count(&self) -> usize {
        each!(self, index => index.bucket_count())
    }

    /// Returns the entries of all records, in arbitrary order.
    pub(crate) fn slots(&self) -> Box<dyn Iterator<Item = Slot> + '_> {
        match &self.0 {
            Variant::Compact(index) => Box::new(index.slots()),
            Variant::Exact(index) => Box::new(index.slots()),
        }
    }

    /// Returns the length in bytes of one bucket in a dump of such an index.
    pub(crate) fn bucket_bytes(kind: IndexKind) -> usize {
        match kind {
            IndexKind::Compact => CompactIndex::BUCKET_BYTES,
            IndexKind::Exact => ExactIndex::BUCKET_BYTES,
        }
    }

    /// Removes every record in the given buckets that `keep` rejects; returns how many.
    pub(crate) fn sweep(&mut self, buckets: Range<usize>, keep: impl FnMut(Slot) -> bool) -> usize {
        each!(mut self, index => index.sweep(buckets, keep))
    }

    /// Returns whether the index can be swept in steps.
    pub(crate) fn can_sweep(&self) -> bool {
        matches!(self.0, Variant::Compact(_))
    }

    /// Begins a sweep in steps, which visits every record that is in the index from now to its end.
    pub(crate) fn begin_sweep(&mut self) {
        if let Variant::Compact(index) = &mut self.0 {
            index.begin_sweep();
        }
    }

    /// Sweeps the next `buckets` buckets and removes the records that `keep` rejects. Returns how
    /// many it removed, and whether the sweep has ended. A record may be visited twice.
    pub(crate) fn step_sweep(
        &mut self,
        buckets: usize,
        keep: impl FnMut(Slot) -> bool,
    ) -> (usize, bool) {
        match &mut self.0 {
            Variant::Compact(index) => index.step_sweep(buckets, keep),
            Variant::Exact(_) => (0, true),
        }
    }

    /// Writes the buckets from `first` on to `out`, as many as fit whole; returns how many.
    pub(crate) fn dump(&self, first: usize, out: &mut [u8]) -> usize {
        each!(self, index => index.dump(first, out))
    }

    /// Replaces the buckets from `first` on by those of a dump of an index of the same kind with
    /// equally many buckets. Positions must be below `positions`.
    ///
    /// # Errors
    /// The bytes are not a valid dump. The buckets are then partly replaced: clear the index.
    pub(crate) fn restore(
        &mut self,
        first: usize,
        bytes: &[u8],
        positions: u32,
    ) -> Result<(), BadDump> {
        each!(mut self, index => index.restore(first, bytes, positions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_are_in_step() {
        assert_eq!(IndexKind::ALL.map(IndexKind::as_str), IndexKind::NAMES);
        for name in IndexKind::NAMES {
            assert_eq!(IndexKind::from_name(name).unwrap().to_string(), *name);
        }
    }

    #[test]
    fn c1_the_table_of_the_paper_takes_96_mb_and_a_bit_per_object() {
        let paper = IndexOptions { kind: IndexKind::Exact, entries: None };
        // 16 GB of files of 4 KB (2.4.7), and the larger cache of Palo Alto.
        for cache_size in [16_u64 << 30, 26 << 30] {
            assert_eq!(paper.entries_for(cache_size, 4096), 4 << 20);
            assert_eq!(paper.bytes(cache_size, 4096), (96 << 20) + (4 << 20) / 8);
        }
        assert_eq!(paper.entries_for(1 << 30, 4096), 1 << 18);
        let told = IndexOptions { entries: Some(5 << 20), ..paper };
        assert_eq!(told.entries_for(1 << 30, 4096), 5 << 20);
    }
}
