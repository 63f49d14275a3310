//! `larder bench peak`: searches for the highest rate that the target carries.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};
use maud::html;
use plot::{Axis, Plot};
use serde::Serialize;

use super::arguments::{self, duration, get, option, positive, share};
use super::run::{Prepared, command_line, fill_plan, moment, prepare, random_seed};
use crate::load::PhaseKind;
use crate::measure::PhaseFigures;
use crate::report::{
    Progress, Table, document, figure, rate as shown_rate, share as shown_share, time,
};
use crate::run::{Criterion, End, Pace, PhasePlan, Search, Session, cores};

/// Returns the command.
pub fn command() -> Command {
    let command = Command::new("peak")
        .about("Searches for the highest rate that the target carries")
        .after_help(
            "A rate is carried when --achieved of the requests that come due in a trial are \
             answered in it, 95% of them within --p95 from when they were due, and no more than \
             one in a thousand goes wrong.",
        );
    arguments::of_run(command)
        .next_help_heading("The search")
        .arg(option("from", "RATE", "The first rate.").default_value("500").value_parser(positive))
        .arg(
            option("trial", "TIME", "How long each rate is tried.")
                .default_value("10s")
                .value_parser(duration),
        )
        .arg(
            option("achieved", "SHARE", "Share of the requests that must be answered.")
                .default_value("0.95")
                .value_parser(share),
        )
        .arg(
            option(
                "p95",
                "TIME",
                "Time in which 95% are to be answered: 500ms, and what the \
                origin takes, if not given.",
            )
            .value_parser(duration),
        )
        .arg(
            option("tolerance", "SHARE", "How near the result is to be.")
                .default_value("0.05")
                .value_parser(share),
        )
}

/// The result of a search.
#[derive(Serialize)]
struct PeakReport {
    target: String,
    workload: String,
    seed: u64,
    command: String,
    criterion: Criterion,
    /// Requests per second; `None` if no rate was carried.
    peak: Option<f64>,
    trials: Vec<Trial>,
    failures: Vec<String>,
    failure_count: u64,
}

#[derive(Serialize)]
struct Trial {
    rate: f64,
    carried: bool,
    why_not: Option<String>,
    figures: PhaseFigures,
}

/// Maximum number of trials: if a rate is carried at one time and not at another, the search might
/// never end.
const TRIALS: usize = 40;

/// Runs the search.
///
/// # Errors
/// Fails like a run, and if no rate is carried.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: {why}"));
    let usage = |why: String| Failure::usage(format!("bench: {why}"));
    let seed = get(matches, "seed").unwrap_or_else(random_seed);
    let load = arguments::load(matches, seed).map_err(usage)?;
    arguments::protocol(matches).map_err(usage)?;
    if load.workload.has_times() {
        return Err(usage("a trace has its own times: there is no peak to search".to_owned()));
    }
    let Prepared { options, timer, notes } = prepare(matches, seed, true).map_err(failed)?;
    let p95: Option<Duration> = get(matches, "p95");
    let usual = Criterion::of(options.answers.think);
    let criterion = Criterion {
        achieved: get(matches, "achieved").unwrap_or(usual.achieved),
        p95_ms: p95.map_or(usual.p95_ms, |time| time.as_secs_f64() * 1e3),
        ..usual
    };
    let mut progress = Progress::new(matches.get_flag("quiet"));
    notes.iter().for_each(|note| progress.say(&format!("note: {note}")));
    let mut session = Session::new(options, interrupted).map_err(failed)?;
    progress.say(&format!("seed {seed}; the origin listens at {}", session.origin_address()));
    if let Some(fill) = fill_plan(matches) {
        session.run(&fill, &mut |live| progress.show(&moment(live))).map_err(failed)?;
        session.settle().map_err(failed)?;
    }
    let tolerance = get(matches, "tolerance").unwrap_or(0.05);
    let mut search = Search::new(get(matches, "from").unwrap_or(500.0), tolerance);
    let mut trials = Vec::new();
    while let Some(rate) = search.next().filter(|_| trials.len() < TRIALS) {
        if session.is_interrupted() {
            break;
        }
        let number = session
            .run(&plan(matches, rate), &mut |live| progress.show(&moment(live)))
            .map_err(failed)?;
        session.settle().map_err(failed)?;
        let mut figures = session.figures(number);
        figures.warn_of_generator(cores::allowed().len(), &timer, true);
        let why_not = criterion.judge(&figures);
        search.tell(rate, why_not.is_none());
        let said = why_not.clone().unwrap_or_else(|| "carried".to_owned());
        progress.say(&format!("{} requests/s: {said}", shown_rate(rate)));
        let carried = why_not.is_none();
        figures.by_second.clear();
        trials.push(Trial { rate, carried, why_not, figures });
    }
    progress.clear();
    let (failures, failure_count) = session.failures();
    let report = PeakReport {
        target: get(matches, "target").unwrap_or_default(),
        workload: get(matches, "workload").unwrap_or_default(),
        seed,
        command: command_line(),
        criterion,
        peak: search.peak(),
        trials,
        failures: failures.iter().map(ToString::to_string).collect(),
        failure_count,
    };
    finish(matches, &report)
}

fn plan(matches: &ArgMatches, rate: f64) -> PhasePlan {
    PhasePlan {
        name: format!("{} req/s", shown_rate(rate)),
        kind: PhaseKind::Steady,
        pace: Pace::Open { rates: [rate, rate], spacing: arguments::spacing(matches) },
        end: End::After(get(matches, "trial").unwrap_or(Duration::from_secs(10))),
    }
}

