//! `larder lab trace`: prints statistics of a trace, converts it to another format, generates
//! traces.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer, warn};
use cli::units;
use serde_json::{Value, json};

use super::watch::counted;
use workload::generator::Workload;
use workload::generator::calibration::{Achieved, Figure};
use workload::trace::statistics::{PERCENTS, Statistics, Summary};
use workload::trace::write::{Writer, Written};
use workload::trace::{Columns, Filter, Format, ReadOptions, Requests, SkipReason, Skipped};

/// Returns the arguments of `larder lab trace`.
pub fn command() -> Command {
    Command::new("trace")
        .about("Analyse, convert and generate traces")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(stats_command())
        .subcommand(convert_command())
        .subcommand(generate_command())
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("stats", matches)) => stats(matches),
        Some(("convert", matches)) => convert(matches),
        Some(("generate", matches)) => generate(matches),
        // Unreachable: clap requires a known subcommand.
        _ => Err(Failure::usage("lab trace: no such command")),
    }
}

fn stats_command() -> Command {
    Command::new("stats")
        .about(
            "Print statistics of traces: requests, objects, sizes, popularity, locality, hit \
                ratios",
        )
        .arg_required_else_help(true)
        .args(sources())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON instead of a table."),
        )
}

fn convert_command() -> Command {
    Command::new("convert")
        .about("Convert traces into one, in libCacheSim's oracleGeneral or as a table")
        .arg_required_else_help(true)
        .args(sources())
        .arg(out().required(true))
}

fn generate_command() -> Command {
    let names = Workload::all();
    let list: String = names.iter().fold(String::from("Workloads:\n"), |mut list, workload| {
        let _ = writeln!(list, "  {:20} {}", workload.name(), workload.about());
        list
    });
    Command::new("generate")
        .about("Generate a trace from published figures and show how close it comes")
        .after_help(list)
        .arg_required_else_help(true)
        .arg(
            Arg::new("workload")
                .value_name("WORKLOAD")
                .required(true)
                .value_parser(names.iter().map(Workload::name).collect::<Vec<_>>())
                .hide_possible_values(true)
                .help("Workload; listed below."),
        )
        .arg(
            Arg::new("requests")
                .long("requests")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Number of requests. [default: as many as the original has]"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .default_value("1")
                .value_parser(value_parser!(u64))
                .help("Seed of all randomness."),
        )
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("N")
                .default_value("1")
                .value_parser(value_parser!(u32).range(1..))
                .help("Divide requests, working set and caches by this."),
        )
        .arg(out())
}

fn out() -> Arg {
    Arg::new("out").long("out").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
        "Output file: a name that ends in .oracleGeneral or .csv, optionally followed by .gz, \
         .zst or .xz.",
    )
}

/// Returns the arguments for the format of logs, `--format` and `--columns`, which all commands
/// that read logs have.
pub fn written() -> [Arg; 2] {
    [
        Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .default_value("auto")
            .value_parser(|text: &str| text.parse::<Format>())
            .help("Format: auto, squid, clf, combined, json, w3c, oracle or csv."),
        Arg::new("columns")
            .long("columns")
            .value_name("NAMES")
            .value_parser(|text: &str| text.parse::<Columns>())
            .help("Columns of a table without a header, such as time,object,size_kb."),
    ]
}

/// Returns the options that these arguments give; requests whose responses `larder serve` does not
/// store are skipped.
pub fn read_options(matches: &ArgMatches) -> ReadOptions {
    ReadOptions {
        format: matches.get_one("format").copied().unwrap_or_default(),
        columns: matches.get_one("columns").copied(),
        filter: Filter::Served,
    }
}

fn sources() -> [Arg; 5] {
    let [format, columns] = written();
    [
        Arg::new("trace")
            .value_name("LOG")
            .required(true)
            .num_args(1..)
            .value_parser(value_parser!(PathBuf))
            .help(
                "Traces, one after another; plain or compressed with gzip, zstd, xz; - is standard \
                 input.",
            ),
        format,
        columns,
        Arg::new("all").long("all").action(ArgAction::SetTrue).help(
            "Keep requests with responses that no cache stores (by default they are only \
                   counted).",
        ),
        Arg::new("papers")
            .long("papers")
            .action(ArgAction::SetTrue)
            .conflicts_with("all")
            .help("Count by the rule of the papers (1999): no queries, no programs, no parts."),
    ]
}

