//! `larder lab missratio`: miss ratios of caches of given policies and sizes for a trace.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer, warn};
use cli::units;
use cli::units::SIZE_EXAMPLE;
use store::policy::{PolicyName, Unit, UnknownPolicy};

use super::trace::warn_of_damage;
use super::watch::Count;
use crate::advise::missratio::{CacheConfig, Outcome, Sampling, Sweep, Tally, reference};
use workload::trace::{Columns, Format, SkipReason, Trace};

/// Number of requests between two updates of the progress display.
const COUNTED_EVERY: u64 = 1 << 16;

const AFTER_HELP: &str = "Prints CSV: policy,size,requests,misses,miss_ratio,byte_miss_ratio, or, \
                          with --check, trace,unit,size,policy,reference,miss_ratio,deviation. An \
                          object larger than the cache is a miss and not admitted (s3-fifo and \
                          w-tinylfu: larger than their small queue or window); objects are \
                          evicted until a new one fits; nothing else takes space.

All caches see \
                          the trace in one pass, with one thread per processor; memory grows with \
                          the objects of the trace (about 20 bytes each, and 8 to 40 for each \
                          cache), not with its requests. With --sample RATE a hash of its name \
                          decides whether an object is simulated (SHARDS), caches are scaled down \
                          accordingly, and each miss counts for 1/RATE: requests are exact, \
                          misses and ratios are estimates. Objects larger than RATE times the \
                          size count as misses, and with fewer than a few thousand objects in the \
                          sample the estimates are rough.";

/// Returns the arguments of `larder lab missratio`.
pub fn command() -> Command {
    Command::new("missratio")
        .about("Compute the miss ratios of caches of given policies and sizes for a trace")
        .after_help(AFTER_HELP)
        .arg_required_else_help(true)
        .args(configs())
        .args(sources())
}

/// Returns the arguments that select the caches.
fn configs() -> [Arg; 5] {
    let names = PolicyName::ALL.map(PolicyName::as_str).join(", ");
    [
        Arg::new("policy")
            .long("policy")
            .value_delimiter(',')
            .value_name("NAME,...")
            .default_value("lru")
            .value_parser(named)
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
            .help("Unit of capacities."),
        Arg::new("sample").long("sample").value_name("RATE").value_parser(sample).help(
            "Simulate only this share of the objects, such as 0.01 or 1%, with caches scaled down \
             accordingly: for traces with more objects than fit in memory.",
        ),
        Arg::new("check")
            .long("check")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with_all(["size", "policy", "unit", "sample"])
            .help(
                "Compare with the miss ratios in this CSV file instead (trace, mode, cache_size, \
                 algorithm, miss_ratio); exits with code 1 if one is out of tolerance.",
            ),
    ]
}