fn finish(matches: &ArgMatches, report: &PeakReport) -> Result<(), Failure> {
    answer(&text(report))?;
    if let Some(path) = get::<PathBuf>(matches, "json") {
        let json = serde_json::to_string_pretty(report)
            .map_err(|error| Failure::runtime(format!("bench: JSON: {error}")))?;
        std::fs::write(&path, format!("{json}\n"))
            .map_err(|error| Failure::runtime(format!("bench: {}: {error}", path.display())))?;
    }
    if let Some(path) = get::<PathBuf>(matches, "html") {
        let page = page(report).map_err(|why| Failure::runtime(format!("bench: {why}")))?;
        std::fs::write(&path, page)
            .map_err(|error| Failure::runtime(format!("bench: {}: {error}", path.display())))?;
    }
    match (report.failure_count, report.peak) {
        (0, Some(_)) => Ok(()),
        (0, None) => Err(Failure::runtime("bench: no rate is carried")),
        (wrong, _) => Err(Failure::runtime(format!("bench: {wrong} answers were wrong"))),
    }
}

/// Returns the result as a page: achieved throughput and response times by offered rate.
fn page(report: &PeakReport) -> Result<String, String> {
    let mut trials: Vec<&Trial> = report.trials.iter().collect();
    trials.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let points = |of: fn(&PhaseFigures) -> f64| {
        trials.iter().map(move |trial| (trial.rate, of(&trial.figures))).collect::<Vec<_>>()
    };
    let offered = || Axis::linear("requests/s offered");
    let limit = trials.iter().map(|trial| (trial.rate, report.criterion.p95_ms));
    let plots = [
        Plot::lines("achieved", "Throughput", offered(), Axis::linear("requests/s"))
            .ours("offered", points(|figures| figures.offered_rate))
            .ours("achieved", points(|figures| figures.achieved_rate)),
        Plot::lines(
            "p95",
            "Response time, from when requests were due",
            offered(),
            Axis::log("ms"),
        )
        .ours("50%", points(|figures| figures.response_time.p50))
        .ours("95%", points(|figures| figures.response_time.p95))
        .ours("95% at most", limit),
    ];
    let plots = plots.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
    let title = format!("larder bench peak: {}", report.workload);
    let body = html! {
        h1 { (title) }
        p.faint { (report.target) " · seed " (report.seed) }
        p { code { (report.command) } }
        @for failure in &report.failures { p.bad { "Wrong: " (failure) } }
        @for plot in &plots { (plot) }
        h2 { "Figures" }
        pre { (text(report)) }
    };
    Ok(document(&title, &body))
}

fn text(report: &PeakReport) -> String {
    let mut table = Table::new([
        "requests/s",
        "achieved",
        "hit ratio",
        "50%",
        "95%",
        "99%",
        "CPU µs/request",
        "",
    ]);
    for Trial { rate, why_not, figures, .. } in &report.trials {
        table.row([
            shown_rate(*rate),
            shown_rate(figures.achieved_rate),
            shown_share(figures.hit_ratio),
            time(figures.response_time.p50),
            time(figures.response_time.p95),
            time(figures.response_time.p99),
            figures.process.as_ref().map_or("-".into(), |p| format!("{:.1}", p.cpu_us())),
            match (why_not, figures.warnings.is_empty()) {
                (None, _) => "carried".into(),
                (Some(why), true) => why.clone(),
                (Some(why), false) => format!("{why}; the generator was a limit, see below"),
            },
        ]);
    }
    let Criterion { achieved, p95_ms, .. } = report.criterion;
    let peak = report.peak.map_or("none".to_owned(), shown_rate);
    let mut text = format!(
        "\n{}\npeak: {peak} requests/s ({} of the requests answered, 95% within {})\n",
        table.text(),
        shown_share(achieved),
        time(p95_ms),
    );
    let warnings = report.trials.iter().flat_map(|trial| {
        trial
            .figures
            .warnings
            .iter()
            .map(|warning| format!("warning: {}: {warning}\n", trial.figures.name))
    });
    text.extend(warnings);
    text.extend(report.failures.iter().map(|failure| format!("WRONG: {failure}\n")));
    text
}

#[test]
fn a_trial_holds_when_all_conditions_do() {
    use crate::measure::Times;

    let criterion = Criterion { achieved: 0.95, p95_ms: 500.0, errors: 0.001 };
    let good = PhaseFigures {
        offered: 1_000,
        offered_rate: 100.0,
        achieved_rate: 96.0,
        response_time: Times { p95: 400.0, ..Times::default() },
        ..PhaseFigures::default()
    };
    assert_eq!(criterion.judge(&good), None);
    let slow = Times { p95: 501.0, ..Times::default() };
    assert!(criterion.judge(&PhaseFigures { response_time: slow, ..good.clone() }).is_some());
    assert!(criterion.judge(&PhaseFigures { achieved_rate: 94.0, ..good.clone() }).is_some());
    let errors = [("reset".to_owned(), 2)].into_iter().collect();
    assert!(criterion.judge(&PhaseFigures { errors, ..good }).is_some());
}

#[test]
fn the_page_has_both_plots_by_rate() {
    let trial = |rate: f64, carried: bool| Trial {
        rate,
        carried,
        why_not: (!carried).then(|| "too slow".to_owned()),
        figures: PhaseFigures { offered_rate: rate, achieved_rate: 90.0, ..Default::default() },
    };
    let report = PeakReport {
        target: "http://h:1".into(),
        workload: "zipf".into(),
        seed: 1,
        command: "larder bench peak".into(),
        criterion: Criterion::of(crate::origin::Think::default()),
        peak: Some(100.0),
        trials: vec![trial(200.0, false), trial(100.0, true)],
        failures: Vec::new(),
        failure_count: 0,
    };
    let page = page(&report).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("requests/s offered") && page.contains("peak: 100 requests/s"));
}
