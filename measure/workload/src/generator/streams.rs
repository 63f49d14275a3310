//! Two streams for comparing replacement policies: one whose popularity drifts, one whose
//! popularity is constant.
//!
//! A policy that trusts its counts does well on the second and keeps yesterday's pages on the
//! first; a queue does well on the first and badly on the second. Neither represents a paper's
//! trace, and nothing is published of them. All their parameters are assumed, except two of
//! `pages-drift` (`recency`, `reinforced`). These were chosen so that a queue comes close to LRU,
//! as observed for pages through a real proxy.
//!
//! Sizes are lognormal with a median of 3 KB and a mean of 11 KB, so more than half of the bytes
//! are in objects of more than 32 KiB. A stream has enough requests to store twice its cache before
//! counting begins, and then more than that again.

use super::calibration::Caches;
use super::page_visits::{Browsing, Choice};
use super::presets::Preset;
use super::sessions::Sessions;
use super::sizes::Sizes;

const MIB: u64 = 1 << 20;

/// exp(sigma^2 / 2) is 3.67: a mean of 11 KB over a median of 3 KB. The maximum is 4 MiB.
const SIZES: Sizes = Sizes {
    median: 3_000.0,
    sigma: 1.612,
    tail: 0.0,
    tail_min: 65_536.0,
    tail_alpha: 1.2,
    largest: 4_194_304.0,
};

/// Pages in directories of their own, each with 1 to 13 embedded objects that are always requested
/// with it; the requests of 32 clients alternate at random. About 500 objects a second are new.
const PAGES: Browsing = Browsing {
    seed: 0,
    rate: 1_300.0,
    clients: 32,
    active: 32,
    before: 40_000,
    choice: Choice::Growing {
        new: 0.36,
        once: 0.0,
        recency: 0.7,
        memory: 22_000,
        reinforced: 0.3,
        kept_below: 0,
    },
    sessions: Sessions { more: 0.0, follow: 0.0, think_ms: 0.0 },
    page_share: 1.0,
    embedded_max: 13,
    asked_again: 1.0,
    changed: 0.0,
    new_site: 0.3,
    new_directory: 1.0,
    sizes: SIZES,
};

/// Both streams, with the caches for which they were made.
pub const STREAMS: [Preset; 2] = [
    Preset {
        name: "pages-drift",
        about: "Pages whose popularity drifts, for a cache of 1 GB; for comparing eviction \
                policies",
        requests: 1_500_000,
        browsing: PAGES,
        caches: Caches { memory: 64 * MIB, disk: 1_000_000_000, largest: u64::MAX },
        size: 1.0,
        published: &[],
    },
    Preset {
        name: "zipf-600k",
        about: "600,000 unrelated objects, Zipf 0.85, for a cache of 650 MiB; for comparing \
                eviction policies",
        requests: 1_500_000,
        browsing: Browsing {
            before: 0,
            choice: Choice::Catalogue { pages: 600_000, exponent: 0.85 },
            page_share: 0.0,
            new_site: 1.0,
            ..PAGES
        },
        caches: Caches { memory: 64 * MIB, disk: 650 * MIB, largest: u64::MAX },
        size: 1.0,
        published: &[],
    },
];

/// Sizes of a web server's files: a median of 3.3 KB, a mean of 12 KB, at most 1 MiB.
pub const FILES: Sizes = Sizes { median: 3_300.0, sigma: 1.61, largest: 1_048_576.0, ..SIZES };

/// Returns a web server's site: pages in directories of their own, popular by Zipf's law, each with
/// nine files in the mean.
pub fn site(pages: u32) -> Browsing {
    Browsing {
        before: 0,
        choice: Choice::Catalogue { pages, exponent: 0.8 },
        embedded_max: 31,
        sizes: FILES,
        ..PAGES
    }
}

/// Returns `pages-drift` for a cache of `disk` bytes.
pub fn pages_for(disk: u64) -> Preset {
    let [pages, _] = STREAMS;
    pages.for_disk(disk)
}

#[cfg(test)]
mod tests {
    use store::policy::{Fifo, Lru, Policy, PolicyCache, Unit};

    use super::*;
    use crate::generator::Workload;
    use crate::request::Request;

    /// A sixteenth of full size.
    const SMALL: u32 = 16;
    const SEED: u64 = 1;

    fn requests(stream: Preset) -> Vec<Request> {
        let small = stream.scaled(SMALL);
        Workload::Preset(small).iter(SEED).take(small.requests as usize).collect()
    }

