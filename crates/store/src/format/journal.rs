//! The journal: a ring of 4 KiB blocks for the facts that the clusters alone do not tell.
//!
//! Its entries keep dead records dead. They are applied in order to the last checkpoint; applying
//! one twice does no harm. A block is written once, and not again until the ring wraps around. One
//! write is under way at a time.
//!
//! Every block names the last block that is known to have been flushed. A gap up to that mark is
//! damage, and the cache starts empty; a gap above it is the trace of a power loss. The last blocks
//! are followed by none that could vouch for them; for those that the newest checkpoint includes,
//! the superblocks do.

use device::Extent;

use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;
use crate::format::pending_deletions::PendingDeletions;
use crate::purge::patterns::PatternPart;
use crate::purge::purges::Purge;

const MAGIC: u32 = u32::from_le_bytes(*b"LJRN");
const HEADER_LEN: usize = 40;

/// Returns whether a block looks like a journal block of any cache.
pub(crate) fn is_block(block: &[u8]) -> bool {
    block.starts_with(&MAGIC.to_le_bytes())
}
/// Maximum number of blocks in one write.
const BLOCKS_PER_WRITE: u64 = 16;
/// Number of slot facts that fill a write: collecting more of them in memory would gain nothing.
const FACTS_PER_WRITE: usize = BLOCKS_PER_WRITE as usize * (BLOCK as usize - HEADER_LEN) / 13;

/// A fact about clusters and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A free cluster is about to be written for the first time.
    Opened { cluster: u32, incarnation: u64 },
    /// A cluster was given up with all its records.
    Dropped { cluster: u32, incarnation: u64 },
    /// The record at `granule` of the cluster must never be found again.
    Dead { cluster: u32, incarnation: u64, granule: u32 },
    /// Every record of `digest` with a smaller sequence number is dead. Written only while recovery
    /// has not yet found where those records are.
    Removed { digest: Digest, sequence: u64 },
    /// In a slot space: the record with this sequence number at `position` is dead.
    Released { position: u32, sequence: u64 },
    /// In a slot space: the object at `position` has new metadata, in the record with this sequence
    /// number, and must not be found without them.
    Refreshed { position: u32, sequence: u64 },
    /// All objects that the purge covers were purged.
    Purged(Purge),
    /// Part of the text of a pattern. The purge by it follows its last part.
    Pattern(PatternPart),
}

impl Fact {
    /// Encoded length in bytes of the longest facts: a purge, and part of a pattern.
    const LEN_MAX: usize = 1 + PatternPart::LEN;

