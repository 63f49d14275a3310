//! Hit ratios of LRU caches of all sizes, for the whole log and for its second half.

use store::policy::Unit;

use super::RECORD;
use crate::advise::access_log::AccessLog;
use crate::advise::curve::{Curve, LruCurve, Sample};
use crate::advise::missratio::{Sampling, Tally};
use crate::experiment::{Context, Failed, Meter, Scale, Variant};
use workload::request::Request;
use workload::trace::Access;

/// A part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole log, starting with an empty cache.
    Whole,
    /// The second half, with a cache filled by the first.
    Second,
}

/// Hit ratios, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HitRatio {
    /// Hits divided by requests.
    pub requests: f64,
    /// Bytes of hits divided by bytes requested.
    pub bytes: f64,
}

/// The LRU curves of a log.
pub struct Curves {
    sampling: Sampling,
    whole: Curve,
    first: Curve,
    /// Requests and bytes of the whole log, then of its first half.
    totals: [(f64, f64); 2],
}

/// Returns the object of a request and the space that it takes.
fn access(request: &Request) -> Access {
    Access { object: u64::from(request.object), size: request.size + RECORD }
}

impl Curves {
    /// Measures the curves in one pass.
    ///
    /// # Errors
    /// The log has too many objects (2^30); a sample has fewer.
    pub fn of(log: &AccessLog, meter: &Meter) -> Result<Curves, Failed> {
        let mut context = Context::new("advise", Scale::Full, 1, meter);
        let curves =
            context.variants([("curves", ())], |variant, ()| Curves::measure(log, variant))?;
        curves.into_iter().next().ok_or_else(|| Failed("no curve".to_owned()))
    }

    fn measure(log: &AccessLog, variant: &Variant) -> Result<Curves, Failed> {
        let requests = log.requests();
        let middle = requests.len() / 2;
        let new = || LruCurve::new(Unit::Bytes, Sample::Share(Sampling::ALL));
        let (mut whole, mut first) = (new(), new());
        // By object: the version requested last.
        let mut versions: Vec<Option<u32>> = Vec::new();
        for (number, request) in variant.watch(requests.len() as u64, requests.iter().enumerate()) {
            let object = request.object as usize;
            if object >= versions.len() {
                versions.resize(object + 1, None);
            }
            let before = versions[object].replace(request.version);
            let is_changed = before.is_some_and(|before| before != request.version);
            let take = |curve: &mut LruCurve| match is_changed {
                true => curve.take_changed(access(request)),
                false => curve.take(access(request)),
            };
            let taken = take(&mut whole) && (number >= middle || take(&mut first));
            if !taken {
                return Err(Failed("too many objects for one curve: use --sample".to_owned()));
            }
        }
        let summary = log.summary();
        let kept = |requests: &[Request]| -> (f64, f64) {
            let bytes: u64 = requests.iter().map(|request| access(request).size).sum();
            (requests.len() as f64, bytes as f64)
        };
        // Totals of the log: those of the statistics, in the proportion of the sample.
        let (all, half) = (kept(requests), kept(&requests[..middle]));
        let requests = summary.requests as f64;
        let bytes = summary.bytes as f64 + RECORD as f64 * requests;
        let of_first = (requests * half.0 / all.0.max(1.0), bytes * half.1 / all.1.max(1.0));
        Ok(Curves {
            sampling: log.sampling(),
            whole: whole.finish(),
            first: first.finish(),
            totals: [(requests, bytes), of_first],
        })
    }

    /// Returns the hit ratio of a cache with space for `size` bytes of objects and their records.
    pub fn at(&self, size: u64, part: Part) -> HitRatio {
        let size = self.sampling.shrink(size);
        let missed = |tally: Tally| {
            let rate = self.sampling.rate();
            (tally.misses as f64 / rate, tally.missed_bytes as f64 / rate)
        };
        let (mut all, mut misses) = (self.totals[0], missed(self.whole.at(size)));
        if part == Part::Second {
            let (first, half) = (self.totals[1], missed(self.first.at(size)));
            all = (all.0 - first.0, all.1 - first.1);
            misses = (misses.0 - half.0, misses.1 - half.1);
        }
        let ratio = |misses: f64, all: f64| (1.0 - misses / all.max(1.0)).clamp(0.0, 1.0);
        HitRatio { requests: ratio(misses.0, all.0), bytes: ratio(misses.1, all.1) }
    }

    /// Returns how many times the whole log would fill a disk of this size.
    pub fn turnovers(&self, size: u64) -> f64 {
        let missed = self.whole.at(self.sampling.shrink(size)).missed_bytes as f64;
        missed / self.sampling.rate() / size.max(1) as f64
    }

    /// Returns the smallest size beyond which more space does not help.
    pub fn enough(&self) -> u64 {
        (self.whole.enough() as f64 / self.sampling.rate()) as u64
    }
}
