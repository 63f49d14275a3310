//! The evaluation, system by system: its cache is filled, its calls are counted at a low rate, and
//! then rates are tried, from a low one up to the peak.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use workload::generator::polymix::PolyMix;

use super::paper::Test;
use super::report::{Counted, Evaluation, SystemFigures};
use crate::client::{Protocol, Spacing};
use crate::compare::{SystemLoad, UnderLoad};
use crate::load::{LoadOptions, PhaseKind, Sizes, Workload};
use crate::measure::{FileCalls, PhaseFigures, TimerAccuracy, family};
use crate::origin::{self, Think};
use crate::run::{Criterion, End, Live, Pace, PhasePlan, Search};
use crate::systems::{Grant, System};

/// The parameters of the evaluation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The paper's machine that the disk represents.
    pub test: Test,
    /// The systems; the others are compared with the first.
    pub systems: Vec<System>,
    /// The resources of each system.
    pub grant: Grant,
    /// The origin's think time.
    pub think: Think,
    /// The rate at which calls are counted.
    pub count_rate: f64,
    /// How long calls are counted.
    pub count_time: Duration,
    /// The first rate of the search.
    pub from: f64,
    /// The factor between consecutive rates, until one is not carried.
    pub growth: f64,
    /// Duration of a trial.
    pub trial: Duration,
    /// The accuracy of the peak.
    pub tolerance: f64,
    /// Maximum number of trials per system: if a rate is carried at one time and not at another,
    /// the search might never end.
    pub trials: usize,
    /// Number of cores of the generator.
    pub generator_cores: usize,
    /// How accurately the generator is woken.
    pub timer: TimerAccuracy,
    /// The seed of all random choices.
    pub seed: u64,
}

/// A rate that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Requests per second.
    pub rate: f64,
    /// Why the rate was not carried; `None`: it was carried.
    pub why_not: Option<String>,
    /// The measurements.
    pub figures: PhaseFigures,
}

/// Maximum number of connections.
const CONNECTIONS: usize = 1_000;
/// Mean size of a PolyMix-3 object in bytes, over all types.
const MEAN: u64 = 10_854;

impl Plan {
    /// Returns PolyMix-3 with a working set of half the cache. PolyMix freezes it at the new
    /// objects of four hours, which is a third to two thirds of the paper's 10 GB at its peak
    /// rates.
    fn load(&self) -> LoadOptions {
        let objects = u32::try_from(self.grant.cache / 2 / MEAN).unwrap_or(u32::MAX);
        let [three, _] = PolyMix::ALL;
        let mix = PolyMix { frozen_at: Some(objects.max(1_000)), ..three };
        LoadOptions {
            workload: Workload::PolyMix(mix),
            seed: self.seed,
            sizes: Sizes::WEB,
            lifetime: 0,
            uncacheable: 0.0,
            ranges: 0.0,
            browser: false,
        }
    }

    /// Returns a phase with a constant rate.
    fn phase(&self, name: &str, rate: f64, time: Duration) -> PhasePlan {
        let pace = Pace::Open { rates: [rate, rate], spacing: Spacing::Poisson };
        let (name, kind) = (name.to_owned(), PhaseKind::Steady);
        PhasePlan { name, kind, pace, end: End::After(time) }
    }

    /// Returns the time until the number of requests in flight is stable.
    fn lead(&self) -> Duration {
        let Think { mean, deviation, round_trip } = self.think;
        Duration::from_secs_f64(1.0 + mean + 2.0 * deviation + round_trip)
    }
}

/// Runs the evaluation. `say` logs progress; `watch` receives the load.
///
/// # Errors
/// Fails if the kernel refuses. A system that fails is left out, and named.
pub fn evaluate(
    plan: &Plan,
    interrupted: &Arc<AtomicBool>,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<Evaluation, String> {
    let mut evaluation = Evaluation::of(plan);
    for system in &plan.systems {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        say(&format!("== {}", system.name));
        let mut course = Course { plan, say, watch };
        match course.prepare(system, interrupted, &mut evaluation.notes) {
            Ok(mut under_load) => {
                let figures = course.measure(&mut under_load, &mut evaluation.notes)?;
                let (failures, count) = under_load.session.failures();
                let name = &system.name;
                let failures = failures.iter().map(|failure| format!("{name}: {failure}"));
                evaluation.failures.extend(failures);
                evaluation.failure_count += count;
                evaluation.systems.push(figures);
            }
            Err(why) => {
                let note = format!("SKIPPED: {}: {why}", system.name);
                say(&note);
                evaluation.notes.push(note);
            }
        }
    }
    evaluation.interrupted = interrupted.load(Ordering::Relaxed);
    Ok(evaluation)
}

struct Course<'a> {
    plan: &'a Plan,
    say: &'a mut dyn FnMut(&str),
    watch: &'a mut dyn FnMut(&Live),
}