    fn encode(&self, out: &mut Encoder<'_>) {
        match *self {
            Fact::Opened { cluster, incarnation } => out.u8(1).u32(cluster).u64(incarnation),
            Fact::Dropped { cluster, incarnation } => out.u8(2).u32(cluster).u64(incarnation),
            Fact::Dead { cluster, incarnation, granule } => {
                out.u8(3).u32(cluster).u64(incarnation).u32(granule)
            }
            Fact::Removed { digest, sequence } => out.u8(4).bytes(&digest.0).u64(sequence),
            Fact::Released { position, sequence } => out.u8(5).u32(position).u64(sequence),
            Fact::Refreshed { position, sequence } => out.u8(6).u32(position).u64(sequence),
            Fact::Purged(purge) => {
                purge.encode(out.u8(7));
                out
            }
            Fact::Pattern(part) => {
                part.encode(out.u8(8));
                out
            }
        };
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Fact> {
        Some(match from.u8()? {
            1 => Fact::Opened { cluster: from.u32()?, incarnation: from.u64()? },
            2 => Fact::Dropped { cluster: from.u32()?, incarnation: from.u64()? },
            3 => {
                Fact::Dead { cluster: from.u32()?, incarnation: from.u64()?, granule: from.u32()? }
            }
            4 => Fact::Removed { digest: Digest(from.array()?), sequence: from.u64()? },
            5 => Fact::Released { position: from.u32()?, sequence: from.u64()? },
            6 => Fact::Refreshed { position: from.u32()?, sequence: from.u64()? },
            7 => Fact::Purged(Purge::decode(from)?),
            8 => Fact::Pattern(PatternPart::decode(from)?),
            _ => return None,
        })
    }
}

/// A position in the journal: the number of facts noted before it since the cache was opened.
pub(crate) type JournalPosition = u64;

/// A write of journal blocks.
#[derive(Debug)]
pub(crate) struct JournalWrite {
    /// Byte offset on the device.
    pub(crate) offset: u64,
    /// The contents of whole blocks.
    pub(crate) bytes: Vec<u8>,
    /// All facts noted before this position are in these blocks or in earlier ones.
    pub(crate) until: JournalPosition,
}

/// The journal of an open cache.
pub(crate) struct Journal {
    area: Extent,
    pending: Vec<Fact>,
    noted: JournalPosition,
    /// The position after the last fact that made a record dead whose key is not known.
    last_deletion: JournalPosition,
    /// The keys of the other records that died, until that is durable.
    deletions: PendingDeletions,
    written: JournalPosition,
    durable: JournalPosition,
    /// Sequence number of the next block, from 1.
    next_block: u64,
    /// The last block on the device, and the last that a flush has covered.
    written_block: u64,
    durable_block: u64,
    /// The first block that recovery would still need.
    first_block: u64,
    writing: bool,
}

impl Journal {
    /// Creates a journal whose next block has the sequence number `next_block`; no older block is
    /// needed.
    pub(crate) fn new(area: Extent, next_block: u64) -> Journal {
        Journal {
            area,
            pending: Vec::new(),
            noted: 0,
            last_deletion: 0,
            deletions: PendingDeletions::default(),
            written: 0,
            durable: 0,
            next_block,
            written_block: next_block - 1,
            durable_block: next_block - 1,
            first_block: next_block,
            writing: false,
        }
    }

    /// Notes a fact. Every fact except `Opened` and `Refreshed` counts as a deletion of unknown
    /// keys.
    pub(crate) fn note(&mut self, fact: Fact) {
        self.take(fact);
        if !matches!(fact, Fact::Opened { .. } | Fact::Refreshed { .. }) {
            self.last_deletion = self.noted;
        }
    }

    /// Notes a fact by which only the record of this digest dies.
    pub(crate) fn note_deletion_of(&mut self, digest: &Digest, fact: Fact) {
        self.take(fact);
        self.deletions.note(digest, self.noted);
    }

    fn take(&mut self, fact: Fact) {
        self.pending.push(fact);
        self.noted += 1;
    }

    /// Returns the position up to which the journal must be written so that a kill revives no dead
    /// record whose key is not known; `None` when it is written that far.
    pub(crate) fn unwritten_deletion(&self) -> Option<JournalPosition> {
        (self.last_deletion > self.written).then_some(self.last_deletion)
    }

    /// Returns the position up to which the journal must be written so that a kill revives no dead
    /// record of `digest`; `None` when it is written that far.
    pub(crate) fn unwritten_deletion_of(&self, digest: &Digest) -> Option<JournalPosition> {
        self.deletions.last(digest).filter(|up_to| *up_to > self.written)
    }

    /// Returns the position up to which the journal must be durable so that a power loss revives no
    /// dead record whose key is not known; `None` when it is durable that far.
    pub(crate) fn undurable_deletion(&self) -> Option<JournalPosition> {
        (self.last_deletion > self.durable).then_some(self.last_deletion)
    }

    /// Returns the position up to which the journal must be durable so that a power loss revives no
    /// dead record of `digest`; `None` when it is durable that far.
    pub(crate) fn undurable_deletion_of(&self, digest: &Digest) -> Option<JournalPosition> {
        self.deletions.last(digest)
    }

    /// Returns whether the pending facts fill a whole write.
    pub(crate) fn fills_a_write(&self) -> bool {
        self.pending.len() >= FACTS_PER_WRITE
    }

    /// Returns the position after all facts noted so far.
    pub(crate) fn now(&self) -> JournalPosition {
        self.noted
    }

    /// Returns the position before which all facts are on the device.
    pub(crate) fn written(&self) -> JournalPosition {
        self.written
    }

