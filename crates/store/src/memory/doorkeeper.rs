//! The doorkeeper of the memory tier: decides which objects read from the device enter it.
//!
//! Most objects that a disk hit reads are not requested again while memory would hold them, and
//! each one pushes out an object that might be. So an object enters on its second use: it was read
//! for a request before, or was hit in memory and then left, and at most a certain number of other
//! uses have passed since. Objects for which there is free space enter anyway. So does everything
//! on a device whose reads are slow: there the few repeated requests are worth more than the
//! processor time.
//!
//! The doorkeeper remembers a 32-bit mark per use in a table of fixed size: each hash selects a set
//! of eight marks, whose oldest is replaced. Apart from sets filling unevenly, that is a queue of
//! all marks. Pieces of large objects have a table of their own, with as many marks as pieces fit
//! in memory: a piece remembered for longer would enter, each time with a copy of 128 KiB, and
//! leave again before its next use. Digests are hashes under the cache's own secret, so clients
//! cannot choose their set. Pure and deterministic.

use crate::base::digest::Digest;
use crate::base::record::RecordKind;

/// Marks per set.
const WAYS: usize = 8;

/// Bytes of memory per mark: the table has one mark for each of them.
const MEMORY_PER_MARK: u64 = 4096;

/// The same for a piece of a large object, which has about [`crate::PIECE_MAX`] bytes.
const MEMORY_PER_PIECE: u64 = crate::PIECE_MAX as u64;

/// Maximum number of sets: 2^28 marks, one GiB.
const SETS_MAX: u64 = 1 << 25;

/// Read time, in nanoseconds, from which everything read from the device enters memory.
pub(crate) const SLOW_READ: f64 = 500_000.0;

/// The set of recent uses. See the module documentation.
pub(crate) struct Doorkeeper {
    objects: Marks,
    pieces: Marks,
}

impl Doorkeeper {
    /// Returns a doorkeeper for a store with `memory` bytes in all; it takes a thousandth of them.
    pub(crate) fn new(memory: u64) -> Doorkeeper {
        let marks = |per_mark| Marks::new(memory / per_mark);
        Doorkeeper { objects: marks(MEMORY_PER_MARK), pieces: marks(MEMORY_PER_PIECE) }
    }

    /// Remembers a use of `digest`, the digest of a record of this kind. Returns whether an earlier
    /// use is still remembered.
    pub(crate) fn seen(&mut self, digest: &Digest, kind: RecordKind) -> bool {
        match kind {
            RecordKind::Piece => self.pieces.seen(digest),
            _ => self.objects.seen(digest),
        }
    }

    /// Returns the memory it occupies, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.objects.memory_bytes() + self.pieces.memory_bytes()
    }
}

/// A table of marks.
struct Marks {
    /// The youngest mark of a set comes first; 0 means none.
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
            // Of marks / 4 others, a set gets a Poisson-distributed number with mean 2, and has
            // space for 7.
            assert!(again(marks / 4) >= 190);
            assert!(again(marks * 3) <= 10);
        }
    }

    #[test]
    fn digests_in_constant_use_are_not_forgotten() {
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
