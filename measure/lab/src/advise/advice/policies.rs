//! All policies in a cache of one size: the gain over LRU.

use store::policy::{Parameters, PolicyName, Unit};

use super::{HitRatio, RECORD};
use crate::advise::access_log::AccessLog;
use crate::advise::missratio::{Numbers, Simulation, Tally};
use crate::experiment::{Context, Failed, Meter, Scale};
use workload::request::Request;
use workload::trace::Access;

/// Number of requests in one batch of a simulation.
const BATCH: usize = 4_096;

/// Converts a request for a policy. A new version counts as another object: it is missed, and the
/// old version stays until it is evicted, which costs all policies the same.
fn access(request: &Request) -> Access {
    let object = u64::from(request.version) << 32 | u64::from(request.object);
    Access { object, size: request.size + RECORD }
}

/// The result of one policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyOutcome {
    /// The policy.
    pub policy: PolicyName,
    /// Hit ratios in the second half of the log.
    pub hits: HitRatio,
}

/// Simulates every policy with space for `size` bytes of objects and their records. Nothing else
/// takes space and nothing is written, so the results are upper bounds for the engine.
///
/// # Errors
/// The log has too many objects; a sample has fewer.
pub fn compare_policies(
    log: &AccessLog,
    size: u64,
    jobs: usize,
    meter: &Meter,
) -> Result<Vec<PolicyOutcome>, Failed> {
    let mut context = Context::new("policies", Scale::Full, jobs, meter);
    let room = log.sampling().shrink(size);
    let variants = PolicyName::ALL.into_iter().map(|policy| (policy.as_str(), policy));
    context.variants(variants, |variant, policy| {
        let mut simulation = Simulation::new(policy, &Parameters::new(room), Unit::Bytes);
        let (mut numbers, mut batch) = (Numbers::default(), Vec::with_capacity(BATCH));
        let requests = log.requests();
        let (first, second) = requests.split_at(requests.len() / 2);
        variant.total(requests.len() as u64);
        let mut middle = Tally::default();
        for (index, half) in [first, second].into_iter().enumerate() {
            for requests in half.chunks(BATCH) {
                batch.clear();
                for request in requests {
                    let many = || Failed("too many objects: use --sample".to_owned());
                    batch.push(numbers.number(access(request)).ok_or_else(many)?);
                }
                simulation.take(&batch);
                variant.advance(requests.len() as u64);
            }
            if index == 0 {
                middle = simulation.tally();
            }
        }
        let all = simulation.tally();
        Ok(PolicyOutcome { policy, hits: hits(log, &all, &middle) })
    })
}

/// Computes the hit ratios of the second half.
fn hits(log: &AccessLog, all: &Tally, first: &Tally) -> HitRatio {
    // In a sample, all policies have the same denominator: the requests of the whole log, in the
    // proportion of the sample (SHARDS-adj).
    let kept = log.requests().len().max(1) as f64;
    let expected = log.summary().requests as f64 * log.sampling().rate();
    let adjusted = expected / kept;
    let ratio = |misses: u64, requests: u64| {
        (1.0 - misses as f64 / (requests as f64 * adjusted).max(1.0)).clamp(0.0, 1.0)
    };
    HitRatio {
        requests: ratio(all.misses - first.misses, all.requests - first.requests),
        bytes: ratio(all.missed_bytes - first.missed_bytes, all.bytes - first.bytes),
    }
}
