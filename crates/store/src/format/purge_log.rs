//! The log of purges by name, for other stores that follow it: a ring of blocks in front of the
//! first area, which other versions of the program leave alone. Kept only when enabled.
//!
//! Recovery does not use it: the purges in force here follow from the journal and the checkpoint.
//! Guarantees to followers: no acknowledged purge is missing between two positions. Where that is
//! not known for sure, the log reports that it does not reach back that far.
//!
//! A purge has a number; a block holds the purges from one number on. The last block grows: each of
//! its versions holds all purges of the block. Versions are written to two places in turn, the next
//! one only when the one before is durable, so that an acknowledged purge is always in an intact
//! version. Each opening rewrites the last block with its generation. If the last block does not
//! name the generation of the previous opening, the cache was in use without the log, and a new log
//! begins. A new log also begins when the place of the next version holds damaged bytes, since
//! these may have been that version.
//!
//! A later log has a greater number, also on another device, as long as both are opened by the same
//! advancing clock: the upper half of the number is the time at which the log began.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use device::Extent;
use xxhash_rust::xxh3::xxh3_64;

use crate::base::key::{Key, Locality};
use crate::base::keyed_checksum::Secret;
use crate::base::labels::Mode;
use crate::base::logged_purge::{LoggedPurge, PurgePosition, PurgedTarget, PurgesSince};
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;

/// Extent of the log: behind the first superblock, before the former place of the second.
pub(crate) const PURGE_LOG: Extent = Extent { offset: 64 * 1024, len: 384 * 1024 };

const MAGIC: u32 = u32::from_le_bytes(*b"LPLG");
const HEADER_LEN: usize = 64;
const ROOM: usize = BLOCK as usize - HEADER_LEN;
/// Encoded length in bytes of a purge without its name and locality.
const ENTRY_LEN: usize = 15;
/// Number of blocks in the ring; each has two places.
const BLOCKS: u64 = PURGE_LOG.len / BLOCK / 2;
const PLACES: u64 = BLOCKS * 2;
/// Maximum number of purges returned at a time.
const TOLD_AT_ONCE: usize = 256;

/// A purge; `None` for one whose name was too long to log.
type Entry = Option<LoggedPurge>;

fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(LoggedPurge { target, mode, at }) = entry else {
        Encoder(&mut bytes).u8(4).zeros(14);
        return bytes;
    };
    let (kind, label, locality, name) = match target {
        PurgedTarget::Everything => (0, 0, None, &[][..]),
        PurgedTarget::Label { kind, name } => (1, *kind, None, &name[..]),
        PurgedTarget::Prefix(prefix) => (2, 0, None, &prefix[..]),
        PurgedTarget::Key(key) => (3, 0, Some(key.locality()), &key.as_bytes()[..]),
        PurgedTarget::Name(name) => (5, 0, None, &name[..]),
    };
    let mut out = Encoder(&mut bytes);
    out.u8(kind).u8(u8::from(*mode == Mode::Soft)).u8(label).u64(*at).u32(name.len() as u32);
    if let Some(Locality { site, group }) = locality {
        out.u64(site).u64(group);
    }
    out.bytes(name);
    bytes
}

fn decode(from: &mut Decoder<'_>) -> Option<Entry> {
    let (kind, soft, label) = (from.u8()?, from.u8()?, from.u8()?);
    let (at, len) = (from.u64()?, from.u32()? as usize);
    let locality = match kind {
        3 => Some(Locality { site: from.u64()?, group: from.u64()? }),
        _ => None,
    };
    let name = Bytes::copy_from_slice(from.bytes(len)?);
    let target = match (kind, locality) {
        (0, _) => PurgedTarget::Everything,
        (1, _) => PurgedTarget::Label { kind: label, name },
        (2, _) => PurgedTarget::Prefix(name),
        (3, Some(locality)) => PurgedTarget::Key(Key::new(name, locality)?),
        (4, _) => return Some(None),
        (5, _) => PurgedTarget::Name(name),
        _ => return None,
    };
    let mode = if soft == 0 { Mode::Hard } else { Mode::Soft };
    Some(Some(LoggedPurge { target, mode, at }))
}

