//! Staging memory: copies of the records that wait to be written, in memory that outlives the
//! process ([`device::SharedMemory`]). A killed process loses none of them: the next one stages
//! them again.
//!
//! ```text
//! magic (8 B) | generation (8 B) | uuid (16 B) | slots of 16 B: serial, offset, length | records
//! ```
//!
//! A slot is in use if its serial number is not 0. The number is stored last, and it is part of the
//! record's checksum, as is the number of the slot: a record that was not stored whole, or whose
//! slot was released, is never found.
//!
//! The memory belongs to one opening of one cache, which the generation names. Only the next
//! opening takes the copies over: if there was one without this memory, they are outdated.

use std::collections::BTreeMap;

use bytes::Bytes;
use device::SharedMemory;

use crate::base::content::Content;
use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::record::{Chain, Found, Place, Record};
use crate::base::wire::Decoder;

const MAGIC: u64 = u64::from_le_bytes(*b"LARDSTG1");
const HEADER_LEN: usize = 32;
const GENERATION_AT: usize = 8;
const SLOT_LEN: usize = 16;
/// Bytes of records for each slot: fewer than a small record takes.
const BYTES_PER_SLOT: usize = 512;
/// Alignment of records in bytes.
const ALIGN: usize = 8;

/// The copy of one record.
struct Copy {
    object_id: u64,
    /// Sequence number up to which purges do not concern the object.
    checked: u64,
    slot: u32,
    offset: usize,
}

/// The copies of the records that wait to be written. See the module documentation.
pub(crate) struct StagingMemory {
    memory: SharedMemory,
    generation: u64,
    copies: BTreeMap<Digest, Copy>,
    /// Offset and length of each record.
    taken: BTreeMap<usize, usize>,
    /// End of the record that was placed last: the next one is sought from here on.
    next: usize,
    free_slots: Vec<u32>,
    /// Number of copies made by this opening.
    made: u32,
    /// Reused for the heads of records.
    head: Vec<u8>,
}

impl StagingMemory {
    /// Returns the bytes of memory for `records` bytes of records.
    pub(crate) fn size_for(records: usize) -> usize {
        HEADER_LEN + records / BYTES_PER_SLOT * SLOT_LEN + records.next_multiple_of(ALIGN)
    }

    /// Takes over the memory of the cache `uuid` for its opening with `generation`, and returns the
    /// records found in it, if they are `trusted`. They stay until they are released; records of
    /// another cache, or of an earlier opening than the last one, are dropped.
    pub(crate) fn take_over(
        memory: SharedMemory,
        uuid: &[u8; 16],
        generation: u64,
        trusted: bool,
        secret: &Secret,
    ) -> (StagingMemory, Vec<Record>) {
        let mut staging = StagingMemory {
            copies: BTreeMap::new(),
            taken: BTreeMap::new(),
            next: 0,
            free_slots: Vec::new(),
            made: 0,
            head: Vec::new(),
            generation,
            memory,
        };
        staging.next = staging.records_at();
        let header = staging.memory.read(0, HEADER_LEN);
        let mut fields = Decoder(&header);
        let is_own = trusted
            && fields.u64() == Some(MAGIC)
            && fields.u64().is_some_and(|found| found.checked_add(1) == Some(generation))
            && fields.bytes(16) == Some(&uuid[..]);
        let records = if is_own { staging.find(secret) } else { Vec::new() };
        let free = (0..staging.slots()).rev();
        let used: std::collections::BTreeSet<u32> =
            staging.copies.values().map(|copy| copy.slot).collect();
        staging.free_slots = free.filter(|slot| !used.contains(slot)).collect();
        if !is_own {
            staging.memory.store(0, 0);
            for slot in 0..staging.slots() {
                staging.memory.store(staging.slot_at(slot), 0);
            }
            staging.memory.write(16, uuid);
        }
        (staging, records)
    }

