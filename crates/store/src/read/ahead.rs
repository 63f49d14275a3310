//! Read-ahead: records that reads brought along beside the requested ones, until they are requested
//! themselves.
//!
//! A read buffer is kept whole, once for all records in it, and nothing in it is copied or verified
//! before it is requested, because it may never be. A requested record moves to the memory tier if
//! it is worth it, so read-ahead takes no space from popular objects. The oldest buffers are
//! dropped when the capacity is exceeded.
//!
//! Names are not trusted, just as bytes are not: a caller that takes a record must verify that it
//! is the one the index refers to. Pure.
//!
//! Guarantees: it never holds more than its capacity; of every name only the latest record is
//! known.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use hashbrown::HashTable;

use crate::base::digest::Digest;
use crate::base::record::Place;
use crate::read::window::{ALL_BANDS, DistanceBand, Memory};

/// Memory per record, in bytes, in addition to the bytes read.
const OVERHEAD: usize = 96;

/// A record within a read buffer, not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) digest: Digest,
    pub(crate) place: Place,
    /// Position of the record within the buffer.
    pub(crate) range: Range<usize>,
    /// The record's distance from the requested one.
    pub(crate) band: DistanceBand,
}

struct Buffer {
    bytes: Bytes,
    charge: usize,
    records: Vec<Ahead>,
    /// [`ReadAhead::entered_bytes`] before this buffer.
    entered: u64,
}

/// The last part of the read-ahead, in percent of its capacity, which would be lost first.
const LAST_PERCENT: u8 = 30;

/// The read-ahead buffers. See the module documentation.
pub(crate) struct ReadAhead {
    capacity: usize,
    used: usize,
    /// Buffers, oldest first.
    buffers: VecDeque<Buffer>,
    /// Number of the oldest buffer.
    first: u64,
    /// Number of the buffer and index of the record in it, by digest.
    table: HashTable<(u64, u32)>,
    /// Records that were added, and records that were requested later.
    pub(crate) brought: u64,
    pub(crate) hits: u64,
    /// `hits` by band.
    band_hits: [u64; ALL_BANDS],
    /// Bytes of all buffers so far.
    entered_bytes: u64,
    /// Hits on buffers in the last part.
    last_hits: u64,
}

impl ReadAhead {
    /// Returns an empty read-ahead for `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> ReadAhead {
        ReadAhead {
            capacity,
            used: 0,
            buffers: VecDeque::new(),
            first: 0,
            table: HashTable::new(),
            brought: 0,
            hits: 0,
            band_hits: [0; ALL_BANDS],
            entered_bytes: 0,
            last_hits: 0,
        }
    }

    /// Keeps `records` of `bytes`, which is part of a buffer of `buffer` bytes.
    pub(crate) fn put(&mut self, bytes: Bytes, buffer: usize, records: Vec<Ahead>) {
        let charge = buffer + records.len() * OVERHEAD;
        if records.is_empty() || charge > self.capacity {
            return;
        }
        self.brought += records.len() as u64;
        let number = self.first + self.buffers.len() as u64;
        let digests: Vec<Digest> = records.iter().map(|record| record.digest).collect();
        self.used += charge;
        self.buffers.push_back(Buffer { bytes, charge, records, entered: self.entered_bytes });
        self.entered_bytes += charge as u64;
        for (at, digest) in (0..).zip(&digests) {
            self.forget(digest);
            let (buffers, first) = (&self.buffers, self.first);
            let rehash = |(number, at): &(u64, u32)| {
                hash(&buffers[(number - first) as usize].records[*at as usize].digest)
            };
            self.table.insert_unique(hash(digest), (number, at), rehash);
        }
        while self.used > self.capacity {
            self.drop_oldest();
        }
    }

    /// Returns the record of this name and the bytes that contain it, without removing it.
    pub(crate) fn get(&self, digest: &Digest) -> Option<(&Ahead, &Bytes)> {
        let (number, at) = self.table.find(hash(digest), |id| self.is(*id, digest))?;
        let buffer = &self.buffers[(number - self.first) as usize];
        Some((&buffer.records[*at as usize], &buffer.bytes))
    }

    /// Removes the record of this name because it was requested or is invalid. Returns its band,
    /// and the bytes that have entered since.
    pub(crate) fn forget(&mut self, digest: &Digest) -> Option<(DistanceBand, u64)> {
        let buffers = &self.buffers;
        let first = self.first;
        let is = |(number, at): &(u64, u32)| {
            buffers[(number - first) as usize].records[*at as usize].digest == *digest
        };
        let (number, at) = self.table.find_entry(hash(digest), is).ok()?.remove().0;
        let buffer = &self.buffers[(number - self.first) as usize];
        Some((buffer.records[at as usize].band, self.entered_bytes - buffer.entered))
    }

    /// Removes the record of this name, which was requested and verified, and counts the hit.
    pub(crate) fn used(&mut self, digest: &Digest) {
        if let Some((band, since)) = self.forget(digest) {
            self.hits += 1;
            self.band_hits[band.number()] += 1;
            let first = self.capacity as u64 * u64::from(100 - LAST_PERCENT);
            self.last_hits += u64::from(since * 100 > first);
        }
    }

    /// Returns the hits by band, and what decides the price of the memory.
    pub(crate) fn space_price(&self) -> Memory {
        Memory {
            band_hits: self.band_hits,
            prefetched_bytes: self.entered_bytes,
            entered_bytes: self.entered_bytes,
            cold_hits: self.last_hits,
            capacity: self.capacity,
            cold_percent: LAST_PERCENT,
        }
    }

    /// Changes the capacity, in bytes.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.used > self.capacity {
            self.drop_oldest();
        }
    }

    /// Returns the capacity in bytes; 0 disables read-ahead.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.used
    }

    fn is(&self, (number, at): (u64, u32), digest: &Digest) -> bool {
        self.buffers[(number - self.first) as usize].records[at as usize].digest == *digest
    }

    fn drop_oldest(&mut self) {
        let number = self.first;
        let Some(oldest) = self.buffers.front() else { return };
        for (at, record) in (0..).zip(&oldest.records) {
            // It may have been requested, or read again, since.
            if let Ok(entry) = self.table.find_entry(hash(&record.digest), |id| *id == (number, at))
            {
                entry.remove();
            }
        }
        self.used -= oldest.charge;
        self.buffers.pop_front();
        self.first += 1;
    }
}

