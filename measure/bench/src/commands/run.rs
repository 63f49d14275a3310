//! One run: fill, ramp, plateau and idle phases, and its report.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ArgMatches;
use cli::outcome::{Failure, answer};

use super::arguments::{self, get};
use super::target::Target;
use crate::client::Spacing;
use crate::load::{PhaseKind, Workload};
use crate::measure::{TimerAccuracy, measure_timer, process_at};
use crate::origin;
use crate::poll::{Events, Poll};
use crate::report::{Moment, Progress, RunReport, page, run_text};
use crate::run::{End, Live, Pace, PhasePlan, Session, SessionOptions, Subject, cores};

/// Share of the rate at which a ramp begins, and which the idle phase uses.
const LOW: f64 = 0.1;
/// Default number of connections: in a closed loop, and the maximum in an open one.
const CLOSED: u32 = 32;
const OPEN: u32 = 1_000;

/// Runs the phases and reports them.
///
/// # Errors
/// Fails if arguments contradict each other, nothing responds, or responses were wrong or missing.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let seed = get(matches, "seed").unwrap_or_else(random_seed);
    let usage = |why: String| Failure::usage(format!("bench: {why}"));
    let load = arguments::load(matches, seed).map_err(usage)?;
    arguments::protocol(matches).map_err(usage)?;
    let plans = plans(matches, &load.workload).map_err(usage)?;
    let prepared = prepare(matches, seed, is_open(matches))
        .map_err(|why| Failure::runtime(format!("bench: {why}")))?;
    let Prepared { options, timer, mut notes } = prepared;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let failed = |why: String| Failure::runtime(format!("bench: {why}"));
    let mut session = Session::new(options, interrupted).map_err(failed)?;
    progress.say(&format!("seed {seed}; the origin listens at {}", session.origin_address()));
    let mut numbers = Vec::new();
    for plan in &plans {
        if session.is_interrupted() || session.has_ended() {
            break;
        }
        let number = session.run(plan, &mut |live| progress.show(&moment(live))).map_err(failed)?;
        numbers.push((number, plan));
    }
    session.settle().map_err(failed)?;
    progress.clear();
    let cores = cores::allowed();
    let phases = numbers.iter().map(|(number, plan)| {
        let mut figures = session.figures(*number);
        figures.warn_of_generator(cores.len(), &timer, plan.pace != Pace::Closed);
        figures
    });
    let phases: Vec<_> = phases.collect();
    notes.extend(session.notes());
    let (failures, failure_count) = session.failures();
    let report = RunReport {
        version: env!("CARGO_PKG_VERSION"),
        target: get::<String>(matches, "target").unwrap_or_default(),
        workload: get::<String>(matches, "workload").unwrap_or_default(),
        seed,
        command: command_line(),
        generator_cores: cores,
        timer,
        phases,
        failures: failures.iter().map(ToString::to_string).collect(),
        failure_count,
        interrupted: session.is_interrupted(),
        notes,
    };
    finish(matches, &report)
}

/// Writes the report, and returns an error if something was wrong.
fn finish(matches: &ArgMatches, report: &RunReport) -> Result<(), Failure> {
    answer(&run_text(report))?;
    let write = |path: PathBuf, text: String| {
        std::fs::write(&path, text)
            .map_err(|error| Failure::runtime(format!("bench: {}: {error}", path.display())))
    };
    if let Some(path) = get::<PathBuf>(matches, "json") {
        let text = serde_json::to_string_pretty(report)
            .map_err(|error| Failure::runtime(format!("bench: JSON: {error}")))?;
        write(path, format!("{text}\n"))?;
    }
    if let Some(path) = get::<PathBuf>(matches, "html") {
        write(path, page(report).map_err(|why| Failure::runtime(format!("bench: {why}")))?)?;
    }
    let answered: u64 = report.phases.iter().map(|phase| phase.answered).sum();
    match (report.failure_count, report.errors()) {
        (0, 0) if answered > 0 || report.interrupted => Ok(()),
        (0, 0) => Err(Failure::runtime("bench: nothing was answered")),
        (0, errors) => Err(Failure::runtime(format!("bench: {errors} requests went wrong"))),
        (wrong, _) => Err(Failure::runtime(format!("bench: {wrong} answers were wrong"))),
    }
}

/// The inputs of a session, and what is known at this point.
pub struct Prepared {
    /// The options of the session.
    pub options: SessionOptions,
    /// How accurately this machine wakes a thread.
    pub timer: TimerAccuracy,
    /// Notes that accompany the figures.
    pub notes: Vec<String>,
}