    /// Names this opening as the owner of the copies. Until then, which must be after the device
    /// names it too, an opening that fails leaves them to the next one.
    pub(crate) fn confirm(&mut self) {
        self.memory.store(GENERATION_AT, self.generation);
        self.memory.store(0, MAGIC);
    }

    /// Returns the whole records in the slots in use, in the order in which they were stored, and
    /// releases the other slots.
    fn find(&mut self, secret: &Secret) -> Vec<Record> {
        let mut found = Vec::new();
        for slot in 0..self.slots() {
            let fields = self.memory.read(self.slot_at(slot), SLOT_LEN);
            let mut fields = Decoder(&fields);
            let serial = fields.u64().unwrap_or(0);
            let place = fields.u32().zip(fields.u32());
            let record = place.and_then(|(offset, len)| {
                let (offset, len) = (offset as usize, len as usize);
                let whole = offset.checked_add(len).is_some_and(|end| end <= self.memory.size());
                (serial > 0 && whole).then_some(())?;
                let bytes = Bytes::from(self.memory.read(offset, len));
                Some((
                    offset,
                    len,
                    decode(secret, Place { position: slot, incarnation: serial }, bytes)?,
                ))
            });
            match record {
                Some((offset, len, record)) => found.push((serial, slot, offset, len, record)),
                None if serial > 0 => self.memory.store(self.slot_at(slot), 0),
                None => {}
            }
        }
        found.sort_by_key(|(serial, ..)| *serial);
        found
            .into_iter()
            .map(|(_, slot, offset, len, record)| {
                let header = &record.header;
                let copy =
                    Copy { object_id: header.object_id, checked: header.sequence, slot, offset };
                self.release(&header.digest);
                self.taken.insert(offset, len);
                self.copies.insert(header.digest, copy);
                record
            })
            .collect()
    }

    /// Stores a copy of `record`, in place of an earlier one of the same digest. Purges up to the
    /// sequence number `checked` do not concern it. Returns false if there is no space.
    pub(crate) fn keep(&mut self, secret: &Secret, record: &Record, checked: u64) -> bool {
        self.release(&record.header.digest);
        let len = record.len();
        let (Some(slot), Some(offset)) = (self.free_slots.last().copied(), self.space_for(len))
        else {
            return false;
        };
        self.free_slots.pop();
        self.made = self.made.wrapping_add(1);
        let serial = self.generation << 32 | u64::from(self.made);
        let mut header = record.header.clone();
        header.sequence = checked;
        let copy = Copy { object_id: header.object_id, checked, slot, offset };
        let place = Place { position: slot, incarnation: serial };
        let stamped = Record { header, ..record.clone() };
        stamped.encode_head(secret, place, Chain::default(), &mut self.head);
        self.memory.write(offset, &self.head);
        if let Content::Bytes(body) = &record.body {
            self.memory.write(offset + self.head.len(), body);
        }
        let at = self.slot_at(slot);
        self.memory.write(at + 8, &(offset as u32).to_le_bytes());
        self.memory.write(at + 12, &(len as u32).to_le_bytes());
        self.memory.store(at, serial);
        self.taken.insert(offset, len);
        self.next = (offset + len).next_multiple_of(ALIGN);
        self.copies.insert(record.header.digest, copy);
        true
    }

    /// Releases the copy of `digest`, if there is one: it is not found by the next process.
    pub(crate) fn release(&mut self, digest: &Digest) {
        let Some(copy) = self.copies.remove(digest) else { return };
        self.memory.store(self.slot_at(copy.slot), 0);
        self.taken.remove(&copy.offset);
        self.free_slots.push(copy.slot);
    }

    /// Releases the copy of this version of `digest`.
    pub(crate) fn release_version(&mut self, digest: &Digest, object_id: u64) {
        if self.holds(digest, object_id) {
            self.release(digest);
        }
    }

