//! Memory in huge pages for short-lived buffers. A direct read pins every page that it writes to:
//! half a megabyte in pages of 4 KiB costs the kernel several times as much as in one of 2 MiB
//! (docs/decisions/0018-large-bodies.md). If the kernel provides no huge pages, this is ordinary
//! memory.
//!
//! Guarantees: the size is fixed, and memory is allocated only when used; a part belongs to one
//! owner at a time; every byte was zero before its first owner wrote it.

use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Parts begin and end at multiples of this many bytes.
const UNIT: usize = 4096;
/// Bytes of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// An arena of huge pages. See the module documentation.
pub(crate) struct Arena {
    /// The mapping. It is a huge page longer than the used part, which is aligned to a huge page.
    mapping: NonNull<u8>,
    start: NonNull<u8>,
    len: usize,
    runs: Mutex<FreeRuns>,
}

// SAFETY: under the lock of the runs, memory is handed out to one owner at a time.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves `len` bytes, a positive multiple of [`HUGE_PAGE`].
    pub fn new(len: usize) -> io::Result<Arena> {
        assert!(len > 0 && len.is_multiple_of(HUGE_PAGE), "whole huge pages");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len + HUGE_PAGE,
                protection,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: less than a huge page into a mapping that is one huge page longer than `len`.
        let start = unsafe { mapping.add(skip) };
        // SAFETY: a part of the mapping that is not in use yet. If refused, it is unchanged.
        _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Arena { mapping, start, len, runs: Mutex::new(FreeRuns::new(len / UNIT)) })
    }

    /// Takes `len` bytes, `len` > 0, at a multiple of 4,096; `None` if there is no such part.
    pub fn take(&self, len: usize) -> Option<NonNull<u8>> {
        let first = self.runs().take(len.div_ceil(UNIT))?;
        // SAFETY: a free run lies within the arena.
        Some(unsafe { self.start.add(first * UNIT) })
    }

    /// Returns a part to the arena.
    ///
    /// # Safety
    ///
    /// The part was returned by [`Arena::take`] for this length, and is not used any more.
    pub unsafe fn give_back(&self, memory: NonNull<u8>, len: usize) {
        let offset = memory.as_ptr().addr() - self.start.as_ptr().addr();
        self.runs().give_back(offset / UNIT, len.div_ceil(UNIT));
    }

    /// Returns the number of bytes that were used before and are free now.
    pub fn kept_bytes(&self) -> usize {
        let runs = self.runs();
        (runs.reached - runs.used) * UNIT
    }

    fn runs(&self) -> MutexGuard<'_, FreeRuns> {
        // No code under this lock can panic halfway.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; the owner of a part keeps the arena alive.
        _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.len + HUGE_PAGE) };
    }
}

/// Free runs, in units. The first run that is long enough is taken, so that unused memory stays
/// unused for as long as possible.
struct FreeRuns {
    /// Lengths by start; no two runs are adjacent.
    free: BTreeMap<usize, usize>,
    used: usize,
    /// Units from this one on were never used.
    reached: usize,
}

impl FreeRuns {
    fn new(units: usize) -> FreeRuns {
        FreeRuns { free: BTreeMap::from([(0, units)]), used: 0, reached: 0 }
    }

    fn take(&mut self, units: usize) -> Option<usize> {
        let (start, len) = self.free.iter().find(|(_, len)| **len >= units)?;
        let (start, len) = (*start, *len);
        self.free.remove(&start);
        if len > units {
            self.free.insert(start + units, len - units);
        }
        self.used += units;
        self.reached = self.reached.max(start + units);
        Some(start)
    }

    fn give_back(&mut self, start: usize, units: usize) {
        self.used -= units;
        let (mut start, mut len) = (start, units);
        if let Some(behind) = self.free.remove(&(start + len)) {
            len += behind;
        }
        if let Some((before, length)) = self.free.range_mut(..start).next_back()
            && before + *length == start
        {
            start = *before;
            len += *length;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_runs_are_those_of_a_map_of_units() {
        // A small generator, because the crate has no other use for one.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let units = 100;
        let mut runs = FreeRuns::new(units);
        let mut owners = vec![0; units];
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for number in 1..20_000 {
            if random(2) == 0 {
                let len = 1 + random(30);
                let expected = (0..=units - len)
                    .find(|at| owners[*at..*at + len].iter().all(|owner| *owner == 0));
                let start = runs.take(len);
                assert_eq!(start, expected, "the first that is long enough");
                if let Some(start) = start {
                    owners[start..start + len].fill(number);
                    taken.push((start, len));
                }
            } else if !taken.is_empty() {
                let (start, len) = taken.swap_remove(random(taken.len()));
                owners[start..start + len].fill(0);
                runs.give_back(start, len);
            }
            assert_eq!(runs.used, owners.iter().filter(|owner| **owner != 0).count());
        }
        taken.into_iter().for_each(|(start, len)| runs.give_back(start, len));
        assert_eq!(runs.free, BTreeMap::from([(0, units)]));
    }

    #[test]
    fn parts_are_apart_zero_at_first_and_used_again() {
        let arena = Arena::new(HUGE_PAGE).expect("memory");
        let parts: Vec<_> = std::iter::from_fn(|| arena.take(500_000)).collect();
        assert_eq!(parts.len(), 4);
        for (number, part) in parts.iter().enumerate() {
            assert!(part.as_ptr().addr().is_multiple_of(UNIT));
            // SAFETY: a part of 500,000 bytes that belongs to this test.
            let bytes = unsafe { std::slice::from_raw_parts_mut(part.as_ptr(), 500_000) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(number as u8 + 1);
        }
        for (number, part) in parts.iter().enumerate() {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(part.as_ptr(), 500_000) };
            assert!(bytes.iter().all(|byte| usize::from(*byte) == number + 1));
        }
        assert_eq!(arena.kept_bytes(), 0);
        // SAFETY: taken above, and not used any more.
        unsafe { arena.give_back(parts[1], 500_000) };
        assert_eq!(arena.kept_bytes(), 503_808);
        assert_eq!(arena.take(500_000), Some(parts[1]));
        assert_eq!(arena.take(HUGE_PAGE + 1), None);
    }
}
