//! `larder bench unified`: repeats the evaluation of UNIFIED with current programs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

use super::arguments::{duration, get, option, positive, share, size};
use super::compare::{chosen_systems, names};
use super::machine::{self, Machine};
use super::run::random_seed;
use super::watched::watched;
use crate::origin::Think;
use crate::systems::{Grant, System, installed};
use crate::unified::{
    Evaluation, Plan, Test, evaluate, evaluation_markdown, evaluation_page, evaluation_text,
};

/// The defaults of the measurement, at a small and at a large scale.
struct Scale {
    cache: u64,
    memory: u64,
    think: f64,
    count_time: Duration,
    /// The first rate of the search; `None`: the paper's.
    from: Option<f64>,
    trial: Duration,
    tolerance: f64,
    /// Maximum number of trials per system.
    trials: usize,
    /// Parts of the names of systems; empty: all.
    systems: &'static [&'static str],
}

const QUICK: Scale = Scale {
    cache: 192 << 20,
    memory: 128 << 20,
    think: 0.1,
    count_time: Duration::from_secs(8),
    // At a lower rate, a trial has so few requests that chance decides.
    from: Some(40.0),
    trial: Duration::from_secs(5),
    tolerance: 0.3,
    trials: 9,
    systems: &["larder", "diskd", "aufs"],
};

const WHOLE: Scale = Scale {
    cache: 1 << 30,
    memory: 128 << 20,
    think: 1.0,
    count_time: Duration::from_secs(60),
    from: None,
    trial: Duration::from_secs(60),
    tolerance: 0.05,
    trials: 30,
    systems: &[],
};

/// Returns the command.
pub fn command() -> Command {
    let command = Command::new("unified")
        .about("Repeats the evaluation of UNIFIED: Larder beside Squid on a slow disk")
        .after_help(
            "Larder with the preset unified, with its own, and Squid with ufs, diskd, aufs and \
             rock, one after another under PolyMix-3: calls for each request (tables 1 and 2), \
             times by rate (figures 6 to 8) and the peak (table 3), beside the paper's. Wants the \
             rights of root, as compare does, and strace.",
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("Small caches, short trials and fewer systems: some ten minutes."),
        )
        .arg(
            option("test", "NAME", "Which of the paper's machines the disk stands for.")
                .default_value(Test::LowEnd.name())
                .value_parser(PossibleValuesParser::new(
                    [Test::LowEnd, Test::HighEnd].map(Test::name),
                )),
        )
        .arg(
            option("systems", "NAMES", "Only systems whose names contain one of these.")
                .value_delimiter(','),
        );
    machine::page_argument(machine::arguments(of_each(command)))
        .arg(option("markdown", "FILE", "Writes the tables.").value_parser(value_parser!(PathBuf)))
}

/// Adds the resources of each system, and how it is measured. Arguments without a default take one
/// from the scale.
fn of_each(command: Command) -> Command {
    command
        .arg(
            option("operations", "COUNT", "Reads, and as many writes, of the disk a second.")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(option("cache-size", "SIZE", "Of each cache.").value_parser(size))
        .arg(option("memory", "SIZE", "For each system and its files.").value_parser(size))
        .arg(
            option("think-scale", "FACTOR", "Scales the origin's delay of 2.5 s (deviation 1 s).")
                .value_parser(positive),
        )
        .arg(
            option("count-rate", "RATE", "The rate at which calls are counted.")
                .default_value("20")
                .value_parser(positive),
        )
        .arg(option("count-time", "TIME", "How long they are counted.").value_parser(duration))
        .arg(option("from", "RATE", "The first rate of the search.").value_parser(positive))
        .arg(
            option("growth", "FACTOR", "From one rate to the next, until one is not carried.")
                .default_value("2")
                .value_parser(growth),
        )
        .arg(option("trial", "TIME", "How long each rate is tried.").value_parser(duration))
        .arg(option("tolerance", "SHARE", "How near the peak is to be.").value_parser(share))
}

fn growth(text: &str) -> Result<f64, String> {
    let factor = positive(text)?;
    if factor >= 1.05 { Ok(factor) } else { Err("1.05 at least, or it takes too long".to_owned()) }
}

/// Runs the evaluation.
///
/// # Errors
/// Fails if privileges are missing, a name is unknown, or responses were wrong.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: unified: {why}"));
    machine::enter().map_err(failed)?;
    let (plan, notes) = plan(matches)?;
    let measured =
        watched(matches, plan.seed, &notes, |say, watch| evaluate(&plan, &interrupted, say, watch));
    let mut evaluation = measured.map_err(failed)?;
    evaluation.notes.splice(0..0, notes);
    finish(matches, &evaluation)
}

