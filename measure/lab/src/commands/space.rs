//! `larder lab space`: runs the same workload on different ways of keeping objects on a disk, in a
//! directory of this machine.

use std::fmt::Write as _;
use std::io;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};
use cli::units;
use serde_json::{Map, Value, json};

use crate::run::replay::{ReplayOptions, Report, Stage};
use crate::run::space_benchmark::{Manager, SpacePlan, run as run_plan};
use crate::space::baselines::SyncPolicy;

const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// The name that selects every manager.
const ALL: &str = "all";

/// Returns the arguments of `larder lab space`.
pub fn command() -> Command {
    let plan = SpacePlan::new(PathBuf::new());
    Command::new("space")
        .about("Compare space managers in a directory of this machine, under one workload")
        .after_help(after_help())
        .arg_required_else_help(true)
        .arg(manager())
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Working directory: files are kept in new directories below it, which are \
                       removed afterwards.",
                ),
        )
        .args([
            number("requests", "N", plan.requests, 1, "Requests."),
            number("seed", "N", plan.seed, 0, "Seed of the workload."),
        ])
        .arg(
            Arg::new("operations")
                .long("operations")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Stop after this many operations of the manager. [default: no limit]"),
        )
        .args([
            size("memory", plan.memory, "Size of the memory cache in front of the disk."),
            size("disk", plan.disk, "Bytes of objects that the disk cache keeps."),
            size("engine-memory", plan.engine_memory, "The engine's own memory, index included."),
            number(
                "utilization",
                "PERCENT",
                u64::from(plan.utilization_percent),
                10,
                "Percentage of the engine's file that objects may take, up to 100.",
            ),
            number(
                "threshold",
                "BLOCKS",
                u64::from(plan.threshold_blocks),
                0,
                "buddy-files: larger objects get files of their own; in blocks of 512 bytes.",
            ),
            number("outstanding", "N", 1, 1, "Maximum operations in flight."),
        ])
        .arg(flag("sync", "Make the baselines sync after each stored object."))
        .arg(flag("json", "Print JSON instead of a table."))
}

fn after_help() -> String {
    let mut text = "Managers:\n".to_owned();
    for manager in Manager::all() {
        let _ = writeln!(text, "  {:14} {}", manager.name(), manager.about());
    }
    text.push_str(
        "\nA workload like a proxy's goes through an LRU cache in memory, then through an LRU \
         cache on disk: a miss stores, a disk hit reads (and is compared byte by byte), an \
         eviction or a new version deletes. Gets per second are all requests, memory hits \
         included, divided by the time of the manager's operations and a final sync, as in the \
         papers. The baselines use the page cache, the engine does not. The paper's run is \
         --memory 512M --disk 2G --requests 1058206. See docs/research/lab.md.",
    );
    text
}

fn manager() -> Arg {
    let names = Manager::all().into_iter().map(|manager| manager.name()).chain([ALL]);
    Arg::new("manager")
        .long("manager")
        .value_name("NAME")
        .required(true)
        .action(ArgAction::Append)
        .value_parser(clap::builder::PossibleValuesParser::new(names))
        .hide_possible_values(true)
        .help("Space manager (see below); may be repeated; all: every one.")
}

fn number(
    name: &'static str,
    value: &'static str,
    default: u64,
    least: u64,
    help: &'static str,
) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .value_parser(value_parser!(u64).range(least..=u64::from(u32::MAX)))
        .help(format!("{help} [default: {default}]"))
}

fn size(name: &'static str, default: u64, help: &'static str) -> Arg {
    let parse = |text: &str| {
        units::parse_size(text).ok_or_else(|| format!("expected {}", units::SIZE_EXAMPLE))
    };
    Arg::new(name)
        .long(name)
        .value_name("SIZE")
        .value_parser(parse)
        .help(format!("{help} [default: {}]", units::size(default)))
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let plan = plan(matches)?;
    let named = matches.get_many::<String>("manager").into_iter().flatten();
    let mut managers = Vec::new();
    for name in named {
        match Manager::named(name) {
            Some(manager) => managers.push(manager),
            // The parser accepts only the managers' names and `all`.
            None => managers.extend(Manager::all()),
        }
    }
    let json = matches.get_flag("json");
    let mut rows = Vec::new();
    for manager in managers {
        let report = run_plan(&plan, manager, progress(manager.name(), plan.requests));
        rows.push((manager.name(), report.map_err(Failure::runtime)?));
    }
    match json {
        true => answer(&as_json(&plan, &rows).to_string()),
        false => answer(as_text(&plan, &rows).trim_end()),
    }
}

fn plan(matches: &ArgMatches) -> Result<SpacePlan, Failure> {
    let directory = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
    let defaults = SpacePlan::new(directory);
    let number = |name: &str, default: u64| matches.get_one(name).copied().unwrap_or(default);
    let small = |name: &str, default: u32| number(name, u64::from(default)) as u32;
    let utilization_percent = small("utilization", defaults.utilization_percent);
    if utilization_percent > 100 {
        return Err(Failure::usage(format!(
            "--utilization {utilization_percent}: expected 10 to 100 percent"
        )));
    }
    let replay = ReplayOptions {
        outstanding: small("outstanding", 1) as usize,
        operations: matches.get_one("operations").copied(),
    };
    Ok(SpacePlan {
        requests: number("requests", defaults.requests),
        memory: number("memory", defaults.memory),
        disk: number("disk", defaults.disk),
        utilization_percent,
        threshold_blocks: small("threshold", defaults.threshold_blocks),
        engine_memory: number("engine-memory", defaults.engine_memory),
        seed: number("seed", defaults.seed),
        sync: if matches.get_flag("sync") { SyncPolicy::EachStore } else { SyncPolicy::AtEnd },
        replay,
        ..defaults
    })
}

