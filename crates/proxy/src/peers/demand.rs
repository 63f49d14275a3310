//! How often documents were lately asked for at this node: a count-min sketch of the running second
//! and of the one before.
//!
//! A count is never too low, and too high where all cells of a document are shared with others. It
//! says on how many owners a document is kept, which costs a copy when it is wrong.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleet::KeyHash;
use fleet::popularity::Hotness;

/// Rows of the sketch; a document has a cell in each.
const ROWS: usize = 2;
/// Cells of a row: at a million requests a second a cell has sixty.
const CELLS: usize = 1 << 14;

type Rows = [Box<[u16]>; ROWS];

/// The requests of two seconds.
pub(super) struct Demand {
    hotness: Hotness,
    counts: Mutex<Counts>,
}

struct Counts {
    /// The running second.
    second: u64,
    running: Rows,
    before: Rows,
}

impl Demand {
    pub fn new(hotness: Hotness) -> Demand {
        let rows = || std::array::from_fn(|_| vec![0; CELLS].into_boxed_slice());
        let counts = Counts { second: 0, running: rows(), before: rows() };
        Demand { hotness, counts: Mutex::new(counts) }
    }

    /// Notes a request, and returns how many owners the document has by now.
    pub fn note(&self, key: KeyHash, now: Duration) -> usize {
        if self.hotness.owners_max.get() == 1 {
            return 1;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.turn(now.as_secs());
        let mut least = [u64::MAX; 2];
        for (row, cell) in cells(key).into_iter().enumerate() {
            let running = &mut counts.running[row][cell];
            *running = running.saturating_add(1);
            least[0] = least[0].min(u64::from(*running));
            least[1] = least[1].min(u64::from(counts.before[row][cell]));
        }
        drop(counts);
        let before = self.hotness.owners(least[1], 1);
        // The running second is not over: what it has so far can only raise the number.
        let owners = self.hotness.owners(least[0].max(least[1]), before);
        owners as usize
    }
}

impl Counts {
    /// Begins another second.
    fn turn(&mut self, second: u64) {
        match second.saturating_sub(self.second) {
            0 => return,
            1 => std::mem::swap(&mut self.running, &mut self.before),
            _ => self.before.iter_mut().for_each(|row| row.fill(0)),
        }
        self.running.iter_mut().for_each(|row| row.fill(0));
        self.second = second;
    }
}

/// Returns the cell of a document in each row.
fn cells(key: KeyHash) -> [usize; ROWS] {
    let bits = key.bits();
    [bits as usize % CELLS, (bits >> 32) as usize % CELLS]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn what_is_asked_for_often_gets_more_owners_and_loses_them_again() {
        let number = |n| NonZeroU32::new(n).unwrap();
        let demand = Demand::new(Hotness { per_owner: number(100), owners_max: number(3) });
        let (hot, cold) = (KeyHash::from_bits(1 << 40 | 1), KeyHash::from_bits(2));
        let at = Duration::from_millis;
        for _ in 0..100 {
            assert_eq!(demand.note(hot, at(1_500)), 1);
        }
        assert_eq!(demand.note(hot, at(1_501)), 2);
        for _ in 0..500 {
            demand.note(hot, at(1_502));
        }
        assert_eq!(demand.note(hot, at(1_900)), 3);
        assert_eq!(demand.note(cold, at(1_900)), 1);
        assert_eq!(demand.note(hot, at(2_000)), 3, "it was so a moment ago");
        assert_eq!(demand.note(hot, at(3_000)), 1);
        assert_eq!(demand.note(hot, at(9_000)), 1);
        let never = Demand::new(Hotness { per_owner: number(1), owners_max: number(1) });
        assert_eq!([never.note(hot, at(0)), never.note(hot, at(0))], [1, 1]);
    }
}
