//! The parameters of the comparison, and what its measurements share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use testkit::address;

use super::variants::Variant;
use crate::client::Protocol;
use crate::compare::{Comparison, Round, Rounds};
use crate::load::{LoadOptions, RequestsPerConnection, Sizes, Workload};
use crate::measure::{PhaseFigures, TimerAccuracy};
use crate::object::ServedFrom;
use crate::origin::{self, Think};
use crate::run::{Live, PhasePlan, Session, SessionOptions, Subject};
use crate::systems::{Grant, System};

/// Seconds that the origin takes for a response.
const DELAY: f64 = 0.002;

/// The parameters of the comparison.
pub struct Plan {
    /// The systems.
    pub systems: Vec<System>,
    /// The names of the parts to measure.
    pub parts: Vec<String>,
    /// Only variants whose names contain one of these; all if there are none.
    pub only: Vec<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// The resources of each node.
    pub grant: Grant,
    /// Larder's setting `memory`, in bytes.
    pub larder_memory: u64,
    /// Documents that are popular at a time.
    pub documents: u32,
    /// The exponent of Zipf's law.
    pub alpha: f64,
    /// One document takes the place of another after so many requests.
    pub drift: u64,
    /// Requests before those that are measured.
    pub warm_up: u64,
    /// Requests that are measured.
    pub requests: u64,
    /// Time of requests after a node was killed.
    pub recovery: Duration,
    /// Length of a measurement in *remote*.
    pub time: Duration,
    /// Rounds of each system.
    pub rounds: u32,
    /// Connections of the client to each node.
    pub connections: usize,
    /// Number of cores of the generator.
    pub generator_cores: usize,
    /// How accurately the generator is woken.
    pub timer: TimerAccuracy,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Inputs of a measurement, beside the plan.
pub struct Surroundings<'a> {
    /// Set when the run is to end.
    pub interrupted: &'a Arc<AtomicBool>,
    /// Receives lines that stay.
    pub say: &'a mut dyn FnMut(&str),
    /// Receives the current load.
    pub watch: &'a mut dyn FnMut(&Live),
    /// The rounds so far.
    pub rounds: Rounds,
    /// The result, without its rows.
    pub comparison: Comparison,
}

impl Plan {
    /// Creates a session whose origin the nodes ask; the nodes are not there yet.
    pub fn session(&self, workload: Workload, around: &Surroundings) -> Result<Session, String> {
        let think = Think { mean: DELAY, deviation: 0.0, round_trip: 0.0 };
        let options = SessionOptions {
            targets: Vec::new(),
            host: "bench.test".to_owned(),
            is_forward: false,
            origin: address::free_at_localhost(),
            name: format!("bench-{}", self.seed),
            answers: origin::Options { seed: self.seed, think, ..origin::Options::default() },
            load: self.load(workload),
            protocol: Protocol::Http1,
            connections: self.connections,
            requests_per_connection: RequestsPerConnection::Unlimited,
            timeout: Duration::from_secs(15),
            subject: Subject::default(),
        };
        Session::new(options, Arc::clone(around.interrupted))
    }

    /// Returns these requests with the sizes of a web server's files.
    pub fn load(&self, workload: Workload) -> LoadOptions {
        let (seed, sizes) = (self.seed, Sizes::FILES);
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
}

impl Surroundings<'_> {
    /// Runs a phase, and returns its figures.
    pub fn phase(
        &mut self,
        plan: &Plan,
        session: &mut Session,
        phase: &PhasePlan,
    ) -> Result<PhaseFigures, String> {
        let number = session.run(phase, self.watch)?;
        let mut figures = session.figures(number);
        if figures.answered == 0 && !session.is_interrupted() {
            return Err(format!("nothing was answered: {:?}", figures.errors));
        }
        figures.warn_of_generator(plan.generator_cores, &plan.timer, false);
        Ok(figures)
    }

    /// Adds a measured round.
    pub fn add(&mut self, part: &str, variant: &Variant, round: Round) {
        (self.say)(&format!("   {part}: {round}"));
        self.rounds.add(part, &variant.name, round);
    }

    /// Adds the wrong responses of a session.
    pub fn add_failures(&mut self, variant: &Variant, session: &Session) {
        let (failures, count) = session.failures();
        let failures = failures.iter().map(|failure| format!("{}: {failure}", variant.name));
        self.comparison.failures.extend(failures);
        self.comparison.failure_count += count;
    }
}

/// Returns the shares of the responses by where they came from.
pub fn shares(figures: &PhaseFigures) -> Vec<(&'static str, f64)> {
    let names = [
        ("own memory", ServedFrom::Memory),
        ("own disk", ServedFrom::Disk),
        ("own cache", ServedFrom::Cache),
        ("another node", ServedFrom::Peer),
    ];
    let share = |from| figures.served_from.get(&from).copied().unwrap_or(0.0);
    names.into_iter().map(|(name, from)| (name, share(from))).collect()
}