fn hash(digest: &Digest) -> u64 {
    digest.halves().0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::test_seed::seeds;

    fn record(name: u8, incarnation: u64) -> Ahead {
        Ahead {
            digest: Digest([name; 16]),
            place: Place { position: u32::from(name), incarnation },
            range: 0..1,
            band: DistanceBand::of(10..20, 0..10, &(0..20)),
        }
    }

    #[test]
    fn it_is_as_a_map_of_the_latest_buffers() {
        for seed in seeds("read_ahead::it_is_as_a_map", 100) {
            let mut random = fastrand::Rng::with_seed(seed);
            let capacity = random.usize(1_000..20_000);
            let mut ahead = ReadAhead::new(capacity);
            // Buffers with their charges and remaining records, oldest first.
            let mut model: VecDeque<(usize, BTreeMap<u8, u64>)> = VecDeque::new();
            let mut hits = 0;
            for step in 0..400 {
                if random.bool() {
                    let names: Vec<u8> = (0..random.u8(0..6)).map(|_| random.u8(..40)).collect();
                    let names: BTreeMap<u8, u64> = names.into_iter().map(|n| (n, step)).collect();
                    let buffer = random.usize(1..6_000);
                    let records = names.iter().map(|(name, at)| record(*name, *at)).collect();
                    ahead.put(Bytes::from(vec![0; 8]), buffer, records);
                    let charge = buffer + names.len() * OVERHEAD;
                    if names.is_empty() || charge > capacity {
                        continue;
                    }
                    for (_, older) in &mut model {
                        older.retain(|name, _| !names.contains_key(name));
                    }
                    model.push_back((charge, names));
                    while model.iter().map(|(charge, _)| charge).sum::<usize>() > capacity {
                        model.pop_front();
                    }
                } else {
                    let name = random.u8(..40);
                    let known = model.iter().find_map(|(_, names)| names.get(&name)).copied();
                    let found = ahead.get(&Digest([name; 16]));
                    let found = found.map(|(record, _)| record.place.incarnation);
                    assert_eq!(found, known, "seed {seed}");
                    if known.is_some() && random.bool() {
                        ahead.used(&Digest([name; 16]));
                        hits += 1;
                        model.iter_mut().for_each(|(_, names)| _ = names.remove(&name));
                    }
                }
                let bytes: usize = model.iter().map(|(charge, _)| charge).sum();
                assert_eq!((ahead.bytes(), ahead.hits), (bytes, hits), "seed {seed}");
                assert!(ahead.bytes() <= capacity, "seed {seed}");
                let names: usize = model.iter().map(|(_, names)| names.len()).sum();
                assert_eq!(ahead.table.len(), names, "seed {seed}");
            }
        }
    }
}
