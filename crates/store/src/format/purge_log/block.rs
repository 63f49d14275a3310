//! A block of the purge log, and the places of blocks in the log's area.

use std::ops::Range;

use device::Extent;

use crate::base::keyed_checksum::Secret;
use crate::base::limits::STEP;
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;
use crate::format::purge_log::entry::{Entry, Purge, decode};

const MAGIC: u32 = u32::from_le_bytes(*b"LPRG");
const HEADER_LEN: usize = 80;
/// Bytes of a block that purges take at most.
pub(super) const ROOM: usize = BLOCK as usize - HEADER_LEN;
/// Number of places that the versions of the growing block take in turn, at the start of the area.
pub(super) const VERSION_PLACES: u64 = 2;

/// Maximum number of blocks of a group.
const GROUP_MAX: u64 = 64;

/// Returns the place of a version of the growing block, counted in blocks.
pub(super) fn version_place(version: u64) -> u64 {
    version % VERSION_PLACES
}

/// The area of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area(pub(super) Extent);

impl Area {
    /// Returns the number of blocks in a group. Each group begins with the numbers of all makers.
    pub(super) fn group(self) -> u64 {
        (self.places() / 4).clamp(2, GROUP_MAX)
    }

    /// Returns how many full blocks the area holds: whole groups.
    pub(super) fn slots(self) -> u64 {
        (self.places() / self.group()).max(1) * self.group()
    }

    fn places(self) -> u64 {
        (self.0.len / BLOCK).saturating_sub(VERSION_PLACES)
    }

    /// Returns the number of the first block in the group of a block.
    pub(super) fn group_start(self, number: u64) -> u64 {
        number - number % self.group()
    }

    /// Returns the place of a full block, counted in blocks.
    pub(super) fn place(self, number: u64) -> u64 {
        VERSION_PLACES + number % self.slots()
    }

    /// Returns the extent of `blocks` places from `place` on.
    pub(super) fn extent(self, place: u64, blocks: u64) -> Extent {
        Extent { offset: self.0.offset + place * BLOCK, len: blocks * BLOCK }
    }

    /// Returns the first of the full blocks `numbers` that lie side by side, at most `STEP` bytes.
    pub(super) fn first_run(self, numbers: Range<u64>) -> Range<u64> {
        let to_end = self.slots() - numbers.start % self.slots();
        let len = (numbers.end - numbers.start).min(to_end).min(STEP as u64 / BLOCK);
        numbers.start..numbers.start + len
    }
}

/// A block of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The number of the log with which the ring began.
    pub(super) ring: u64,
    /// The number of the log when the block was written.
    pub(super) log: u64,
    pub(super) generation: u64,
    pub(super) number: u64,
    /// The version of the growing block; of a full one the version that it was written with.
    pub(super) version: u64,
    /// Number of entries before the block.
    pub(super) first: u64,
    /// Number of own purges before the block.
    pub(super) own: u64,
    /// Number of entries, and of own purges among them.
    pub(super) count: u32,
    pub(super) own_count: u32,
    /// The encoded entries.
    pub(super) entries: Vec<u8>,
}

impl Block {
    /// Returns a block without entries, the first version of a log that is called like its ring.
    pub(super) fn empty(ring: u64, number: u64) -> Block {
        Block {
            ring,
            log: ring,
            generation: 0,
            number,
            version: 0,
            first: 0,
            own: 0,
            count: 0,
            own_count: 0,
            entries: Vec::new(),
        }
    }

    /// Appends an encoded entry.
    pub(super) fn append(&mut self, bytes: &[u8], is_own: bool) {
        self.entries.extend_from_slice(bytes);
        self.count += 1;
        self.own_count += u32::from(is_own);
    }

    /// Returns the number of entries up to the end of the block.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// Returns the number of own purges up to the end of the block.
    pub(super) fn own_end(&self) -> u64 {
        self.own.saturating_add(u64::from(self.own_count))
    }

    /// Returns the entries, each with the number of those before it.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let mut from = Decoder(&self.entries);
        (self.first..self.end()).map_while(move |number| Some((number, decode(&mut from)?)))
    }

    /// Returns the own purges, each with the number of those before it.
    pub(super) fn own_purges(&self) -> impl Iterator<Item = (u64, Purge)> + '_ {
        let own = self.entries().filter_map(|(_, entry)| match entry {
            Entry::Own(purge) => Some(purge),
            _ => None,
        });
        (self.own..).zip(own)
    }

    /// Returns whether this version of the growing block was written after, or together with, the
    /// full block `other` of the same run; or `other` after this version was durable.
    pub(super) fn implies(&self, other: &Block) -> bool {
        (self.ring, self.generation) == (other.ring, other.generation)
            && (self.version..=self.version + 1).contains(&other.version)
    }

    /// Encodes the block for this place.
    pub(super) fn encode(&self, secret: &Secret, place: u64) -> Vec<u8> {
        let mut covered = Vec::with_capacity(BLOCK as usize);
        let mut out = Encoder(&mut covered);
        out.u64(self.ring).u64(self.log).u64(self.generation).u64(self.number);
        out.u64(self.version)
            .u64(self.first)
            .u64(self.own)
            .u32(self.count)
            .u32(self.entries.len() as u32);
        out.bytes(&self.entries);
        covered.resize(BLOCK as usize - 16, 0);
        let checksum = secret.checksum_at(place, &covered);
        let mut bytes = Vec::with_capacity(BLOCK as usize);
        Encoder(&mut bytes).u32(MAGIC).u32(0).u64(checksum).bytes(&covered);
        bytes
    }

    /// Decodes the block at this place; returns `None` unless it is intact.
    pub(super) fn decode(secret: &Secret, place: u64, bytes: &[u8]) -> Option<Block> {
        let mut from = Decoder(bytes);
        let (magic, _, checksum) = (from.u32()?, from.u32()?, from.u64()?);
        if magic != MAGIC || secret.checksum_at(place, from.0) != checksum {
            return None;
        }
        let (ring, log, generation) = (from.u64()?, from.u64()?, from.u64()?);
        let (number, version) = (from.u64()?, from.u64()?);
        let (first, own) = (from.u64()?, from.u64()?);
        let (count, len) = (from.u32()?, from.u32()? as usize);
        let entries = from.bytes(len)?.to_vec();
        let mut block = Block::empty(ring, number);
        block = Block { log, generation, version, first, own, count, entries, ..block };
        block.own_count = block.own_purges().count() as u32;
        first.checked_add(u64::from(count))?;
        (block.entries().count() as u64 == u64::from(count)).then_some(block)
    }
}

/// Returns whether the bytes of a place were never written, or are erased.
pub(super) fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
