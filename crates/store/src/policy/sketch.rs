//! A count-min sketch with counters of four bits: estimates how often a hash was seen recently.
//!
//! A hash has four counters in one block of 64 bytes, so that an estimate costs one memory access.
//! The estimate is the least of them, and only counters equal to it are incremented. After a sample
//! of hashes, all counters are halved (TinyLFU's reset), so that old counts fade. The sketch grows
//! with the number of objects: a copy of the old counters is appended to them, which keeps every
//! estimate.
//!
//! Guarantees: between two halvings an estimate is never too low, except when the counters are
//! full.

/// Words per block: 64 bytes.
const WORDS: usize = 8;
/// Counters per hash; each has its own pair of words.
const ROWS: usize = 4;
/// Bits per counter.
const BITS: u32 = 4;
/// Largest value of a counter.
const MOST: u64 = (1 << BITS) - 1;
/// Mask that keeps halved counters separate.
const HALF: u64 = 0x7777_7777_7777_7777;
/// Objects per block: each has 16 of its 128 counters.
const OBJECTS_PER_BLOCK: usize = 8;
/// Hashes in the smallest sample.
const LEAST_SAMPLE: usize = 1 << 14;

/// The sketch. See the module documentation.
pub(super) struct Sketch {
    /// Blocks; their number is a power of two.
    blocks: Vec<[u64; WORDS]>,
    /// Hashes added since the last halving; a halving halves this number too.
    added: usize,
    /// Number of objects that the sketch has to fit.
    objects: usize,
    /// Hashes per object in a sample.
    sample: usize,
}

impl Sketch {
    /// Returns an empty sketch, halved after `sample` hashes per object.
    pub(super) fn new(sample: usize) -> Sketch {
        Sketch {
            blocks: vec![[0; WORDS]; LEAST_SAMPLE / OBJECTS_PER_BLOCK / 16],
            added: 0,
            objects: 0,
            sample,
        }
    }

    /// Grows the sketch if it is too small for `objects` objects.
    #[inline]
    pub(super) fn fit(&mut self, objects: usize) {
        self.objects = self.objects.max(objects);
        while self.objects > self.blocks.len() * OBJECTS_PER_BLOCK {
            self.blocks.extend_from_within(..);
        }
    }

    /// Counts a hash.
    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        let least = self.estimate(hash);
        if least < MOST {
            let block = self.block(hash);
            for row in 0..ROWS {
                let (word, shift) = place(hash, row);
                let word = &mut self.blocks[block][word];
                *word += u64::from(*word >> shift & MOST == least) << shift;
            }
        }
        self.added += 1;
        if self.added >= LEAST_SAMPLE.max(self.sample * self.objects) {
            self.halve();
        }
    }

    /// Returns an estimate of how often the hash was added recently, at most 15.
    #[inline]
    pub(super) fn estimate(&self, hash: u64) -> u64 {
        let block = &self.blocks[self.block(hash)];
        let counter = |row| {
            let (word, shift) = place(hash, row);
            block[word] >> shift & MOST
        };
        (0..ROWS).map(counter).fold(MOST, u64::min)
    }

    /// Returns the memory it occupies, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<[u64; WORDS]>()
    }

    #[inline]
    fn block(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.blocks.len() - 1)
    }

    fn halve(&mut self) {
        for word in self.blocks.iter_mut().flatten() {
            *word = *word >> 1 & HALF;
        }
        self.added /= 2;
    }
}

/// Returns the word and shift of a hash's counter in a row, chosen among 32 counters.
#[inline]
fn place(hash: u64, row: usize) -> (usize, u32) {
    let choice = (hash >> (5 * row)) as u32 & 31;
    (2 * row + (choice >> 4) as usize, BITS * (choice & 15))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn an_answer_is_never_too_low() {
        for seed in seeds("sketch", 10) {
            let mut random = fastrand::Rng::with_seed(seed);
            let hashes: Vec<u64> = (0..500).map(|_| random.u64(..)).collect();
            let mut sketch = Sketch::new(10);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for step in 0..5_000 {
                let popular = 1 + random.usize(..500);
                let hash = hashes[random.usize(..popular)];
                sketch.add(hash);
                *model.entry(hash).or_default() += 1;
                sketch.fit(500 + step);
            }
            let exact =
                model.iter().filter(|(hash, n)| sketch.estimate(**hash) == MOST.min(**n)).count();
            assert!(model.iter().all(|(hash, n)| sketch.estimate(*hash) >= MOST.min(*n)));
            assert!(exact > 400, "{exact} of {} exact", model.len());
        }
    }

    #[test]
    fn the_past_fades() {
        let mut sketch = Sketch::new(2);
        (0..9).for_each(|_| sketch.add(1));
        let mut random = fastrand::Rng::with_seed(5);
        let mut hashes = std::iter::repeat_with(|| random.u64(..));
        (9..LEAST_SAMPLE - 1).for_each(|_| sketch.add(hashes.next().unwrap()));
        let before = sketch.estimate(1);
        assert!(before >= 9);
        sketch.add(hashes.next().unwrap());
        assert_eq!(sketch.estimate(1), before / 2);
        assert!(sketch.added <= LEAST_SAMPLE / 2, "the halved counters count as half a sample");
    }

    #[test]
    fn growing_keeps_every_answer() {
        let mut sketch = Sketch::new(10);
        let hashes: Vec<u64> =
            (0..50).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        hashes.iter().for_each(|hash| sketch.add(*hash));
        let before: Vec<u64> = hashes.iter().map(|hash| sketch.estimate(*hash)).collect();
        sketch.fit(10_000);
        assert!((8..16).contains(&(sketch.memory_bytes() / 10_000)));
        assert_eq!(hashes.iter().map(|hash| sketch.estimate(*hash)).collect::<Vec<_>>(), before);
    }
}
