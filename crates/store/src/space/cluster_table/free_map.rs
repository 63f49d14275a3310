//! One bit per cluster: free or not. Finds the next run of free clusters after a position.

use std::ops::Range;

pub(super) struct FreeMap {
    words: Vec<u64>,
    len: u32,
    free: u32,
}

impl FreeMap {
    /// Returns a map of `len` clusters, none of them free.
    pub(super) fn new(len: u32) -> FreeMap {
        FreeMap { words: vec![0; len.div_ceil(64) as usize], len, free: 0 }
    }

    /// Appends clusters that are not free.
    pub(super) fn grow(&mut self, len: u32) {
        self.len = len;
        self.words.resize(len.div_ceil(64) as usize, 0);
    }

    pub(super) fn set(&mut self, cluster: u32, free: bool) {
        let word = &mut self.words[cluster as usize / 64];
        let bit = 1_u64 << (cluster % 64);
        match (*word & bit != 0, free) {
            (false, true) => self.free += 1,
            (true, false) => self.free -= 1,
            _ => {}
        }
        if free { *word |= bit } else { *word &= !bit }
    }

    pub(super) fn get(&self, cluster: u32) -> bool {
        self.words[cluster as usize / 64] >> (cluster % 64) & 1 == 1
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Returns the first run of free clusters at or after `from`, cut to `most`. The search wraps
    /// around at the end; the run does not.
    pub(super) fn run_after(&self, from: u32, most: u32) -> Option<Range<u32>> {
        if self.free == 0 || most == 0 {
            return None;
        }
        let start = self.first(from, true).or_else(|| self.first(0, true))?;
        let end = self.first(start, false).unwrap_or(self.len);
        Some(start..end.min(start.saturating_add(most)))
    }

    /// Returns the start of the first run of at least `len` free clusters at or after `from`,
    /// wrapping around; `None` if there is none, or none among the first `RUNS` runs.
    pub(super) fn long_run_after(&self, from: u32, len: u32) -> Option<u32> {
        const RUNS: usize = 1_000;
        let mut at = from;
        for _ in 0..RUNS {
            let run = self.run_after(at, u32::MAX)?;
            if run.len() as u32 >= len {
                return Some(run.start);
            }
            let next = if run.end >= self.len { 0 } else { run.end };
            // Wrapped around: the next run has been seen.
            let passed = |at: u32| if at >= from { at - from } else { self.len - from + at };
            if next == from || passed(next) < passed(at) {
                return None;
            }
            at = next;
        }
        None
    }

    /// Returns the first cluster at or after `from` that is free (or not free).
    fn first(&self, from: u32, free: bool) -> Option<u32> {
        let mut mask = u64::MAX << (from % 64);
        for number in from as usize / 64..self.words.len() {
            let word = if free { self.words[number] } else { !self.words[number] } & mask;
            if word != 0 {
                let found = number as u32 * 64 + word.trailing_zeros();
                return (found < self.len).then_some(found);
            }
            mask = u64::MAX;
        }
        None
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn runs_equal_those_of_a_plain_vector() {
        for seed in seeds("free_map::runs_equal_those_of_a_plain_vector", 50) {
            let mut random = fastrand::Rng::with_seed(seed);
            let len = random.u32(1..300);
            let mut map = FreeMap::new(0);
            map.grow(len);
            let mut plain = vec![false; len as usize];
            for _ in 0..500 {
                let start = random.u32(..len);
                let free = random.bool();
                for cluster in start..len.min(start + random.u32(..80)) {
                    map.set(cluster, free);
                    plain[cluster as usize] = free;
                }
                assert_eq!(map.free() as usize, plain.iter().filter(|free| **free).count());
                let (from, most) = (random.u32(..len), random.u32(..9));
                let found = (from..len).chain(0..from).find(|at| plain[*at as usize]);
                let expected = found.filter(|_| most > 0).map(|start| {
                    let run = plain[start as usize..].iter().take_while(|free| **free).count();
                    start..start + (run as u32).min(most)
                });
                assert_eq!(map.run_after(from, most), expected);
                let wanted = random.u32(1..9);
                let long = |start: &u32| {
                    let run = plain[*start as usize..].iter().take_while(|free| **free).count();
                    let first = *start == from || *start == 0 || !plain[*start as usize - 1];
                    first && run as u32 >= wanted
                };
                let expected = (from..len).chain(0..from).find(long);
                assert_eq!(map.long_run_after(from, wanted), expected, "{from} {wanted} {plain:?}");
            }
        }
    }
}