    /// Returns whether there is a copy of this version of `digest`.
    pub(crate) fn holds(&self, digest: &Digest, object_id: u64) -> bool {
        self.copies.get(digest).is_some_and(|copy| copy.object_id == object_id)
    }

    /// Returns the number of copies.
    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Returns the size of the memory in bytes.
    pub(crate) fn size(&self) -> usize {
        self.memory.size()
    }

    /// Returns the lowest sequence number from which on purges may concern a copy.
    pub(crate) fn checked(&self) -> Option<u64> {
        self.copies.values().map(|copy| copy.checked).min()
    }

    /// Removes the memory after everything was written.
    pub(crate) fn remove(self) {
        self.memory.remove();
    }

    /// Returns the offset of `len` free bytes: the first ones from the record placed last on.
    fn space_for(&self, len: usize) -> Option<usize> {
        let (mut at, mut wrapped) = (self.next, false);
        loop {
            let following = self.taken.range(at..).next();
            let end = following.map_or(self.memory.size(), |(start, _)| *start);
            if end.saturating_sub(at) >= len {
                return Some(at);
            }
            match following {
                Some((start, taken)) => at = (start + taken).next_multiple_of(ALIGN),
                None if wrapped => return None,
                None => (at, wrapped) = (self.records_at(), true),
            }
            if wrapped && at > self.next {
                return None;
            }
        }
    }

    fn slots(&self) -> u32 {
        let all = self.memory.size() - HEADER_LEN;
        (all / (BYTES_PER_SLOT + SLOT_LEN)) as u32
    }

    fn slot_at(&self, slot: u32) -> usize {
        HEADER_LEN + slot as usize * SLOT_LEN
    }

    fn records_at(&self) -> usize {
        self.slot_at(self.slots())
    }
}

