//! The figures of a replay, for the whole log.

use serde::Serialize;

use super::{Setup, timed::Times};
use crate::advise::access_log::AccessLog;
use crate::disks::replay::Distribution;
use crate::run::whole_cache::{Figures, Outcome};

/// What came of a log in one cache. Of a sampled log: estimates for the whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Requests that count.
    pub requests: u64,
    /// Answered from memory.
    pub memory_hits: u64,
    /// Answered from the disk.
    pub disk_hits: u64,
    /// Found, but out of date: the origin answered.
    pub stale: u64,
    /// Not found, or out of date.
    pub misses: u64,
    /// Misses that were not stored: too large, not admitted, no room.
    pub refused: u64,
    /// Hits by requests, 0 to 1.
    pub hit_ratio: f64,
    /// Bytes of hits by bytes asked for, 0 to 1.
    pub byte_hit_ratio: f64,
    /// Seconds that the drive worked.
    pub disk_seconds: f64,
    /// Mean milliseconds of a disk hit; none without one.
    pub disk_hit_ms: Option<f64>,
    /// Milliseconds that one disk hit in a hundred exceeds.
    pub disk_hit_p99_ms: Option<f64>,
    /// Mean milliseconds that a request waited for the cache, misses included (for room to store).
    pub waited_ms: f64,
    /// Reads of the drive.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes to the drive.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Bytes of objects that were stored: key, metadata and body.
    pub stored_bytes: u64,
    /// Bytes written by bytes stored; none when nothing was stored.
    pub written_per_stored: Option<f64>,
    /// How many times the disk's size was stored: below some two, little was ever replaced.
    pub turnovers: f64,
}

impl Measured {
    pub(super) fn of(figures: &Figures, times: Times, setup: &Setup, log: &AccessLog) -> Measured {
        let (sampling, summary) = (log.sampling(), log.summary());
        // What counts of the whole log: the same part as of the sample.
        let part = figures.requests() as f64 / log.requests().len().max(1) as f64;
        let requests = (summary.requests as f64 * part).round() as u64;
        let bytes = summary.bytes as f64 * part;
        let (exact, count) = (sampling.rate() == 1.0, |outcome| figures.outcomes.of(outcome));
        let grow = |number: u64| sampling.grow(number, u64::MAX);
        let stale = count(Outcome::MemoryStale) + count(Outcome::DiskStale);
        let missed = stale + count(Outcome::Miss) + count(Outcome::Refused);
        let misses = grow(missed).min(requests);
        let disk_hits = grow(count(Outcome::DiskHit)).min(requests - misses);
        let missed_bytes = grow(figures.bytes - figures.hit_bytes) as f64;
        let usage = &figures.usage;
        let hits = Distribution::of(times.disk_hits_ms.iter().copied());
        let (written, stored) = (grow(usage.writes.bytes), grow(times.stored));
        Measured {
            requests,
            // The popular objects, of which a sample has too many or too few, are among these.
            memory_hits: requests - misses - disk_hits,
            disk_hits,
            stale: grow(stale),
            misses,
            refused: grow(count(Outcome::Refused)),
            hit_ratio: (requests - misses) as f64 / requests.max(1) as f64,
            byte_hit_ratio: match exact {
                true => figures.byte_hit_rate() / 100.0,
                false => (1.0 - missed_bytes / bytes.max(1.0)).max(0.0),
            },
            disk_seconds: figures.disk_seconds() / sampling.rate(),
            disk_hit_ms: hits.as_ref().map(|hits| hits.mean),
            disk_hit_p99_ms: hits.as_ref().map(|hits| hits.percentile(99)),
            waited_ms: figures.waited_ms(),
            reads: grow(usage.reads.operations),
            read_bytes: grow(usage.reads.bytes),
            writes: grow(usage.writes.operations),
            written_bytes: written,
            stored_bytes: stored,
            written_per_stored: (stored > 0).then(|| written as f64 / stored as f64),
            turnovers: stored as f64 / setup.disk.max(1) as f64,
        }
    }
}
