//! Reusable buffers for reads. A new aligned buffer costs an allocation and the zeroing of every
//! byte, although the device overwrites all of them; for small reads from a fast drive that is a
//! large share of the processor time.
//!
//! A buffer returns to its pool when the last reference to it is dropped, on any thread: the
//! [`IoBuf`] itself, or the last slice of the [`bytes::Bytes`] made from it. Buffers are kept on
//! shelves by size: multiples of 4,096 bytes up to 64 KiB, then eight sizes per doubling up to 2
//! MiB. Larger ones are not kept. A part of the pool's memory is in huge pages ([`super::arena`]),
//! reserved for short-lived buffers; others would occupy it for too long.
//!
//! Guarantees: the pool holds no more than its bound; a buffer belongs to one owner at a time;
//! every byte was zeroed on allocation, so bytes that a read leaves unchanged are old data, never
//! uninitialised memory. They may come from another request: the owner of a buffer must not look at
//! its content before its own read or write has filled it.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::IoBuf;
use crate::transfer::arena::{Arena, HUGE_PAGE};
use crate::transfer::buffer::{allocate, free};

/// Sizes of buffers are multiples of this many bytes.
const STEP: usize = 4096;
/// Up to this many steps there is a shelf for each multiple.
const SINGLE: usize = 16;
/// Shelves per doubling beyond that.
const PER_DOUBLING: usize = 8;
/// Number of doublings beyond that, up to 2 MiB.
const DOUBLINGS: usize = 5;
/// Percent of a pool's bound that is in huge pages.
const HUGE_PERCENT: usize = 75;
const SHELVES: usize = SINGLE + PER_DOUBLING * DOUBLINGS;

/// Buffers of one device that wait for reuse. A clone is another handle to the same pool. Its
/// memory is freed with the last handle.
#[derive(Clone)]
pub struct BufPool(Arc<Pool>);

/// Statistics of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Size of the waiting buffers, in bytes.
    pub kept_bytes: usize,
    /// Buffers that were reused.
    pub reused: u64,
    /// Buffers that had to be allocated. Buffers in huge pages are in neither count.
    pub allocated: u64,
}

/// The memory of a buffer that its shelf owns.
struct Block(NonNull<u8>);

// SAFETY: a `Block` owns its memory alone, as a `Box<[u8]>` does.
unsafe impl Send for Block {}

/// The state shared by the handles and the buffers of a pool.
pub(crate) struct Pool {
    /// Maximum number of bytes on the shelves.
    most: usize,
    /// Memory for short-lived buffers, if the bound of the pool is large enough.
    arena: Option<Arc<Arena>>,
    shelves: Mutex<Shelves>,
}

struct Shelves {
    /// Blocks by shelf. The block returned last is at the end, because it is the likeliest to be in
    /// the processor cache.
    blocks: [Vec<Block>; SHELVES],
    counts: PoolCounts,
}

impl BufPool {
    /// Returns a pool that keeps at most `most` bytes.
    pub fn new(most: usize) -> BufPool {
        let blocks = std::array::from_fn(|_| Vec::new());
        let shelves = Mutex::new(Shelves { blocks, counts: PoolCounts::default() });
        let huge = most / 100 * HUGE_PERCENT / HUGE_PAGE * HUGE_PAGE;
        let arena = Some(huge).filter(|huge| *huge > 0).and_then(|huge| Arena::new(huge).ok());
        let most = if arena.is_some() { most - huge } else { most };
        BufPool(Arc::new(Pool { most, arena: arena.map(Arc::new), shelves }))
    }

    /// Returns a buffer like [`BufPool::take`], for callers that return it soon.
    pub fn take_briefly(&self, len: usize) -> IoBuf {
        if let Some(arena) = &self.0.arena
            && let Some(memory) = arena.take(len)
        {
            let home = Home::Arena { arena: Arc::clone(arena), len };
            // SAFETY: the memory is `len` bytes of the arena, initialised like all of it, and
            // without another owner.
            return unsafe { IoBuf::of_pool(memory, len, home) };
        }
        self.take(len)
    }