    /// Splits the requests after twice the cache was stored into fifths; returns the hit ratio of
    /// each.
    fn fifths(requests: &[Request], policy: impl Policy, capacity: u64) -> Vec<f64> {
        let mut cache = PolicyCache::new(policy, Unit::Bytes, capacity);
        let (mut stored, mut hits) = (0, Vec::new());
        for request in requests {
            let is_counted = stored >= 2 * capacity;
            let is_hit = cache.request(request.object, 0, request.size);
            stored += if is_hit { 0 } else { request.size };
            hits.extend(is_counted.then_some(is_hit));
        }
        assert!(hits.len() * 2 > requests.len(), "seed {SEED}: {} counted", hits.len());
        let share = |hits: &[bool]| {
            hits.iter().filter(|is_hit| **is_hit).count() as f64 / hits.len() as f64
        };
        hits.chunks(hits.len().div_ceil(5)).map(share).collect()
    }

    #[test]
    fn pages_are_as_many_as_belong_to_the_cache() {
        let [pages, _] = STREAMS;
        for (disk, requests, memory) in [
            (1_000_000_000, pages.requests, 22_000),
            (268_435_456, 402_653, 5_905),
            (2_500_000_000, 3_750_000, 55_000),
        ] {
            let found = pages_for(disk);
            let Choice::Growing { memory: looked_back, .. } = found.browsing.choice else {
                panic!("{:?}", found.browsing.choice);
            };
            assert_eq!((found.caches.disk, found.requests, looked_back), (disk, requests, memory));
        }
    }

    #[test]
    fn sizes_are_as_told() {
        assert!((10_900.0..11_100.0).contains(&SIZES.mean()), "{}", SIZES.mean());
        for stream in STREAMS {
            let found = requests(stream);
            let mut sizes: Vec<u64> = found.iter().map(|request| request.size).collect();
            sizes.sort_unstable();
            let (median, mean) = (sizes[sizes.len() / 2], sizes.iter().sum::<u64>());
            let mean = mean / sizes.len() as u64;
            let name = stream.name;
            assert!((2_700..3_300).contains(&median), "{name}, seed {SEED}: median {median}");
            assert!((9_500..12_500).contains(&mean), "{name}, seed {SEED}: mean {mean}");
        }
    }

    #[test]
    fn pages_have_directories_of_their_own() {
        let found = requests(STREAMS[0]);
        let mut groups: Vec<(u32, u32)> = found.iter().map(|r| (r.group, r.object)).collect();
        groups.sort_unstable();
        groups.dedup();
        let objects: Vec<usize> = groups.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
        let mean = groups.len() as f64 / objects.len() as f64;
        assert!((5.2..5.7).contains(&mean), "seed {SEED}: {mean} objects, not 5.45");
        assert!(objects.iter().all(|objects| (1..=14).contains(objects)));
        let zipf = requests(STREAMS[1]);
        assert!(zipf.iter().all(|request| request.group == request.object), "unrelated");
    }

    /// For drifting popularity a queue does nearly as well as LRU, for constant popularity it does
    /// not. Neither result changes during the run.
    #[test]
    fn a_queue_suffices_only_for_drifting_popularity() {
        let found = STREAMS.map(|stream| {
            let (requests, capacity) = (requests(stream), stream.scaled(SMALL).caches.disk);
            [fifths(&requests, Lru::new(), capacity), fifths(&requests, Fifo::new(), capacity)]
        });
        let mean = |fifths: &[f64]| fifths.iter().sum::<f64>() / fifths.len() as f64;
        let [[drift, queue], [zipf, queue_of_zipf]] =
            [[mean(&found[0][0]), mean(&found[0][1])], [mean(&found[1][0]), mean(&found[1][1])]];
        assert!((0.61..0.645).contains(&drift), "seed {SEED}: {drift}");
        assert!(drift - queue < 0.02, "seed {SEED}: {drift}, {queue}");
        // A sixteenth of the objects is a flatter distribution: 0.56 at full size.
        assert!((0.50..0.55).contains(&zipf), "seed {SEED}: {zipf}");
        assert!(zipf - queue_of_zipf > 0.03, "seed {SEED}: {zipf}, {queue_of_zipf}");
        for fifths in found.iter().flatten() {
            let steady = fifths.iter().all(|share| (share - mean(fifths)).abs() < 0.025);
            assert!(steady, "seed {SEED}: {fifths:?}");
        }
    }
}
