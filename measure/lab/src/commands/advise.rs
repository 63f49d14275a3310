//! `larder advise`: recommends settings for `larder serve` from an operator's own log, with the
//! numbers behind them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer, warn};
use cli::units;

use super::replay::{size, write};
use super::{log_source, replay_table, watch};
use crate::advise::access_log::AccessLog;
use crate::advise::advice::{
    Curves, Evidence, Goal, Limits, Part, PolicyOutcome, Prices, Sizes, Verdict,
};
use crate::advise::log_replay::{ReplayOptions, Row};
use crate::advise::{advice, log_replay};
use crate::disks::choice::DriveChoice;
use crate::experiment::Failed;

const AFTER_HELP: &str = "Computes, in this order: statistics of the log; hit ratios of LRU \
                          caches of all sizes in one pass; the disk and the memory that cost \
                          least together, by that curve and the prices; all policies at the \
                          chosen size; the engine itself with every layout at these sizes on the \
                          simulated drive. Comparisons use the second half of the log; the first \
                          half fills the caches.

Prices are in any one currency. Memory is never more \
                          than the disk: it holds a part of what the disk holds, and a hit in it \
                          saves a read.

Writes to the directory: larder.toml for \
                          `larder serve --config`, advice.txt, the curves as curve.csv, \
                          policies.csv, replay.csv, and disk, memory and policies as SVG.";

/// Returns the arguments of `larder advise`.
pub fn command() -> Command {
    let bytes = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name("SIZE").value_parser(size).help(help)
    };
    Command::new("advise")
        .about("Recommend settings for `larder serve` from your logs, with the curves behind them")
        .after_help(AFTER_HELP)
        .arg_required_else_help(true)
        .args(log_source::arguments())
        .arg(bytes("max-memory", "Maximum memory. [default: as much as helps]"))
        .arg(bytes("max-disk", "Maximum disk. [default: as much as helps]"))
        .arg(
            Arg::new("goal")
                .long("goal")
                .value_name("GOAL")
                .default_value(Goal::NAMES[0])
                .value_parser(|text: &str| text.parse::<Goal>())
                .help("Ratio to maximise: hits by requests, or by bytes."),
        )
        .args(price_arguments())
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .default_value("larder-advice")
                .help("Output directory."),
        )
}

/// Prices as arguments: name, unit, default and meaning.
const PRICES: [(&str, &str, &str, &str); 6] = [
    ("miss-ms", "MS", "100", "Response time of the origin in milliseconds."),
    ("disk-ms", "MS", "0.1, 10 for a mechanical drive", "Time of a read from the cache's disk."),
    ("wait-price", "PRICE", "1", "Price of an hour that clients wait."),
    ("miss-price", "PRICE", "1", "Price of a million misses, besides the waiting."),
    ("memory-price", "PRICE", "3", "Price of a GiB of memory for a month."),
    ("disk-price", "PRICE", "0.1", "Price of a GiB of disk for a month."),
];

fn price_arguments() -> impl Iterator<Item = Arg> {
    let number = |text: &str| match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number from 0 on"),
    };
    let rate = ("rate", "N", "those of the log", "Requests a second to choose sizes for.");
    PRICES.into_iter().chain([rate]).map(move |(name, unit, default, help)| {
        let help = format!("{help} [default: {default}]");
        Arg::new(name).long(name).value_name(unit).value_parser(number).help(help)
    })
}

/// Returns the prices that were given, and the default ones for this drive.
fn prices(matches: &ArgMatches, drive: &DriveChoice) -> Prices {
    let default = Prices::default();
    let given = |name: &str, default: f64| matches.get_one(name).copied().unwrap_or(default);
    Prices {
        miss_ms: given("miss-ms", default.miss_ms),
        read_ms: given("disk-ms", drive.read_ms()),
        hour: given("wait-price", default.hour),
        misses: given("miss-price", default.misses),
        memory: given("memory-price", default.memory),
        disk: given("disk-price", default.disk),
        rate: matches.get_one("rate").copied(),
    }
}

