//! A block of the purge log, and the places of blocks in the log's area.

use std::ops::Range;

use device::Extent;

use crate::base::keyed_checksum::Secret;
use crate::base::limits::STEP;
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;
use crate::format::purge_log::entry::{Entry, decode};

const MAGIC: u32 = u32::from_le_bytes(*b"LPRG");
const HEADER_LEN: usize = 72;
/// Bytes of a block that purges take at most.
pub(super) const ROOM: usize = BLOCK as usize - HEADER_LEN;
/// Number of places that the versions of the growing block take in turn, at the start of the area.
pub(super) const VERSION_PLACES: u64 = 2;

/// Returns the place of a version of the growing block, counted in blocks.
pub(super) fn version_place(version: u64) -> u64 {
    version % VERSION_PLACES
}

/// The area of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area(pub(super) Extent);

impl Area {
    /// Returns how many full blocks the area holds.
    pub(super) fn slots(self) -> u64 {
        (self.0.len / BLOCK).saturating_sub(VERSION_PLACES).max(1)
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
    /// The number of the first purge in the block.
    pub(super) first: u64,
    /// Number of purges.
    pub(super) count: u32,
    /// The encoded purges.
    pub(super) entries: Vec<u8>,
}

impl Block {
    /// Returns the number behind that of the last purge.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// Returns the purges with their numbers.
    pub(super) fn purges(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let mut from = Decoder(&self.entries);
        (self.first..self.end()).map_while(move |number| Some((number, decode(&mut from)?)))
    }

    /// Encodes the block for this place.
    pub(super) fn encode(&self, secret: &Secret, place: u64) -> Vec<u8> {
        let mut covered = Vec::with_capacity(BLOCK as usize);
        let mut out = Encoder(&mut covered);
        out.u64(self.ring).u64(self.log).u64(self.generation).u64(self.number);
        out.u64(self.version).u64(self.first).u32(self.count).u32(self.entries.len() as u32);
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
        let (number, version, first) = (from.u64()?, from.u64()?, from.u64()?);
        let (count, len) = (from.u32()?, from.u32()? as usize);
        let entries = from.bytes(len)?.to_vec();
        let block = Block { ring, log, generation, number, version, first, count, entries };
        first.checked_add(u64::from(count))?;
        (block.purges().count() as u64 == u64::from(count)).then_some(block)
    }
}

/// Returns whether the bytes of a place were never written, or are erased.
pub(super) fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
