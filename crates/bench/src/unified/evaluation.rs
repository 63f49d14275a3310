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

/// What is evaluated, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which of the paper's machines the disk stands for.
    pub test: Test,
    /// The systems; the first is the one that others are compared with.
    pub systems: Vec<System>,
    /// What each is given.
    pub grant: Grant,
    /// How long the origin takes.
    pub think: Think,
    /// The rate at which calls are counted, and for how long.
    pub count_rate: f64,
    /// See `count_rate`.
    pub count_time: Duration,
    /// The first rate of the search.
    pub from: f64,
    /// The factor from one rate to the next, until one is not carried.
    pub growth: f64,
    /// How long each rate is tried.
    pub trial: Duration,
    /// How near the peak is to be.
    pub tolerance: f64,
    /// Trials of a system at most: where rates are carried at one time and not at another there is
    /// no end to them.
    pub trials: usize,
    /// How many cores the generator has, and how exactly it is woken.
    pub generator_cores: usize,
    /// See `generator_cores`.
    pub timer: TimerAccuracy,
    /// All chance follows from it.
    pub seed: u64,
}

/// A rate that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Requests a second.
    pub rate: f64,
    /// Why it was not carried; `None`: it was.
    pub why_not: Option<String>,
    /// What was measured.
    pub figures: PhaseFigures,
}

/// Connections at most.
const CONNECTIONS: usize = 1_000;
/// Mean bytes of an object of PolyMix-3, all types together.
const MEAN: u64 = 10_854;

impl Plan {
    /// PolyMix-3, whose working set is half of the cache: PolyMix freezes it at what is new in four
    /// hours, which is a third to two thirds of the paper's 10 GB at the rates of its peaks.
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

    /// A phase at a rate.
    fn phase(&self, name: &str, rate: f64, time: Duration) -> PhasePlan {
        let pace = Pace::Open { rates: [rate, rate], spacing: Spacing::Poisson };
        let (name, kind) = (name.to_owned(), PhaseKind::Steady);
        PhasePlan { name, kind, pace, end: End::After(time) }
    }

    /// Time until as many requests are under way as will be.
    fn lead(&self) -> Duration {
        let Think { mean, deviation, round_trip } = self.think;
        Duration::from_secs_f64(1.0 + mean + 2.0 * deviation + round_trip)
    }
}

/// Evaluates. `say` is told how far it is; `watch` sees the load.
///
/// # Errors
/// The kernel refuses. A system that fails is left out, and named.
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

    /// Measures it, as long as it lives.
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

    /// Tries a rate: as many requests as will be are under way before it is measured.
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
