//! Records on their way into their slots. Neighbours are written in one request: a *packet* of a
//! set size, aligned to it, collects records that directly follow one another. It is written when
//! it is full or when the next record lies elsewhere (STREAM-PACKETIZER, systems M7). With a packet
//! size of zero every record is written by itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use device::Nanos;

use crate::base::record::{Place, Record};
use crate::layout::Run;

/// Maximum number of batches in one job, which writes them concurrently.
const JOB_BATCHES: usize = 32;
/// Maximum size of one job in bytes, unless a single batch is larger.
const JOB_BYTES: u64 = 1 << 20;

/// A record with its place, until it is completely on the device.
#[derive(Clone)]
pub(crate) struct Unwritten {
    pub(crate) record: Arc<Record>,
    pub(crate) place: Place,
    pub(crate) runs: Arc<[Run]>,
}

/// A part of a record's run.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) of: Unwritten,
    /// Index of the run within the record.
    pub(crate) run: usize,
    /// The slots of the run that this part covers.
    pub(crate) slots: Run,
}

/// Adjacent parts of records.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) slots: Run,
    pub(crate) parts: Vec<Part>,
    /// When it must be written at the latest.
    due: Nanos,
}

/// A record that waits to be written.
struct Waiting {
    unwritten: Unwritten,
    /// Number of parts that have not been written.
    parts: u32,
}

/// All records that wait to be written.
pub(crate) struct Batches {
    slot_bytes: u64,
    /// Size of a packet in bytes, a multiple of a slot; 0 disables packets.
    packet: u64,
    /// Size of a page in bytes: two batches that share one are not written concurrently.
    page: u64,
    open: Option<Batch>,
    sealed: VecDeque<Batch>,
    waiting: BTreeMap<u32, Waiting>,
    /// Waiting slots that are not on the device yet: first and end of each range. A part leaves
    /// this map once it is written, even if the rest of its record still waits. From then on the
    /// page that contains it must not be written without it.
    runs: BTreeMap<u32, u32>,
    bytes: usize,
    writing: bool,
}

impl Batches {
    pub(crate) fn new(slot_bytes: u32, packet: u32, page: u32) -> Batches {
        let [slot_bytes, packet, page] = [slot_bytes, packet, page].map(u64::from);
        assert!(packet.is_multiple_of(slot_bytes), "a packet is whole slots");
        Batches {
            slot_bytes,
            packet,
            page,
            open: None,
            sealed: VecDeque::new(),
            waiting: BTreeMap::new(),
            runs: BTreeMap::new(),
            bytes: 0,
            writing: false,
        }
    }

    /// Adds a record with its place to the records to be written, by `due` at the latest.
    pub(crate) fn add(&mut self, unwritten: Unwritten, due: Nanos) {
        self.bytes += unwritten.record.len();
        let mut parts = 0;
        for (run, slots) in unwritten.runs.iter().enumerate() {
            self.runs.insert(slots.first, slots.end());
            let part = Part { of: unwritten.clone(), run, slots: *slots };
            parts += self.append(part, due);
        }
        let position = unwritten.place.position;
        self.waiting.insert(position, Waiting { unwritten, parts });
    }

    /// Appends a part to its neighbour, or starts a new batch. Returns the number of parts it
    /// became.
    fn append(&mut self, part: Part, due: Nanos) -> u32 {
        let follows = |open: &Batch| open.slots.end() == part.slots.first;
        if !self.open.as_ref().is_some_and(follows) {
            self.seal();
        }
        let open = self.open.get_or_insert_with(|| Batch {
            slots: Run { first: part.slots.first, len: 0 },
            parts: Vec::new(),
            due,
        });
        open.slots.len += part.slots.len;
        open.parts.push(part);
        open.due = open.due.min(due);
        self.split_at_packet(due)
    }

    /// Seals the full packets of the open batch. Returns the number of parts that the last part
    /// became.
    fn split_at_packet(&mut self, due: Nanos) -> u32 {
        let Some(open) = &mut self.open else { return 1 };
        if self.packet == 0 {
            self.seal();
            return 1;
        }
        let per_packet = (self.packet / self.slot_bytes) as u32;
        let boundary = open.slots.end() / per_packet * per_packet;
        if boundary <= open.slots.first {
            return 1;
        }
        if boundary == open.slots.end() {
            self.seal();
            return 1;
        }
        // Only the last part can cross the boundary; earlier ones did not.
        let last = open.parts.last_mut().expect("a batch has parts");
        assert!(last.slots.first < boundary, "what reached the boundary before was sealed then");
        let rest = Run { first: boundary, len: open.slots.end() - boundary };
        let next = Batch { slots: rest, parts: vec![Part { slots: rest, ..last.clone() }], due };
        last.slots.len = boundary - last.slots.first;
        open.slots.len = boundary - open.slots.first;
        self.seal();
        self.open = Some(next);
        2
    }

    pub(crate) fn seal(&mut self) {
        self.sealed.extend(self.open.take());
    }

    /// Returns the record at `position`, while some of it is not on the device.
    pub(crate) fn get(&self, position: u32) -> Option<&Arc<Record>> {
        self.waiting.get(&position).map(|waiting| &waiting.unwritten.record)
    }

    /// Returns whether the content of a slot is still to be written.
    pub(crate) fn covers(&self, slot: u32) -> bool {
        self.runs.range(..=slot).next_back().is_some_and(|(_, end)| slot < *end)
    }

    /// Returns the size of all waiting records, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a write is in progress, or must follow.
    pub(crate) fn busy(&self) -> bool {
        self.writing || !self.sealed.is_empty()
    }