/// Returns the arguments that select the traces.
fn sources() -> [Arg; 3] {
    [
        Arg::new("trace")
            .value_name("TRACE")
            .required(true)
            .num_args(1..)
            .value_parser(value_parser!(PathBuf))
            .help(
                "Traces, plain or compressed with gzip, zstd, xz; - is standard input; several \
                 traces only with --check.",
            ),
        Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .default_value("auto")
            .value_parser(|text: &str| text.parse::<Format>())
            .help(
                "Format of the trace: auto (by its name or contents), squid, clf, combined, json, \
                 w3c, oracle or csv.",
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

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let traces: Vec<&PathBuf> = matches.get_many("trace").into_iter().flatten().collect();
    if let Some(file) = matches.get_one::<PathBuf>("check") {
        return check(matches, &traces, file);
    }
    let [trace] = traces[..] else {
        return Err(Failure::usage("lab missratio: several traces require --check"));
    };
    let unit = match matches.get_one::<String>("unit").map(String::as_str) {
        Some("objects") => Unit::Objects,
        _ => Unit::Bytes,
    };
    let sampling = matches.get_one("sample").copied().unwrap_or(Sampling::ALL);
    let mut names = Vec::new();
    let mut caches = Vec::new();
    for Named { policy, given } in matches.get_many::<Named>("policy").into_iter().flatten() {
        for text in matches.get_many::<String>("size").into_iter().flatten() {
            names.push((given, text));
            caches.push(CacheConfig { policy: *policy, unit, size: capacity(text, unit)? });
        }
    }
    let outcome = sweep(matches, trace, &caches, sampling)?;
    if sampling != Sampling::ALL {
        let Outcome { sampled_requests, sampled_objects, .. } = outcome;
        warn(&format!(
            "lab missratio: estimated from {sampled_requests} requests for {sampled_objects} \
             objects, a share of {} of all objects",
            sampling.rate()
        ));
    }
    answer("policy,size,requests,misses,miss_ratio,byte_miss_ratio")?;
    for ((policy, size), tally) in names.iter().zip(outcome.tallies) {
        let Tally { requests, misses, .. } = tally;
        let (ratio, bytes) = (tally.miss_ratio(), tally.byte_miss_ratio());
        answer(&format!("{policy},{size},{requests},{misses},{ratio:.6},{bytes:.6}"))?;
    }
    Ok(())
}

/// A policy, and its name as given by the user.
#[derive(Clone)]
struct Named {
    policy: PolicyName,
    given: String,
}

/// Parses a policy's name, also in the spelling of other simulators (`S3FIFO`).
fn named(text: &str) -> Result<Named, UnknownPolicy> {
    Ok(Named { policy: policy(text)?, given: text.to_owned() })
}

/// Returns the policy of this name, in the spelling of Larder or of other simulators.
pub fn policy(text: &str) -> Result<PolicyName, UnknownPolicy> {
    let letters = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let alike = |policy: &PolicyName| letters(policy.as_str()) == letters(text);
    let found = PolicyName::ALL.into_iter().find(alike);
    found.ok_or_else(|| UnknownPolicy(text.to_owned()))
}

/// Parses the share of the objects to simulate.
pub fn sample(text: &str) -> Result<Sampling, String> {
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 100.0));
    let rate: f64 =
        digits.parse().map_err(|_| "it is not a share such as 0.01 or 1%".to_owned())?;
    Sampling::new(rate / unit).map_err(|error| error.to_string())
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
    caches: &[CacheConfig],
    sampling: Sampling,
) -> Result<Outcome, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::runtime(format!("lab missratio: {}: {error}", path.display()))
    };
    let format = matches.get_one("format").copied().unwrap_or(Format::Auto);
    let columns = matches.get_one("columns").copied();
    let mut trace = Trace::open(path, format, columns).map_err(|error| failed(&error))?;
    let mut sweep = Sweep::new(caches, sampling);
    let mut count = Count::new("requests simulated");
    let mut number: u64 = 0;
    while let Some(access) = trace.next_access().map_err(|error| failed(&error))? {
        number += 1;
        if number.is_multiple_of(COUNTED_EVERY) {
            count.show(number);
        }
        if !sweep.take(access) {
            return Err(failed(&"more than four billion objects: use --sample"));
        }
    }
    warn_of_damage(&[(path.to_path_buf(), trace.skipped())]);
    if number == 0 {
        let passed: Vec<String> = SkipReason::ALL
            .iter()
            .map(|why| (trace.skipped().skip_reason(*why), why.as_str()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("; {count} {why}"))
            .collect();
        let why = format!("it has no request that a cache may answer{}", passed.concat());
        return Err(failed(&why));
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
        let caches: Vec<CacheConfig> = figures.iter().map(|figure| figure.config()).collect();
        let outcome = sweep(matches, path, &caches, Sampling::ALL)?;
        for (figure, tally) in figures.iter().zip(outcome.tallies) {
            let unit = if figure.unit == Unit::Bytes { "bytes" } else { "objects" };
            let (size, policy, theirs) = (figure.size, figure.policy, figure.miss_ratio);
            let deviation = tally.miss_ratio() - theirs;
            // The figures are rounded, and their decimals are not exact in binary.
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
        (0, _) => Err(failed(&"the file has no figures for these traces")),
        (_, 0) => Ok(()),
        _ => Err(Failure::runtime(format!(
            "lab missratio: {off} of {compared} miss ratios are too far from the reference"
        ))),
    }
}
