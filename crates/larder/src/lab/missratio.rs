//! `larder lab missratio`: how often caches of given policies and sizes would miss in a trace.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use lab::missratio::{Simulation, Sweep, Tally, reference};
use lab::trace::{Columns, Format, Trace};
use store::policy::{Parameters, PolicyName, Unit};

use crate::messages::{Failure, answer, warn};
use crate::units::{self, SIZE_EXAMPLE};

const AFTER_HELP: &str = "\
Prints CSV: policy,size,requests,misses,miss_ratio,byte_miss_ratio, or, with --check, \
trace,unit,size,policy,reference,miss_ratio,deviation. An object larger than the cache is a miss \
and not admitted (s3-fifo and w-tinylfu: larger than their small queue or window); objects are \
given up until a new one fits; nothing else takes room.";

/// The arguments of `larder lab missratio`.
pub fn command() -> Command {
    Command::new("missratio")
        .about("How often caches of given policies and sizes would miss in a trace")
        .after_help(AFTER_HELP)
        .arg_required_else_help(true)
        .args(arms())
        .args(sources())
}

/// Which caches.
fn arms() -> [Arg; 4] {
    let names = PolicyName::ALL.map(PolicyName::as_str).join(", ");
    [
        Arg::new("policy")
            .long("policy")
            .value_delimiter(',')
            .value_name("NAME,...")
            .default_value("lru")
            .value_parser(|text: &str| text.parse::<PolicyName>())
            .help(format!("Eviction policies: {names}.")),
        Arg::new("size")
            .long("size")
            .value_delimiter(',')
            .value_name("N,...")
            .required_unless_present("check")
            .help("Capacities, in bytes (64M means 64 MiB) or objects."),
        Arg::new("unit")
            .long("unit")
            .value_name("UNIT")
            .default_value("bytes")
            .value_parser(["bytes", "objects"])
            .help("What a capacity counts."),
        Arg::new("check")
            .long("check")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with_all(["size", "policy", "unit"])
            .help(
                "Compare with the miss ratios in this CSV file instead (trace, mode, \
                 cache_size, algorithm, miss_ratio); exit code 1 when one is too far off.",
            ),
    ]
}

/// What they are fed with.
fn sources() -> [Arg; 3] {
    [
        Arg::new("trace")
            .value_name("TRACE")
            .required(true)
            .num_args(1..)
            .value_parser(value_parser!(PathBuf))
            .help("Traces, plain or compressed with gzip, zstd, xz; several only with --check."),
        Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .default_value("auto")
            .value_parser(|text: &str| text.parse::<Format>())
            .help(
                "How the trace is written: auto (by its name or contents), squid, clf, combined, \
                 oracle or csv.",
            ),
        Arg::new("columns")
            .long("columns")
            .value_name("NAMES")
            .value_parser(|text: &str| text.parse::<Columns>())
            .help(
                "Columns of a CSV trace without a header, such as time,object,size (or size_kb).",
            ),
    ]
}

/// Does what the arguments ask for.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let traces: Vec<&PathBuf> = matches.get_many("trace").into_iter().flatten().collect();
    if let Some(file) = matches.get_one::<PathBuf>("check") {
        return check(matches, &traces, file);
    }
    let [trace] = traces[..] else {
        return Err(Failure::usage("lab missratio: several traces are for --check only"));
    };
    let unit = match matches.get_one::<String>("unit").map(String::as_str) {
        Some("objects") => Unit::Objects,
        _ => Unit::Bytes,
    };
    let mut arms = Vec::new();
    for policy in matches.get_many::<PolicyName>("policy").into_iter().flatten() {
        for text in matches.get_many::<String>("size").into_iter().flatten() {
            arms.push((*policy, text, capacity(text, unit)?));
        }
    }
    let caches = arms
        .iter()
        .map(|(policy, _, size)| Simulation::new(*policy, &Parameters::new(*size), unit))
        .collect();
    let tallies = sweep(matches, trace, caches)?;
    answer("policy,size,requests,misses,miss_ratio,byte_miss_ratio")?;
    for ((policy, size, _), tally) in arms.iter().zip(tallies) {
        let Tally { requests, misses, .. } = tally;
        let (ratio, bytes) = (tally.miss_ratio(), tally.byte_miss_ratio());
        answer(&format!("{policy},{size},{requests},{misses},{ratio:.6},{bytes:.6}"))?;
    }
    Ok(())
}

fn capacity(text: &str, unit: Unit) -> Result<u64, Failure> {
    let (size, example) = match unit {
        Unit::Bytes => (units::parse_size(text), SIZE_EXAMPLE),
        Unit::Objects => (text.parse().ok(), "a number of objects such as 1000"),
    };
    size.ok_or_else(|| Failure::usage(format!("lab missratio: --size {text:?} is not {example}")))
}

fn sweep(
    matches: &ArgMatches,
    path: &Path,
    caches: Vec<Simulation>,
) -> Result<Vec<Tally>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::runtime(format!("lab missratio: {}: {error}", path.display()))
    };
    let format = matches.get_one("format").copied().unwrap_or(Format::Auto);
    let columns = matches.get_one("columns").copied();
    let mut trace = Trace::open(path, format, columns).map_err(|error| failed(&error))?;
    let mut sweep = Sweep::new(caches);
    while let Some(access) = trace.next_access().map_err(|error| failed(&error))? {
        if !sweep.take(access) {
            return Err(failed(&"more than four billion objects"));
        }
    }
    if let Some((skipped, first)) = trace.damage() {
        let (path, number, what) = (path.display(), first.number, &first.what);
        let text =
            format!("{path}: {skipped} requests skipped; the first, number {number}: {what}");
        warn(&text);
    }
    Ok(sweep.finish())
}

fn check(matches: &ArgMatches, traces: &[&PathBuf], file: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::runtime(format!("lab missratio: {}: {error}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let figures = reference::parse(&text).map_err(|error| failed(&error))?;
    answer("trace,unit,size,policy,reference,miss_ratio,deviation")?;
    let mut compared = 0;
    let mut off = 0;
    for path in traces {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default();
        let figures: Vec<_> = figures.iter().filter(|figure| figure.trace == name).collect();
        let caches = figures
            .iter()
            .map(|figure| {
                Simulation::new(figure.policy, &Parameters::new(figure.size), figure.unit)
            })
            .collect();
        for (figure, tally) in figures.iter().zip(sweep(matches, path, caches)?) {
            let unit = if figure.unit == Unit::Bytes { "bytes" } else { "objects" };
            let (size, policy, theirs) = (figure.size, figure.policy, figure.miss_ratio);
            let deviation = tally.miss_ratio() - theirs;
            // The figures are rounded, and their decimals are no exact binary numbers.
            let far = deviation.abs() > reference::tolerance(policy) + 1e-9;
            let mark = if far { ",TOO FAR" } else { "" };
            let ours = tally.miss_ratio();
            answer(&format!(
                "{name},{unit},{size},{policy},{theirs:.4},{ours:.6},{deviation:+.6}{mark}"
            ))?;
            compared += 1;
            off += u32::from(far);
        }
    }
    match (compared, off) {
        (0, _) => Err(failed(&"no figure is for any of these traces")),
        (_, 0) => Ok(()),
        _ => Err(Failure::runtime(format!(
            "lab missratio: {off} of {compared} miss ratios are too far from the reference"
        ))),
    }
}
