//! Reusable buffers for reads. They exist because a fresh aligned buffer costs an allocation and
//! the zeroing of every byte, though the device fills all of them anyway; for small reads from a
//! fast drive that is a large share of the processor time.
//!
//! A buffer goes back to its pool when nothing refers to it any more: the [`IoBuf`] itself, or the
//! last slice of the [`bytes::Bytes`] that were made of it, on whatever thread. Buffers lie in
//! shelves by size: multiples of 4,096 bytes up to 64 KiB, then eight sizes to each doubling up
//! to 2 MiB. Larger ones are not kept. Of what a pool may keep, a part is in huge pages
//! ([`super::arena`]), for buffers that are soon given back: others would take its room from them.
//!
//! It promises: the pool holds no more than its bound; a buffer belongs to one owner at a time;
//! every byte of it was zeroed when it was allocated, so that bytes that a read leaves as they were
//! are old data, never uninitialised memory. They may come from another request: the owner of a
//! buffer must look at nothing before a read or a write of its own has filled it.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::IoBuf;
use crate::transfer::arena::{Arena, HUGE_PAGE};
use crate::transfer::buffer::{allocate, free};

/// Bytes of a buffer are a multiple of this.
const STEP: usize = 4096;
/// Up to so many steps there is a shelf for each multiple.
const SINGLE: usize = 16;
/// Shelves for each doubling beyond.
const PER_DOUBLING: usize = 8;
/// Doublings beyond, up to 2 MiB.
const DOUBLINGS: usize = 5;
/// Percent of what a pool may keep that is in huge pages.
const HUGE_PERCENT: usize = 75;
const SHELVES: usize = SINGLE + PER_DOUBLING * DOUBLINGS;

/// Buffers of one device that wait for their next use. A clone is another handle on the same
/// pool; what it holds is freed with the last one.
#[derive(Clone)]
pub struct BufPool(Arc<Pool>);

/// The figures of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Bytes of the buffers that wait.
    pub kept_bytes: usize,
    /// Buffers that were taken from it.
    pub reused: u64,
    /// Buffers that it had to allocate. Those in huge pages are in neither count.
    pub allocated: u64,
}

/// The memory of a buffer that its shelf owns.
struct Block(NonNull<u8>);

// SAFETY: a `Block` owns its memory alone, as a `Box<[u8]>` does.
unsafe impl Send for Block {}

/// The state shared by the handles and the buffers of a pool.
pub(crate) struct Pool {
    /// Bytes that may be on the shelves.
    most: usize,
    /// For buffers that are soon given back, where there may be that much.
    arena: Option<Arc<Arena>>,
    shelves: Mutex<Shelves>,
}

struct Shelves {
    /// Blocks by number of the shelf, the last one returned at the end: the likeliest to be in
    /// the processor's cache.
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

    /// Returns a buffer as [`BufPool::take`] does, for whoever gives it back soon.
    pub fn take_briefly(&self, len: usize) -> IoBuf {
        if let Some(arena) = &self.0.arena
            && let Some(memory) = arena.take(len)
        {
            let home = Home::Arena { arena: Arc::clone(arena), len };
            // SAFETY: the memory is `len` bytes of the arena, initialised as all of it is, and
            // without another owner.
            return unsafe { IoBuf::of_pool(memory, len, home) };
        }
        self.take(len)
    }

    /// Returns a buffer of `len` bytes, `len` > 0, of any content. It is not zeroed.
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
        // SAFETY: the memory is that of a block of this shelf, zeroed when it was allocated, as
        // long as the shelf says, and without another owner.
        unsafe { IoBuf::of_pool(memory, len, home) }
    }

    /// Returns the bytes of memory that a buffer of `len` bytes takes.
    pub fn room_for(len: usize) -> usize {
        shelf_for(len).map_or(len, capacity)
    }

    /// Returns the figures now.
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
    /// The buffer has `len` bytes there.
    Arena {
        arena: Arc<Arena>,
        len: usize,
    },
}

impl Home {
    /// Takes the memory of a buffer back: to its shelf, its arena, or the system.
    ///
    /// # Safety
    ///
    /// It is the memory that the pool made a buffer of with this home, and is not used any more.
    pub unsafe fn take_back(&self, memory: NonNull<u8>) {
        let (pool, shelf) = match self {
            Home::Shelf { pool, shelf } => (pool, usize::from(*shelf)),
            // SAFETY: taken there for `len` bytes, and not used any more.
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
    /// Puts a block on its shelf. Room for it is made on the shelf that has the most bytes; when
    /// that is its own, it is freed itself.
    fn put(&self, shelf: usize, block: Block) {
        let mut shelves = self.lock();
        if capacity(shelf) <= self.most {
            shelves.counts.kept_bytes += capacity(shelf);
            shelves.blocks[shelf].push(block);
        } else {
            // SAFETY: of this shelf, and owned here.
            unsafe { free(block.0, layout(shelf)) };
        }
        while shelves.counts.kept_bytes > self.most {
            let Some(fullest) = shelves.fullest() else { break };
            let Some(block) = shelves.blocks[fullest].pop() else { break };
            shelves.counts.kept_bytes -= capacity(fullest);
            // SAFETY: of this shelf, and owned here.
            unsafe { free(block.0, layout(fullest)) };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // Nothing under this lock can panic half-way.
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
                // SAFETY: of this shelf, and owned here.
                unsafe { free(block.0, layout(shelf)) };
            }
        }
    }
}

/// Returns the shelf of the smallest buffers that have `len` bytes; `None` when such buffers are
/// not kept.
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

/// Returns the bytes of the buffers of a shelf.
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
