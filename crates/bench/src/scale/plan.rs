//! What the parts have in common.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{Protocol, Spacing};
use crate::load::{LoadOptions, PhaseKind, RequestsPerConnection, Sizes, Workload};
use crate::origin;
use crate::run::{End, Pace, PhasePlan, Session, SessionOptions, Subject};

/// How Larder is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Larder's program.
    pub larder: PathBuf,
    /// Where caches are made.
    pub base: PathBuf,
    /// All chance follows from it.
    pub seed: u64,
    /// Bytes of a cache, where nothing else follows from the part.
    pub cache: u64,
    /// Larder's setting `memory`, in bytes.
    pub memory: u64,
    /// How long something is measured.
    pub time: Duration,
    /// How often, where that is more than once.
    pub rounds: u32,
    /// Connections of a closed loop.
    pub connections: usize,
    /// Objects that are stored before a start is timed.
    pub objects: u64,
    /// A cache that an earlier run with the same seed has stored them in.
    pub filled: Option<PathBuf>,
    /// The host that they are objects of.
    pub host: String,
    /// Connections that are left idle.
    pub idle: usize,
    /// Connections that are busy at once.
    pub busy: usize,
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// Requests a second for hits beside work in the background.
    pub rate: f64,
    /// How long the longest part is.
    pub endurance: Duration,
    /// The cores of the machine: Larder gets the last ones, one for each worker.
    pub cores: Vec<usize>,
    /// Set when the run is to end.
    pub interrupted: Arc<AtomicBool>,
}

impl Plan {
    /// Whether the run is to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The last cores of the machine, one for each worker, as far as they go: the generator is on
    /// others as long as there are any.
    pub fn cores_of(&self, workers: usize) -> &[usize] {
        &self.cores[self.cores.len().saturating_sub(workers.max(1))..]
    }

    /// Unrelated objects of a size, all as popular.
    pub fn objects_of(&self, count: u64, size: u64) -> LoadOptions {
        let objects = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        self.load(Workload::Zipf { objects, alpha: 0.0 }, Sizes::Fixed(size))
    }

    /// Requests of which each is for another object.
    pub fn unique(&self, size: u64) -> LoadOptions {
        self.load(Workload::Unique, Sizes::Fixed(size))
    }

    /// A workload without anything special.
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

    /// Begins a session of the generator with the origin at one address and Larder at the other,
    /// which knows the origin by `host`.
    ///
    /// # Errors
    /// An address cannot be had.
    pub fn session(
        &self,
        [origin, target]: [SocketAddr; 2],
        host: &str,
        load: LoadOptions,
        connections: usize,
    ) -> Result<Session, String> {
        let options = SessionOptions {
            target,
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

/// A phase in which the cache is filled.
pub fn fill(end: End) -> PhasePlan {
    PhasePlan { name: "fill".into(), kind: PhaseKind::Fill, pace: Pace::Closed, end }
}

/// A phase in a closed loop.
pub fn closed(name: &str, end: End) -> PhasePlan {
    PhasePlan { name: name.into(), kind: PhaseKind::Steady, pace: Pace::Closed, end }
}

/// A phase with so many requests a second.
pub fn open(name: &str, rate: f64, time: Duration) -> PhasePlan {
    let pace = Pace::Open { rates: [rate; 2], spacing: Spacing::Poisson };
    PhasePlan { name: name.into(), kind: PhaseKind::Steady, pace, end: End::After(time) }
}