/// Returns whether the log can tell a purge of this key.
pub(crate) fn fits(key: &Key) -> bool {
    let locality = 16;
    ENTRY_LEN + locality + key.as_bytes().len() <= ROOM
}

/// A block of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    log: u64,
    generation: u64,
    number: u64,
    version: u64,
    /// The number of the first purge in the block.
    first: u64,
    entries: Vec<Entry>,
    /// Encoded length of the entries in bytes.
    bytes: usize,
    /// True if the block has changed since it was last written.
    dirty: bool,
}

/// Returns the place of a version of a block, counted in blocks.
fn place(number: u64, version: u64) -> u64 {
    number % BLOCKS * 2 + version % 2
}

impl Block {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn encode(&self, secret: &Secret) -> Vec<u8> {
        let mut covered = Vec::with_capacity(BLOCK as usize);
        let mut out = Encoder(&mut covered);
        out.u64(self.log).u64(self.generation).u64(self.number).u64(self.version);
        out.u64(self.first).u32(self.entries.len() as u32).u32(0);
        for entry in &self.entries {
            Encoder(&mut covered).bytes(&encode(entry));
        }
        covered.resize(BLOCK as usize - 16, 0);
        let checksum = secret.checksum_at(place(self.number, self.version), &covered);
        let mut bytes = Vec::with_capacity(BLOCK as usize);
        Encoder(&mut bytes).u32(MAGIC).u32(0).u64(checksum).bytes(&covered);
        bytes
    }

    /// Decodes the block at this place; returns `None` unless it is intact.
    fn decode(secret: &Secret, at: u64, bytes: &[u8]) -> Option<Block> {
        let mut from = Decoder(bytes);
        let (magic, _, checksum) = (from.u32()?, from.u32()?, from.u64()?);
        if magic != MAGIC || secret.checksum_at(at, from.0) != checksum {
            return None;
        }
        let (log, generation, number, version) =
            (from.u64()?, from.u64()?, from.u64()?, from.u64()?);
        let (first, count) = (from.u64()?, from.u32()?);
        from.u32()?;
        let before = from.0.len();
        let entries = (0..count).map(|_| decode(&mut from)).collect::<Option<Vec<Entry>>>()?;
        let bytes = before - from.0.len();
        let block = Block { log, generation, number, version, first, entries, bytes, dirty: false };
        (place(number, version) == at).then_some(block)
    }
}

/// Returns the intact blocks in the bytes of the log's area, by place.
fn read_blocks(secret: &Secret, bytes: &[u8]) -> BTreeMap<u64, Block> {
    let places = (0..PLACES).zip(bytes.chunks_exact(BLOCK as usize));
    places.filter_map(|(at, bytes)| Some((at, Block::decode(secret, at, bytes)?))).collect()
}

/// Blocks to write, and the number of purges up to their end.
pub(crate) struct PurgeLogWrite {
    /// Byte offsets on the device.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    pub(crate) until: u64,
}

/// The purge log of an open cache.
#[derive(Clone)]
pub(crate) struct PurgeLog {
    /// The blocks, oldest first; the last one grows.
    blocks: VecDeque<Block>,
    /// Places to erase with the next write: their contents would be taken for a lost version once
    /// the log reaches them.
    erases: Vec<u64>,
    /// True if a log, this or another one, was kept here before the cache was opened.
    was_kept: bool,
    written: u64,
    durable: u64,
    /// The number of purges that the flush under way makes durable.
    flushing: u64,
}

impl PurgeLog {
    /// Creates an empty log for the cache with this identity, opened for the time `generation` at
    /// `now` in unix seconds.
    pub(crate) fn new(uuid: &[u8; 16], generation: u64, now: u64) -> PurgeLog {
        let random = xxh3_64(&[&uuid[..], &generation.to_le_bytes()].concat());
        PurgeLog::numbered(now << 32 | random >> 32, generation)
    }

