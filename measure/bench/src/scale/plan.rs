//! The common parameters of the parts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{Protocol, Spacing};
use crate::load::{LoadOptions, PhaseKind, RequestsPerConnection, Sizes, Workload};
use crate::origin;
use crate::run::{End, Pace, PhasePlan, Session, SessionOptions, Subject, cores};

/// The parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Larder's program.
    pub larder: PathBuf,
    /// The directory for caches.
    pub base: PathBuf,
    /// The seed of all random choices.
    pub seed: u64,
    /// Size of a cache in bytes, unless the part determines it.
    pub cache: u64,
    /// Larder's setting `memory`, in bytes.
    pub memory: u64,
    /// Duration of a measurement.
    pub time: Duration,
    /// Number of repetitions, in parts that repeat.
    pub rounds: u32,
    /// Connections of a closed loop.
    pub connections: usize,
    /// Number of objects stored before a start is timed.
    pub objects: u64,
    /// A cache in which an earlier run with the same seed has stored them.
    pub filled: Option<PathBuf>,
    /// The host of these objects.
    pub host: String,
    /// Number of idle connections.
    pub idle: usize,
    /// Number of connections that are busy at the same time.
    pub busy: usize,
    /// The numbers of workers to measure.
    pub workers: Vec<usize>,
    /// Hits per second beside background work.
    pub rate: f64,
    /// Duration of the longest part.
    pub endurance: Duration,
    /// The cores of the machine: Larder gets the last ones, one for each worker.
    pub cores: Vec<usize>,
    /// Set when the run is to end.
    pub interrupted: Arc<AtomicBool>,
}

impl Plan {
    /// Returns a plan with the usual sizes and times.
    pub fn new(larder: PathBuf, base: PathBuf, interrupted: Arc<AtomicBool>) -> Plan {
        Plan {
            larder,
            base,
            seed: 1,
            cache: 512 << 20,
            memory: 64 << 20,
            time: Duration::from_secs(10),
            rounds: 3,
            connections: 64,
            objects: 1_000_000,
            filled: None,
            host: String::new(),
            idle: 10_000,
            busy: 100,
            workers: vec![1],
            rate: 2_000.0,
            endurance: Duration::from_secs(1_800),
            cores: cores::allowed(),
            interrupted,
        }
    }

    /// Returns whether the run is to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns the last cores of the machine, one for each worker as far as possible; the generator
    /// uses other cores if there are any.
    pub fn cores_of(&self, workers: usize) -> &[usize] {
        &self.cores[self.cores.len().saturating_sub(workers.max(1))..]
    }

    /// Returns a load of unrelated, equally popular objects of one size.
    pub fn objects_of(&self, count: u64, size: u64) -> LoadOptions {
        let objects = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        self.load(Workload::Zipf { objects, alpha: 0.0, drift: None }, Sizes::Fixed(size))
    }

    /// Returns a load in which each request is for another object.
    pub fn unique(&self, size: u64) -> LoadOptions {
        self.load(Workload::Unique, Sizes::Fixed(size))
    }

    /// Returns a load with the defaults of all other options.
    pub fn load(&self, workload: Workload, sizes: Sizes) -> LoadOptions {
        let seed = self.seed;
        LoadOptions {
            workload,
            seed,
            sizes,
            lifetime: 0,
            uncacheable: 0.0,
            ranges: 0.0,
            browser: false,
        }
    }

    /// Creates a session of the generator, with the addresses of the origin and of Larder, which
    /// knows the origin by `host`.
    ///
    /// # Errors
    /// Fails if an address cannot be bound.
    pub fn session(
        &self,
        [origin, target]: [SocketAddr; 2],
        host: &str,
        load: LoadOptions,
        connections: usize,
    ) -> Result<Session, String> {
        let options = SessionOptions {
            targets: vec![target],
            host: host.to_owned(),
            is_forward: false,
            origin,
            name: format!("bench-{}", self.seed),
            answers: origin::Options { seed: self.seed, ..origin::Options::default() },
            load,
            connections,
            requests_per_connection: RequestsPerConnection::Unlimited,
            protocol: Protocol::Http1,
            timeout: Duration::from_secs(60),
            subject: Subject::default(),
        };
        Session::new(options, Arc::clone(&self.interrupted))
    }
}

/// Returns a phase that fills the cache.
pub fn fill(end: End) -> PhasePlan {
    PhasePlan { name: "fill".into(), kind: PhaseKind::Fill, pace: Pace::Closed, end }
}

/// Returns a phase in a closed loop.
pub fn closed(name: &str, end: End) -> PhasePlan {
    PhasePlan { name: name.into(), kind: PhaseKind::Steady, pace: Pace::Closed, end }
}

/// Returns a phase with `rate` requests per second.
pub fn open(name: &str, rate: f64, time: Duration) -> PhasePlan {
    let pace = Pace::Open { rates: [rate; 2], spacing: Spacing::Poisson };
    PhasePlan { name: name.into(), kind: PhaseKind::Steady, pace, end: End::After(time) }
}
