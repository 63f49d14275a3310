//! The file lookup table of the UCFS paper (section 2.3, C1): one entry for every object in the
//! cache, on the device or in memory.
//!
//! | paper | here | bytes |
//! |---|---|---|
//! | MD5 checksum of the URL | the keyed digest of the key, whole | 16 |
//! | cluster index | granule plus one; its upper part is the cluster | 4 |
//! | ... 0: in memory only | 0: in memory only | |
//! | Last Modified time | the caller's stamp | 4 |
//! | MEM bit | bit of the bucket | 1/8 |
//!
//! A lookup needs no device access, and a wrong result is as unlikely as two equal digests. The
//! number of entries is fixed. They lie in buckets of eight, each entry in one of two that its
//! digest determines; up to 95% load insertion does not fail. An entry that does not fit displaces
//! another, preferably one that is on the device rather than one that is in memory only.
//!
//! Like the paper's table, it does not hold the length of a record: a hit reads the cluster.

use std::collections::BTreeSet;
use std::ops::Range;

use super::cuckoo::{Place, SLOTS};
use super::{BadDump, Inserted, Slot, cuckoo};
use crate::base::digest::Digest;
use crate::base::size_class::SizeClass;

/// The digest of a free place; no object has it.
const FREE: Digest = Digest([0; 16]);

pub(super) struct ExactIndex {
    digests: Box<[Digest]>,
    /// Granule plus one; 0: in memory only.
    positions: Box<[u32]>,
    stamps: Box<[u32]>,
    /// The MEM bits of the entries of each bucket.
    memory: Box<[u8]>,
    /// Digests whose metadata were replaced on the device: hardly any, see `virtual_cluster`.
    refreshed: BTreeSet<Digest>,
    len: usize,
    given_up: usize,
}

impl ExactIndex {
    /// Bytes of one bucket in a dump: its entries, their refreshed bits, and seven zero bytes.
    pub(super) const BUCKET_BYTES: usize = SLOTS * ENTRY_BYTES + 8;

    /// Returns an empty table with room for `entries`.
    pub(super) fn with_capacity(entries: usize) -> ExactIndex {
        let buckets = buckets_for(entries);
        assert!(u32::try_from(buckets).is_ok(), "an index has fewer than 2^32 buckets");
        ExactIndex {
            digests: vec![FREE; buckets * SLOTS].into_boxed_slice(),
            positions: vec![0; buckets * SLOTS].into_boxed_slice(),
            stamps: vec![0; buckets * SLOTS].into_boxed_slice(),
            memory: vec![0; buckets].into_boxed_slice(),
            refreshed: BTreeSet::new(),
            len: 0,
            given_up: 0,
        }
    }

    /// Returns the bytes of memory of a table with room for `entries`.
    pub(super) fn bytes_for(entries: usize) -> usize {
        buckets_for(entries).saturating_mul(SLOTS * ENTRY_BYTES + 1)
    }

