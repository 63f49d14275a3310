//! Batches: objects that are written together, in the order in which they will be read.
//!
//! Client requests reach the cache interleaved. Objects to be stored wait, in memory where they are
//! anyway, until there are enough of them for a few large writes. Then they are written sorted by
//! site, group and arrival, so that the objects of a page lie side by side and one read fetches
//! them (UCFS, 2.6.2: objects of one path are written into one cluster). Large objects gain nothing
//! from neighbours. They lie apart from small ones: before them in one batch, after them in the
//! next. Most clusters therefore hold one kind only, and can be kept or evicted by what their bytes
//! earn.
//!
//! Pure, and generic over the item.
//!
//! Guarantees: every added item comes out exactly once.

/// Objects of more bytes than this are large. Transferring them costs about as much as the
/// operation, and small objects that lie apart from them can be kept longer (measured:
/// docs/decisions/0012).
pub const LARGE: u32 = 24 << 10;

/// An item that waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting<T> {
    large: bool,
    site: u64,
    group: u64,
    bytes: u32,
    item: T,
}

/// Items that wait to be written together. See the module documentation.
pub struct Batch<T> {
    size: u64,
    items: Vec<Waiting<T>>,
    bytes: u64,
    /// True if large items come first in the next batch.
    large_first: bool,
}

impl<T> Batch<T> {
    /// Returns an empty batch that is full at `size` bytes.
    pub fn new(size: u64) -> Batch<T> {
        assert!(size > 0, "a batch has a size");
        Batch { size, items: Vec::new(), bytes: 0, large_first: false }
    }

    /// Adds an item of `bytes` bytes. Returns whether the batch is full.
    pub fn push(&mut self, site: u64, group: u64, bytes: u32, item: T) -> bool {
        self.items.push(Waiting { large: bytes > LARGE, site, group, bytes, item });
        self.bytes += u64::from(bytes);
        self.bytes >= self.size
    }

    /// Takes all items with their sizes in bytes, in the order in which to write them.
    pub fn take(&mut self) -> impl Iterator<Item = (T, u32)> + use<T> {
        let mut items = std::mem::take(&mut self.items);
        self.bytes = 0;
        let large_first = self.large_first;
        self.large_first = !large_first;
        // Stable: items with equal keys stay in the order of arrival.
        items.sort_by_key(|waiting| (waiting.large != large_first, waiting.site, waiting.group));
        items.into_iter().map(|waiting| (waiting.item, waiting.bytes))
    }

    /// Returns all items with their sizes in bytes, in the order of arrival.
    pub fn items(&self) -> impl Iterator<Item = (&T, u32)> {
        self.items.iter().map(|waiting| (&waiting.item, waiting.bytes))
    }

    /// Returns the size of a full batch, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the batch has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn groups_lie_together_in_the_order_of_arrival() {
        let mut batch = Batch::new(1000);
        for (number, (site, group)) in [(2, 7), (1, 9), (2, 7), (1, 8), (2, 6)].iter().enumerate() {
            assert!(!batch.push(*site, *group, 100, number));
        }
        assert_eq!(batch.take().collect::<Vec<_>>(), [3, 1, 4, 0, 2].map(|item| (item, 100)));
        assert!(batch.is_empty() && batch.bytes() == 0);
    }

    #[test]
    fn large_and_small_items_take_turns_in_being_first() {
        let mut batch = Batch::new(1 << 20);
        let mut all = Vec::new();
        for _ in 0..2 {
            for (number, bytes) in [100, LARGE + 1, LARGE, 1 << 18].into_iter().enumerate() {
                assert!(!batch.push(1, 1, bytes, number));
            }
            all.extend(batch.take().map(|(item, _)| item));
        }
        assert_eq!(all, [0, 2, 1, 3, 1, 3, 0, 2]);
    }

    #[test]
    fn what_goes_in_comes_out_once() {
        for seed in seeds("batch::what_goes_in_comes_out_once", 50) {
            let mut random = fastrand::Rng::with_seed(seed);
            let size = random.u64(1..100_000);
            let mut batch = Batch::new(size);
            let (mut bytes, mut out) = (0, Vec::new());
            for item in 0..500_u32 {
                let len = random.u32(0..=2 * LARGE);
                bytes += u64::from(len);
                let full = batch.push(random.u64(0..4), random.u64(0..9), len, item);
                assert_eq!((full, batch.bytes()), (bytes >= size, bytes));
                if full || random.u8(0..20) == 0 {
                    out.extend(batch.take().map(|(item, _)| item));
                    bytes = 0;
                }
            }
            out.extend(batch.take().map(|(item, _)| item));
            out.sort_unstable();
            assert_eq!(out, (0..500).collect::<Vec<_>>());
        }
    }
}
