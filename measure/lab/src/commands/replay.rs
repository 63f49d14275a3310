//! `larder lab replay`: replays an operator's log on the product's engine, for every given layout,
//! policy, memory and disk.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};
use cli::units;
use cli::units::SIZE_EXAMPLE;
use serde_json::json;
use store::policy::{AdmissionName, PolicyName};

use super::{log_source, missratio, replay_table, watch};
use crate::advise::access_log::AccessLog;
use crate::advise::log_replay;
use crate::advise::log_replay::{ReplayOptions, Row, System, combinations};

const AFTER_HELP: &str = "Each combination runs the engine of `larder serve` with an empty cache \
                          on a simulated drive in virtual time. Requests of the log are looked up \
                          one at a time; a missing or changed object is stored as if the origin \
                          had answered at once. Only GET requests with storable responses count \
                          (docs/research/lab.md); the others are reported by reason.

Columns: \
                          hits of all requests, from memory, from disk; bytes of hits per bytes \
                          requested; busy time of the drive; mean and 99th percentile of a disk \
                          hit; reads and writes of the drive; bytes written per bytes stored; \
                          bytes stored, and the same as a multiple of the disk size (below 2, \
                          little was ever replaced). --csv and --json give the full names.";

/// Returns the arguments of `larder lab replay`.
pub fn command() -> Command {
    Command::new("replay")
        .about("Replay your logs on the engine: hits, disk time, latency, bytes written")
        .after_help(AFTER_HELP)
        .arg_required_else_help(true)
        .args(log_source::arguments())
        .args(caches())
        .args(outputs())
}

/// Returns the arguments that select the caches.
fn caches() -> [Arg; 8] {
    let list = |id: &'static str, name: &'static str, help: String| {
        Arg::new(id).long(id).value_delimiter(',').value_name(name).help(help)
    };
    let sizes = |id: &'static str, default: &'static str, help: &str| {
        list(id, "SIZE,...", help.to_owned()).default_value(default).value_parser(size)
    };
    let layouts = store::LayoutName::NAMES.join(", ");
    let policies = PolicyName::NAMES.join(", ");
    [
        list("layouts", "NAME,...", format!("Layouts of the product: {layouts} [default: all]."))
            .value_parser(System::layout),
        list("presets", "NAME,...", format!("Additional presets: {}.", store::PRESETS.join(", ")))
            .value_parser(System::preset),
        list(
            "policy",
            "NAME,...",
            format!(
                "Eviction policies: {policies} [default: that of the preset]. The layout cluster \
                 evicts by references and takes no policy."
            ),
        )
        .value_parser(missratio::policy),
        list(
            "admission",
            "NAME,...",
            format!(
                "Admission policies: {} [default: that of the preset].",
                AdmissionName::NAMES.join(", ")
            ),
        )
        .value_parser(|text: &str| text.parse::<AdmissionName>()),
        sizes("memory", "256M", "Total memory, as for `larder serve --memory`."),
        sizes("disk", "10G", "Cache sizes, as for `larder serve --cache-size`."),
        Arg::new("mean-object")
            .long("mean-object")
            .value_name("SIZE")
            .value_parser(size)
            .help("Mean object that the index is sized for, as store.mean-object [default: auto]."),
        Arg::new("warm-up")
            .long("warm-up")
            .value_name("PERCENT")
            .default_value("0")
            .value_parser(value_parser!(u8).range(0..=99))
            .help("Share of the log, from its start, that fills the caches and is not counted."),
    ]
}

fn outputs() -> [Arg; 3] {
    let flag = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
    };
    [
        flag("csv", "Print CSV instead of a table.").conflicts_with("json"),
        flag("json", "Print JSON instead of a table."),
        Arg::new("out")
            .long("out")
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf))
            .help("Also write replay.txt, replay.csv and replay.json to this directory."),
    ]
}