/// Returns the requests of the given traces.
fn requests(matches: &ArgMatches) -> Requests {
    let paths = matches.get_many::<PathBuf>("trace").into_iter().flatten().cloned().collect();
    let filter = match (matches.get_flag("all"), matches.get_flag("papers")) {
        (true, _) => Filter::All,
        (_, true) => Filter::Papers,
        _ => Filter::Served,
    };
    Requests::new(paths, ReadOptions { filter, ..read_options(matches) })
}

/// Ends reading and warns of damage.
fn finish(requests: Requests) -> Result<Vec<(PathBuf, Skipped)>, Failure> {
    let skipped = requests.finish().map_err(|(path, error)| {
        Failure::runtime(format!("lab trace: {}: {error}", path.display()))
    })?;
    warn_of_damage(&skipped);
    Ok(skipped)
}

/// Returns the error for a trace without any request: what the trace has instead, and what to do
/// about it.
fn none(skipped: &[(PathBuf, Skipped)]) -> Failure {
    let damaged: u64 = skipped.iter().map(|(_, skipped)| skipped.damaged).sum();
    let mut what: Vec<String> = SkipReason::ALL
        .iter()
        .filter(|why| skip_reason(skipped, **why) > 0)
        .map(|why| format!("{} {}", skip_reason(skipped, *why), why.as_str()))
        .collect();
    let hint = match (damaged, what.is_empty()) {
        (0, true) => "it is empty",
        (0, false) => "--all keeps responses that no cache stores",
        _ => "is it in another --format?",
    };
    if damaged > 0 {
        what.push(format!("{damaged} damaged"));
    }
    let what = if what.is_empty() { String::new() } else { format!(" ({})", what.join(", ")) };
    Failure::runtime(format!("lab trace: it has no requests{what}: {hint}"))
}

/// Warns of files that were cut short, of the number of damaged lines in each file, and of the
/// first of them.
pub fn warn_of_damage(skipped: &[(PathBuf, Skipped)]) {
    for (path, skipped) in skipped {
        let path = path.display();
        if let Some(how) = skipped.cut {
            warn(&format!("{path}: its {how} data was cut short; requests up to there are read"));
        }
        if skipped.damaged > 0 {
            warn(&format!("{path}: {} damaged lines or records skipped", skipped.damaged));
        }
        for damage in &skipped.damages {
            warn(&format!("{path}:{}: {}", damage.number, damage.what));
        }
    }
}

fn stats(matches: &ArgMatches) -> Result<(), Failure> {
    let mut requests = requests(matches);
    let mut statistics = Statistics::default();
    for request in counted("requests read", requests.by_ref()) {
        statistics.take(&request);
    }
    let skipped = finish(requests)?;
    let summary = statistics.summary();
    if summary.requests == 0 {
        return Err(none(&skipped));
    }
    match matches.get_flag("json") {
        true => answer(&as_json(&summary, &skipped).to_string()),
        false => answer(as_text(&summary, &skipped).trim_end()),
    }
}

fn skip_reason(skipped: &[(PathBuf, Skipped)], why: SkipReason) -> u64 {
    skipped.iter().map(|(_, skipped)| skipped.skip_reason(why)).sum()
}

