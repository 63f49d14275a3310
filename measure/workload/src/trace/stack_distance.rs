//! Stack distances: the number of different objects requested since the last request for an object.
//! An LRU cache of more objects than that hits.
//!
//! Exact while there are few objects. Of more than [`TRACKED_MAX`], a sample by hash is tracked and
//! its distances and counts are scaled (SHARDS), which bounds memory and time per request.

use std::collections::HashMap;

use crate::contents::mix;
use crate::lru_stack::{Id, Stack};

/// Default limit on the number of tracked objects.
pub const TRACKED_MAX: usize = 1 << 18;

/// Number of buckets, one for each power of two.
const BUCKETS: usize = 34;

/// The distances of all requests so far.
pub struct StackDistances {
    tracked_max: usize,
    /// Objects with a hash up to this value are tracked.
    threshold: u64,
    /// By tracked object: its number in the stack.
    ids: HashMap<u32, Id>,
    /// Numbers of objects that are no longer tracked.
    free: Vec<Id>,
    stack: Stack,
    buckets: [f64; BUCKETS],
    cold: f64,
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances::new(TRACKED_MAX)
    }
}

impl StackDistances {
    /// Returns an empty measure that tracks at most `tracked_max` objects at a time.
    pub fn new(tracked_max: usize) -> StackDistances {
        let tracked_max = tracked_max.max(16);
        StackDistances {
            tracked_max,
            threshold: u64::MAX,
            ids: HashMap::new(),
            free: Vec::new(),
            stack: Stack::new(),
            buckets: [0.0; BUCKETS],
            cold: 0.0,
        }
    }

    /// Counts a request for an object.
    pub fn take(&mut self, object: u32) {
        if mix(u64::from(object)) > self.threshold {
            return;
        }
        let new = self.ids.len() as Id;
        let id = *self.ids.entry(object).or_insert_with(|| self.free.pop().unwrap_or(new));
        match self.stack.access(id, 1) {
            Some(newer) => {
                let distance = (newer as f64 / self.rate()) as u64;
                let bucket = (u64::BITS - distance.leading_zeros()) as usize;
                self.buckets[bucket.min(BUCKETS - 1)] += 1.0;
            }
            None => self.cold += 1.0,
        }
        if self.ids.len() > self.tracked_max {
            self.halve();
        }
    }

    /// Returns the share of objects that is tracked.
    pub fn rate(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    /// Returns the share of requests with a smaller distance than each power of two: 1, 2, 4 …, up
    /// to the largest distance found. This is the hit ratio of LRU caches of that many objects.
    pub fn hit_ratios(&self) -> Vec<(u64, f64)> {
        let all = self.buckets.iter().sum::<f64>() + self.cold;
        let largest = self.buckets.iter().rposition(|count| *count > 0.0);
        let mut sum = 0.0;
        let buckets = self.buckets.iter().take(largest.map_or(0, |bucket| bucket + 1));
        let ratios = buckets.enumerate().map(|(bucket, count)| {
            sum += count;
            (1 << bucket, sum / all)
        });
        ratios.collect()
    }

    fn halve(&mut self) {
        self.threshold /= 2;
        let threshold = self.threshold;
        let unfollowed = self.ids.extract_if(|object, _| mix(u64::from(*object)) > threshold);
        for (_, id) in unfollowed {
            self.stack.take_out(id);
            self.free.push(id);
        }
        self.buckets.iter_mut().for_each(|count| *count /= 2.0);
        self.cold /= 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the distances by searching backwards.
    fn naive(requests: &[u32]) -> Vec<u64> {
        let mut buckets = vec![0; BUCKETS];
        for (at, object) in requests.iter().enumerate() {
            let Some(before) = requests[..at].iter().rposition(|other| other == object) else {
                continue;
            };
            let between: std::collections::HashSet<_> = requests[before + 1..at].iter().collect();
            buckets[(u64::BITS - (between.len() as u64).leading_zeros()) as usize] += 1;
        }
        buckets
    }

    fn requests(objects: u32, len: usize) -> Vec<u32> {
        let mut random = fastrand::Rng::with_seed(4);
        (0..len).map(|_| random.u32(0..objects).min(random.u32(0..objects))).collect()
    }

    #[test]
    fn few_objects_are_exact() {
        // More requests than places in the stack, so it is renumbered several times.
        let requests = requests(60, 2_000);
        let mut distances = StackDistances::new(64);
        requests.iter().for_each(|object| distances.take(*object));
        assert_eq!(distances.rate(), 1.0);
        let found: Vec<u64> = distances.buckets.iter().map(|count| *count as u64).collect();
        assert_eq!(found, naive(&requests));
        let different: std::collections::HashSet<_> = requests.iter().collect();
        assert_eq!(distances.cold, different.len() as f64);
    }

    #[test]
    fn a_sample_comes_near() {
        let requests = requests(20_000, 200_000);
        let (mut all, mut sample) = (StackDistances::default(), StackDistances::new(1_000));
        for object in requests {
            all.take(object);
            sample.take(object);
        }
        assert_eq!(all.rate(), 1.0);
        assert!((0.02..0.06).contains(&sample.rate()), "{}", sample.rate());
        for ((size, exact), (_, near)) in all.hit_ratios().iter().zip(sample.hit_ratios()) {
            // Distances below the inverse of the rate cannot be distinguished.
            if *size >= 128 {
                assert!((exact - near).abs() < 0.04, "{size}: {exact}, {near}");
            }
        }
    }
}