/// Prepares the inputs of a session with an open or closed loop. Restricts this thread to its cores
/// and measures its timer.
///
/// # Errors
/// Fails if an argument or the machine does not permit the session.
pub fn prepare(matches: &ArgMatches, seed: u64, is_open: bool) -> Result<Prepared, String> {
    if let Some(list) = get::<Vec<usize>>(matches, "cores") {
        cores::keep_to(&list)?;
    }
    cores::raise_open_files();
    let target = Target::read(&get::<String>(matches, "target").unwrap_or_default())?;
    let origin = get(matches, "origin").ok_or("no origin")?;
    let load = arguments::load(matches, seed)?;
    let is_forward = matches.get_flag("proxy");
    let own_host = if is_forward { format!("{origin}") } else { target.authority.clone() };
    let timer = measured_timer()?;
    let mut notes = Vec::new();
    let process = match get(matches, "pid") {
        Some(process) => Some(process),
        None => process_at(target.address)
            .inspect_err(|why| notes.push(format!("the target's processor time is unknown: {why}")))
            .ok(),
    };
    let usual = if is_open { OPEN } else { CLOSED };
    let think = arguments::think(matches, &load.workload);
    let polymix = matches!(load.workload, Workload::PolyMix(_));
    let options = SessionOptions {
        targets: vec![target.address],
        host: get(matches, "host").unwrap_or(own_host),
        is_forward,
        origin,
        name: format!("bench-{seed}"),
        answers: origin::Options {
            seed,
            think,
            answers_max: polymix.then_some(16),
            aborts: load.workload.origin_aborts(),
        },
        protocol: arguments::protocol_of_run(matches, &load.workload)?,
        connections: get::<u32>(matches, "connections").unwrap_or(usual) as usize,
        requests_per_connection: get(matches, "requests-per-connection")
            .unwrap_or_else(|| load.workload.requests_per_connection()),
        load,
        timeout: get(matches, "timeout").unwrap_or(Duration::from_secs(30)),
        subject: Subject {
            processes: process.into_iter().collect(),
            devices: get(matches, "device").into_iter().collect(),
            system_calls: matches.get_flag("system-calls"),
        },
    };
    for device in &options.subject.devices {
        crate::measure::device_counts(device)?;
    }
    Ok(Prepared { options, timer, notes })
}

/// Measures how accurately the generator's waits end.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn measured_timer() -> Result<TimerAccuracy, String> {
    let poll = Poll::new().map_err(|error| format!("sockets: {error}"))?;
    let mut events = Events::default();
    Ok(measure_timer(|time| drop(poll.wait(Some(time), &mut events))))
}

/// Returns the phases of a run.
fn plans(matches: &ArgMatches, workload: &Workload) -> Result<Vec<PhasePlan>, String> {
    let rate: Option<f64> = get(matches, "rate");
    let spacing = arguments::spacing(matches);
    let plateau: Duration = get(matches, "plateau").unwrap_or_default();
    let plan = |name: &str, kind, pace, end| PhasePlan { name: name.to_owned(), kind, pace, end };
    if workload.has_times() {
        if rate.is_some() {
            return Err("--rate: a trace has its own times; --speed scales them".to_owned());
        }
        let pace =
            arguments::speed(matches)?.map_or(Pace::Closed, |speed| Pace::Recorded { speed });
        return Ok(vec![plan("replay", PhaseKind::Steady, pace, end(matches, None))]);
    }
    let mut plans: Vec<PhasePlan> = fill_plan(matches).into_iter().collect();
    let steady = PhaseKind::Steady;
    if let Some(rate) = rate {
        let ramp: Duration = get(matches, "ramp").unwrap_or_default();
        if !ramp.is_zero() {
            let rates = [rate * LOW, rate];
            plans.push(plan("ramp", steady, open(rates, spacing), End::After(ramp)));
        }
    }
    let pace = rate.map_or(Pace::Closed, |rate| open([rate, rate], spacing));
    plans.push(plan("plateau", steady, pace, end(matches, Some(plateau))));
    let idle: Duration = get(matches, "idle").unwrap_or_default();
    if let Some(rate) = rate.filter(|_| !idle.is_zero()) {
        let pace = open([rate * LOW, rate * LOW], spacing);
        plans.push(plan("idle", steady, pace, End::After(idle)));
    }
    Ok(plans)
}

/// Returns the phase that fills the cache, if it is to be filled.
pub fn fill_plan(matches: &ArgMatches) -> Option<PhasePlan> {
    let cache: u64 = get(matches, "cache-size").unwrap_or(0);
    let fill = get(matches, "fill").unwrap_or(2 * cache);
    let rate: Option<f64> = get(matches, "fill-rate");
    let spacing = arguments::spacing(matches);
    let pace = rate.map_or(Pace::Closed, |rate| open([rate, rate], spacing));
    let (name, kind, end) = ("fill".to_owned(), PhaseKind::Fill, End::Filled(fill));
    (fill > 0).then_some(PhasePlan { name, kind, pace, end })
}

/// Returns whether requests follow a schedule.
fn is_open(matches: &ArgMatches) -> bool {
    let trace = get::<String>(matches, "workload").as_deref() == Some("replay");
    let as_fast_as_it_goes = get::<String>(matches, "speed").as_deref() == Some("max");
    matches.contains_id("rate") || trace && !as_fast_as_it_goes
}

fn open(rates: [f64; 2], spacing: Spacing) -> Pace {
    Pace::Open { rates, spacing }
}

/// Returns when the plateau ends: after a number of requests, or after a time if there is one.
fn end(matches: &ArgMatches, time: Option<Duration>) -> End {
    match (get(matches, "requests"), time) {
        (Some(requests), _) => End::Requests(requests),
        (None, Some(time)) => End::After(time),
        (None, None) => End::Never,
    }
}

/// Returns the progress report for this moment.
pub fn moment<'a>(live: &'a Live<'a>) -> Moment<'a> {
    let Live { phase, seconds, share, last, busy, waiting, failures } = live;
    Moment {
        phase,
        seconds: *seconds,
        share: *share,
        second: last,
        busy: *busy,
        waiting: *waiting,
        failures: *failures,
    }
}

/// Returns a seed for runs without one: a number that is short enough to type.
pub fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos() as u64);
    workload::contents::mix(nanos ^ u64::from(std::process::id())) % 1_000_000_000
}

/// Returns the command line as it was typed.
pub fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    ["larder bench".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}
