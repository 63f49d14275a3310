//! The figures of a replay, extrapolated to the whole log.

use serde::Serialize;

use super::{Setup, timed::Times};
use crate::advise::access_log::AccessLog;
use crate::disks::replay::Distribution;
use crate::run::whole_cache::{Figures, Outcome};

/// The result of a log in one cache. For a sampled log: estimates for the whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Requests after the warm-up.
    pub requests: u64,
    /// Requests served from memory.
    pub memory_hits: u64,
    /// Requests served from the disk.
    pub disk_hits: u64,
    /// Requests whose object was found but out of date, so that the origin responded.
    pub stale: u64,
    /// Requests whose object was not found or out of date.
    pub misses: u64,
    /// Misses that were not stored: too large, not admitted, or no space.
    pub refused: u64,
    /// Hits divided by requests, 0 to 1.
    pub hit_ratio: f64,
    /// Bytes of hits divided by bytes requested, 0 to 1.
    pub byte_hit_ratio: f64,
    /// Seconds that the drive was busy.
    pub disk_seconds: f64,
    /// Mean milliseconds of a disk hit; `None` without one.
    pub disk_hit_ms: Option<f64>,
    /// 99th percentile of the time of disk hits, in milliseconds.
    pub disk_hit_p99_ms: Option<f64>,
    /// Mean milliseconds that a request waited for the cache, misses included (waiting for space to
    /// store).
    pub waited_ms: f64,
    /// Number of reads from the drive.
    pub reads: u64,
    /// Bytes read from the drive.
    pub read_bytes: u64,
    /// Number of writes to the drive.
    pub writes: u64,
    /// Bytes written to the drive.
    pub written_bytes: u64,
    /// Bytes of the objects stored: key, metadata and body.
    pub stored_bytes: u64,
    /// Bytes written divided by bytes stored; `None` if nothing was stored.
    pub written_per_stored: Option<f64>,
    /// Bytes stored divided by the disk's size; below about two, little was ever replaced.
    pub turnovers: f64,
}

impl Measured {
    pub(super) fn of(figures: &Figures, times: Times, setup: &Setup, log: &AccessLog) -> Measured {
        let (sampling, summary) = (log.sampling(), log.summary());
        // The part of the whole log that counts is the same as that of the sample.
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
            // Counted as the rest: these include the popular objects, which a sample has too many
            // or too few of.
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