    /// Returns a log to replace this one, with a number greater than this log's and than `known`,
    /// and with the purges that this one has: to followers they are new.
    pub(crate) fn later(&self, known: u64) -> PurgeLog {
        let number = known.max(self.tail().log).saturating_add(1);
        let mut other = self.clone();
        for block in &mut other.blocks {
            // The version on the device stays until this one is durable.
            block.version += u64::from(!block.dirty);
            (block.log, block.dirty) = (number, true);
        }
        other
    }

    /// Returns this empty log as one whose first purge is lost, so that its followers know that
    /// they may have missed purges of the log before.
    fn after_a_lost_one(mut self) -> PurgeLog {
        self.tail_mut().first = 1;
        PurgeLog { was_kept: true, written: 1, durable: 1, flushing: 1, ..self }
    }

    fn numbered(log: u64, generation: u64) -> PurgeLog {
        let tail = Block {
            log,
            generation,
            number: 0,
            version: 0,
            first: 0,
            entries: Vec::new(),
            bytes: 0,
            dirty: true,
        };
        let erases = (0..PLACES).collect();
        let (blocks, was_kept) = ([tail].into(), false);
        PurgeLog { blocks, erases, was_kept, written: 0, durable: 0, flushing: 0 }
    }

    /// Continues the log in the `bytes` of its area if it was kept up to the opening before this
    /// one; else begins a new one.
    pub(crate) fn resume(
        secret: &Secret,
        uuid: &[u8; 16],
        bytes: Option<&[u8]>,
        generation: u64,
        now: u64,
    ) -> PurgeLog {
        let blocks = bytes.map(|bytes| read_blocks(secret, bytes)).unwrap_or_default();
        let was_kept = !blocks.is_empty();
        let found = bytes.and_then(|bytes| PurgeLog::found(bytes, &blocks));
        let found = found.filter(|log| log.tail().generation + 1 == generation);
        let Some(mut log) = found else {
            let new = PurgeLog::new(uuid, generation, now);
            return if was_kept { new.after_a_lost_one() } else { new };
        };
        let tail = log.tail_mut();
        (tail.generation, tail.version, tail.dirty) = (generation, tail.version + 1, true);
        log
    }

    /// Returns the log that consists of the `blocks` found in the `bytes` of its area; `None` when
    /// its end may be lost.
    fn found(bytes: &[u8], blocks: &BTreeMap<u64, Block>) -> Option<PurgeLog> {
        let places: Vec<&[u8]> = bytes.chunks_exact(BLOCK as usize).collect();
        let damaged = |at: &u64| {
            let bytes = places.get(*at as usize);
            let is_zero = bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
            !blocks.contains_key(at) && !is_zero
        };
        let all = blocks.values();
        let tail =
            all.clone().max_by_key(|block| (block.generation, block.number, block.version))?;
        let next = [place(tail.number, tail.version + 1), place(tail.number + 1, 0)];
        if next.iter().any(damaged) {
            return None;
        }
        // Damaged places elsewhere: blocks that were written together with an earlier block that is
        // missing.
        let erases: Vec<u64> = (0..PLACES).filter(damaged).collect();
        let mut chain = VecDeque::from([tail.clone()]);
        while let Some(first) = chain.front()
            && (chain.len() as u64) < BLOCKS
        {
            let ours = all.clone().filter(|block| block.log == tail.log);
            let before = ours.filter(|block| block.number + 1 == first.number);
            let Some(before) = before.max_by_key(|block| block.version) else { break };
            if before.end() != first.first {
                break;
            }
            chain.push_front(before.clone());
        }
        let (end, was_kept) = (tail.end(), true);
        Some(PurgeLog {
            blocks: chain,
            erases,
            was_kept,
            written: end,
            durable: end,
            flushing: end,
        })
    }

    fn tail(&self) -> &Block {
        self.blocks.back().expect("there is always one")
    }

