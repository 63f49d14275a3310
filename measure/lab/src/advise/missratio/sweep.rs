//! Any number of caches over one trace, which is read once.
//!
//! Objects are numbered by the reader. The caches take the requests in batches, each cache on one
//! thread, so the result does not depend on the number of threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use store::policy::{Parameters, PolicyName, Unit};

use super::{Numbered, Numbers, Sampling, Simulation, Tally};
use workload::trace::Access;

/// Number of requests that a cache takes before the next cache's turn: few enough to stay in the
/// processor's cache, many enough that the simulated cache's own data get there as well.
const BATCH: usize = 4_096;
/// Number of batches that a thread may lag behind.
const QUEUE: usize = 8;

/// One cache to be simulated, with the papers' parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The eviction policy.
    pub policy: PolicyName,
    /// The unit of the size.
    pub unit: Unit,
    /// The size, in bytes or objects.
    pub size: u64,
}

/// The result of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result of each cache, in the order given; estimates for the whole trace if it was
    /// sampled.
    pub tallies: Vec<Tally>,
    /// Number of requests in the sample; all requests without sampling.
    pub sampled_requests: u64,
    /// Number of objects in the sample; all objects without sampling.
    pub sampled_objects: u64,
}

/// Caches that take a trace in one pass.
pub struct Sweep {
    sampling: Sampling,
    numbers: Numbers,
    requests: u64,
    bytes: u64,
    sampled_requests: u64,
    batch: Vec<Numbered>,
    workers: Vec<Worker>,
}

/// A share of the caches, simulated on the caller's thread or on one of its own.
enum Worker {
    Here(Vec<Simulation>),
    Thread { batches: SyncSender<Arc<Vec<Numbered>>>, result: JoinHandle<Vec<Tally>> },
}

impl Sweep {
    /// Creates empty caches on as many threads as the machine has processors.
    pub fn new(configs: &[CacheConfig], sampling: Sampling) -> Sweep {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Sweep::with_threads(configs, sampling, threads)
    }

    /// Creates empty caches on this many threads besides the caller's; with one or none, on the
    /// caller's.
    pub fn with_threads(configs: &[CacheConfig], sampling: Sampling, threads: usize) -> Sweep {
        // Dealt out in turn: caches of the same policy are adjacent and take about the same time.
        let count = threads.min(configs.len()).max(1);
        let mut shares: Vec<Vec<Simulation>> = (0..count).map(|_| Vec::new()).collect();
        for (number, config) in configs.iter().enumerate() {
            let parameters = Parameters::new(sampling.shrink(config.size));
            shares[number % count].push(Simulation::new(config.policy, &parameters, config.unit));
        }
        let workers = if threads > 1 {
            shares.into_iter().map(Worker::spawn).collect()
        } else {
            shares.into_iter().map(Worker::Here).collect()
        };
        Sweep {
            sampling,
            numbers: Numbers::default(),
            requests: 0,
            bytes: 0,
            sampled_requests: 0,
            batch: Vec::with_capacity(BATCH),
            workers,
        }
    }

    /// Takes the next request. Returns false, without taking it, if the trace has too many objects.
    #[must_use]
    #[inline]
    pub fn take(&mut self, access: Access) -> bool {
        if self.sampling.takes(access.object) {
            let Some(request) = self.numbers.number(access) else { return false };
            self.batch.push(request);
            self.sampled_requests += 1;
        }
        self.requests += 1;
        self.bytes += access.size;
        if self.batch.len() == BATCH {
            self.settle();
        }
        true
    }

    /// Returns the result.
    pub fn finish(mut self) -> Outcome {
        self.settle();
        let count = self.workers.len();
        let sampled_objects = self.numbers.len() as u64;
        let shares: Vec<Vec<Tally>> = self.workers.into_iter().map(Worker::finish).collect();
        let configs = shares.iter().map(Vec::len).sum();
        let whole = |number: usize| {
            let sample = shares[number % count][number / count];
            Tally {
                requests: self.requests,
                misses: self.sampling.grow(sample.misses, self.requests),
                bytes: self.bytes,
                missed_bytes: self.sampling.grow(sample.missed_bytes, self.bytes),
            }
        };
        let tallies = (0..configs).map(whole).collect();
        Outcome { tallies, sampled_requests: self.sampled_requests, sampled_objects }
    }

