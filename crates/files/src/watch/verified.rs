//! The responses found to be current, each with the stamp of that moment.
//!
//! The table has a fixed number of entries, four to a bucket. A check that was displaced is made
//! again, which costs one lookup of the file. An entry takes 16 bytes, from its first use.
//!
//! Guarantee: a stamp is returned only for the tag that it was recorded for, and never torn.

use std::sync::{Mutex, PoisonError};

use super::watcher::Stamp;

/// Entries per bucket.
const WAYS: usize = 4;

/// Number of locks, each for a part of the buckets, so that threads rarely contend.
const SHARDS: usize = 64;

/// The hash of a response: of its request and its version.
pub type Tag = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    tag: Tag,
    stamp: Stamp,
}

type Bucket = [Slot; WAYS];

/// A bucket in memory: tags and stamps alternating. Zeroed memory is a table of empty buckets, for
/// which the kernel allocates pages only when they are written.
type Words = [u64; 2 * WAYS];

fn unpacked(words: &Words) -> Bucket {
    std::array::from_fn(|at| Slot {
        tag: words[2 * at],
        stamp: Stamp::from_word(words[2 * at + 1]),
    })
}

fn packed(bucket: &Bucket) -> Words {
    std::array::from_fn(|at| match at % 2 {
        0 => bucket[at / 2].tag,
        _ => bucket[at / 2].stamp.word(),
    })
}

/// A table of verified responses.
#[derive(Debug)]
pub struct Verified {
    shards: Vec<Mutex<Vec<Words>>>,
    buckets: u64,
}

impl Verified {
    /// Size of an entry in bytes.
    pub const ENTRY_BYTES: usize = size_of::<Slot>();

    /// Creates a table of at least `entries` entries.
    pub fn new(entries: usize) -> Verified {
        let buckets = entries.div_ceil(WAYS * SHARDS).max(1);
        let shard = || Mutex::new(vec![Words::default(); buckets]);
        Verified { shards: (0..SHARDS).map(|_| shard()).collect(), buckets: buckets as u64 }
    }

    /// Returns the size of the full table in bytes.
    pub fn bytes(&self) -> usize {
        SHARDS * self.buckets as usize * size_of::<Words>()
    }

    /// Returns the stamp of the last verification of a response.
    pub fn stamp(&self, tag: Tag) -> Option<Stamp> {
        self.with_bucket(tag, |bucket| {
            let place = bucket.iter().position(|slot| slot.tag == tag && slot.stamp.is_some())?;
            // Move a used entry one place ahead of less used ones.
            let ahead = place.saturating_sub(1);
            bucket.swap(place, ahead);
            Some(bucket[ahead].stamp)
        })
    }

    /// Records that a response was current at `stamp`.
    pub fn note(&self, tag: Tag, stamp: Stamp) {
        self.with_bucket(tag, |bucket| {
            let old = bucket.iter().position(|slot| slot.tag == tag);
            let place = old.or_else(|| bucket.iter().position(|slot| !slot.stamp.is_some()));
            bucket[place.unwrap_or(WAYS - 1)] = Slot { tag, stamp };
        });
    }

    /// Removes a response.
    pub fn forget(&self, tag: Tag) {
        self.with_bucket(tag, |bucket| {
            bucket
                .iter_mut()
                .filter(|slot| slot.tag == tag)
                .for_each(|slot| *slot = Slot::default());
        });
    }

    fn with_bucket<T>(&self, tag: Tag, work: impl FnOnce(&mut Bucket) -> T) -> T {
        let shard = &self.shards[(tag as usize) % SHARDS];
        let index = (tag / SHARDS as u64) % self.buckets;
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let words = &mut shard[index as usize];
        let before = unpacked(words);
        let mut bucket = before;
        let result = work(&mut bucket);
        if bucket != before {
            *words = packed(&bucket);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_stamp_is_found_until_it_is_displaced() {
        let table = Verified::new(1);
        let stamp = |at| Stamp::of(3, at);
        assert_eq!(table.stamp(64), None);
        for n in 0..4 {
            table.note(n * 64, stamp(n));
        }
        assert_eq!(table.stamp(0), Some(stamp(0)));
        // A use moves the entry ahead by one place; the entry that is then last gets replaced.
        assert_eq!(table.stamp(192), Some(stamp(3)));
        table.note(256, stamp(9));
        assert_eq!(table.stamp(128), None);
        assert_eq!((table.stamp(0), table.stamp(256)), (Some(stamp(0)), Some(stamp(9))));
        table.note(0, stamp(8));
        assert_eq!(table.stamp(0), Some(stamp(8)));
        table.forget(0);
        assert_eq!(table.stamp(0), None);
    }

    #[test]
    fn the_memory_of_a_million_is_known() {
        assert_eq!(Verified::ENTRY_BYTES, 16);
        let bytes = Verified::new(1 << 20).bytes();
        assert_eq!(bytes, 16 << 20);
    }
}
