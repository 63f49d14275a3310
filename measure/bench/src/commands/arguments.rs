//! The arguments of a run, and their parsing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::units::{DURATION_EXAMPLE, SIZE_EXAMPLE, parse_duration, parse_size};
use workload::generator;
use workload::generator::polymix::PolyMix;
use workload::trace::{Filter, Format, ReadOptions};

use crate::client::{Protocol, Spacing};
use crate::load::{LoadOptions, RequestsPerConnection, Sizes, Workload};
use crate::origin::Think;

/// Parses a size for clap.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| format!("expected {SIZE_EXAMPLE}"))
}

/// Parses a duration for clap.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("expected {DURATION_EXAMPLE}"))
}

/// Parses a share for clap.
pub fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 1".to_owned())
}

/// Parses a number above 0 for clap.
pub fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Parses a number of at least 0 for clap.
fn not_negative(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number from 0 on".to_owned())
}

/// Parses core numbers separated by commas.
fn cores(text: &str) -> Result<Vec<usize>, String> {
    let cores: Option<Vec<usize>> = text.split(',').map(|core| core.parse().ok()).collect();
    cores.ok_or_else(|| "expected numbers of cores such as 0 or 0,2".to_owned())
}

/// Returns an option of the command line.
pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Returns a flag of the command line.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Adds the arguments of a run.
pub fn of_run(command: Command) -> Command {
    let command = of_target(command);
    let command = of_parameters(of_workload(command));
    let command = of_phases(of_pace(command));
    of_report(command)
}