    fn settle(&mut self) {
        if let [Worker::Here(caches)] = &mut self.workers[..] {
            caches.iter_mut().for_each(|cache| cache.take(&self.batch));
            self.batch.clear();
            return;
        }
        let batch = Arc::new(std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH)));
        for worker in &self.workers {
            if let Worker::Thread { batches, .. } = worker {
                // A thread that is gone has panicked; `finish` propagates the panic.
                let _ = batches.send(Arc::clone(&batch));
            }
        }
    }
}

impl Worker {
    fn spawn(mut caches: Vec<Simulation>) -> Worker {
        let (batches, taken): (_, Receiver<Arc<Vec<Numbered>>>) = sync_channel(QUEUE);
        let result = std::thread::spawn(move || {
            for batch in taken {
                caches.iter_mut().for_each(|cache| cache.take(&batch));
            }
            tallies(&caches)
        });
        Worker::Thread { batches, result }
    }

    fn finish(self) -> Vec<Tally> {
        match self {
            Worker::Here(caches) => tallies(&caches),
            Worker::Thread { batches, result } => {
                drop(batches);
                result.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        }
    }
}

fn tallies(caches: &[Simulation]) -> Vec<Tally> {
    caches.iter().map(Simulation::tally).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(policy: PolicyName, size: u64) -> CacheConfig {
        CacheConfig { policy, unit: Unit::Bytes, size }
    }

    #[test]
    fn every_cache_sees_the_whole_trace() {
        let configs = [
            config(PolicyName::Lru, 10),
            config(PolicyName::Lru, 100),
            config(PolicyName::Fifo, 100),
            config(PolicyName::Fifo, 7),
        ];
        for threads in [0, 1, 2, 3, 9] {
            let mut sweep = Sweep::with_threads(&configs, Sampling::ALL, threads);
            let requests = 3 * BATCH as u64 + 1;
            for request in 0..requests {
                assert!(sweep.take(Access { object: (request % 2) << 40, size: 8 }));
            }
            let outcome = sweep.finish();
            let bytes = 8 * requests;
            let all = Tally { requests, misses: requests, bytes, missed_bytes: bytes };
            let two = Tally { misses: 2, missed_bytes: 16, ..all };
            assert_eq!(outcome.tallies, [all, two, two, all], "{threads} threads");
            assert_eq!((outcome.sampled_requests, outcome.sampled_objects), (requests, 2));
            assert_eq!((all.miss_ratio(), Tally::default().byte_miss_ratio()), (1.0, 0.0));
        }
        let nothing = Sweep::new(&[], Sampling::ALL).finish();
        assert_eq!(nothing.tallies, []);
    }

    #[test]
    fn a_sample_stands_for_the_whole() {
        // Each of 50,000 objects is requested twice in a row, so half of the requests hit.
        let sampling = Sampling::new(0.1).unwrap();
        let mut sweep = Sweep::new(&[config(PolicyName::Lru, 1_000)], sampling);
        for request in 0..100_000 {
            assert!(sweep.take(Access { object: request / 2, size: 10 }));
        }
        let outcome = sweep.finish();
        let [tally] = outcome.tallies[..] else { panic!("one arm") };
        assert_eq!((tally.requests, tally.bytes), (100_000, 1_000_000));
        assert_eq!(outcome.sampled_requests, 2 * outcome.sampled_objects);
        assert_eq!(tally.misses, 10 * outcome.sampled_objects);
        assert_eq!(tally.missed_bytes, 10 * tally.misses);
        assert!((0.48..0.52).contains(&tally.miss_ratio()), "{tally:?}");
    }
}
