//! Miss ratios: caches that consist of an eviction policy only, fed with a trace.
//!
//! All policies and sizes see the trace in one pass. It is read as a stream: memory grows with the
//! objects of the trace (with [`Sampling`], with a share of them), not with its requests.

mod numbers;
pub mod reference;
mod sampling;
mod sweep;

use store::policy::{
    AnyPolicy, Clock, Fifo, Gdsf, LfuAging, Lru, Parameters, Policy, PolicyCache, PolicyName,
    S3Fifo, Sieve, Unit, WTinyLfu,
};

pub(crate) use numbers::mix as name_hash;
pub use numbers::{Numbered, Numbers};
pub(crate) use sampling::sample_hash;
pub use sampling::{BadRate, Sampling};
pub use sweep::{CacheConfig, Outcome, Sweep};

/// Number of requests that a cache looks up ahead before it takes them.
const AHEAD: usize = 32;

/// The result of a trace in one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that missed.
    pub misses: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Bytes of the misses.
    pub missed_bytes: u64,
}

impl Tally {
    /// Returns misses divided by requests; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }

    /// Returns bytes of misses divided by bytes requested; 0 without bytes.
    pub fn byte_miss_ratio(&self) -> f64 {
        self.missed_bytes as f64 / self.bytes.max(1) as f64
    }
}

trait Simulated: Send {
    fn take(&mut self, requests: &[Numbered]);
    fn tally(&self) -> Tally;
    fn memory_bytes(&self) -> usize;
}

struct Cache<P> {
    cache: PolicyCache<P>,
    tally: Tally,
}

impl<P: Policy + Send> Simulated for Cache<P> {
    fn take(&mut self, requests: &[Numbered]) {
        let tally = &mut self.tally;
        for ahead in requests.chunks(AHEAD) {
            self.cache.look_ahead(ahead.iter().map(|request| request.id));
            for Numbered { id, hash, bytes } in ahead.iter().copied() {
                let missed = !self.cache.request(id, hash, bytes);
                tally.misses += u64::from(missed);
                tally.missed_bytes += if missed { bytes } else { 0 };
                tally.bytes += bytes;
            }
        }
        tally.requests += requests.len() as u64;
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn memory_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }
}

/// One cache with any policy; the loop is compiled for each policy.
pub struct Simulation(Box<dyn Simulated>);

impl Simulation {
    /// Creates an empty cache with space for [`Parameters::capacity`] bytes or objects.
    pub fn new(name: PolicyName, parameters: &Parameters, unit: Unit) -> Simulation {
        fn boxed<P: Policy + Send + 'static>(
            policy: P,
            unit: Unit,
            capacity: u64,
        ) -> Box<dyn Simulated> {
            let cache = PolicyCache::new(policy, unit, capacity);
            Box::new(Cache { cache, tally: Tally::default() })
        }
        let capacity = parameters.capacity;
        Simulation(match AnyPolicy::new(name, parameters) {
            AnyPolicy::Lru(policy) => boxed::<Lru>(policy, unit, capacity),
            AnyPolicy::Fifo(policy) => boxed::<Fifo>(policy, unit, capacity),
            AnyPolicy::Clock(policy) => boxed::<Clock>(policy, unit, capacity),
            AnyPolicy::Sieve(policy) => boxed::<Sieve>(policy, unit, capacity),
            AnyPolicy::S3Fifo(policy) => boxed::<S3Fifo>(policy, unit, capacity),
            AnyPolicy::LfuAging(policy) => boxed::<LfuAging>(policy, unit, capacity),
            AnyPolicy::Gdsf(policy) => boxed::<Gdsf>(policy, unit, capacity),
            AnyPolicy::WTinyLfu(policy) => boxed::<WTinyLfu>(policy, unit, capacity),
        })
    }

    /// Takes requests in order.
    pub fn take(&mut self, requests: &[Numbered]) {
        self.0.take(requests);
    }

    /// Returns the result of all requests so far.
    pub fn tally(&self) -> Tally {
        self.0.tally()
    }

    /// Returns the cache's memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}