fn of_target(command: Command) -> Command {
    command
        .next_help_heading("What is tested")
        .arg(option("target", "URL", "The cache, such as http://127.0.0.1:8080.").required(true))
        .arg(
            option("origin", "ADDR:PORT", "Where the origin server of this run listens.")
                .default_value("127.0.0.1:9080")
                .value_parser(value_parser!(SocketAddr)),
        )
        .arg(flag("proxy", "Uses the target as a forward proxy."))
        .arg(option(
            "host",
            "NAME",
            "The Host field of requests, instead of the target's; with \
                --proxy, of the origin as the proxy is to reach it.",
        ))
        .arg(
            option("pid", "PID", "The target's process, if it is not to be found by its socket.")
                .value_parser(value_parser!(u32)),
        )
        .arg(
            option(
                "device",
                "PATH",
                "The block device of its cache, whose operations are counted.",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(flag("system-calls", "Counts the target's system calls, with perf."))
}

fn of_workload(command: Command) -> Command {
    let names = Workload::NAMES.map(|(name, _)| name).into_iter();
    let others = generator::Workload::all().into_iter().map(|workload| workload.name());
    let mut names: Vec<&'static str> = names.chain(others).collect();
    names.dedup();
    let about = Workload::NAMES.map(|(name, about)| format!("{name}: {about}")).join("; ");
    command
        .next_help_heading("What is asked for")
        .arg(
            option("workload", "NAME", "")
                .help(format!("What is asked for. {about}; and the traces of larder lab."))
                .hide_possible_values(true)
                .required(true)
                .value_parser(PossibleValuesParser::new(names)),
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .num_args(0..)
                .value_parser(value_parser!(PathBuf))
                .help("Logs or traces to replay, one after another; plain, gzip, zstd or xz."),
        )
        .arg(
            option("seed", "NUMBER", "All chance follows from it; another each time if not given.")
                .value_parser(value_parser!(u64)),
        )
}

/// Adds the parameters of workloads.
fn of_parameters(command: Command) -> Command {
    command
        .arg(
            option("objects", "COUNT", "Objects of zipf.")
                .default_value("100000")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("alpha", "NUMBER", "The exponent of zipf; 0: all are as popular.")
                .default_value("0.8")
                .value_parser(not_negative),
        )
        .arg(
            option(
                "sizes",
                "SIZES",
                "Sizes of zipf and unique: web, fixed:SIZE, uniform:LOW:HIGH, \
                exp:MEAN, lognormal:MEDIAN:MEAN.",
            )
            .default_value("web")
            .value_parser(Sizes::read),
        )
        .arg(
            option("uncacheable", "SHARE", "Objects of zipf and unique that must not be stored.")
                .default_value("0")
                .value_parser(share),
        )
        .arg(
            option(
                "lifetime",
                "TIME",
                "Mean time from one version of an object to the next, which \
                its Expires tells; PolyMix has its own.",
            )
            .value_parser(duration),
        )
        .arg(
            option("ranges", "SHARE", "Requests for a part of the object.")
                .default_value("0")
                .value_parser(share),
        )
        .arg(
            option("working-set", "OBJECTS", "Objects at which PolyMix's working set is frozen.")
                .value_parser(value_parser!(u32).range(100..)),
        )
        .arg(
            option("trace-format", "FORMAT", "Of FILE: auto, squid, clf, json, w3c, oracle, csv.")
                .default_value("auto")
                .value_parser(|text: &str| text.parse::<Format>().map_err(|e| e.to_string())),
        )
        .arg(
            option(
                "speed",
                "FACTOR",
                "How many times as fast a trace is replayed; max: as fast as \
                --connections allow.",
            )
            .default_value("1"),
        )
        .arg(
            option(
                "think-scale",
                "FACTOR",
                "Scales the origin's delay of 2.5 s (deviation 1 s): \
                0.1 for PolyMix, 0 for others if not given.",
            )
            .value_parser(not_negative),
        )
}

fn of_pace(command: Command) -> Command {
    command
        .next_help_heading("How, and for how long")
        .arg(
            option(
                "rate",
                "RATE",
                "Requests a second, by a schedule that does not wait for \
                answers (open loop).",
            )
            .value_parser(positive),
        )
        .arg(
            option("arrivals", "HOW", "How requests follow on each other in an open loop.")
                .default_value("poisson")
                .value_parser(PossibleValuesParser::new(["poisson", "constant"])),
        )
        .arg(
            option(
                "connections",
                "COUNT",
                "Clients that wait for their answers (closed loop): 32 \
                if not given; with --rate, connections at most: 1000.",
            )
            .value_parser(value_parser!(u32).range(1..=60_000)),
        )
        .arg(
            option(
                "requests-per-connection",
                "COUNT",
                "unlimited, a number, or zipf:MOST; as the \
                workload has it if not given.",
            )
            .value_parser(RequestsPerConnection::read),
        )
        .args(of_http2())
        .arg(
            option(
                "http",
                "VERSION",
                "The version of HTTP/1 that is spoken; if not given, 1.0 in PolyMix, whose robots \
                 speak it, and 1.1 elsewhere.",
            )
            .value_parser(PossibleValuesParser::new(["1.0", "1.1"]))
            .conflicts_with("http2"),
        )
        .arg(
            option("timeout", "TIME", "Time after which a request is given up.")
                .default_value("30s")
                .value_parser(duration),
        )
}

/// Returns the arguments that select the protocol towards the target.
pub fn of_http2() -> [Arg; 2] {
    [
        flag("http2", "Speaks HTTP/2 from the first byte on, without encryption."),
        option("streams", "COUNT", "Requests at a time on each connection of HTTP/2.")
            .default_value("1")
            .value_parser(value_parser!(u16).range(1..=1_000)),
    ]
}

/// Returns the protocol towards the target.
///
/// # Errors
/// Fails if several streams are requested without HTTP/2.
pub fn protocol(matches: &ArgMatches) -> Result<Protocol, String> {
    let streams = get::<u16>(matches, "streams").unwrap_or(1);
    match matches.get_flag("http2") {
        true => Ok(Protocol::Http2 { streams: usize::from(streams) }),
        false if streams > 1 => {
            Err("--streams: only HTTP/2 has several on a connection: add --http2".to_owned())
        }
        false => Ok(Protocol::Http1),
    }
}

/// Adds the arguments for the lengths of the phases.
fn of_phases(command: Command) -> Command {
    command
        .arg(
            option(
                "cache-size",
                "SIZE",
                "The size of the target's cache: it is filled twice \
                before anything is measured.",
            )
            .value_parser(size),
        )
        .arg(
            option(
                "fill",
                "SIZE",
                "Bytes to fill the cache with; twice --cache-size, or 0, if \
                not given.",
            )
            .value_parser(size),
        )
        .arg(
            option(
                "fill-rate",
                "RATE",
                "Requests a second while it is filled; as fast as it goes \
                if not given.",
            )
            .value_parser(positive),
        )
        .arg(
            option("ramp", "TIME", "Time in which the rate rises from a tenth.")
                .default_value("10s")
                .value_parser(duration),
        )
        .arg(
            option("plateau", "TIME", "Time at the full rate.")
                .default_value("60s")
                .value_parser(duration),
        )
        .arg(
            option("idle", "TIME", "Time at a tenth of the rate, at the end.")
                .default_value("0s")
                .value_parser(duration),
        )
        .arg(
            option("requests", "COUNT", "Requests of the plateau, instead of --plateau.")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(option("cores", "LIST", "The cores of the generator, such as 0.").value_parser(cores))
}

fn of_report(command: Command) -> Command {
    command
        .next_help_heading("Reports")
        .arg(option("json", "FILE", "Writes all figures.").value_parser(value_parser!(PathBuf)))
        .arg(
            option("html", "FILE", "Writes a page with plots.")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(flag("quiet", "Says nothing while it runs."))
}

/// Returns an argument that was given or has a default.
pub fn get<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    matches.get_one::<T>(name).cloned()
}

/// Returns the workload and its parameters.
///
/// # Errors
/// Fails if the arguments contradict each other.
pub fn load(matches: &ArgMatches, seed: u64) -> Result<LoadOptions, String> {
    let name: String = get(matches, "workload").unwrap_or_default();
    let files: Vec<PathBuf> = matches.get_many("file").into_iter().flatten().cloned().collect();
    if name != "replay" && !files.is_empty() {
        return Err(format!("{}: files go with --workload replay", files[0].display()));
    }
    let cache: Option<u64> = get(matches, "cache-size");
    let workload = match &name[..] {
        "zipf" => Workload::Zipf {
            objects: get(matches, "objects").unwrap_or(100_000),
            alpha: get(matches, "alpha").unwrap_or(0.8),
            drift: None,
        },
        "unique" => Workload::Unique,
        "replay" if files.is_empty() => {
            return Err("--workload replay: name the log or trace behind it".to_owned());
        }
        "replay" => {
            let format = get(matches, "trace-format").unwrap_or_default();
            let options = ReadOptions { format, columns: None, filter: Filter::All };
            Workload::Replay { files, options }
        }
        "pages" => Workload::pages_for(cache.unwrap_or(PAGES_CACHE)),
        name => match PolyMix::ALL.into_iter().find(|mix| mix.name == name) {
            Some(mix) => {
                Workload::PolyMix(PolyMix { frozen_at: Some(working_set(matches, cache)), ..mix })
            }
            None => Workload::Generated(
                generator::Workload::named(name).ok_or_else(|| format!("no workload {name:?}"))?,
            ),
        },
    };
    let lifetime: Option<Duration> = get(matches, "lifetime");
    Ok(LoadOptions {
        workload,
        seed,
        sizes: get(matches, "sizes").unwrap_or(Sizes::WEB),
        lifetime: lifetime.map_or(0, |time| time.as_secs().try_into().unwrap_or(u32::MAX)),
        uncacheable: get(matches, "uncacheable").unwrap_or(0.0),
        ranges: get(matches, "ranges").unwrap_or(0.0),
        browser: false,
    })
}

/// The cache size in bytes that `pages` assumes if none is given.
const PAGES_CACHE: u64 = 1_000_000_000;

/// Mean size of a PolyMix object in bytes, over all types.
const POLYMIX_MEAN: u64 = 10_854;

/// Returns the number of objects at which PolyMix's working set is frozen. The default is the
/// number of new objects in a plateau, which is PolyMix's own rule (0.45 × 0.75 of the requests),
/// or the number that fits into the cache, whichever is larger.
fn working_set(matches: &ArgMatches, cache: Option<u64>) -> u32 {
    let rate: Option<f64> = get(matches, "rate");
    let plateau: Duration = get(matches, "plateau").unwrap_or_default();
    let by_rate = rate.map(|rate| (rate * plateau.as_secs_f64() * 0.45 * 0.75) as u64);
    let by_cache = cache.map(|cache| cache / POLYMIX_MEAN);
    let objects = by_rate.into_iter().chain(by_cache).max().unwrap_or(20_000);
    get(matches, "working-set").unwrap_or(u32::try_from(objects).unwrap_or(u32::MAX).max(1_000))
}

/// Returns the distribution of intervals between requests.
pub fn spacing(matches: &ArgMatches) -> Spacing {
    match get::<String>(matches, "arrivals").as_deref() {
        Some("constant") => Spacing::Constant,
        _ => Spacing::Poisson,
    }
}

/// Returns the protocol of a run.
///
/// # Errors
/// Fails like [`protocol`].
pub fn protocol_of_run(matches: &ArgMatches, workload: &Workload) -> Result<Protocol, String> {
    let usual = if workload.has_think_time() { "1.0" } else { "1.1" };
    let version = get::<String>(matches, "http");
    match protocol(matches)? {
        Protocol::Http1 if version.as_deref().unwrap_or(usual) == "1.0" => Ok(Protocol::Http10),
        other => Ok(other),
    }
}

/// Returns the origin's think time.
pub fn think(matches: &ArgMatches, workload: &Workload) -> Think {
    let usual = if workload.has_think_time() { 0.1 } else { 0.0 };
    let think = match workload {
        Workload::PolyMix(mix) if mix.name == "polymix-4" => Think::POLYMIX_4,
        _ => Think::POLYMIX_3,
    };
    think.scaled(get(matches, "think-scale").unwrap_or(usual))
}

/// Returns the speed-up of a replayed trace; `None`: as fast as connections allow.
///
/// # Errors
/// Fails if the argument is neither a number nor `max`.
pub fn speed(matches: &ArgMatches) -> Result<Option<f64>, String> {
    match get::<String>(matches, "speed").as_deref() {
        Some("max") => Ok(None),
        text => {
            positive(text.unwrap_or("1")).map(Some).map_err(|why| format!("--speed: {why}, or max"))
        }
    }
}
