//! The records of a slot space and their positions. A record is found by the position of its first
//! slot; a small number identifies it for the eviction policy.
//!
//! A record takes 40 bytes here, about 6 in the table that finds it, and 8 per further run.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::layout::Run;

/// Number of a record while it is listed: small, and reused.
pub(crate) type RecordId = u32;

/// The data on a record that are known without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Digest in the index; for metadata, the digest of their object.
    pub(crate) digest: Digest,
    /// Orders all records. The record's checksum is bound to it.
    pub(crate) sequence: u64,
    /// The first run. Its first slot is the record's position.
    pub(crate) run: Run,
    /// Size of the record in bytes, without the headers of further runs.
    pub(crate) len: u32,
    pub(crate) kind: RecordKind,
}

/// All records of a slot space.
#[derive(Default)]
pub(crate) struct RecordTable {
    listed: Vec<Option<Listed>>,
    free: Vec<RecordId>,
    by_position: HashTable<RecordId>,
    /// Runs after the first.
    further: BTreeMap<RecordId, Box<[Run]>>,
}

impl RecordTable {
    /// Adds a record. `further` are its runs after the first.
    pub(crate) fn add(&mut self, record: Listed, further: &[Run]) -> RecordId {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.listed.push(None);
                u32::try_from(self.listed.len() - 1).expect("records are fewer than slots")
            }
        };
        debug_assert!(self.id(record.run.first).is_none(), "one record starts at a position");
        self.listed[id as usize] = Some(record);
        let listed = &self.listed;
        self.by_position.insert_unique(spread(record.run.first), id, |id| {
            spread(position(listed, *id).expect("who is in the table is listed"))
        });
        if !further.is_empty() {
            self.further.insert(id, further.into());
        }
        id
    }

    /// Returns the number of the record whose first slot is `at`.
    pub(crate) fn id(&self, at: u32) -> Option<RecordId> {
        self.by_position.find(spread(at), |id| position(&self.listed, *id) == Some(at)).copied()
    }

    pub(crate) fn get(&self, id: RecordId) -> &Listed {
        self.listed[id as usize].as_ref().expect("the record is listed")
    }

    /// Returns the record whose first slot is `position`.
    pub(crate) fn at(&self, position: u32) -> Option<&Listed> {
        self.id(position).map(|id| self.get(id))
    }

    /// Returns whether the record has only one run.
    pub(crate) fn is_one_run(&self, id: RecordId) -> bool {
        !self.further.contains_key(&id)
    }

    /// Returns all runs of the record, in the order of its bytes.
    pub(crate) fn runs(&self, id: RecordId) -> Vec<Run> {
        let mut runs = vec![self.get(id).run];
        runs.extend(self.further.get(&id).into_iter().flatten());
        runs
    }

    /// Removes a record. Returns its runs.
    pub(crate) fn remove(&mut self, id: RecordId) -> Vec<Run> {
        let runs = self.runs(id);
        let at = runs[0].first;
        let listed = &self.listed;
        self.by_position
            .find_entry(spread(at), |other| position(listed, *other) == Some(at))
            .expect("who is listed is in the table")
            .remove();
        self.listed[id as usize] = None;
        self.further.remove(&id);
        self.free.push(id);
        runs
    }

    pub(crate) fn len(&self) -> usize {
        self.by_position.len()
    }

    /// Returns all records in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RecordId, &Listed)> {
        (0..).zip(&self.listed).filter_map(|(id, listed)| Some((id, listed.as_ref()?)))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.listed.capacity() * size_of::<Option<Listed>>()
            + self.free.capacity() * size_of::<RecordId>()
            + self.by_position.allocation_size()
            + self.further.values().map(|runs| 48 + 8 * runs.len()).sum::<usize>()
    }
}

fn position(listed: &[Option<Listed>], id: RecordId) -> Option<u32> {
    listed[id as usize].as_ref().map(|record| record.run.first)
}

/// Hashes a position. Positions are multiples of small numbers, so they are spread over all bits.
fn spread(position: u32) -> u64 {
    u64::from(position).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeMap;

    use crate::test_seed::seeds;

    #[test]
    fn the_record_table_lists_what_a_map_lists() {
        for seed in seeds("record_table::it_lists", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut table = RecordTable::default();
            let mut model: BTreeMap<u32, (Listed, Vec<Run>)> = BTreeMap::new();
            for sequence in 0..2_000 {
                let at = random.u32(..300) * 8;
                if let Some((listed, further)) = model.remove(&at) {
                    let id = table.id(at).expect("listed");
                    assert_eq!(table.get(id), &listed);
                    let (alone, runs) = (table.is_one_run(id), table.remove(id));
                    assert_eq!((runs[0], &runs[1..]), (listed.run, &further[..]));
                    assert_eq!(alone, further.is_empty());
                    assert!(table.at(at).is_none());
                } else {
                    let run = Run { first: at, len: random.u32(1..8) };
                    let kind = RecordKind::Piece;
                    let digest = Digest([random.u8(..); 16]);
                    let listed = Listed { digest, sequence, run, len: 77, kind };
                    let further: Vec<Run> =
                        (0..random.u32(..3)).map(|n| Run { first: 10_000 + n, len: 1 }).collect();
                    table.add(listed, &further);
                    model.insert(at, (listed, further));
                }
                assert_eq!(table.len(), model.len());
            }
            let mut all: Vec<u32> = table.iter().map(|(_, listed)| listed.run.first).collect();
            all.sort_unstable();
            assert!(all.iter().eq(model.keys()));
        }
    }
}