    /// Returns a buffer of `len` bytes, `len` > 0, with arbitrary content. It is not zeroed.
    pub fn take(&self, len: usize) -> IoBuf {
        let Some(shelf) = shelf_for(len) else { return IoBuf::zeroed(len) };
        let mut shelves = self.0.lock();
        let block = shelves.blocks[shelf].pop();
        match &block {
            Some(_) => {
                shelves.counts.reused += 1;
                shelves.counts.kept_bytes -= capacity(shelf);
            }
            None => shelves.counts.allocated += 1,
        }
        drop(shelves);
        let memory = block.map_or_else(|| allocate(layout(shelf)), |block| block.0);
        let home = Home::Shelf { pool: Arc::downgrade(&self.0), shelf: shelf as u8 };
        // SAFETY: the memory is that of a block of this shelf: zeroed on allocation, as long as the
        // shelf's size, and without another owner.
        unsafe { IoBuf::of_pool(memory, len, home) }
    }

    /// Returns the memory that a buffer of `len` bytes occupies, in bytes.
    pub fn room_for(len: usize) -> usize {
        shelf_for(len).map_or(len, capacity)
    }

    /// Returns the current statistics.
    pub fn counts(&self) -> PoolCounts {
        let mut counts = self.0.lock().counts;
        counts.kept_bytes += self.0.arena.as_ref().map_or(0, |arena| arena.kept_bytes());
        counts
    }
}

/// The destination of a buffer whose owner drops it.
pub(crate) enum Home {
    Shelf {
        pool: std::sync::Weak<Pool>,
        shelf: u8,
    },
    /// An arena, from which the buffer has `len` bytes.
    Arena {
        arena: Arc<Arena>,
        len: usize,
    },
}

impl Home {
    /// Takes back the memory of a buffer: to its shelf, its arena, or the system.
    ///
    /// # Safety
    ///
    /// The pool made a buffer with this home from the memory, which is not used any more.
    pub unsafe fn take_back(&self, memory: NonNull<u8>) {
        let (pool, shelf) = match self {
            Home::Shelf { pool, shelf } => (pool, usize::from(*shelf)),
            // SAFETY: taken from it for `len` bytes, and not used any more.
            Home::Arena { arena, len } => return unsafe { arena.give_back(memory, *len) },
        };
        match pool.upgrade() {
            Some(pool) => pool.put(shelf, Block(memory)),
            // SAFETY: allocated for this shelf, and not used any more.
            None => unsafe { free(memory, layout(shelf)) },
        }
    }
}

impl Pool {
    /// Puts a block on its shelf, or frees it if it is larger than the bound. If the pool is then
    /// too large, blocks are freed from the shelf with the most bytes, possibly this one.
    fn put(&self, shelf: usize, block: Block) {
        let mut shelves = self.lock();
        if capacity(shelf) <= self.most {
            shelves.counts.kept_bytes += capacity(shelf);
            shelves.blocks[shelf].push(block);
        } else {
            // SAFETY: allocated for this shelf, and owned here.
            unsafe { free(block.0, layout(shelf)) };
        }
        while shelves.counts.kept_bytes > self.most {
            let Some(fullest) = shelves.fullest() else { break };
            let Some(block) = shelves.blocks[fullest].pop() else { break };
            shelves.counts.kept_bytes -= capacity(fullest);
            // SAFETY: allocated for this shelf, and owned here.
            unsafe { free(block.0, layout(fullest)) };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // No code under this lock can panic halfway.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    fn fullest(&self) -> Option<usize> {
        (0..SHELVES).max_by_key(|shelf| self.blocks[*shelf].len() * capacity(*shelf))
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        for (shelf, blocks) in self.blocks.iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: allocated for this shelf, and owned here.
                unsafe { free(block.0, layout(shelf)) };
            }
        }
    }
}

/// Returns the shelf of the smallest buffers that have `len` bytes; `None` if such buffers are not
/// kept.
fn shelf_for(len: usize) -> Option<usize> {
    let steps = len.div_ceil(STEP);
    if steps <= SINGLE {
        return steps.checked_sub(1);
    }
    let doubling = (steps - 1).ilog2() as usize;
    let parts = steps.div_ceil((1 << doubling) / PER_DOUBLING);
    let shelf =
        SINGLE + (doubling - SINGLE.ilog2() as usize) * PER_DOUBLING + parts - PER_DOUBLING - 1;
    (shelf < SHELVES).then_some(shelf)
}

