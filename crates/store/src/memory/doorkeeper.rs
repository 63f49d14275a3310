//! The doorkeeper of the memory tier: which objects that were read from the device enter it.
//!
//! Most of what a disk hit brings is not asked for again while memory would hold it, and each such
//! object pushes out another that might be. So an object enters by its second use: when it was
//! read for a request before, or was asked for in memory and left it, and no more than so many
//! others were since. What there is free room for enters anyway, and so does everything where a
//! read is slow: there the few that are asked for again are worth more than the processor's time.
//!
//! It remembers a mark of 32 bits for each use, in a table of fixed size: a set of eight for each
//! hash, of which the oldest makes way. That is a queue of all marks but for the chance that sets
//! fill unevenly. Pieces of large objects have a table of their own, of as many marks as memory
//! could hold of them: what is remembered for longer would enter, each time with a copy of 128 KiB,
//! and leave again before its next use. Digests are hashes under the cache's own secret, so nobody
//! can choose their set. Pure and deterministic.

use crate::base::digest::Digest;
use crate::base::record::RecordKind;

/// Marks of one set.
const WAYS: usize = 8;

/// Bytes of memory for each mark: one use is remembered for so much of the memory in all.
const MEMORY_PER_MARK: u64 = 4096;

/// The same for a piece of a large object, which has some [`crate::PIECE_MAX`] bytes.
const MEMORY_PER_PIECE: u64 = crate::PIECE_MAX as u64;

/// Most sets: 2^28 marks, one GiB.
const SETS_MAX: u64 = 1 << 25;

/// Nanoseconds for a read of a device on which all that is read enters memory.
pub(crate) const SLOW_READ: f64 = 500_000.0;

/// What was used lately. See the module.
pub(crate) struct Doorkeeper {
    objects: Marks,
    pieces: Marks,
}

impl Doorkeeper {
    /// One for a store with `memory` bytes in all, of which it takes a thousandth.
    pub(crate) fn new(memory: u64) -> Doorkeeper {
        let marks = |per_mark| Marks::new(memory / per_mark);
        Doorkeeper { objects: marks(MEMORY_PER_MARK), pieces: marks(MEMORY_PER_PIECE) }
    }

    /// Remembers a use of `digest`, under which there is a record of this kind. True when there was
    /// one before, as far back as is remembered.
    pub(crate) fn seen(&mut self, digest: &Digest, kind: RecordKind) -> bool {
        match kind {
            RecordKind::Piece => self.pieces.seen(digest),
            _ => self.objects.seen(digest),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.objects.memory_bytes() + self.pieces.memory_bytes()
    }
}

/// A table of marks.
struct Marks {
    /// The youngest mark of a set comes first; 0 is none.
    sets: Box<[[u32; WAYS]]>,
}

impl Marks {
    fn new(marks: u64) -> Marks {
        let sets = (marks / WAYS as u64).clamp(1, SETS_MAX);
        Marks { sets: vec![[0; WAYS]; sets as usize].into() }
    }

    fn seen(&mut self, digest: &Digest) -> bool {
        let (first, second) = digest.halves();
        let set = (u128::from(first) * self.sets.len() as u128) >> 64;
        let set = &mut self.sets[set as usize];
        let mark = (second as u32).max(1);
        let at = set.iter().position(|other| *other == mark);
        set[..=at.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = mark;
        at.is_some()
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    fn digest(random: &mut fastrand::Rng) -> Digest {
        Digest::from_halves(random.u64(..), random.u64(..))
    }

    #[test]
    fn the_second_use_is_seen_until_many_others_came() {
        for seed in seeds("doorkeeper", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let memory = 32 << 20;
            let all = Doorkeeper::new(memory).memory_bytes();
            assert!(all <= 34 << 10, "a thousandth");
            let mut doorkeeper = Marks::new(memory / MEMORY_PER_MARK);
            let marks = doorkeeper.memory_bytes() / 4;
            let mut again = |others: usize| {
                let mut seen = 0;
                for _ in 0..200 {
                    let one = digest(&mut random);
                    assert!(!doorkeeper.seen(&one));
                    for _ in 0..others {
                        doorkeeper.seen(&digest(&mut random));
                    }
                    seen += u32::from(doorkeeper.seen(&one));
                    assert!(doorkeeper.seen(&one));
                }
                seen
            };
            assert_eq!(again(0), 200);
            // A set gets marks / 4 of others by Poisson's law with mean 2, and has room for 7.
            assert!(again(marks / 4) >= 190);
            assert!(again(marks * 3) <= 10);
        }
    }

    #[test]
    fn what_is_used_all_the_time_is_not_forgotten() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut doorkeeper = Marks::new(0);
        let one = digest(&mut random);
        doorkeeper.seen(&one);
        for _ in 0..1000 {
            (1..WAYS).for_each(|_| _ = doorkeeper.seen(&digest(&mut random)));
            assert!(doorkeeper.seen(&one));
        }
    }

    #[test]
    fn a_piece_is_remembered_for_as_many_others_as_memory_would_hold() {
        let mut random = fastrand::Rng::with_seed(2);
        let memory = 64 << 20;
        let mut doorkeeper = Doorkeeper::new(memory);
        let mut again = |kind, others: u64| {
            let mut seen = 0;
            for _ in 0..200 {
                let one = digest(&mut random);
                doorkeeper.seen(&one, kind);
                (0..others).for_each(|_| _ = doorkeeper.seen(&digest(&mut random), kind));
                seen += u32::from(doorkeeper.seen(&one, kind));
            }
            seen
        };
        let held = memory / MEMORY_PER_PIECE;
        assert!(again(RecordKind::Piece, held / 4) >= 190);
        assert!(again(RecordKind::Piece, held * 3) <= 10);
        assert_eq!(again(RecordKind::Object, held * 3), 200);
    }
}
