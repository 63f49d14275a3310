//! The arguments that `replay` and `advise` share: the logs to read, the drive to simulate and the
//! pace of requests.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};
use cli::outcome::{Failure, warn};
use cli::units;
use serde_json::{Value, json};

use super::missratio::sample;
use super::trace::{read_options, warn_of_damage, written};
use super::watch::Count;
use crate::advise::access_log::{AccessLog, LogOptions};
use crate::advise::missratio::Sampling;
use crate::disks::choice;
use crate::disks::choice::DriveChoice;
use crate::run::whole_cache::Pace;
use workload::trace::SkipReason;

/// Maximum number of requests kept without `--sample`; they take 384 MiB.
pub const MOST: usize = 8 << 20;

/// The same for `advise`, which replays them on ten caches, if enough objects remain.
pub const ADVISE_MOST: usize = 512 << 10;

/// Returns the arguments that select the log and how it is replayed.
pub fn arguments() -> [Arg; 7] {
    let [format, columns] = written();
    [
        Arg::new("log")
            .value_name("LOG")
            .required(true)
            .num_args(1..)
            .value_parser(value_parser!(PathBuf))
            .help(
                "Logs or traces, plain or compressed with gzip, zstd, xz; merged by time; a \
                 single - is standard input.",
            ),
        format,
        columns,
        Arg::new("sample").long("sample").value_name("RATE").value_parser(sample).help(
            "Keep this share of the objects, such as 0.1 or 10%, with all their requests, and \
             scale the caches down accordingly (SHARDS). [default: 1, halved while more than \
             8,388,608 requests are kept, by advise 524,288]",
        ),
        Arg::new("drive")
            .long("drive")
            .value_name("NAME|FILE:NAME")
            .default_value(choice::DEFAULT)
            .value_parser(|text: &str| DriveChoice::named(text))
            .help(
                "The simulated drive: a shipped one (nvme_tlc and sata_tlc are current flash \
                 drives, `larder lab disk --list` lists the mechanical ones), FILE:NAME of a data \
                 file, or the FILE of a flash drive (docs/research/models.md).",
            ),
        Arg::new("pace")
            .long("pace")
            .value_name("PACE")
            .default_value("log")
            .value_parser(["log", "closed"])
            .help(
                "log: at the times in the log, so that background writes are as frequent as in \
                 service; closed: each request as soon as the previous one is answered, the \
                 highest rate that the drive sustains.",
            ),
        Arg::new("jobs")
            .long("jobs")
            .value_name("N")
            .value_parser(value_parser!(u16).range(1..))
            .help("Number of caches that run concurrently [default: number of processors]."),
    ]
}

/// Reads the logs and warns of damage. Without `--sample`, at most `most` requests are kept.
pub fn read(matches: &ArgMatches, command: &str, most: usize) -> Result<AccessLog, Failure> {
    let paths: Vec<PathBuf> = matches.get_many("log").into_iter().flatten().cloned().collect();
    let asked = matches.get_one::<Sampling>("sample").copied();
    let options = LogOptions {
        read: read_options(matches),
        sampling: asked.unwrap_or(Sampling::ALL),
        most: if asked.is_some() { usize::MAX } else { most },
        limit: if asked.is_some() { usize::MAX } else { MOST },
    };
    let mut count = Count::new("requests read");
    let log = AccessLog::read(paths, &options, |number| count.show(number));
    drop(count);
    let log = log.map_err(|unreadable| {
        let (path, why) = (unreadable.path.display(), unreadable.why);
        Failure::runtime(format!("lab {command}: {path}: {why}"))
    })?;
    warn_of_damage(log.skipped());
    if log.requests().is_empty() {
        return Err(Failure::runtime(format!(
            "lab {command}: it has no request that a cache may answer ({}); `larder lab trace \
             stats --all` shows its contents",
            passed_over(&log)
        )));
    }
    if pace(matches) == Pace::Stated && !log.has_times() {
        warn(&format!(
            "lab {command}: the log has no times: each request is sent when the previous one is \
             answered"
        ));
    }
    Ok(log)
}

/// Returns the chosen drive and prints its notes as warnings.
pub fn drive(matches: &ArgMatches, command: &str) -> Result<DriveChoice, Failure> {
    let drive = matches.get_one::<DriveChoice>("drive").cloned();
    let drive =
        drive.ok_or_else(|| Failure::usage(format!("lab {command}: --drive is missing")))?;
    for note in drive.notes() {
        warn(&format!("{}: {note}", drive.name()));
    }
    Ok(drive)
}

/// Returns the chosen pace.
pub fn pace(matches: &ArgMatches) -> Pace {
    match matches.get_one::<String>("pace").map(String::as_str) {
        Some("closed") => Pace::AtOnce,
        _ => Pace::Stated,
    }
}

/// Returns the number of caches that run concurrently.
pub fn jobs(matches: &ArgMatches) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    matches.get_one::<u16>("jobs").map_or_else(processors, |jobs| usize::from(*jobs))
}

/// Describes the log in a few lines: its contents, what was skipped, and the sample.
pub fn describe(log: &AccessLog) -> String {
    let summary = log.summary();
    let mut text = format!(
        "{} requests for {} objects, {} requested, {} of objects, {:.1} hours; skipped: {}",
        summary.requests,
        summary.objects,
        units::about(summary.bytes),
        units::about(summary.object_bytes),
        summary.seconds / 3_600.0,
        passed_over(log)
    );
    if log.sampling() != Sampling::ALL {
        let rate = 100.0 * log.sampling().rate();
        text.push_str(&format!(
            "\nSampled: {rate:.3}% of the objects with their {} requests, and caches scaled down \
             accordingly; the figures below are estimates for the whole log.",
            log.requests().len()
        ));
    }
    text
}

fn passed_over(log: &AccessLog) -> String {
    let mut parts: Vec<String> = SkipReason::ALL
        .iter()
        .filter(|why| log.skip_reason(**why) > 0)
        .map(|why| format!("{} {}", log.skip_reason(*why), why.as_str()))
        .collect();
    if log.damaged() > 0 {
        parts.push(format!("{} damaged", log.damaged()));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// Returns the description of the log as JSON.
pub fn as_json(log: &AccessLog) -> Value {
    let summary = log.summary();
    let passed_over: Value = SkipReason::ALL
        .iter()
        .map(|why| (why.as_str().replace(' ', "_"), Value::from(log.skip_reason(*why))))
        .collect();
    json!({
        "requests": summary.requests,
        "objects": summary.objects,
        "bytes": summary.bytes,
        "object_bytes": summary.object_bytes,
        "one_timers": summary.one_timers,
        "seconds": summary.seconds,
        "sample": log.sampling().rate(),
        "sampled_requests": log.requests().len(),
        "damaged": log.damaged(),
        "passed_over": passed_over,
    })
}