    /// Returns the position before which all facts have been flushed.
    pub(crate) fn durable(&self) -> JournalPosition {
        self.durable
    }

    /// Returns the sequence number that the next block will have.
    pub(crate) fn next_block(&self) -> u64 {
        self.next_block
    }

    fn blocks(&self) -> u64 {
        self.area.len / BLOCK
    }

    /// Returns whether more than half of the ring is in use, so that a checkpoint is due.
    pub(crate) fn checkpoint_due(&self) -> bool {
        self.next_block - self.first_block > self.blocks() / 2
    }

    /// Releases the blocks before `block`. Call this when a checkpoint is durable that was made
    /// while `block` was the next block.
    pub(crate) fn forget_before(&mut self, block: u64) {
        self.first_block = self.first_block.max(block);
    }

    /// Returns the next blocks to write; `None` when nothing is pending, a write is under way, or
    /// the ring is full until the next checkpoint.
    pub(crate) fn begin_write(&mut self, secret: &Secret) -> Option<JournalWrite> {
        let room = self.blocks() - (self.next_block - self.first_block);
        if self.writing || self.pending.is_empty() || room == 0 {
            return None;
        }
        let slot = self.next_block % self.blocks();
        let blocks = room.min(self.blocks() - slot).min(BLOCKS_PER_WRITE);
        let mut bytes = Vec::new();
        let mut taken = 0;
        for _ in 0..blocks {
            if taken == self.pending.len() {
                break;
            }
            taken += self.encode_block(secret, &self.pending[taken..], &mut bytes);
            self.next_block += 1;
        }
        self.pending.drain(..taken);
        self.writing = true;
        let until = self.noted - self.pending.len() as u64;
        Some(JournalWrite { offset: self.area.offset + slot * BLOCK, bytes, until })
    }

    /// Appends one block with as many of `facts` as fit; returns how many.
    fn encode_block(&self, secret: &Secret, facts: &[Fact], out: &mut Vec<u8>) -> usize {
        let mut payload = Vec::with_capacity(BLOCK as usize - HEADER_LEN);
        let mut count = 0;
        for fact in facts {
            if payload.len() + Fact::LEN_MAX > BLOCK as usize - HEADER_LEN {
                break;
            }
            fact.encode(&mut Encoder(&mut payload));
            count += 1;
        }
        payload.resize(BLOCK as usize - HEADER_LEN, 0);
        let mut covered = Vec::with_capacity(BLOCK as usize);
        let mut fields = Encoder(&mut covered);
        fields.u64(self.next_block).u64(self.durable_block).u32(count as u32).u32(0);
        fields.bytes(&payload);
        let checksum = secret.checksum_at(self.next_block, &covered);
        Encoder(out).u32(MAGIC).u32(0).u64(checksum).bytes(&covered);
        count
    }

    /// Records that the write returned by [`Journal::begin_write`] ended. After a failure its facts
    /// are not on the device: the caller must stop storing.
    pub(crate) fn end_write(&mut self, write: &JournalWrite) {
        self.writing = false;
        self.written = write.until;
        self.written_block = self.next_block - 1;
    }

    /// Returns the mark of a flush that starts now: the positions that it will make durable.
    pub(crate) fn begin_flush(&self) -> FlushMark {
        FlushMark { up_to: self.written, block: self.written_block }
    }

    /// Records that the flush succeeded.
    pub(crate) fn end_flush(&mut self, mark: FlushMark) {
        self.durable = self.durable.max(mark.up_to);
        self.deletions.forget(self.durable);
        self.durable_block = self.durable_block.max(mark.block);
    }
}

/// The positions that a flush covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushMark {
    up_to: JournalPosition,
    block: u64,
}

/// The result of replaying the journal in a recovery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    /// The facts since the checkpoint, in order, and the sequence number of the next block.
    Facts { facts: Vec<Fact>, next_block: u64 },
    /// A flushed block is missing: no record on the device can be trusted to be alive.
    Damaged { block: u64 },
}

