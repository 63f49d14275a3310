//! Measures a generated workload by the figures that are published of the original.

use crate::request::Request;
use crate::trace::co_location::Revisits;
use crate::two_level::TwoLevel;

/// A figure that papers publish of their traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Requests.
    Requests,
    /// Bytes of all responses, in billions.
    Gigabytes,
    /// Hits of the two caches, percent of the requests.
    HitPercent,
    /// Hits in memory, percent of the hits.
    MemoryOfHitsPercent,
    /// Hits in memory.
    MemoryHits,
    /// Hits on disk.
    DiskHits,
    /// Requests that hit neither cache.
    Misses,
    /// Objects deleted from the disk cache, to make room or because they changed.
    Deletes,
    /// Requests for a newer version of an object than the previous request, percent.
    ChangedPercent,
    /// Objects requested once, percent of the objects.
    OneTimerPercent,
    /// Requests for less than 8 KiB, percent.
    Below8KPercent,
    /// Requests for the most popular tenth of the objects, percent.
    TopTenthPercent,
    /// Share of the files that a client took from a site within ten minutes of a page which the
    /// next client with that page also takes, in percent.
    RevisitedPercent,
}

impl Figure {
    /// Returns the label for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Figure::Requests => "requests",
            Figure::Gigabytes => "data, GB (10^9)",
            Figure::HitPercent => "document hit rate, %",
            Figure::MemoryOfHitsPercent => "hits in memory, % of hits",
            Figure::MemoryHits => "memory hits",
            Figure::DiskHits => "disk hits",
            Figure::Misses => "misses",
            Figure::Deletes => "deletes",
            Figure::ChangedPercent => "another version than before, % of requests",
            Figure::OneTimerPercent => "one-timers, % of objects",
            Figure::Below8KPercent => "below 8 KiB, % of requests",
            Figure::TopTenthPercent => "most popular tenth, % of requests",
            Figure::RevisitedPercent => "files taken again with a page, %",
        }
    }
}

/// The caches to which some of the figures refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Bytes of the memory cache.
    pub memory: u64,
    /// Bytes of the disk cache.
    pub disk: u64,
    /// Larger objects are not cached and count as misses.
    pub largest: u64,
}

/// Computes a workload's figures from its requests. Memory grows with the objects.
pub struct Achieved {
    caches: Caches,
    cache: TwoLevel,
    requests: u64,
    bytes: u64,
    below_8k: u64,
    /// Number of requests by object.
    counts: Vec<u32>,
    /// By object: the version requested last.
    versions: Vec<u32>,
    changes: u64,
    revisits: Revisits,
}

impl Achieved {
    /// Returns empty figures and caches. Files within `window_ms` milliseconds of a page count as
    /// belonging to it.
    pub fn new(caches: Caches, window_ms: u64) -> Achieved {
        Achieved {
            caches,
            cache: TwoLevel::new(caches.memory, caches.disk),
            requests: 0,
            bytes: 0,
            below_8k: 0,
            counts: Vec::new(),
            versions: Vec::new(),
            changes: 0,
            revisits: Revisits::within(window_ms),
        }
    }

    /// Counts a request.
    pub fn take(&mut self, request: &Request) {
        self.requests += 1;
        self.revisits.take(request);
        self.bytes += request.size;
        self.below_8k += u64::from(request.size < 8 << 10);
        let object = request.object as usize;
        if object >= self.counts.len() {
            self.counts.resize(object + 1, 0);
            self.versions.resize(object + 1, 0);
        }
        let before = std::mem::replace(&mut self.versions[object], request.version);
        let is_changed = self.counts[object] > 0 && before != request.version;
        self.changes += u64::from(is_changed);
        self.counts[object] = self.counts[object].saturating_add(1);
        if request.size <= self.caches.largest && !request.uncacheable {
            self.cache.request(request, &mut Vec::new());
        }
    }

    /// Returns the current value of a figure; 0 before the first request.
    pub fn figure(&self, figure: Figure) -> f64 {
        let counts = self.cache.counts();
        let (requests, hits) = (self.requests as f64, counts.memory_hits + counts.disk_hits);
        let percent = |part: f64, whole: f64| 100.0 * part / whole.max(1.0);
        match figure {
            Figure::Requests => requests,
            Figure::Gigabytes => self.bytes as f64 / 1e9,
            Figure::HitPercent => percent(hits as f64, requests),
            Figure::MemoryOfHitsPercent => percent(counts.memory_hits as f64, hits as f64),
            Figure::MemoryHits => counts.memory_hits as f64,
            Figure::DiskHits => counts.disk_hits as f64,
            Figure::Misses => requests - hits as f64,
            Figure::Deletes => counts.deletes() as f64,
            Figure::ChangedPercent => percent(self.changes as f64, requests),
            Figure::OneTimerPercent => {
                let asked = self.counts.iter().filter(|count| **count > 0).count();
                let once = self.counts.iter().filter(|count| **count == 1).count();
                percent(once as f64, asked as f64)
            }
            Figure::Below8KPercent => percent(self.below_8k as f64, requests),
            Figure::RevisitedPercent => {
                100.0 * self.revisits.share().map_or(0.0, |(share, _)| share)
            }
            Figure::TopTenthPercent => {
                let mut counts: Vec<u32> = self.counts.iter().copied().filter(|c| *c > 0).collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                let top = counts.iter().take(counts.len().div_ceil(10));
                percent(top.map(|count| f64::from(*count)).sum(), requests)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_counted() {
        let caches = Caches { memory: 10_000, disk: 30_000, largest: 20_000 };
        let mut achieved = Achieved::new(caches, 600_000);
        for (object, size) in [(0, 9_000), (1, 9_000), (0, 9_000), (0, 9_000), (2, 25_000)] {
            achieved.take(&Request { object, size, ..Request::default() });
        }
        let expected = [
            (Figure::Requests, 5.0),
            (Figure::Gigabytes, 61_000e-9),
            (Figure::HitPercent, 40.0),
            (Figure::MemoryOfHitsPercent, 50.0),
            (Figure::MemoryHits, 1.0),
            (Figure::DiskHits, 1.0),
            (Figure::Misses, 3.0),
            (Figure::Deletes, 0.0),
            (Figure::OneTimerPercent, 200.0 / 3.0),
            (Figure::Below8KPercent, 0.0),
            (Figure::TopTenthPercent, 60.0),
            (Figure::RevisitedPercent, 0.0),
        ];
        for (figure, value) in expected {
            assert!((achieved.figure(figure) - value).abs() < 1e-9, "{figure:?}");
        }
    }
}
