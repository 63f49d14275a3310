//! `larder lab disk`: response times of a simulated drive for a stream of requests.

use std::fs;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer, warn};
use serde_json::{Map, Value, json};
use sim::drives::drive_file::DriveFile;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::drives::{Operation, drive_file, shipped};

use crate::disks::replay::{Distribution, PERCENTILES, Served, read_stream, replay};

/// Returns the arguments of `larder lab disk`.
pub fn command() -> Command {
    let path = |id: &'static str, name: &'static str, help: &'static str| {
        let arg = Arg::new(id).long(id).value_name(name).value_parser(value_parser!(PathBuf));
        arg.help(help)
    };
    Command::new("disk")
        .about("Replay a stream of requests on a simulated drive")
        .after_help(
            "Prints JSON: mean_ms, sd_ms, p01_ms to p99_ms of all requests, and the same apart \
             under \"reads\" and \"writes\".",
        )
        .arg_required_else_help(true)
        .arg(Arg::new("drive").long("drive").value_name("NAME|FILE:NAME").help(
            "A shipped drive, or the drive NAME of a data file (see \
             docs/research/models.md).",
        ))
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("CONFIG")
                .value_parser(Config::NAMES)
                .default_value("shipped")
                .help(
                    "shipped: as in the data file; fastbus: with 0.0032 ms per sector over the \
                     bus; mech: fastbus without cache, read-ahead and fast writes.",
                ),
        )
        .arg(path(
            "requests",
            "FILE",
            "CSV with the columns start_ms, op (R or W), lbn, blocks, or a trace of lines \"R|W \
             Hit|Miss lbn sectors service_us interval_us\"; plain or gzip; closed loop.",
        ))
        .arg(path("out", "CSV", "Write every request with its response_ms to this file."))
        .arg(
            Arg::new("list")
                .long("list")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["drive", "requests", "out"])
                .help("List the shipped drives."),
        )
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    if matches.get_flag("list") {
        return list();
    }
    let name = matches.get_one::<String>("drive");
    let name = name.ok_or_else(|| Failure::usage("lab disk: --drive is missing"))?;
    let requests = matches.get_one::<PathBuf>("requests");
    let requests = requests.ok_or_else(|| Failure::usage("lab disk: --requests is missing"))?;
    let config = matches.get_one::<String>("config").and_then(|config| Config::named(config));
    let file = find(name).map_err(Failure::usage)?;
    for note in &file.notes {
        warn(&format!("{name}: {note}"));
    }
    let mut drive = MechanicalDrive::new(&file, config.unwrap_or_default())
        .map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    let at = requests.display();
    let stream =
        File::open(requests).map_err(|error| Failure::runtime(format!("{at}: {error}")))?;
    let steps = read_stream(stream, drive.capacity())
        .map_err(|why| Failure::runtime(format!("{at}: {why}")))?;
    let served: Vec<Served> = replay(&mut drive, steps).collect();
    if let Some(out) = matches.get_one::<PathBuf>("out") {
        write_csv(out, &served)
            .map_err(|error| Failure::runtime(format!("{}: {error}", out.display())))?;
    }
    answer(&summary(&served).to_string())
}

fn list() -> Result<(), Failure> {
    for name in shipped::names() {
        let file = shipped::named(name);
        let label = file.and_then(Result::ok).map(|file| file.label).unwrap_or_default();
        answer(&format!("{name:16} {label}"))?;
    }
    Ok(())
}

/// Returns the drive called `text`: a shipped one, or `FILE:NAME`.
fn find(text: &str) -> Result<DriveFile, String> {
    if let Some(file) = shipped::named(text) {
        return file.map_err(|why| why.to_string());
    }
    let Some((path, name)) = text.rsplit_once(':') else {
        let known: Vec<&str> = shipped::names().collect();
        return Err(format!(
            "--drive {text}: neither FILE:NAME nor one of the shipped drives {}",
            known.join(", ")
        ));
    };
    let content = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    drive_file::read(&content, name).map_err(|why| format!("{path}: {why}"))
}

fn write_csv(path: &Path, served: &[Served]) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "start_ms,op,lbn,blocks,response_ms")?;
    for each in served {
        let operation = if each.request.operation == Operation::Write { 'W' } else { 'R' };
        writeln!(
            out,
            "{:.6},{operation},{},{},{:.6}",
            each.start as f64 * 1e-6,
            each.request.sector,
            each.request.sectors,
            each.response_ms()
        )?;
    }
    out.flush()
}

/// Returns the figures of all requests, and of reads and writes separately.
fn summary(served: &[Served]) -> Value {
    let of = |operation: Option<Operation>| {
        let wanted = move |served: &&Served| {
            operation.is_none_or(|operation| served.request.operation == operation)
        };
        figures(Distribution::of(served.iter().filter(wanted).map(Served::response_ms)))
    };
    let mut all = of(None);
    all.insert("reads".to_owned(), Value::Object(of(Some(Operation::Read))));
    all.insert("writes".to_owned(), Value::Object(of(Some(Operation::Write))));
    Value::Object(all)
}

fn figures(distribution: Option<Distribution>) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("requests".to_owned(), json!(distribution.as_ref().map_or(0, |d| d.count())));
    // Without requests the figures are null; the names stay.
    let figure = |f: &dyn Fn(&Distribution) -> f64| distribution.as_ref().map(f);
    map.insert("mean_ms".to_owned(), json!(figure(&|d| d.mean)));
    map.insert("sd_ms".to_owned(), json!(figure(&|d| d.deviation)));
    for percent in PERCENTILES {
        map.insert(format!("p{percent:02}_ms"), json!(figure(&|d| d.percentile(percent))));
    }
    map
}