/// Returns the facts of the blocks from `first_block` on; `bytes` is the whole area. Blocks up to
/// `needed` must be present, even if no other block says that they were flushed.
pub(crate) fn replay(secret: &Secret, bytes: &[u8], first_block: u64, needed: u64) -> Replay {
    let blocks = bytes.len() as u64 / BLOCK;
    let mut found: Vec<Block> = bytes
        .chunks_exact(BLOCK as usize)
        .zip(0..)
        .filter_map(|(bytes, slot)| {
            decode_block(secret, bytes).filter(|b| b.sequence % blocks == slot)
        })
        .filter(|block| block.sequence >= first_block)
        .collect();
    found.sort_by_key(|block| block.sequence);
    let durable = found.iter().map(|block| block.durable).fold(needed, u64::max);
    let mut expected = first_block;
    for block in &found {
        // A gap that a flush covered is damage. A gap above it was never promised to be durable.
        if block.sequence != expected && expected <= durable {
            return Replay::Damaged { block: expected };
        }
        expected = block.sequence + 1;
    }
    if expected <= durable {
        return Replay::Damaged { block: expected };
    }
    // Blocks behind a gap do not count: one of their facts may depend on a lost one (a newer
    // version given up, say, after the older one was superseded).
    let whole = (first_block..).zip(&found).take_while(|(number, b)| b.sequence == *number);
    let facts = whole.flat_map(|(_, block)| block.facts.iter().copied()).collect();
    Replay::Facts { facts, next_block: expected }
}

struct Block {
    sequence: u64,
    durable: u64,
    facts: Vec<Fact>,
}