fn as_json(summary: &Summary, skipped: &[(PathBuf, Skipped)]) -> Value {
    let percentiles = |sizes: &[u64]| {
        let pairs = PERCENTS.iter().zip(sizes);
        pairs.map(|(percent, size)| (format!("p{percent}"), Value::from(*size))).collect::<Value>()
    };
    let passed_over: Value = SkipReason::ALL
        .iter()
        .map(|why| (why.as_str().replace(' ', "_"), Value::from(skip_reason(skipped, *why))))
        .collect();
    let lru: Vec<Value> = summary
        .lru_hits
        .iter()
        .map(|(objects, ratio)| json!({"objects": objects, "hit_ratio": ratio}))
        .collect();
    json!({
        "requests": summary.requests,
        "bytes": summary.bytes,
        "objects": summary.objects,
        "object_bytes": summary.object_bytes,
        "one_timers": summary.one_timers,
        "clients": summary.clients,
        "sites": summary.sites,
        "directories": summary.groups,
        "seconds": summary.seconds,
        "html": summary.html,
        "uncacheable": summary.uncacheable,
        "changes": summary.changes,
        "hits_without_bounds": summary.hits,
        "hit_bytes_without_bounds": summary.hit_bytes,
        "object_sizes": percentiles(&summary.object_sizes),
        "request_sizes": percentiles(&summary.request_sizes),
        "popularity_slope": summary.popularity_slope,
        "same_site": summary.same_site,
        "same_directory": summary.same_group,
        "client_same_site": summary.client_same_site,
        "client_same_directory": summary.client_same_group,
        "revisited": summary.revisited.map(|(share, _)| share),
        "revisited_pairs": summary.revisited.map_or(0, |(_, pairs)| pairs),
        "lru": lru,
        "lru_sample": summary.lru_sample,
        "damaged": skipped.iter().map(|(_, skipped)| skipped.damaged).sum::<u64>(),
        "passed_over": passed_over,
    })
}

fn as_text(summary: &Summary, skipped: &[(PathBuf, Skipped)]) -> String {
    let mut text = String::new();
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let of_requests = |part: u64| format!("{part} ({:.1}%)", share(part, summary.requests));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:34}  {value}");
    };
    line("requests", summary.requests.to_string());
    line("bytes", format!("{} ({})", summary.bytes, units::about(summary.bytes)));
    line("objects", summary.objects.to_string());
    line("bytes of objects", units::about(summary.object_bytes));
    let once = share(summary.one_timers, summary.objects);
    line("one-timers", format!("{} ({once:.1}% of objects)", summary.one_timers));
    line("clients", summary.clients.to_string());
    line("sites, directories", format!("{}, {}", summary.sites, summary.groups));
    line("hours", format!("{:.1}", summary.seconds / 3_600.0));
    line("pages (HTML)", of_requests(summary.html));
    line("another version than before", of_requests(summary.changes));
    line("not to be stored", of_requests(summary.uncacheable));
    line("hits of a cache without bounds", of_requests(summary.hits));
    let bytes = share(summary.hit_bytes, summary.bytes);
    line("bytes of them", format!("{} ({bytes:.1}%)", units::about(summary.hit_bytes)));
    let sizes = |sizes: &[u64]| {
        let sizes = PERCENTS.iter().zip(sizes);
        sizes.map(|(p, size)| format!("{p}% {size}")).collect::<Vec<_>>().join(", ")
    };
    line("sizes of objects, at most", sizes(&summary.object_sizes));
    line("sizes of requests, at most", sizes(&summary.request_sizes));
    let slope = summary.popularity_slope.map(|slope| format!("{slope:.2}"));
    line("popularity slope (Zipf)", slope.unwrap_or_else(|| "too few objects".to_owned()));
    line("site of the request before", of_requests(summary.same_site));
    line("directory of the request before", of_requests(summary.same_group));
    line("site of the client's before", of_requests(summary.client_same_site));
    line("directory of the client's before", of_requests(summary.client_same_group));
    let revisited = summary.revisited.map_or_else(
        || "no page was requested by two clients".to_owned(),
        |(share, pairs)| format!("{:.1}% ({pairs} pairs of clients)", 100.0 * share),
    );
    line("files taken again with a page", revisited);
    for (objects, ratio) in &summary.lru_hits {
        line(&format!("hits of LRU, {objects} objects"), format!("{:.1}%", 100.0 * ratio));
    }
    if summary.lru_sample < 1.0 {
        line("  measured with", format!("{:.2}% of the objects", 100.0 * summary.lru_sample));
    }
    for why in SkipReason::ALL {
        let count = skip_reason(skipped, why);
        if count > 0 {
            line(&format!("passed over: {}", why.as_str()), count.to_string());
        }
    }
    text
}