    fn tail_mut(&mut self) -> &mut Block {
        self.blocks.back_mut().expect("there is always one")
    }

    /// Logs a purge. Returns the number of purges including it: it is logged once that many are
    /// durable.
    pub(crate) fn log(&mut self, purge: LoggedPurge) -> u64 {
        let mut entry = Some(purge);
        let mut len = encode(&entry).len();
        if len > ROOM {
            entry = None;
            len = encode(&entry).len();
        }
        if self.tail().bytes + len > ROOM {
            let full = self.tail();
            let (number, first) = (full.number + 1, full.end());
            let (log, generation) = (full.log, full.generation);
            let (version, entries, bytes, dirty) = (0, Vec::new(), 0, true);
            let empty = Block { log, generation, number, version, first, entries, bytes, dirty };
            self.blocks.push_back(empty);
            if self.blocks.len() as u64 > BLOCKS {
                self.blocks.pop_front();
            }
        }
        let tail = self.tail_mut();
        // The version on the device stays until this one is durable.
        tail.version += u64::from(!tail.dirty);
        (tail.dirty, tail.bytes) = (true, tail.bytes + len);
        tail.entries.push(entry);
        tail.end()
    }

    /// Returns the blocks to write next; `None` when there are none, or when the last write is not
    /// durable yet.
    pub(crate) fn begin_write(&mut self, secret: &Secret) -> Option<PurgeLogWrite> {
        if self.written > self.durable {
            return None;
        }
        let dirty = self.blocks.iter_mut().filter(|block| block.dirty);
        let mut writes: Vec<(u64, Vec<u8>)> = dirty
            .map(|block| {
                block.dirty = false;
                (place(block.number, block.version), block.encode(secret))
            })
            .collect();
        if writes.is_empty() {
            return None;
        }
        let taken: Vec<u64> = writes.iter().map(|(at, _)| *at).collect();
        let others = std::mem::take(&mut self.erases).into_iter().filter(|at| !taken.contains(at));
        writes.extend(others.map(|at| (at, vec![0; BLOCK as usize])));
        writes.iter_mut().for_each(|(at, _)| *at = PURGE_LOG.offset + *at * BLOCK);
        Some(PurgeLogWrite { writes, until: self.tail().end() })
    }

    /// Records that the blocks up to `until` are written.
    pub(crate) fn end_write(&mut self, until: u64) {
        self.written = until;
    }

    /// Records that a flush begins.
    pub(crate) fn begin_flush(&mut self) {
        self.flushing = self.written;
    }

    /// Records that the flush succeeded.
    pub(crate) fn end_flush(&mut self) {
        self.durable = self.flushing;
    }

    /// Returns whether a log, this or another one, was kept here before the cache was opened.
    pub(crate) fn was_kept(&self) -> bool {
        self.was_kept
    }

    /// Returns how many purges are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the durable purges since a position; `None` stands for a follower without one.
    pub(crate) fn since(&self, position: Option<PurgePosition>) -> PurgesSince {
        let here = PurgePosition { log: self.tail().log, number: self.durable };
        let floor = self.blocks.front().map_or(0, |block| block.first);
        let known = position.filter(|position| {
            position.log == here.log && (floor..=here.number).contains(&position.number)
        });
        let Some(PurgePosition { log, number }) = known else { return PurgesSince::TooOld(here) };
        let last = here.number.min(number + TOLD_AT_ONCE as u64);
        let after = self.blocks.iter().skip_while(|block| block.end() <= number);
        let entries = after.flat_map(|block| (block.first..).zip(&block.entries));
        let wanted = entries.filter(|(at, _)| (number..last).contains(at));
        match wanted.map(|(_, entry)| entry.clone()).collect::<Option<Vec<LoggedPurge>>>() {
            Some(purges) => PurgesSince::Purges(purges, PurgePosition { log, number: last }),
            None => PurgesSince::TooOld(here),
        }
    }
}

#[cfg(test)]
mod tests;