/// The measurements, in the order in which they were made.
struct Findings {
    log: AccessLog,
    curves: Curves,
    sizes: Sizes,
    prices: Prices,
    policies: Vec<PolicyOutcome>,
    rows: Vec<Row>,
    verdict: Verdict,
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let findings = find(matches)?;
    let fallback = PathBuf::from("larder-advice");
    let folder = matches.get_one::<PathBuf>("out").unwrap_or(&fallback);
    let goal = matches.get_one::<Goal>("goal").copied().unwrap_or_default();
    let config = advice::config_file(&findings.verdict.setup);
    let text = findings.text(folder, goal);
    findings.write(folder, &config, &text, goal)?;
    answer(text.trim_end())
}

fn find(matches: &ArgMatches) -> Result<Findings, Failure> {
    let failed = |why: Failed| Failure::runtime(format!("lab advise: {why}"));
    let nothing = |why: advice::NoAdvice| Failure::usage(format!("lab advise: {why}"));
    let goal = matches.get_one::<Goal>("goal").copied().unwrap_or_default();
    let options = ReplayOptions {
        drive: log_source::drive(matches, "advise")?,
        pace: log_source::pace(matches),
        warm_up: advice::WARM_UP,
        jobs: log_source::jobs(matches),
        raises_sizes: true,
    };
    let prices = prices(matches, &options.drive);
    let limits = Limits {
        memory: matches.get_one("max-memory").copied(),
        disk: matches.get_one("max-disk").copied(),
        drive: options.drive.bytes(),
    };
    if limits.disk.is_some_and(|disk| disk > limits.drive) {
        let (name, drive) = (options.drive.name(), units::about(limits.drive));
        warn(&format!("lab advise: --max-disk exceeds the capacity of the drive {name}, {drive}"));
    }
    let log = log_source::read(matches, "advise", log_source::ADVISE_MOST)?;
    let curves = watch::watched("curves", |meter| Curves::of(&log, meter)).map_err(failed)?;
    let sizes = Sizes::choose(&curves, log.summary(), &limits, goal, &prices);
    let sizes = sizes.map_err(nothing)?;
    let policies = watch::watched("policies", |meter| {
        advice::compare_policies(&log, sizes.disk, options.jobs, meter)
    });
    let policies = policies.map_err(failed)?;
    let setups = advice::candidates(&sizes, &policies, goal, limits.drive);
    let rows =
        watch::watched("layouts", |meter| log_replay::replay(&log, &setups, &options, meter));
    let rows = rows.map_err(failed)?;
    let verdict = advice::decide(&Evidence {
        log: &log,
        curves: &curves,
        sizes: &sizes,
        policies: &policies,
        rows: &rows,
        goal,
        prices,
    });
    let verdict = verdict.map_err(nothing)?;
    Ok(Findings { log, curves, sizes, prices, policies, rows, verdict })
}

impl Findings {
    fn text(&self, folder: &Path, goal: Goal) -> String {
        let mut text = format!(
            "{}\n{}\n{}\n",
            log_source::describe(&self.log),
            self.statistics(),
            self.priced()
        );
        let command = advice::command_line(&self.verdict.setup, &folder.join("larder.toml"));
        let _ = write!(text, "\nAdvice:\n\n    {command}\n\n");
        for line in advice::config_file(&self.verdict.setup).lines() {
            let _ = writeln!(text, "{}", format!("    {line}").trim_end());
        }
        text.push_str("\nWhy:\n");
        for reason in &self.verdict.reasons {
            text.push_str(&item(&format!("{}: {}.", reason.setting, reason.why)));
        }
        text.push_str("\nWhat the log cannot tell:\n");
        for doubt in &self.verdict.doubts {
            text.push_str(&item(doubt));
        }
        if self.verdict.doubts.is_empty() {
            text.push_str(&item(
                "It is long enough for these sizes. Lifetimes are not in a log: hits here may be \
                 revalidations in service.",
            ));
        }
        let _ = write!(text, "\nEffect of more or less (% of {goal}):\n{}", self.more(goal));
        let rows = replay_table::text(&self.rows);
        let _ = write!(text, "\nThe engine, second half of the log:\n{rows}");
        let _ = writeln!(text, "\nCurves, tables and larder.toml are in {}.", folder.display());
        text
    }

