//! Evicted objects that wait for a subscriber to take them: a queue bounded by number and by bytes.
//! When it is full, the oldest offer is dropped and counted.
//!
//! Guarantees: the queue never exceeds its limits; it holds at most one offer per digest, the
//! newest; withdrawn objects are never offered; offers come out in the order in which they were
//! made. Every call takes logarithmic time.

use std::collections::BTreeMap;

use crate::base::digest::Digest;

/// Limits on the eviction offers that wait for a subscriber, per device. They come on top of
/// [`crate::Options::memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionLimits {
    /// Maximum number of offers.
    pub offers: usize,
    /// Maximum memory of the objects in the offers, in bytes.
    pub bytes: usize,
}

struct Offer<T> {
    digest: Digest,
    object: T,
    bytes: usize,
}

/// A bounded queue of eviction offers. See the module documentation.
pub(crate) struct EvictionQueue<T> {
    limits: EvictionLimits,
    /// Offers by number, oldest first.
    offers: BTreeMap<u64, Offer<T>>,
    numbers: BTreeMap<Digest, u64>,
    next: u64,
    bytes: usize,
    dropped: u64,
}

impl<T> EvictionQueue<T> {
    pub(crate) fn new(limits: EvictionLimits) -> EvictionQueue<T> {
        let (offers, numbers) = (BTreeMap::new(), BTreeMap::new());
        EvictionQueue { limits, offers, numbers, next: 0, bytes: 0, dropped: 0 }
    }

    /// Offers `object`, which occupies `bytes` bytes of memory. Replaces an older offer of its
    /// digest.
    pub(crate) fn offer(&mut self, digest: Digest, object: T, bytes: usize) {
        self.withdraw(&digest);
        self.numbers.insert(digest, self.next);
        self.offers.insert(self.next, Offer { digest, object, bytes });
        self.next += 1;
        self.bytes += bytes;
        while self.offers.len() > self.limits.offers || self.bytes > self.limits.bytes {
            if self.take().is_none() {
                return;
            }
            self.dropped += 1;
        }
    }

    /// Withdraws the offer of `digest`, because the evicted object is no longer current.
    pub(crate) fn withdraw(&mut self, digest: &Digest) {
        let offer = self.numbers.remove(digest).and_then(|number| self.offers.remove(&number));
        self.bytes -= offer.map_or(0, |offer| offer.bytes);
    }

    /// Removes and returns the oldest offer.
    pub(crate) fn take(&mut self) -> Option<(Digest, T)> {
        let (_, offer) = self.offers.pop_first()?;
        self.numbers.remove(&offer.digest);
        self.bytes -= offer.bytes;
        Some((offer.digest, offer.object))
    }

    /// Returns the number of offers dropped because the queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn the_queue_equals_a_list_of_the_newest_offers() {
        for seed in seeds("eviction_queue::it_is_as_a_list", 100) {
            let mut random = fastrand::Rng::with_seed(seed);
            let limits =
                EvictionLimits { offers: random.usize(0..12), bytes: random.usize(0..1_000) };
            let mut queue = EvictionQueue::new(limits);
            let (mut model, mut dropped) = (Vec::<(u8, u32, usize)>::new(), 0);
            for step in 0..400 {
                let name = random.u8(..20);
                let digest = Digest([name; 16]);
                match random.u8(..4) {
                    0 | 1 => {
                        let bytes = random.usize(..300);
                        queue.offer(digest, step, bytes);
                        model.retain(|(other, ..)| *other != name);
                        model.push((name, step, bytes));
                        while model.len() > limits.offers
                            || model.iter().map(|(.., bytes)| bytes).sum::<usize>() > limits.bytes
                        {
                            model.remove(0);
                            dropped += 1;
                        }
                    }
                    2 => {
                        queue.withdraw(&digest);
                        model.retain(|(other, ..)| *other != name);
                    }
                    _ => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0));
                        let expected = oldest.map(|(name, step, _)| (Digest([name; 16]), step));
                        assert_eq!(queue.take(), expected, "seed {seed}");
                    }
                }
                assert_eq!(queue.dropped(), dropped, "seed {seed}");
                assert_eq!(queue.numbers.len(), queue.offers.len(), "seed {seed}");
                let bytes: usize = model.iter().map(|(.., bytes)| bytes).sum();
                assert_eq!((queue.offers.len(), queue.bytes), (model.len(), bytes), "seed {seed}");
            }
        }
    }
}
