//! The log of purges by name, for other stores that follow it: a ring of blocks in an area of its
//! own. Kept only when enabled.
//!
//! Recovery does not use it: the purges in force here follow from the journal and the checkpoint.
//! Guarantees to followers: no acknowledged purge is missing between two positions. Where that is
//! not known for sure, the log reports that it does not reach back that far.
//!
//! An entry has a number; a block holds the entries from one number on. Most are purges that were
//! made here. Purges that were made at other nodes name their maker. Blocks form groups, and each
//! group begins with the number of each maker's last purge: so the end of the log says which purges
//! the whole log has had, and a group's begin where to look for one.
//!
//! The last block grows: each of its versions holds all entries of the block. Versions are written
//! to two places in turn, the next one only when the one before is durable, so that an acknowledged
//! purge is always in an intact version. A full block is written once, to its place in the ring,
//! with the first version of a later block. From then on it is not kept in memory: purges that are
//! asked for are read.
//!
//! Each opening rewrites the last block with its generation. If the last block does not name the
//! generation of the previous opening, the cache was in use without the log, and a new log begins
//! (`purge_log::opening`). A new log also begins when the place of the next version holds damaged
//! bytes, since these may have been that version.
//!
//! A later log has a greater number, also on another device, as long as both are opened by the same
//! advancing clock: the upper half of the number is the time at which the log began.

mod block;
mod entry;
mod lacking;
mod makers;
mod opening;
mod reading;
mod since;

use std::collections::VecDeque;

use device::Extent;
use xxhash_rust::xxh3::xxh3_64;

use crate::base::key::Key;
use crate::base::keyed_checksum::Secret;
use crate::base::logged_purge::{LoggedPurge, MadePurge, PurgeMaker, PurgePosition};
use crate::format::device_layout::BLOCK;
use crate::format::purge_log::block::{Area, Block, ROOM, version_place};
use crate::format::purge_log::entry::{Entry, MAKER_NAME_MAX};
pub(crate) use crate::format::purge_log::lacking::{LackingQuestion, LackingStep};
use crate::format::purge_log::makers::Makers;
pub(crate) use crate::format::purge_log::opening::FoundEnd;
pub(crate) use crate::format::purge_log::since::{PurgeQuestion, PurgeStep};

/// Stands for the number of own purges before a block that has not been read since the cache was
/// opened.
const UNKNOWN: u64 = u64::MAX;

/// Returns whether the log can tell a purge of this key.
pub(crate) fn fits(key: &Key) -> bool {
    entry::len_of(key) <= ROOM
}

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgeLogEnd {
    /// Number of entries before it.
    entries: u64,
    /// Number of own purges before it.
    own: u64,
    /// Number of full blocks before it.
    blocks: u64,
}

/// Blocks to write, and the end of the log with them.
pub(crate) struct PurgeLogWrite {
    /// Byte offsets on the device.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    pub(crate) until: PurgeLogEnd,
}

/// The cache that a log belongs to, and the opening of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOwner {
    pub(crate) uuid: [u8; 16],
    pub(crate) generation: u64,
    /// Extent of the log on the device.
    pub(crate) area: Extent,
}

/// The purge log of an open cache.
#[derive(Clone)]
pub(crate) struct PurgeLog {
    area: Area,
    /// Full blocks that are not durable yet, oldest first.
    pending: VecDeque<Block>,
    /// The last block, which grows.
    tail: Block,
    /// True if the last block has changed since it was last written.
    dirty: bool,
    /// Place to erase with the next write: its contents would be taken for the version before.
    erase: Option<u64>,
    /// For each block that the ring may hold, up to the last one, the number of own purges before
    /// it or [`UNKNOWN`].
    firsts: VecDeque<u64>,
    makers: Makers,
    /// True if a log, this or another one, was kept here before the cache was opened.
    was_kept: bool,
    written: PurgeLogEnd,
    durable: PurgeLogEnd,
    /// The end that the flush under way makes durable.
    flushing: PurgeLogEnd,
}