    fn statistics(&self) -> String {
        let summary = self.log.summary();
        let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let slope = summary.popularity_slope;
        format!(
            "{:.1}% of the objects were requested once; a cache without bounds would hit {:.1}% \
             of requests, {:.1}% of bytes; popularity slope {}",
            percent(summary.one_timers, summary.objects),
            percent(summary.hits, summary.requests),
            percent(summary.hit_bytes, summary.bytes),
            slope.map_or_else(|| "unknown".to_owned(), |slope| format!("{slope:.2}"))
        )
    }

    fn priced(&self) -> String {
        let Prices { miss_ms, read_ms, hour, misses, memory, disk, .. } = self.prices;
        format!(
            "Prices: a miss takes {miss_ms} ms and a read of the disk {read_ms} ms; an hour of \
             waiting costs {hour}, a million misses {misses}, a GiB of memory {memory} a month, \
             of disk {disk}; {:.1} million requests a month",
            self.sizes.monthly / 1e6
        )
    }

    /// Returns a table of hits with a quarter to four times each size.
    fn more(&self, goal: Goal) -> String {
        let mut text = String::new();
        let factors = [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)];
        let mut line = |name: &str, whole: u64, least: u64, hits: &dyn Fn(u64) -> f64| {
            let cells = factors.map(|(times, by)| {
                let bytes = whole / by * times;
                let cell = match bytes >= least {
                    true => format!("{} {:.1}%", units::about(bytes), 100.0 * hits(bytes)),
                    false => "-".to_owned(),
                };
                format!("{cell:>15}")
            });
            let _ = writeln!(text, "  {name:8}{}", cells.concat());
        };
        let sizes = &self.sizes;
        let least = [&sizes.disks, &sizes.memories].map(|all| all.first().copied().unwrap_or(0));
        line("disk", sizes.disk, least[0], &|disk| goal.of(self.curves.at(disk, Part::Second)));
        line("memory", sizes.memory, least[1], &|memory| {
            goal.of(sizes.memory_hits(&self.curves, memory, Part::Second))
        });
        text
    }

    fn write(&self, folder: &Path, config: &str, text: &str, goal: Goal) -> Result<(), Failure> {
        let config = format!(
            "# Advised by `larder advise`; advice.txt says why. Further settings: \
             docs/reference/configuration.md.\n{config}"
        );
        let curve = advice::table(&self.curves, &self.sizes);
        let mut policies = String::from("policy,bytes,hit_ratio,byte_hit_ratio\n");
        for outcome in &self.policies {
            let (hits, bytes) = (outcome.hits, self.sizes.disk);
            let _ = writeln!(
                policies,
                "{},{bytes},{:.6},{:.6}",
                outcome.policy, hits.requests, hits.bytes
            );
        }
        let replay = replay_table::csv(&self.rows);
        let files = [
            ("larder.toml", config.as_str()),
            ("advice.txt", text),
            ("curve.csv", &curve),
            ("policies.csv", &policies),
            ("replay.csv", &replay),
        ];
        write(folder, &files)?;
        for plot in advice::plots(&self.curves, &self.sizes, &self.policies, &self.rows, goal) {
            crate::report::write_plot(&plot, &folder.join(&plot.id)).map_err(Failure::runtime)?;
        }
        Ok(())
    }
}

/// Formats sentences as a list item, wrapped at 96 characters.
fn item(sentence: &str) -> String {
    const WIDTH: usize = 96;
    let (mut text, mut line) = (String::new(), String::from("  -"));
    for word in sentence.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
    text
}