/// Parses a size.
pub fn size(text: &str) -> Result<u64, String> {
    units::parse_size(text).ok_or_else(|| format!("it is not {SIZE_EXAMPLE}"))
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let setups = setups(matches)?;
    let options = ReplayOptions {
        drive: log_source::drive(matches, "replay")?,
        pace: log_source::pace(matches),
        warm_up: matches.get_one("warm-up").copied().unwrap_or_default(),
        jobs: log_source::jobs(matches),
        raises_sizes: false,
    };
    let log = log_source::read(matches, "replay", log_source::MOST)?;
    let rows = watch::watched("replay", |meter| log_replay::replay(&log, &setups, &options, meter));
    let rows = rows.map_err(|why| Failure::runtime(format!("lab replay: {why}")))?;
    none_ran(&rows)?;
    let text = format!("{}\n{}", heading(&log, &options), replay_table::text(&rows));
    let json = json!({
        "log": log_source::as_json(&log),
        "drive": options.drive.name(),
        "pace": matches.get_one::<String>("pace"),
        "warm_up_percent": options.warm_up,
        "caches": replay_table::json(&rows),
    });
    let csv = replay_table::csv(&rows);
    if let Some(folder) = matches.get_one::<PathBuf>("out") {
        let json = format!("{json:#}\n");
        write(folder, &[("replay.txt", &text), ("replay.csv", &csv), ("replay.json", &json)])?;
    }
    match (matches.get_flag("json"), matches.get_flag("csv")) {
        (true, _) => answer(&format!("{json:#}")),
        (_, true) => answer(csv.trim_end()),
        _ => answer(text.trim_end()),
    }
}

/// Fails with the first reason if no cache could be run.
fn none_ran(rows: &[Row]) -> Result<(), Failure> {
    if rows.iter().any(|row| row.result.is_ok()) {
        return Ok(());
    }
    let why = rows.iter().find_map(|row| row.result.as_ref().err().map(|why| (row, why)));
    let why = why.map_or_else(String::new, |(row, why)| format!("{}: {why}", row.setup));
    Err(Failure::usage(format!("lab replay: none of these caches can be run. {why}")))
}

fn setups(matches: &ArgMatches) -> Result<Vec<log_replay::Setup>, Failure> {
    let many = |id: &str| -> Vec<u64> {
        matches.get_many::<u64>(id).into_iter().flatten().copied().collect()
    };
    let systems = |id: &str| -> Vec<System> {
        matches.get_many::<System>(id).into_iter().flatten().copied().collect()
    };
    let (mut chosen, presets) = (systems("layouts"), systems("presets"));
    if chosen.is_empty() && presets.is_empty() {
        chosen = store::LayoutName::ALL.map(System::Layout).to_vec();
    }
    chosen.extend(presets);
    let policies: Vec<PolicyName> =
        matches.get_many("policy").into_iter().flatten().copied().collect();
    let mean_object = matches.get_one::<u64>("mean-object").copied();
    let mean_object = mean_object.map(u32::try_from).transpose().map_err(|_| {
        Failure::usage("lab replay: --mean-object is at most 4G; objects are rarely that large")
    })?;
    let admissions: Vec<AdmissionName> =
        matches.get_many("admission").into_iter().flatten().copied().collect();
    let mut setups = combinations(&chosen, &policies, &admissions, &many("memory"), &many("disk"));
    setups.iter_mut().for_each(|setup| setup.mean_object = mean_object);
    Ok(setups)
}

fn heading(log: &AccessLog, options: &ReplayOptions) -> String {
    let drive = &options.drive;
    format!(
        "{}\nDrive: {}, {} ({})",
        log_source::describe(log),
        drive.name(),
        drive.label(),
        units::about(drive.bytes())
    )
}

/// Writes files into a directory, which is created if it does not exist.
pub fn write(folder: &Path, files: &[(&str, &str)]) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::runtime(format!("cannot write {}: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