impl PurgeLog {
    /// Creates an empty log, begun at `now` in unix seconds.
    pub(crate) fn new(owner: &LogOwner, now: u64) -> PurgeLog {
        let random = xxh3_64(&[&owner.uuid[..], &owner.generation.to_le_bytes()].concat());
        let log = now << 32 | random >> 32;
        let tail = Block { generation: owner.generation, ..Block::empty(log, 0) };
        let erase = Some(version_place(tail.version + 1));
        PurgeLog { erase, ..PurgeLog::ending_with(Area(owner.area), tail) }
    }

    /// Returns the log that ends with the block `tail`, to be written as its next version.
    fn ending_with(area: Area, tail: Block) -> PurgeLog {
        let (entries, own) = (tail.end(), tail.own_end());
        let end = PurgeLogEnd { entries, own, blocks: tail.number };
        let makers = Makers::new(area.group());
        let before = tail.number.min(area.slots()) as usize;
        let mut firsts: VecDeque<u64> = vec![UNKNOWN; before].into();
        firsts.push_back(tail.own);
        let (pending, dirty, erase, was_kept) = (VecDeque::new(), true, None, false);
        let (written, durable, flushing) = (end, end, end);
        PurgeLog {
            area,
            pending,
            tail,
            dirty,
            erase,
            firsts,
            makers,
            was_kept,
            written,
            durable,
            flushing,
        }
    }

    /// Returns this empty log as one whose first purge is lost, so that its followers know that
    /// they may have missed purges of the log before.
    fn after_a_lost_one(self) -> PurgeLog {
        let tail = Block { own: 1, ..self.tail };
        let log = PurgeLog::ending_with(self.area, tail);
        PurgeLog { erase: self.erase, was_kept: true, ..log }
    }

    /// Gives the log a number greater than it has and than `known`. It keeps its purges: to
    /// followers they are new.
    pub(crate) fn begin_later(&mut self, known: u64) {
        self.tail.log = known.max(self.tail.log).saturating_add(1);
        self.dirty = true;
    }

    /// Logs a purge that is made here. Returns the number of entries including it: it is logged
    /// once that many are durable.
    pub(crate) fn log(&mut self, purge: LoggedPurge) -> u64 {
        self.append(Entry::Own(Some(purge)));
        self.tail.end()
    }

    /// Logs a purge that was made elsewhere, unless it is in the log already. Earlier ones of its
    /// maker that were never logged here are known otherwise. Returns the number of entries after
    /// which it is logged, or was before.
    pub(crate) fn log_made(&mut self, made: MadePurge) -> u64 {
        let MadePurge { maker, number, purge } = made;
        let is_named = (1..=MAKER_NAME_MAX).contains(&maker.name.len());
        let logged = self.makers.logged(&maker);
        if is_named && logged < number {
            if logged + 1 < number {
                self.append(Entry::Reached(maker.clone(), number - 1));
            }
            self.append(Entry::Made(maker, number, Some(purge)));
        }
        self.tail.end()
    }

    fn append(&mut self, mut entry: Entry) {
        let mut bytes = entry::encode(&entry);
        if bytes.len() > ROOM
            && let Entry::Own(purge) | Entry::Made(_, _, purge) = &mut entry
        {
            *purge = None;
            bytes = entry::encode(&entry);
        }
        // A block that begins a group has the numbers of the makers already.
        while self.tail.entries.len() + bytes.len() > ROOM {
            self.begin_block();
        }
        self.makers.note(self.tail.end(), &entry);
        self.tail.append(&bytes, matches!(entry, Entry::Own(_)));
        self.dirty = true;
    }

    /// Begins another block behind the last one, which is full.
    fn begin_block(&mut self) {
        let (number, first, own) = (self.tail.number + 1, self.tail.end(), self.tail.own_end());
        let Block { ring, log, generation, version, .. } = self.tail;
        let empty = Block::empty(ring, number);
        let empty = Block { log, generation, version, first, own, ..empty };
        self.pending.push_back(std::mem::replace(&mut self.tail, empty));
        self.firsts.push_back(own);
        let slots = self.area.slots() as usize;
        if self.firsts.len() > slots + 1 {
            self.firsts.pop_front();
        }
        if self.pending.len() > slots {
            // The last block would be written over it.
            self.pending.pop_front();
        }
        if self.area.group_start(number) == number {
            for entry in self.makers.stated() {
                self.append(entry);
            }
        }
    }