    /// Returns the bytes of the dump of such a table.
    pub(super) fn dump_bytes_for(entries: usize) -> usize {
        buckets_for(entries).saturating_mul(Self::BUCKET_BYTES)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Slot> {
        self.find(digest).and_then(|at| self.slot(at))
    }

    pub(super) fn insert(&mut self, digest: &Digest, slot: Slot) -> Inserted {
        let (at, inserted) = self.find_or_enter(digest);
        let old = self.slot(at);
        self.set_slot(at, slot);
        Inserted { old, ..inserted }
    }

    pub(super) fn insert_if_absent(
        &mut self,
        digest: &Digest,
        slot: Slot,
    ) -> Result<Inserted, Slot> {
        match self.get(digest) {
            Some(known) => Err(known),
            None => Ok(self.insert(digest, slot)),
        }
    }

    pub(super) fn remove(&mut self, digest: &Digest) -> Option<Slot> {
        let at = self.find(digest)?;
        let slot = self.slot(at)?;
        self.forget_record(at);
        Some(slot)
    }

    pub(super) fn remove_at(&mut self, digest: &Digest, position: u32) -> bool {
        let here = self.get(digest).is_some_and(|slot| slot.position == position);
        here && self.remove(digest).is_some()
    }

    pub(super) fn update_flag(&mut self, digest: &Digest, position: u32, refreshed: bool) -> bool {
        let here = self.get(digest).is_some_and(|slot| slot.position == position);
        if here && refreshed {
            self.refreshed.insert(*digest);
        } else if here {
            self.refreshed.remove(digest);
        }
        here
    }

    pub(super) fn enter_memory(&mut self, digest: &Digest, stamp: u32) -> Inserted {
        let (at, inserted) = self.find_or_enter(digest);
        self.set_memory(at, true);
        self.stamps[at] = stamp;
        inserted
    }

    pub(super) fn leave_memory(&mut self, digest: &Digest) {
        let Some(at) = self.find(digest) else { return };
        self.set_memory(at, false);
        if self.positions[at] == 0 {
            self.free(at);
        }
    }

    pub(super) fn set_stamp(&mut self, digest: &Digest, stamp: u32) {
        if let Some(at) = self.find(digest) {
            self.stamps[at] = stamp;
        }
    }

    pub(super) fn stamp(&self, digest: &Digest) -> Option<u32> {
        self.find(digest).map(|at| self.stamps[at])
    }

    pub(super) fn clear(&mut self) {
        self.digests.fill(FREE);
        self.positions.fill(0);
        self.stamps.fill(0);
        self.memory.fill(0);
        self.refreshed.clear();
        self.len = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn load(&self) -> f64 {
        self.len as f64 / self.digests.len() as f64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.digests.len() * ENTRY_BYTES + self.memory.len() + self.refreshed.len() * 24
    }

    pub(super) fn bucket_count(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..self.digests.len()).filter_map(|at| self.slot(at))
    }

    pub(super) fn sweep(
        &mut self,
        buckets: Range<usize>,
        mut keep: impl FnMut(Slot) -> bool,
    ) -> usize {
        let end = buckets.end.min(self.bucket_count());
        let mut removed = 0;
        for at in buckets.start.min(end) * SLOTS..end * SLOTS {
            if self.slot(at).is_some_and(|slot| !keep(slot)) {
                self.forget_record(at);
                removed += 1;
            }
        }
        removed
    }

    /// Writes the buckets from `first` on to `out`; returns how many fit. Objects in memory only
    /// are left out, because they do not survive the stop.
    pub(super) fn dump(&self, first: usize, out: &mut [u8]) -> usize {
        let left = self.bucket_count().saturating_sub(first);
        let chunks = out.chunks_exact_mut(Self::BUCKET_BYTES);
        let count = chunks.len().min(left);
        for (bucket, chunk) in (first..first + count).zip(chunks) {
            chunk.fill(0);
            let (entries, flags) = chunk.split_at_mut(SLOTS * ENTRY_BYTES);
            for (place, bytes) in entries.chunks_exact_mut(ENTRY_BYTES).enumerate() {
                let at = bucket * SLOTS + place;
                let Some(slot) = self.slot(at) else { continue };
                bytes[..16].copy_from_slice(&self.digests[at].0);
                bytes[16..20].copy_from_slice(&self.positions[at].to_le_bytes());
                bytes[20..24].copy_from_slice(&self.stamps[at].to_le_bytes());
                flags[0] |= u8::from(slot.refreshed) << place;
            }
        }
        count
    }

    pub(super) fn restore(
        &mut self,
        first: usize,
        bytes: &[u8],
        positions: u32,
    ) -> Result<(), BadDump> {
        if !bytes.len().is_multiple_of(Self::BUCKET_BYTES) {
            return Err(BadDump::Length);
        }
        let end = first.checked_add(bytes.len() / Self::BUCKET_BYTES).ok_or(BadDump::Length)?;
        if end > self.bucket_count() {
            return Err(BadDump::Length);
        }
        for (bucket, chunk) in (first..end).zip(bytes.chunks_exact(Self::BUCKET_BYTES)) {
            for at in bucket * SLOTS..(bucket + 1) * SLOTS {
                if self.digests[at] != FREE {
                    self.free(at);
                }
            }
            let (entries, flags) = chunk.split_at(SLOTS * ENTRY_BYTES);
            for (place, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
                let at = bucket * SLOTS + place;
                let refreshed = flags[0] >> place & 1 == 1;
                if !self.restore_entry(at, entry, refreshed, positions) {
                    return Err(BadDump::Slot(at as u64));
                }
            }
            if flags[1..] != [0; 7] {
                return Err(BadDump::Slot((bucket * SLOTS) as u64));
            }
        }
        Ok(())
    }

    /// Restores an entry; returns false when the bytes are not a possible entry of this place.
    fn restore_entry(&mut self, at: usize, entry: &[u8], refreshed: bool, positions: u32) -> bool {
        let (digest, rest) = entry.split_at(16);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let (position, stamp) = (number(&rest[..4]), number(&rest[4..]));
        let digest = digest.try_into().map_or(FREE, Digest);
        if digest == FREE {
            return position == 0 && stamp == 0 && !refreshed;
        }
        let ours = self.homes(&digest).contains(&(at / SLOTS));
        if position == 0 || position > positions || !ours || self.find(&digest).is_some() {
            return false;
        }
        self.digests[at] = digest;
        self.positions[at] = position;
        self.stamps[at] = stamp;
        if refreshed {
            self.refreshed.insert(digest);
        }
        self.len += 1;
        true
    }

    /// Returns the two candidate buckets of a digest.
    fn homes(&self, digest: &Digest) -> [usize; 2] {
        let (low, high) = digest.halves();
        let scale =
            |number: u64| ((u128::from(number) * self.bucket_count() as u128) >> 64) as usize;
        [scale(low), scale(high)]
    }

    fn find(&self, digest: &Digest) -> Option<usize> {
        if *digest == FREE {
            return None;
        }
        self.homes(digest).into_iter().find_map(|bucket| {
            let first = bucket * SLOTS;
            let held = &self.digests[first..first + SLOTS];
            held.iter().position(|held| held == digest).map(|place| first + place)
        })
    }

    /// Returns the place of the digest. If it has none, inserts an entry with no record and not in
    /// memory.
    fn find_or_enter(&mut self, digest: &Digest) -> (usize, Inserted) {
        assert!(*digest != FREE, "a keyed digest is not zero but once in 2^128");
        if let Some(at) = self.find(digest) {
            return (at, Inserted::default());
        }
        let [first, second] = self.homes(digest);
        let (at, inserted) = match cuckoo::reserve(self, first, second) {
            Some((bucket, place)) => (bucket * SLOTS + place, Inserted::default()),
            None => self.displace(first),
        };
        self.digests[at] = *digest;
        self.len += 1;
        (at, inserted)
    }

    /// Drops an entry of a full bucket. The new one stays: it is about to be used.
    fn displace(&mut self, bucket: usize) -> (usize, Inserted) {
        self.given_up += 1;
        let places = (0..SLOTS).map(|place| bucket * SLOTS + (place + self.given_up) % SLOTS);
        // Prefer an entry with a record on the device over one that is in memory only.
        let at =
            places.clone().find(|at| self.positions[*at] != 0).or_else(|| places.clone().next());
        let at = at.expect("a bucket has places");
        let expelled = self.in_memory(at).then_some(self.digests[at]);
        let displaced = self.slot(at);
        self.free(at);
        (at, Inserted { old: None, displaced, expelled })
    }

    fn slot(&self, at: usize) -> Option<Slot> {
        let position = self.positions[at].checked_sub(1)?;
        let refreshed = !self.refreshed.is_empty() && self.refreshed.contains(&self.digests[at]);
        Some(Slot { position, class: SizeClass::LARGEST, refreshed })
    }

    fn set_slot(&mut self, at: usize, slot: Slot) {
        self.positions[at] = slot.position.checked_add(1).expect("a device ends before 2^32 - 1");
        if slot.refreshed {
            self.refreshed.insert(self.digests[at]);
        } else {
            self.refreshed.remove(&self.digests[at]);
        }
    }

    fn forget_record(&mut self, at: usize) {
        self.refreshed.remove(&self.digests[at]);
        self.positions[at] = 0;
        if !self.in_memory(at) {
            self.free(at);
        }
    }

    fn free(&mut self, at: usize) {
        self.refreshed.remove(&self.digests[at]);
        self.digests[at] = FREE;
        self.positions[at] = 0;
        self.stamps[at] = 0;
        self.set_memory(at, false);
        self.len -= 1;
    }

    fn in_memory(&self, at: usize) -> bool {
        self.memory[at / SLOTS] >> (at % SLOTS) & 1 == 1
    }

    fn set_memory(&mut self, at: usize, in_memory: bool) {
        let bit = 1 << (at % SLOTS);
        let bits = &mut self.memory[at / SLOTS];
        *bits = if in_memory { *bits | bit } else { *bits & !bit };
    }
}

impl cuckoo::Table for ExactIndex {
    fn free_place(&self, bucket: usize) -> Option<usize> {
        let first = bucket * SLOTS;
        self.digests[first..first + SLOTS].iter().position(|held| *held == FREE)
    }

    fn other_bucket(&self, (bucket, place): Place) -> usize {
        let [first, second] = self.homes(&self.digests[bucket * SLOTS + place]);
        if bucket == first { second } else { first }
    }

    fn shift(&mut self, from: Place, to: Place) {
        let (from, to) = (from.0 * SLOTS + from.1, to.0 * SLOTS + to.1);
        self.digests[to] = std::mem::replace(&mut self.digests[from], FREE);
        self.positions[to] = std::mem::take(&mut self.positions[from]);
        self.stamps[to] = std::mem::take(&mut self.stamps[from]);
        self.set_memory(to, self.in_memory(from));
        self.set_memory(from, false);
    }
}

/// Digest, cluster index and Last-Modified time of one entry.
const ENTRY_BYTES: usize = 24;

fn buckets_for(entries: usize) -> usize {
    entries.div_ceil(SLOTS).max(2)
}

#[cfg(test)]
mod tests;