    /// Returns when the open batch must be written although its packet is not full.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.open.as_ref().map(|open| open.due)
    }

    /// Returns whether a write is due: of a sealed batch, or of an open one that must be written by
    /// `due`.
    pub(crate) fn ready(&self, due: Option<Nanos>) -> bool {
        let late = |open: &Batch| due.is_some_and(|due| open.due <= due);
        !self.writing && (!self.sealed.is_empty() || self.open.as_ref().is_some_and(late))
    }

    /// Takes the next batches to write: sealed ones, or the open one if there are none.
    pub(crate) fn begin_write(&mut self) -> Vec<Batch> {
        if self.sealed.is_empty() {
            self.seal();
        }
        let mut taken: Vec<Batch> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.sealed.front() {
            let len = u64::from(next.slots.len) * self.slot_bytes;
            let room = taken.len() < JOB_BATCHES && bytes + len <= JOB_BYTES;
            let apart = taken.iter().all(|batch| !self.share_a_page(batch.slots, next.slots));
            if !(taken.is_empty() || room && apart) {
                break;
            }
            bytes += len;
            taken.extend(self.sealed.pop_front());
        }
        self.writing = !taken.is_empty();
        taken
    }

    fn share_a_page(&self, a: Run, b: Run) -> bool {
        let first = |run: Run| u64::from(run.first) * self.slot_bytes / self.page;
        let end = |run: Run| (u64::from(run.end()) * self.slot_bytes).div_ceil(self.page);
        first(a) < end(b) && first(b) < end(a)
    }

    /// Records that the write returned by [`Batches::begin_write`] has ended.
    pub(crate) fn end_write(&mut self) {
        self.writing = false;
    }

    /// Records that a part is on the device, or never will be. Returns whether nothing of its
    /// record is waiting any more.
    pub(crate) fn settle(&mut self, part: &Part) -> bool {
        self.uncover(part.slots);
        let position = part.of.place.position;
        let waiting = self.waiting.get_mut(&position).expect("who has parts waits");
        waiting.parts -= 1;
        if waiting.parts > 0 {
            return false;
        }
        self.bytes -= part.of.record.len();
        self.waiting.remove(&position);
        true
    }

    /// Removes these slots, which lie in one run, from the waiting ones.
    fn uncover(&mut self, slots: Run) {
        let (first, end) = self
            .runs
            .range(..=slots.first)
            .next_back()
            .map(|(first, end)| (*first, *end))
            .filter(|(_, end)| slots.end() <= *end)
            .expect("what was not written waited");
        self.runs.remove(&first);
        if first < slots.first {
            self.runs.insert(first, slots.first);
        }
        if slots.end() < end {
            self.runs.insert(slots.end(), end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use bytes::Bytes;

    use crate::base::digest::Digest;
    use crate::base::keyed_checksum::Secret;
    use crate::base::record::{Header, RecordKind};

    fn unwritten(sequence: u64, runs: &[Run]) -> Unwritten {
        let header = Header {
            kind: RecordKind::Object,
            html: false,
            digest: Digest([1; 16]),
            sequence,
            object_id: sequence,
            object_len: 10,
            piece_size: 0,
            stored_at: 0,
            site: 0,
            group: 0,
            references: 0,
            stamp: 0,
        };
        let body = Bytes::from_static(b"ten bytes.");
        let secret = Secret::new([1; 32]);
        let record = Record::new(&secret, header, Bytes::new(), Bytes::new(), body);
        let place = Place { position: runs[0].first, incarnation: sequence };
        Unwritten { record: Arc::new(record), place, runs: runs.into() }
    }

    const fn run(first: u32, len: u32) -> Run {
        Run { first, len }
    }

    fn covered(batches: &Batches) -> Vec<u32> {
        (0..64).filter(|slot| batches.covers(*slot)).collect()
    }

    #[test]
    fn a_run_that_is_written_is_not_to_be_written_while_its_record_waits_for_another() {
        let mut batches = Batches::new(512, 0, 4096);
        // The second record's first run shares its page with the first record.
        batches.add(unwritten(1, &[run(0, 2)]), 0);
        batches.add(unwritten(2, &[run(20, 2), run(3, 2)]), 0);
        assert_eq!(covered(&batches), [0, 1, 3, 4, 20, 21]);
        let written = batches.begin_write();
        assert_eq!(written.len(), 2, "the third would share a page with the first");
        batches.end_write();
        let settled = written.iter().map(|batch| batches.settle(&batch.parts[0]));
        assert_eq!(settled.collect::<Vec<_>>(), [true, false]);
        assert_eq!(covered(&batches), [3, 4]);
        assert!(batches.get(20).is_some(), "it still waits");
        let written = batches.begin_write();
        batches.end_write();
        assert!(batches.settle(&written[0].parts[0]));
        assert_eq!((covered(&batches), batches.bytes()), (Vec::new(), 0));
    }

    #[test]
    fn parts_of_a_run_in_several_packets_are_written_one_by_one() {
        let mut batches = Batches::new(512, 4096, 4096);
        batches.add(unwritten(1, &[run(6, 4)]), 0);
        batches.seal();
        let mut written = batches.begin_write();
        assert_eq!(written.len(), 2, "the run lies in two packets");
        // In whichever order they end.
        written.reverse();
        batches.end_write();
        assert!(!batches.settle(&written[0].parts[0]));
        assert_eq!(covered(&batches), [6, 7]);
        assert!(batches.settle(&written[1].parts[0]));
        assert_eq!(covered(&batches), []);
    }
}