impl Course<'_> {
    /// Starts a system, and fills its cache twice.
    fn prepare(
        &mut self,
        system: &System,
        interrupted: &Arc<AtomicBool>,
        notes: &mut Vec<String>,
    ) -> Result<UnderLoad, String> {
        let plan = self.plan;
        let load = plan.load();
        let asked = SystemLoad {
            requests_per_connection: load.workload.requests_per_connection(),
            load,
            answers: origin::Options {
                seed: plan.seed,
                think: plan.think,
                answers_max: Some(16),
                aborts: 0.0,
            },
            protocol: Protocol::Http10,
            connections: CONNECTIONS,
            object_bytes: MEAN,
            system_calls: false,
        };
        let mut under_load = UnderLoad::start(&plan.grant, system, &asked, interrupted, notes)?;
        let at = |rate| Pace::Open { rates: [rate, rate], spacing: Spacing::Poisson };
        let fill = PhasePlan {
            name: "fill".to_owned(),
            kind: PhaseKind::Fill,
            pace: system.fill_rate().map_or(Pace::Closed, at),
            end: End::Filled(2 * plan.grant.cache),
        };
        under_load.fill(Some(&fill), self.watch)?;
        under_load.hold(plan.grant.operations)?;
        Ok(under_load)
    }

    /// Measures a system as long as it runs.
    fn measure(
        &mut self,
        under_load: &mut UnderLoad,
        notes: &mut Vec<String>,
    ) -> Result<SystemFigures, String> {
        let counted = self.count(under_load)?;
        let mut search =
            Search::new(self.plan.from, self.plan.tolerance).growing_by(self.plan.growth);
        let mut trials = Vec::new();
        while let Some(rate) = search.next().filter(|_| trials.len() < self.plan.trials) {
            if under_load.session.is_interrupted() {
                break;
            }
            let trial = self.try_rate(under_load, rate)?;
            if under_load.running.has_ended() {
                let (name, said) = (&under_load.name, under_load.running.said());
                notes.push(format!(
                    "{name} ended at {rate:.0} requests/s, which is not counted: of too little \
                     memory, if it says nothing. {said}"
                ));
                break;
            }
            search.tell(rate, trial.why_not.is_none());
            trials.push(trial);
        }
        let (system, peak) = (under_load.name.clone(), search.peak());
        let is_narrowed = search.next().is_none();
        Ok(SystemFigures { system, counted, trials, peak, is_narrowed })
    }

    /// Counts the calls of a phase at a low rate.
    fn count(&mut self, under_load: &mut UnderLoad) -> Result<Counted, String> {
        let plan = self.plan;
        let calls = FileCalls::start(&family(under_load.running.process()), &under_load.cache());
        let phase = plan.phase("count", plan.count_rate, plan.count_time);
        let number = under_load.session.run(&phase, self.watch)?;
        under_load.session.settle()?;
        let calls = calls.and_then(FileCalls::stop);
        let figures = under_load.session.figures(number);
        (self.say)(&format!("   calls of {} requests are counted", figures.answered));
        let (calls, unknown) = match calls {
            Ok(calls) => (Some(calls), None),
            Err(why) => (None, Some(why)),
        };
        Ok(Counted {
            rate: plan.count_rate,
            requests: figures.answered,
            hit_ratio: figures.hit_ratio,
            calls,
            unknown,
            device: figures.device,
        })
    }

    /// Tries a rate. A lead phase first brings the number of requests in flight to a stable level.
    fn try_rate(&mut self, under_load: &mut UnderLoad, rate: f64) -> Result<Trial, String> {
        let plan = self.plan;
        let session = &mut under_load.session;
        session.run(&plan.phase("lead", rate, plan.lead()), self.watch)?;
        let number = session.run(&plan.phase("trial", rate, plan.trial), self.watch)?;
        session.settle()?;
        let mut figures = session.figures(number);
        figures.warn_of_generator(plan.generator_cores, &plan.timer, true);
        figures.by_second.clear();
        let why_not = Criterion::of(plan.think).judge(&figures);
        (self.say)(&format!(
            "   {rate:.0} requests/s: {}; hits {:.1} ms, misses {:.0} ms",
            why_not.as_deref().unwrap_or("carried"),
            figures.hit_time.mean,
            figures.miss_time.mean,
        ));
        Ok(Trial { rate, why_not, figures })
    }
}
