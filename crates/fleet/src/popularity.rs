//! Recent requests for documents, and the number of owners of a hot one.
//!
//! One owner serves a document up to a rate; above it a second owner keeps a copy, and so on up to
//! a bound. Nodes decide by the requests that each of them sees and need not agree: owners are
//! added in ranking order, so the owners of a node that counts two are among those of a node that
//! counts three.
//!
//! A node that asks an owner sees only its own clients' requests, a small part in a large fleet,
//! and would never count more than one owner. An owner therefore reports the number of owners with
//! its response, and the asking node uses the larger of the two numbers for a while. Without that,
//! no node would ask the further owners (docs/research/olaru-tichy.md).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::key::KeyHash;

/// Rows of a sketch; a document has a cell in each.
const ROWS: usize = 2;
/// Bytes of the cells of one column: two spans of time in each row.
const COLUMN: usize = 2 * ROWS * size_of::<u32>();
const COLUMNS_MIN: usize = 1 << 10;

/// Requests for each document in the running span of time and in the one before: a count-min
/// sketch.
///
/// A count is never too low, up to 2^32 - 1. It is too high where all cells of a document are
/// shared with others.
#[derive(Clone, Debug)]
pub struct RequestCounts {
    length: Duration,
    /// Number of the running span since time 0.
    span: u64,
    running: Rows,
    before: Rows,
}

type Rows = [Box<[u32]>; ROWS];

/// Requests for one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRequests {
    /// In the running span.
    pub running: u64,
    /// In the span before.
    pub before: u64,
}

impl RequestCounts {
    /// Makes an empty sketch of about `bytes` bytes, but at least 8 KiB, with spans of `length`.
    pub fn new(bytes: usize, length: Duration) -> RequestCounts {
        let columns = (bytes / COLUMN).max(COLUMNS_MIN);
        let rows = || std::array::from_fn(|_| vec![0; columns].into_boxed_slice());
        RequestCounts { length, span: 0, running: rows(), before: rows() }
    }

    /// Counts a request, and returns the counts of the document.
    pub fn note(&mut self, key: KeyHash, now: Duration) -> SpanRequests {
        let span = self.span_at(now);
        match span.saturating_sub(self.span) {
            0 => {}
            1 => std::mem::swap(&mut self.running, &mut self.before),
            _ => self.before.iter_mut().for_each(|row| row.fill(0)),
        }
        if span > self.span {
            self.running.iter_mut().for_each(|row| row.fill(0));
            self.span = span;
        }
        for (row, cell) in cells(key, &self.running).into_iter().enumerate() {
            let count = &mut self.running[row][cell];
            *count = count.saturating_add(1);
        }
        self.get(key, now)
    }

    /// Returns the counts of a document.
    pub fn get(&self, key: KeyHash, now: Duration) -> SpanRequests {
        let of = |rows: &Rows| {
            let counts = cells(key, rows).into_iter().zip(rows).map(|(cell, row)| row[cell]);
            u64::from(counts.min().unwrap_or(0))
        };
        match self.span_at(now).saturating_sub(self.span) {
            0 => SpanRequests { running: of(&self.running), before: of(&self.before) },
            1 => SpanRequests { running: 0, before: of(&self.running) },
            _ => SpanRequests { running: 0, before: 0 },
        }
    }

    fn span_at(&self, now: Duration) -> u64 {
        (now.as_nanos() / self.length.as_nanos().max(1)) as u64
    }
}

/// Returns the cell of a document in each row.
fn cells(key: KeyHash, rows: &Rows) -> [usize; ROWS] {
    let bits = key.bits();
    [bits as usize % rows[0].len(), (bits >> 32) as usize % rows[1].len()]
}

/// Thresholds for more owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotness {
    /// Requests per owner, in the caller's time span.
    pub per_owner: NonZeroU32,
    /// Maximum owners of one document.
    pub owners_max: NonZeroU32,
}

impl Hotness {
    /// Decides the number of owners of a document with `requests` in the last time span and
    /// `owners` until then (1 if it was never hot).
    ///
    /// It grows at once to the number needed. It shrinks only if the remaining owners would be at
    /// most three quarters busy, so that a rate near a threshold does not move copies back and
    /// forth.
    pub fn owners(&self, requests: u64, owners: u32) -> u32 {
        let needed = self.needed(requests);
        let current = owners.clamp(1, self.owners_max.get());
        if needed >= current {
            return needed;
        }
        let with_reserve = self.needed(requests.saturating_mul(4).div_ceil(3));
        with_reserve.min(current)
    }

    /// Returns the smallest sufficient number of owners, within the bounds.
    fn needed(&self, requests: u64) -> u32 {
        let needed = requests.div_ceil(u64::from(self.per_owner.get()));
        let max = self.owners_max.get();
        u32::try_from(needed).unwrap_or(max).clamp(1, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOT: Hotness = Hotness {
        per_owner: NonZeroU32::new(100).unwrap(),
        owners_max: NonZeroU32::new(4).unwrap(),
    };

    #[test]
    fn requests_are_counted_for_two_spans() {
        let (key, other) = (KeyHash::from_bits(1 << 40 | 1), KeyHash::from_bits(2));
        let mut counts = RequestCounts::new(0, Duration::from_secs(60));
        let at = Duration::from_secs;
        let requests = |running, before| SpanRequests { running, before };
        assert_eq!(counts.note(key, at(59)), requests(1, 0));
        assert_eq!((counts.get(key, at(60)), counts.span), (requests(0, 1), 0));
        assert_eq!(counts.note(key, at(61)), requests(1, 1));
        assert_eq!(counts.note(key, at(119)), requests(2, 1));
        assert_eq!(counts.note(other, at(120)), requests(1, 0));
        assert_eq!(counts.get(key, at(120)), requests(0, 2));
        assert_eq!(counts.get(key, at(240)), requests(0, 0));
        assert_eq!(counts.note(key, at(240)), requests(1, 0));
        (0..100_000).for_each(|_| _ = counts.note(key, at(241)));
        assert_eq!(counts.get(key, at(241)), requests(100_001, 0));
    }

    #[test]
    fn owners_come_at_once_and_go_with_a_reserve() {
        let cases = [
            // (requests, owners before, owners now)
            (0, 1, 1),
            (100, 1, 1),
            (101, 1, 2),
            (1000, 1, 4),
            (u64::MAX, 1, 4),
            // 151 requests need two owners, but two would be more than three quarters busy.
            (151, 3, 3),
            (150, 3, 2),
            (76, 2, 2),
            (75, 2, 1),
            (0, 4, 1),
            // A count from other settings is brought within the bounds.
            (0, 0, 1),
            (400, 9, 4),
        ];
        for (requests, before, now) in cases {
            assert_eq!(HOT.owners(requests, before), now, "{requests} {before}");
        }
    }

    #[test]
    fn a_steady_rate_comes_to_rest_and_more_requests_never_mean_fewer_owners() {
        for before in 1..=4 {
            let mut last = 1;
            for requests in 0..600 {
                let owners = HOT.owners(requests, before);
                assert!(owners >= last, "{requests} {before}");
                assert_eq!(HOT.owners(requests, owners), owners, "{requests} {before}");
                last = owners;
            }
        }
    }
}