fn decode_block(secret: &Secret, bytes: &[u8]) -> Option<Block> {
    let mut from = Decoder(bytes);
    if from.u32()? != MAGIC {
        return None;
    }
    from.u32()?;
    let checksum = from.u64()?;
    let covered = from.0;
    let (sequence, durable, count) = (from.u64()?, from.u64()?, from.u32()?);
    from.u32()?;
    if secret.checksum_at(sequence, covered) != checksum {
        return None;
    }
    let facts = (0..count).map(|_| Fact::decode(&mut from)).collect::<Option<Vec<Fact>>>()?;
    Some(Block { sequence, durable, facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Extent = Extent { offset: 8192, len: 8 * BLOCK };

    fn secret() -> Secret {
        Secret::new([4; 32])
    }

    fn dead(granule: u32) -> Fact {
        Fact::Dead { cluster: 3, incarnation: 1 << 40, granule }
    }

    /// Writes everything pending into `image`.
    fn write_all(journal: &mut Journal, image: &mut [u8]) {
        while let Some(write) = journal.begin_write(&secret()) {
            let at = (write.offset - AREA.offset) as usize;
            image[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
            journal.end_write(&write);
        }
    }

    #[test]
    fn facts_come_back_in_order() {
        let mut image = vec![0; AREA.len as usize];
        let mut journal = Journal::new(AREA, 1);
        let facts = [
            Fact::Opened { cluster: 1, incarnation: 2 },
            dead(7),
            Fact::Removed { digest: Digest([8; 16]), sequence: 5 },
            Fact::Dropped { cluster: 1, incarnation: 2 },
        ];
        for fact in facts {
            journal.note(fact);
        }
        write_all(&mut journal, &mut image);
        assert_eq!(journal.written(), 4);
        let replayed = replay(&secret(), &image, 1, 0);
        assert_eq!(replayed, Replay::Facts { facts: facts.to_vec(), next_block: 2 });
    }

    #[test]
    fn the_ring_fills_and_goes_round_after_a_checkpoint() {
        let mut image = vec![0; AREA.len as usize];
        let mut journal = Journal::new(AREA, 1);
        for granule in 0..8 {
            journal.note(dead(granule));
            write_all(&mut journal, &mut image);
        }
        assert!(journal.checkpoint_due());
        journal.note(dead(8));
        assert!(journal.begin_write(&secret()).is_none(), "the ring is full");
        journal.forget_before(6);
        write_all(&mut journal, &mut image);
        let Replay::Facts { facts, next_block } = replay(&secret(), &image, 6, 0) else {
            panic!("damaged")
        };
        assert_eq!(facts, [dead(5), dead(6), dead(7), dead(8)]);
        assert_eq!(next_block, 10);
    }

    #[test]
    fn a_missing_block_is_damage_only_when_it_had_been_flushed() {
        let mut image = vec![0; AREA.len as usize];
        let mut journal = Journal::new(AREA, 1);
        for granule in 0..3 {
            journal.note(dead(granule));
            write_all(&mut journal, &mut image);
        }
        let mut lost = image.clone();
        lost[2 * BLOCK as usize..3 * BLOCK as usize].fill(0);
        assert!(matches!(replay(&secret(), &lost, 1, 0), Replay::Facts { .. }));
        let mark = journal.begin_flush();
        journal.end_flush(mark);
        journal.note(dead(4));
        write_all(&mut journal, &mut image);
        image[2 * BLOCK as usize] ^= 1;
        assert_eq!(replay(&secret(), &image, 1, 0), Replay::Damaged { block: 2 });
    }

    #[test]
    fn last_blocks_that_are_missing_are_damage_when_they_are_needed() {
        let mut image = vec![0; AREA.len as usize];
        let mut journal = Journal::new(AREA, 1);
        for granule in 0..3 {
            journal.note(dead(granule));
            write_all(&mut journal, &mut image);
        }
        assert!(matches!(replay(&secret(), &image, 1, 3), Replay::Facts { .. }));
        image[3 * BLOCK as usize..4 * BLOCK as usize].fill(0);
        assert!(matches!(replay(&secret(), &image, 1, 2), Replay::Facts { .. }));
        assert_eq!(replay(&secret(), &image, 1, 3), Replay::Damaged { block: 3 });
        image.fill(0);
        assert_eq!(replay(&secret(), &image, 1, 3), Replay::Damaged { block: 1 });
        assert!(matches!(replay(&secret(), &image, 4, 3), Replay::Facts { .. }));
    }

    #[test]
    fn a_death_is_known_by_its_digest_until_it_is_written_and_until_it_is_durable() {
        let mut image = vec![0; AREA.len as usize];
        let mut journal = Journal::new(AREA, 1);
        let [ours, other] = [1, 2].map(|byte| Digest([byte; 16]));
        let released = |position| Fact::Released { position, sequence: 7 };
        journal.note_deletion_of(&ours, released(1));
        journal.note_deletion_of(&other, released(2));
        journal.note_deletion_of(&ours, released(3));
        assert_eq!(journal.unwritten_deletion_of(&ours), Some(3));
        assert_eq!(journal.unwritten_deletion_of(&other), Some(2));
        let write = journal.begin_write(&secret()).expect("three facts");
        journal.note_deletion_of(&ours, released(4));
        journal.end_write(&write);
        assert_eq!(journal.unwritten_deletion_of(&ours), Some(4), "it came during the write");
        assert_eq!(journal.unwritten_deletion_of(&other), None);
        write_all(&mut journal, &mut image);
        assert_eq!(journal.unwritten_deletion_of(&ours), None);
        assert_eq!(journal.undurable_deletion_of(&ours), Some(4));
        let mark = journal.begin_flush();
        journal.note_deletion_of(&other, released(5));
        journal.end_flush(mark);
        assert_eq!(journal.undurable_deletion_of(&ours), None);
        assert_eq!(journal.undurable_deletion_of(&other), Some(5), "it came during the flush");
        write_all(&mut journal, &mut image);
        assert!(!journal.fills_a_write());
        (0..FACTS_PER_WRITE as u32).for_each(|n| journal.note_deletion_of(&ours, released(n)));
        assert!(journal.fills_a_write());
    }

    #[test]
    fn many_facts_take_several_blocks() {
        let mut image = vec![0; AREA.len as usize];
        let mut journal = Journal::new(AREA, 1);
        let facts: Vec<Fact> = (0..500).map(dead).collect();
        for fact in &facts {
            journal.note(*fact);
        }
        write_all(&mut journal, &mut image);
        let Replay::Facts { facts: back, .. } = replay(&secret(), &image, 1, 0) else {
            panic!("damaged")
        };
        assert_eq!(back, facts);
    }
}