/// Returns the record in `bytes` if it is whole.
fn decode(secret: &Secret, place: Place, bytes: Bytes) -> Option<Record> {
    let found = Found::decode(secret, place, &bytes)?;
    if !found.verify_body(secret, &bytes) {
        return None;
    }
    let (key, meta) = (bytes.slice(found.key.clone()), bytes.slice(found.meta.clone()));
    let body = found.content(&bytes);
    Some(Record::new(secret, found.header, key, meta, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::record::{Header, RecordKind};
    use crate::test_seed::seeds;

    const UUID: [u8; 16] = [3; 16];

    fn secret() -> Secret {
        Secret::new([5; 32])
    }

    fn record(key: u8, version: u64, len: usize) -> Record {
        let header = Header {
            kind: RecordKind::Object,
            html: false,
            digest: Digest([key; 16]),
            sequence: 0,
            object_id: version,
            object_len: len as u64,
            piece_size: 0,
            stored_at: 7,
            site: 1,
            group: 2,
            references: 0,
            stamp: 0,
        };
        let body = Bytes::from(vec![key ^ version as u8; len]);
        Record::new(&secret(), header, Bytes::copy_from_slice(&[key]), Bytes::new(), body)
    }

    fn found(records: &[Record]) -> Vec<(u8, u64, u64, Bytes)> {
        let facts = records.iter().map(|record| {
            let header = &record.header;
            (header.digest.0[0], header.object_id, header.sequence, record.body.bytes())
        });
        let mut facts: Vec<_> = facts.collect();
        facts.sort();
        facts
    }

    #[test]
    fn the_next_opening_finds_what_was_kept_and_not_released() {
        let memory = SharedMemory::simulated(StagingMemory::size_for(64 << 10));
        let again = || memory.reopen().unwrap();
        let (mut staging, none) = StagingMemory::take_over(again(), &UUID, 4, true, &secret());
        staging.confirm();
        assert!(none.is_empty());
        assert!(staging.keep(&secret(), &record(1, 10, 3000), 5));
        assert!(staging.keep(&secret(), &record(2, 11, 100), 6));
        assert!(staging.keep(&secret(), &record(1, 12, 200), 7), "another version");
        assert!(staging.keep(&secret(), &record(3, 13, 0), 8));
        staging.release(&Digest([3; 16]));
        staging.release_version(&Digest([2; 16]), 99);
        assert_eq!((staging.len(), staging.checked()), (2, Some(6)));
        let expected = [
            (1, 12, 7, record(1, 12, 200).body.bytes()),
            (2, 11, 6, record(2, 11, 100).body.bytes()),
        ];
        let (_, records) = StagingMemory::take_over(again(), &UUID, 5, true, &secret());
        assert_eq!(found(&records), expected);
        // The opening that found them was killed before the device named it.
        let (mut staging, records) = StagingMemory::take_over(again(), &UUID, 5, true, &secret());
        assert_eq!(found(&records), expected);
        staging.confirm();
        let (_, records) = StagingMemory::take_over(again(), &UUID, 7, true, &secret());
        assert!(records.is_empty(), "the cache was in use without this memory");
        let (_, records) = StagingMemory::take_over(again(), &[4; 16], 8, true, &secret());
        assert!(records.is_empty(), "another cache");
    }

    #[test]
    fn damaged_copies_are_dropped() {
        let memory = SharedMemory::simulated(StagingMemory::size_for(64 << 10));
        let again = || memory.reopen().unwrap();
        let (mut staging, _) = StagingMemory::take_over(again(), &UUID, 1, true, &secret());
        staging.confirm();
        for key in 0..3 {
            assert!(staging.keep(&secret(), &record(key, 1, 1000), 1));
        }
        let mut raw = again();
        let head = staging.copies[&Digest([0; 16])].offset;
        raw.write(head + 40, &[0xEE; 4]);
        let body = staging.copies[&Digest([1; 16])].offset;
        raw.write(body + 900, &[0xEE; 4]);
        let (mut staging, records) = StagingMemory::take_over(again(), &UUID, 2, true, &secret());
        assert_eq!(found(&records).iter().map(|(key, ..)| *key).collect::<Vec<_>>(), [2]);
        assert!(staging.keep(&secret(), &record(0, 2, 1000), 1), "their slots are free");
    }

    /// Compares with a map, in memory so small that records are refused and wrap around.
    #[test]
    fn copies_are_those_of_a_map() {
        for seed in seeds("staging_memory::copies_are_those_of_a_map", 40) {
            let mut random = fastrand::Rng::with_seed(seed);
            let memory = SharedMemory::simulated(StagingMemory::size_for(16 << 10));
            let mut generation = 1;
            let take = |generation| {
                let memory = memory.reopen().unwrap();
                let (mut staging, records) =
                    StagingMemory::take_over(memory, &UUID, generation, true, &secret());
                staging.confirm();
                (staging, records)
            };
            let (mut staging, _) = take(generation);
            let mut model = BTreeMap::new();
            let mut refused = 0;
            for step in 1..600_u64 {
                let key = random.u8(0..12);
                match random.u8(0..8) {
                    0 => {
                        staging.release(&Digest([key; 16]));
                        model.remove(&key);
                    }
                    1 => {
                        generation += 1;
                        let (next, records) = take(generation);
                        staging = next;
                        let kept: Vec<_> = model
                            .iter()
                            .map(|(key, (version, len))| {
                                (
                                    *key,
                                    *version,
                                    step_of(*version),
                                    record(*key, *version, *len).body.bytes(),
                                )
                            })
                            .collect();
                        assert_eq!(found(&records), kept, "seed {seed}");
                    }
                    _ => {
                        let len = random.usize(0..4000);
                        model.remove(&key);
                        if staging.keep(&secret(), &record(key, step, len), step_of(step)) {
                            model.insert(key, (step, len));
                        } else {
                            refused += 1;
                        }
                    }
                }
                assert_eq!(staging.len(), model.len());
            }
            assert!(refused > 0, "seed {seed}: the memory was never full");
        }
    }

    fn step_of(version: u64) -> u64 {
        version / 2
    }
}