    /// Returns the blocks to write next; `None` when there are none, or when the last write is not
    /// durable yet.
    pub(crate) fn begin_write(&mut self, secret: &Secret) -> Option<PurgeLogWrite> {
        if self.written != self.durable || !self.dirty {
            return None;
        }
        let mut writes = Vec::new();
        let from = self.written.blocks.max(self.first_in_memory());
        let mut full = from..self.tail.number;
        while !full.is_empty() {
            let run = self.area.first_run(full.clone());
            full.start = run.end;
            writes.push(self.encode_run(secret, run));
        }
        let place = version_place(self.tail.version);
        writes.push((place, self.tail.encode(secret, place)));
        writes.extend(self.erase.take().map(|place| (place, vec![0; BLOCK as usize])));
        let at = |(place, bytes)| (self.area.extent(place, 1).offset, bytes);
        let writes = writes.into_iter().map(at).collect();
        // That version stays on the device until the next one is durable.
        self.tail.version += 1;
        self.dirty = false;
        self.makers.begin_write();
        let (entries, own) = (self.tail.end(), self.tail.own_end());
        let until = PurgeLogEnd { entries, own, blocks: self.tail.number };
        Some(PurgeLogWrite { writes, until })
    }

    /// Returns the place of full blocks that lie side by side, and their bytes.
    fn encode_run(&self, secret: &Secret, run: std::ops::Range<u64>) -> (u64, Vec<u8>) {
        let (place, memory) = (self.area.place(run.start), self.first_in_memory());
        let mut bytes = Vec::with_capacity((run.end - run.start) as usize * BLOCK as usize);
        let blocks = self.pending.iter().skip((run.start - memory) as usize);
        for (block, place) in blocks.zip(place..place + (run.end - run.start)) {
            let Block { generation, version, log, .. } = self.tail;
            let block = Block { generation, version, log, ..block.clone() };
            bytes.extend_from_slice(&block.encode(secret, place));
        }
        (place, bytes)
    }

    /// Returns the number of the first block in memory.
    fn first_in_memory(&self) -> u64 {
        self.pending.front().map_or(self.tail.number, |block| block.number)
    }

    /// Records that the blocks up to `until` are written.
    pub(crate) fn end_write(&mut self, until: PurgeLogEnd) {
        self.written = until;
    }

    /// Records that a flush begins.
    pub(crate) fn begin_flush(&mut self) {
        self.flushing = self.written;
    }

    /// Records that the flush succeeded.
    pub(crate) fn end_flush(&mut self) {
        self.durable = self.flushing;
        if self.durable == self.written {
            self.makers.end_flush();
        }
        while self.first_in_memory() < self.durable.blocks {
            self.pending.pop_front();
        }
    }

    /// Returns whether a log, this or another one, was kept here before the cache was opened.
    pub(crate) fn was_kept(&self) -> bool {
        self.was_kept
    }

    /// Returns how many entries are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.entries
    }

    /// Returns the makers whose purges the log has had, with the numbers of their last durable
    /// ones.
    pub(crate) fn vector(&self) -> Vec<(PurgeMaker, u64)> {
        let (own, end) = (self.own_maker(), self.durable.own);
        let others = self.makers.durable().map(|(maker, number)| (maker.clone(), number));
        std::iter::once((own, end)).chain(others).collect()
    }

    /// Returns the number of a maker's last durable purge; 0 if none is known.
    fn durable_of(&self, maker: &PurgeMaker) -> u64 {
        match *maker == self.own_maker() {
            true => self.durable.own,
            false => self.makers.durable_of(maker),
        }
    }

    /// Returns the maker of the own purges.
    fn own_maker(&self) -> PurgeMaker {
        PurgeMaker { name: bytes::Bytes::new(), incarnation: self.tail.log }
    }

    /// Returns the position behind the durable purges.
    pub(crate) fn end(&self) -> PurgePosition {
        PurgePosition { log: self.tail.log, number: self.durable.own }
    }
}

#[cfg(test)]
mod tests;