fn plan(matches: &ArgMatches) -> Result<(Plan, Vec<String>), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: unified: {why}"));
    let scale = if matches.get_flag("quick") { QUICK } else { WHOLE };
    let Machine { core, generator_cores, timer, base, systems, notes } =
        Machine::of(matches, installed).map_err(failed)?;
    let test = match get::<String>(matches, "test").as_deref() {
        Some("high-end") => Test::HighEnd,
        _ => Test::LowEnd,
    };
    let grant = Grant {
        cache: get(matches, "cache-size").unwrap_or(scale.cache),
        memory: get(matches, "memory").unwrap_or(scale.memory),
        operations: get(matches, "operations").or(Some(test.operations())),
        base,
        core,
    };
    let plan = Plan {
        test,
        systems: chosen(matches, systems, scale.systems)?,
        grant,
        think: Think::POLYMIX_3.scaled(get(matches, "think-scale").unwrap_or(scale.think)),
        count_rate: get(matches, "count-rate").unwrap_or(20.0),
        count_time: get(matches, "count-time").unwrap_or(scale.count_time),
        from: get(matches, "from").or(scale.from).unwrap_or(test.rates()[0]),
        growth: get(matches, "growth").unwrap_or(2.0),
        trial: get(matches, "trial").unwrap_or(scale.trial),
        tolerance: get(matches, "tolerance").unwrap_or(scale.tolerance),
        trials: scale.trials,
        generator_cores,
        timer,
        seed: get(matches, "seed").unwrap_or_else(random_seed),
    };
    Ok((plan, notes))
}

/// Returns the chosen systems: Larder with the paper's layout, Larder, and Squid with each of its
/// stores.
fn chosen(matches: &ArgMatches, all: Vec<System>, usual: &[&str]) -> Result<Vec<System>, Failure> {
    let unified = all.first().map(|larder| larder.with_settings("preset=unified")).transpose();
    let unified = unified.map_err(|why| Failure::usage(format!("bench: {why}")))?.flatten();
    let of_the_paper =
        all.into_iter().filter(|system| system.name == "Larder" || system.name.contains("Squid"));
    let systems: Vec<System> = unified.into_iter().chain(of_the_paper).collect();
    if names(matches, "systems").is_empty() && !usual.is_empty() {
        let is_usual =
            |system: &System| usual.iter().any(|part| system.name.to_lowercase().contains(part));
        return Ok(systems.into_iter().filter(is_usual).collect());
    }
    chosen_systems(matches, systems)
}

fn finish(matches: &ArgMatches, evaluation: &Evaluation) -> Result<(), Failure> {
    answer(&evaluation_text(evaluation))?;
    let failed = |why: String| Failure::runtime(format!("bench: {why}"));
    let write = |name: &str, text: &dyn Fn() -> Result<String, String>| {
        let Some(path) = get::<PathBuf>(matches, name) else { return Ok(()) };
        let text = text().map_err(failed)?;
        std::fs::write(&path, text).map_err(|error| failed(format!("{}: {error}", path.display())))
    };
    write("json", &|| {
        let text = serde_json::to_string_pretty(evaluation);
        text.map(|text| format!("{text}\n")).map_err(|error| format!("JSON: {error}"))
    })?;
    write("markdown", &|| Ok(evaluation_markdown(evaluation)))?;
    write("html", &|| evaluation_page(evaluation))?;
    match evaluation.failure_count {
        0 if evaluation.systems.is_empty() && !evaluation.interrupted => {
            Err(failed("nothing was measured".to_owned()))
        }
        0 => Ok(()),
        wrong => Err(failed(format!("{wrong} answers were wrong"))),
    }
}