fn convert(matches: &ArgMatches) -> Result<(), Failure> {
    let mut requests = requests(matches);
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_default();
    let mut writer = Writer::create(&out).map_err(|error| cannot_write(&out, &error))?;
    let mut is_empty = true;
    for request in counted("requests read", requests.by_ref()) {
        is_empty = false;
        writer.take(&request).map_err(|error| cannot_write(&out, &error))?;
    }
    // If a log cannot be read to its end, the old output file is kept.
    let skipped = finish(requests)?;
    if is_empty {
        return Err(none(&skipped));
    }
    let written = end(writer, &out)?;
    answer(&format!("{}: {} requests", out.display(), written.requests))
}

fn cannot_write(out: &Path, error: &std::io::Error) -> Failure {
    let text = format!("lab trace: {}: cannot be written: {error}", out.display());
    match error.kind() {
        std::io::ErrorKind::InvalidInput => Failure::usage(text),
        _ => Failure::runtime(text),
    }
}

/// Ends the file and warns of values that the format cannot hold.
fn end(writer: Writer, out: &Path) -> Result<Written, Failure> {
    let written = writer.finish().map_err(|error| cannot_write(out, &error))?;
    if written.cut > 0 {
        let (path, cut) = (out.display(), written.cut);
        warn(&format!("{path}: {cut} requests are larger or later than the format can express"));
    }
    Ok(written)
}

fn generate(matches: &ArgMatches) -> Result<(), Failure> {
    let name = matches.get_one::<String>("workload").map_or("", String::as_str);
    let Some(workload) = Workload::named(name) else {
        return Err(Failure::usage(format!("lab trace generate: no workload is called {name:?}")));
    };
    let scaled = workload.scaled(matches.get_one("scale").copied().unwrap_or(1));
    let requests = matches.get_one("requests").copied().unwrap_or(scaled.requests());
    let seed = matches.get_one("seed").copied().unwrap_or(1);
    let mut achieved = scaled.achieved();
    let source = scaled.iter(seed).take(usize::try_from(requests).unwrap_or(usize::MAX));
    let out = matches.get_one::<PathBuf>("out");
    let writer = out.map(|out| Writer::create(out).map_err(|error| cannot_write(out, &error)));
    let mut writer = writer.transpose()?;
    for request in counted("requests made up", source) {
        achieved.take(&request);
        if let (Some(writer), Some(out)) = (&mut writer, out) {
            writer.take(&request).map_err(|error| cannot_write(out, &error))?;
        }
    }
    if let (Some(writer), Some(out)) = (writer, out) {
        end(writer, out)?;
    }
    let part = requests as f64 / workload.requests().max(1) as f64;
    answer(figures(&workload, &achieved, part).trim_end())
}

/// Formats the published figures, scaled to the number of requests if they are counts, beside those
/// achieved.
fn figures(workload: &Workload, achieved: &Achieved, part: f64) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:34}  {:>14}  {:>14}  {:>14}  source",
        workload.name(),
        "published",
        "in proportion",
        "achieved"
    );
    let mut shown = Vec::new();
    for published in workload.published() {
        shown.push(published.figure);
        let name = published.figure.as_str();
        let is_ratio = name.contains('%');
        let digits = if is_ratio || published.figure == Figure::Gigabytes { 1 } else { 0 };
        let expected = published.value * if is_ratio { 1.0 } else { part };
        let _ = writeln!(
            text,
            "{name:34}  {:14.digits$}  {expected:14.digits$}  {:14.digits$}  {}",
            published.value,
            achieved.figure(published.figure),
            published.source
        );
    }
    for figure in [Figure::Requests, Figure::Gigabytes, Figure::HitPercent, Figure::OneTimerPercent]
    {
        if !shown.contains(&figure) {
            let (name, value) = (figure.as_str(), achieved.figure(figure));
            let _ = writeln!(text, "{name:34}  {:>14}  {:>14}  {value:14.1}", "-", "-");
        }
    }
    text
}