/// Returns a callback that reports progress on standard error if that is a terminal.
fn progress(name: &'static str, requests: u64) -> impl FnMut(Stage) {
    let looks = io::stderr().is_terminal();
    let mut told = Instant::now();
    move |stage| {
        if !looks || told.elapsed() < PROGRESS_EVERY {
            return;
        }
        told = Instant::now();
        let what = match stage {
            Stage::Preparing => "preparing".to_owned(),
            Stage::Requests(done) => {
                format!("{done} of {requests} requests ({}%)", done * 100 / requests.max(1))
            }
            Stage::Finishing => "writing everything to the disk".to_owned(),
            Stage::Removing => "removing its files".to_owned(),
        };
        // If standard error is closed, the run continues.
        let _ = writeln!(io::stderr(), "{name}: {what}");
    }
}

fn as_text(plan: &SpacePlan, rows: &[(&str, Report)]) -> String {
    let mut text = String::new();
    if let Some((_, report)) = rows.first() {
        let cache = report.cache;
        let share = |part: u64| part as f64 * 100.0 / cache.gets.max(1) as f64;
        let _ = writeln!(
            text,
            "seed {}: {} gets = {} memory hits ({:.0}%) + {} disk hits ({:.0}%) + {} misses \
             ({:.0}%); {} deletes ({} evictions, {} outdated)\n",
            plan.seed,
            cache.gets,
            cache.memory_hits,
            share(cache.memory_hits),
            cache.disk_hits,
            share(cache.disk_hits),
            cache.misses,
            share(cache.misses),
            cache.deletes(),
            cache.evictions,
            cache.outdated,
        );
    }
    table(
        &mut text,
        &["gets/s", "ops ms", "finish ms", "stored", "read", "deleted", "lost"],
        rows,
        {
            |report| {
                vec![
                    format!("{:.0}", report.gets_per_second()),
                    report.operations_time.as_millis().to_string(),
                    report.finish_time.as_millis().to_string(),
                    report.stores.to_string(),
                    report.reads.to_string(),
                    report.deletes.to_string(),
                    (report.refused + report.gone).to_string(),
                ]
            }
        },
    );
    text.push('\n');
    let names = Report::default().calls.columns().map(|(name, _)| name.replace('_', " "));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    table(&mut text, &names, rows, |report| {
        let show = |(name, count): (&str, u64)| match name.ends_with("bytes") {
            true => units::about(count),
            false => count.to_string(),
        };
        report.calls.columns().map(show).to_vec()
    });
    text
}

/// Writes a row per manager; columns are as wide as their content.
fn table(
    text: &mut String,
    names: &[&str],
    rows: &[(&str, Report)],
    cells: impl Fn(&Report) -> Vec<String>,
) {
    let rows: Vec<_> = rows.iter().map(|(manager, report)| (*manager, cells(report))).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[column].len());
        cells.chain([names[column].len()]).max().unwrap_or(0)
    };
    let mut line = |manager: &str, cells: &[String]| {
        let mut line = format!("{manager:14}");
        for (column, cell) in cells.iter().enumerate() {
            let _ = write!(line, "  {cell:>width$}", width = width(column));
        }
        let _ = writeln!(text, "{line}");
    };
    line("", &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    rows.iter().for_each(|(manager, cells)| line(manager, cells));
}

fn as_json(plan: &SpacePlan, rows: &[(&str, Report)]) -> Value {
    let managers: Vec<Value> = rows
        .iter()
        .map(|(manager, report)| {
            let calls = report.calls.columns().map(|(name, count)| (name.to_owned(), count.into()));
            let calls: Map<String, Value> = calls.into_iter().collect();
            json!({
                "manager": manager,
                "gets_per_second": report.gets_per_second(),
                "operations_ms": report.operations_time.as_secs_f64() * 1e3,
                "finish_ms": report.finish_time.as_secs_f64() * 1e3,
                "gets": report.cache.gets,
                "get_bytes": report.cache.get_bytes,
                "memory_hits": report.cache.memory_hits,
                "disk_hits": report.cache.disk_hits,
                "misses": report.cache.misses,
                "too_large": report.cache.too_large,
                "evictions": report.cache.evictions,
                "outdated": report.cache.outdated,
                "stored": report.stores,
                "stored_bytes": report.stored_bytes,
                "read": report.reads,
                "checked_bytes": report.checked_bytes,
                "deleted": report.deletes,
                "refused": report.refused,
                "gone": report.gone,
                "calls": calls,
            })
        })
        .collect();
    json!({
        "seed": plan.seed,
        "requests": plan.requests,
        "memory": plan.memory,
        "disk": plan.disk,
        "utilization_percent": plan.utilization_percent,
        "threshold_blocks": plan.threshold_blocks,
        "engine_memory": plan.engine_memory,
        "outstanding": plan.replay.outstanding,
        "sync": plan.sync == SyncPolicy::EachStore,
        "managers": managers,
    })
}