/// Returns the size of the buffers on a shelf, in bytes.
fn capacity(shelf: usize) -> usize {
    if shelf < SINGLE {
        return (shelf + 1) * STEP;
    }
    let (doubling, part) = ((shelf - SINGLE) / PER_DOUBLING, (shelf - SINGLE) % PER_DOUBLING);
    (SINGLE << doubling) / PER_DOUBLING * (PER_DOUBLING + 1 + part) * STEP
}

fn layout(shelf: usize) -> Layout {
    IoBuf::layout(capacity(shelf))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_has_room_and_wastes_little() {
        for len in 1..=(2 << 20) {
            let shelf = shelf_for(len).expect("a shelf");
            let capacity = capacity(shelf);
            assert!(capacity >= len, "{len} of {capacity}");
            assert!(capacity - len < STEP.max(len / 8 + STEP), "{len} of {capacity}");
            assert_eq!(shelf_for(capacity), Some(shelf));
        }
        assert_eq!([0, (2 << 20) + 1, usize::MAX].map(shelf_for), [None; 3]);
        assert_eq!(capacity(SHELVES - 1), 2 << 20);
    }

    #[test]
    fn a_buffer_comes_back_when_its_last_slice_is_gone_on_any_thread() {
        let pool = BufPool::new(1 << 20);
        let mut buf = pool.take(5000);
        assert_eq!(buf.len(), 5000);
        buf.fill(7);
        let address = buf.as_ptr();
        let bytes = buf.into_bytes();
        let slice = bytes.slice(4000..5000);
        drop(bytes);
        assert_eq!(pool.counts().kept_bytes, 0);
        std::thread::spawn(move || {
            assert!(slice.iter().all(|byte| *byte == 7));
            drop(slice);
        })
        .join()
        .unwrap();
        assert_eq!(pool.counts().kept_bytes, 8192);
        let again = pool.take(8000);
        assert_eq!((again.as_ptr(), again.len()), (address, 8000));
        assert!(again[..5000].iter().all(|byte| *byte == 7), "a buffer is not zeroed");
        assert!(again[5000..].iter().all(|byte| *byte == 0), "what nobody wrote is zero");
        let counts = PoolCounts { kept_bytes: 0, reused: 1, allocated: 1 };
        assert_eq!(pool.counts(), counts);
    }

    #[test]
    fn what_is_kept_is_bounded_and_gives_way_to_what_is_used() {
        let pool = BufPool::new(64 << 10);
        let large: Vec<IoBuf> = (0..4).map(|_| pool.take(32 << 10)).collect();
        drop(large);
        assert_eq!(pool.counts().kept_bytes, 64 << 10);
        for _ in 0..100 {
            drop((0..4).map(|_| pool.take(4096)).collect::<Vec<_>>());
            assert!(pool.counts().kept_bytes <= 64 << 10);
        }
        assert_eq!(pool.counts().allocated, 4 + 4, "the small ones found room");
        drop(pool.take(1 << 20));
        assert!(pool.counts().kept_bytes <= 64 << 10);
        drop(pool.take(3 << 20));
        assert_eq!(BufPool::room_for(3 << 20), 3 << 20);
    }

    #[test]
    fn what_is_soon_given_back_is_in_huge_pages_as_far_as_they_go() {
        let pool = BufPool::new(4 << 20);
        let mut bufs: Vec<IoBuf> = (0..6).map(|_| pool.take_briefly(500_000)).collect();
        for (number, buf) in bufs.iter_mut().enumerate() {
            assert!(buf.len() == 500_000 && buf.as_ptr().addr().is_multiple_of(4096));
            buf.fill(number as u8);
        }
        assert!(bufs.iter().zip(0..).all(|(buf, number)| buf.iter().all(|byte| *byte == number)));
        assert_eq!(pool.counts().allocated, 2, "four of them have room there");
        let bytes = bufs.remove(0).into_bytes();
        let slice = bytes.slice(400_000..);
        drop((bytes, bufs));
        let kept = 3 * 503_808 + 2 * BufPool::room_for(500_000);
        assert_eq!(pool.counts().kept_bytes, kept);
        drop(pool);
        assert!(slice.iter().all(|byte| *byte == 0), "it outlives the pool");
    }

    #[test]
    fn buffers_outlive_their_pool() {
        let pool = BufPool::new(1 << 20);
        drop(pool.take(4096));
        let (mut one, other) = (pool.take(4096), pool.take(100_000));
        drop(pool);
        one.fill(3);
        drop(other);
        assert!(one.into_bytes().iter().all(|byte| *byte == 3));
    }
}
