//! Records on their way into their slots. Neighbours are written in one request: a *packet* of a
//! set size, aligned to it, collects what follows directly behind what came before, and is written
//! when it is full or when the next record lies elsewhere (STREAM-PACKETIZER, systems M7). With a
//! packet of size zero every record is written by itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use device::Nanos;

use crate::layout::Run;
use crate::record::{Place, Record};

/// Batches that one job takes at most: they are written side by side.
const JOB_BATCHES: usize = 32;
/// Bytes that one job writes at most, unless a single batch is larger.
const JOB_BYTES: u64 = 1 << 20;

/// A record with its place, until all of it is on the device.
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
    /// Which of its runs.
    pub(crate) run: usize,
    /// The slots of the run that are meant.
    pub(crate) slots: Run,
}

/// Parts of records behind one another.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) slots: Run,
    pub(crate) parts: Vec<Part>,
    /// When the oldest of them was placed.
    oldest: Nanos,
}

/// What is to be written.
struct Waiting {
    unwritten: Unwritten,
    /// Parts that have not been written.
    parts: u32,
}

/// All records that wait to be written.
pub(crate) struct Batches {
    slot_bytes: u64,
    /// Bytes of a packet, a multiple of a slot; 0: none.
    packet: u64,
    /// Bytes of a page: two batches that share one are not written side by side.
    page: u64,
    open: Option<Batch>,
    sealed: VecDeque<Batch>,
    /// By position.
    waiting: BTreeMap<u32, Waiting>,
    /// The slots of what waits: first and end.
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

    /// A record that got its place is to be written.
    pub(crate) fn add(&mut self, unwritten: Unwritten, now: Nanos) {
        self.bytes += unwritten.record.len();
        let mut parts = 0;
        for (run, slots) in unwritten.runs.iter().enumerate() {
            self.runs.insert(slots.first, slots.end());
            let part = Part { of: unwritten.clone(), run, slots: *slots };
            parts += self.append(part, now);
        }
        let position = unwritten.place.position;
        self.waiting.insert(position, Waiting { unwritten, parts });
    }

    /// Puts a part behind its neighbour, or begins anew. Returns how many parts it became.
    fn append(&mut self, part: Part, now: Nanos) -> u32 {
        let follows = |open: &Batch| open.slots.end() == part.slots.first;
        if !self.open.as_ref().is_some_and(follows) {
            self.seal();
        }
        let open = self.open.get_or_insert_with(|| Batch {
            slots: Run { first: part.slots.first, len: 0 },
            parts: Vec::new(),
            oldest: now,
        });
        open.slots.len += part.slots.len;
        open.parts.push(part);
        self.split_at_packet(now)
    }

    /// Seals what of the open batch fills its packets. Returns the parts that the last part became.
    fn split_at_packet(&mut self, now: Nanos) -> u32 {
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
        // Only the last part can reach over the boundary: those before it did not.
        let last = open.parts.last_mut().expect("a batch has parts");
        assert!(last.slots.first < boundary, "what reached the boundary before was sealed then");
        let rest = Run { first: boundary, len: open.slots.end() - boundary };
        let next =
            Batch { slots: rest, parts: vec![Part { slots: rest, ..last.clone() }], oldest: now };
        last.slots.len = boundary - last.slots.first;
        open.slots.len = boundary - open.slots.first;
        self.seal();
        self.open = Some(next);
        2
    }

    /// The open batch takes nothing more.
    pub(crate) fn seal(&mut self) {
        self.sealed.extend(self.open.take());
    }

    /// The record at `position`, while some of it is not on the device.
    pub(crate) fn get(&self, position: u32) -> Option<&Arc<Record>> {
        self.waiting.get(&position).map(|waiting| &waiting.unwritten.record)
    }

    /// Whether what lies in a slot is still to be written.
    pub(crate) fn covers(&self, slot: u32) -> bool {
        self.runs.range(..=slot).next_back().is_some_and(|(_, end)| slot < *end)
    }

    /// Bytes of records that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a write is under way, or must follow.
    pub(crate) fn busy(&self) -> bool {
        self.writing || !self.sealed.is_empty()
    }

    /// When the open batch must be written although its packet is not full.
    pub(crate) fn deadline(&self, bound: Nanos) -> Option<Nanos> {
        self.open.as_ref().map(|open| open.oldest.saturating_add(bound))
    }

    /// Whether there is something to write: a sealed batch, or an open one that was begun at
    /// `overdue` or before.
    pub(crate) fn ready(&self, overdue: Option<Nanos>) -> bool {
        let late = |open: &Batch| overdue.is_some_and(|overdue| open.oldest <= overdue);
        !self.writing && (!self.sealed.is_empty() || self.open.as_ref().is_some_and(late))
    }

    /// Takes what is to be written now: sealed batches, or the open one when there are none.
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

    /// The write that [`Batches::begin_write`] named has ended.
    pub(crate) fn end_write(&mut self) {
        self.writing = false;
    }

    /// A part is on the device, or will never be. True when nothing of its record waits any more.
    pub(crate) fn settle(&mut self, part: &Part) -> bool {
        let position = part.of.place.position;
        let waiting = self.waiting.get_mut(&position).expect("who has parts waits");
        waiting.parts -= 1;
        if waiting.parts > 0 {
            return false;
        }
        for run in part.of.runs.iter() {
            self.runs.remove(&run.first);
        }
        self.bytes -= part.of.record.len();
        self.waiting.remove(&position);
        true
    }
}
