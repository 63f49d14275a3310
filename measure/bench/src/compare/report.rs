//! The result of a comparison: medians of the rounds and their spread.

use std::collections::BTreeMap;
use std::fmt;

use maud::html;
use plot::{Axis, Plot};
use serde::Serialize;
use serde_json::{Value, json};

use super::comparison::Plan;
use crate::client::Protocol;
use crate::measure::PhaseFigures;
use crate::report::{Table, bytes, document, figure, rate, share, time};

/// The median of some rounds, and their range.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Median {
    /// The median.
    pub median: f64,
    /// The smallest and the largest value.
    pub range: [f64; 2],
}

impl Median {
    /// Returns the median of these figures; 0 if there are none.
    fn of(figures: impl Iterator<Item = f64>) -> Median {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (figures.first(), figures.last()) else {
            return Median::default();
        };
        let half = figures.len() / 2;
        let median = match figures.len() % 2 {
            1 => figures[half],
            _ => (figures[half - 1] + figures[half]) / 2.0,
        };
        Median { median, range: [*least, *most] }
    }

    /// Returns the difference between the extreme rounds, as a share of the median.
    fn spread(&self) -> f64 {
        (self.range[1] - self.range[0]) / self.median.abs().max(1e-9)
    }
}

/// The figures of a system in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scenario.
    pub scenario: String,
    /// The system.
    pub system: String,
    /// Requests per second.
    pub requests_per_second: Median,
    /// User and system CPU time per request, in µs.
    pub cpu_us: Median,
    /// System CPU time per request, in µs.
    pub system_us: Median,
    /// Share of responses that the origin was not asked for.
    pub hit_ratio: Median,
    /// Share of response bytes that the origin was not asked for.
    pub byte_hit_ratio: Median,
    /// Median response time in milliseconds.
    pub p50_ms: Median,
    /// 99th percentile of the response time in milliseconds.
    pub p99_ms: Median,
    /// Body bytes per second.
    pub bytes_per_second: Median,
    /// Context switches of waiting threads, per request.
    pub waits_per_request: Median,
    /// System calls per request, if they were counted.
    pub system_calls_per_request: Option<Median>,
    /// Reads of the device per request.
    pub device_reads_per_request: Median,
    /// Writes of the device per request.
    pub device_writes_per_request: Median,
    /// Bytes written to the device for each byte that the origin sent.
    pub written_per_byte_fetched: Option<Median>,
    /// Failed requests in all rounds.
    pub errors: u64,
    /// Wrong responses in all rounds.
    pub wrong: u64,
    /// Warnings about the rounds.
    pub warnings: Vec<String>,
    /// Figures that only some comparisons have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<&'static str, Median>,
}

impl Row {
    /// Returns the row for these rounds.
    pub fn new(scenario: &str, system: &str, rounds: &[PhaseFigures]) -> Row {
        let of = |figure: &dyn Fn(&PhaseFigures) -> Option<f64>| {
            Median::of(rounds.iter().filter_map(figure))
        };
        let some = |figure: &dyn Fn(&PhaseFigures) -> Option<f64>| {
            rounds.iter().any(|round| figure(round).is_some()).then(|| of(figure))
        };
        let process = |figure: fn(&crate::measure::ProcessFigures) -> f64| {
            of(&move |round| round.process.as_ref().map(figure))
        };
        let device = |figure: fn(&crate::measure::DeviceFigures) -> f64| {
            of(&move |round| round.device.as_ref().map(figure))
        };
        let mut warnings: Vec<String> =
            rounds.iter().flat_map(|round| round.warnings.clone()).collect();
        // Keeps one warning of each kind; those of other rounds differ in numbers only.
        let mut kinds = std::collections::HashSet::new();
        warnings.retain(|text| {
            kinds.insert(text.split(|c: char| c.is_ascii_digit()).next().map(str::to_owned))
        });
        Row {
            scenario: scenario.to_owned(),
            system: system.to_owned(),
            requests_per_second: of(&|round| Some(round.achieved_rate)),
            cpu_us: process(|process| process.cpu_us()),
            system_us: process(|process| process.system_us_per_request),
            hit_ratio: of(&|round| Some(round.hit_ratio)),
            byte_hit_ratio: of(&|round| Some(round.byte_hit_ratio)),
            p50_ms: of(&|round| Some(round.response_time.p50)),
            p99_ms: of(&|round| Some(round.response_time.p99)),
            bytes_per_second: of(&|round| Some(round.bytes_per_second)),
            waits_per_request: process(|process| process.voluntary_switches_per_request),
            system_calls_per_request: some(&|round| {
                round.process.as_ref()?.system_calls_per_request
            }),
            device_reads_per_request: device(|device| device.reads_per_request),
            device_writes_per_request: device(|device| device.writes_per_request),
            written_per_byte_fetched: some(&|round| round.device?.written_per_byte_fetched),
            errors: rounds.iter().map(PhaseFigures::error_count).sum(),
            wrong: rounds.iter().map(|round| round.verification_failures).sum(),
            warnings,
            more: BTreeMap::new(),
        }
    }
}

/// A measured round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The figures of the load.
    pub figures: PhaseFigures,
    /// Figures that only some comparisons have.
    pub more: Vec<(&'static str, f64)>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PhaseFigures { achieved_rate, process, errors, .. } = &self.figures;
        let cpu = process.as_ref().map_or(0.0, |process| process.cpu_us());
        write!(f, "{} requests/s, {cpu:.1} µs of CPU each", rate(*achieved_rate))?;
        if !errors.is_empty() {
            write!(f, ", errors {errors:?}")?;
        }
        self.more.iter().try_for_each(|(name, figure)| write!(f, ", {name} {}", short(*figure)))
    }
}

/// Rounds by scenario and system, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Rounds(Vec<(String, String, Vec<Round>)>);

impl Rounds {
    /// Adds a round.
    pub fn add(&mut self, scenario: &str, system: &str, round: Round) {
        let known = self.0.iter_mut().find(|(of, by, _)| of == scenario && by == system);
        match known {
            Some((.., rounds)) => rounds.push(round),
            None => self.0.push((scenario.to_owned(), system.to_owned(), vec![round])),
        }
    }

    /// Returns the rows, scenario by scenario.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.0.iter().map(|(of, by, rounds)| row(of, by, rounds)).collect();
        let order: Vec<String> = rows.iter().map(|row| row.scenario.clone()).collect();
        rows.sort_by_key(|row| order.iter().position(|scenario| *scenario == row.scenario));
        rows
    }
}

fn row(scenario: &str, system: &str, rounds: &[Round]) -> Row {
    let figures: Vec<PhaseFigures> = rounds.iter().map(|round| round.figures.clone()).collect();
    let mut more: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (name, figure) in rounds.iter().flat_map(|round| &round.more) {
        more.entry(name).or_default().push(*figure);
    }
    let more = more.into_iter().map(|(name, figures)| (name, Median::of(figures.into_iter())));
    Row { more: more.collect(), ..Row::new(scenario, system, &figures) }
}

/// Formats a figure with about three digits.
fn short(figure: f64) -> String {
    match figure.abs() {
        _ if figure.is_nan() => "-".to_owned(),
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.3}"),
    }
}

/// The complete result.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The version of this program.
    pub version: &'static str,
    /// The seed of all random choices.
    pub seed: u64,
    /// Rounds of each system in each scenario.
    pub rounds: u32,
    /// The conditions in a sentence.
    pub title: String,
    /// The conditions.
    #[serde(flatten)]
    pub conditions: Value,
    /// The rows, scenario by scenario.
    pub rows: Vec<Row>,
    /// The first wrong responses.
    pub failures: Vec<String>,
    /// The number of wrong responses.
    pub failure_count: u64,
    /// The expectations of the measured part that do not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// True if a signal ended the comparison.
    pub interrupted: bool,
    /// Notes, such as what was left out and why.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Creates an empty result of a measurement under these conditions, of which `title` tells.
    pub fn new(title: String, conditions: Value, seed: u64, rounds: u32) -> Comparison {
        Comparison {
            version: env!("CARGO_PKG_VERSION"),
            seed,
            rounds,
            title,
            conditions,
            rows: Vec::new(),
            failures: Vec::new(),
            failure_count: 0,
            deviations: Vec::new(),
            interrupted: false,
            notes: Vec::new(),
        }
    }

    /// Creates an empty result of a comparison of caches.
    pub fn of(plan: &Plan) -> Comparison {
        let Plan { rounds, time, connections, protocol, grant, seed, .. } = plan;
        let http = if protocol.is_http2() { 2 } else { 1 };
        let title = format!(
            "medians of {rounds} rounds of {:.0} s (± half of how far they are apart); \
             {connections} connections{}, caches of {}, {} of memory and one core for each{}; \
             seed {seed}",
            time.as_secs_f64(),
            spoken(*protocol),
            bytes(grant.cache as f64),
            bytes(grant.memory as f64),
            grant.operations.map_or_else(String::new, |most| format!(
                ", devices held to {most} operations a second"
            )),
        );
        let conditions = json!({
            "seconds": time.as_secs_f64(),
            "connections": connections,
            "http": http,
            "streams": protocol.streams(),
            "cache": grant.cache,
            "memory": grant.memory,
            "operations": grant.operations,
        });
        Comparison::new(title, conditions, *seed, *rounds)
    }

    /// Returns the scenarios, in their order.
    fn scenarios(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows.iter().map(|row| &*row.scenario).collect();
        names.dedup();
        names
    }

    fn rows_of<'a>(&'a self, scenario: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.scenario == scenario)
    }
}

/// Describes the protocol, unless it is HTTP/1.
fn spoken(protocol: Protocol) -> String {
    match (protocol.is_http2(), protocol.streams()) {
        (false, _) => String::new(),
        (true, 1) => " of HTTP/2".to_owned(),
        (true, streams) => format!(" of HTTP/2 with {streams} requests at a time"),
    }
}

/// Returns the result as text: a table for each scenario.
pub fn comparison_text(comparison: &Comparison) -> String {
    let mut text = format!("\n{}\n", comparison.title);
    for scenario in comparison.scenarios() {
        text.push_str(&format!("\n{scenario}\n{}", table(comparison, scenario).text()));
    }
    text.extend(comparison.notes.iter().map(|note| format!("\n{note}")));
    for row in &comparison.rows {
        text.extend(
            row.warnings
                .iter()
                .map(|warning| format!("\nwarning: {}, {}: {warning}", row.scenario, row.system)),
        );
    }
    text.extend(comparison.failures.iter().map(|failure| format!("\nWRONG: {failure}")));
    text
}

fn table(comparison: &Comparison, scenario: &str) -> Table {
    let mut names: Vec<&str> =
        comparison.rows_of(scenario).flat_map(|row| row.more.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let headings = [
        "",
        "requests/s",
        "",
        "CPU µs",
        "",
        "of Larder's",
        "in kernel",
        "hits",
        "bytes",
        "50%",
        "99%",
        "bytes/s",
        "waits",
        "calls",
        "reads",
        "writes",
        "written/fetched",
        "errors",
        "wrong",
    ];
    let mut table = Table::new(headings.into_iter().chain(names.iter().copied()));
    let larder = comparison.rows_of(scenario).find(|row| row.system == "Larder");
    for row in comparison.rows_of(scenario) {
        let ratio = larder.filter(|larder| larder.cpu_us.median > 0.0);
        let ratio = ratio.map(|larder| row.cpu_us.median / larder.cpu_us.median);
        let some = |median: &Option<Median>, digits: usize| {
            median.as_ref().map_or("-".into(), |median| format!("{:.digits$}", median.median))
        };
        let spread = |median: &Median| format!("±{:.0}%", 50.0 * median.spread());
        let cells = [
            row.system.clone(),
            rate(row.requests_per_second.median),
            spread(&row.requests_per_second),
            format!("{:.1}", row.cpu_us.median),
            spread(&row.cpu_us),
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            format!("{:.1}", row.system_us.median),
            share(row.hit_ratio.median),
            share(row.byte_hit_ratio.median),
            time(row.p50_ms.median),
            time(row.p99_ms.median),
            bytes(row.bytes_per_second.median),
            format!("{:.2}", row.waits_per_request.median),
            some(&row.system_calls_per_request, 1),
            format!("{:.2}", row.device_reads_per_request.median),
            format!("{:.3}", row.device_writes_per_request.median),
            some(&row.written_per_byte_fetched, 2),
            row.errors.to_string(),
            row.wrong.to_string(),
        ];
        let more = names.iter().map(|name| {
            row.more.get(name).map_or_else(|| "-".into(), |figure| short(figure.median))
        });
        table.row(cells.into_iter().chain(more));
    }
    table
}

/// Returns the result as a page.
///
/// # Errors
/// Fails if a plot cannot be drawn.
pub fn comparison_page(comparison: &Comparison) -> Result<String, String> {
    let plots = [
        bars(comparison, "cpu", "Processor for each request", "µs", |row| row.cpu_us.median),
        bars(comparison, "rate", "Requests a second", "requests/s", |row| {
            row.requests_per_second.median
        }),
    ];
    let figures = plots.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
    let body = html! {
        h1 { "larder bench" }
        @for figure in &figures { (figure) }
        h2 { "Figures" }
        pre { (comparison_text(comparison)) }
    };
    Ok(document("larder bench", &body))
}

/// Returns a bar chart: a group for each scenario with small objects, a colour for each system.
fn bars(
    comparison: &Comparison,
    id: &str,
    title: &str,
    unit: &str,
    of: impl Fn(&Row) -> f64,
) -> Plot {
    let scenarios: Vec<&str> =
        comparison.scenarios().into_iter().filter(|name| !name.contains("MB")).collect();
    let mut systems: Vec<&str> = comparison.rows.iter().map(|row| &*row.system).collect();
    let mut seen = std::collections::HashSet::new();
    systems.retain(|system| seen.insert(*system));
    let plot = Plot::bars(id, title, scenarios.iter().copied(), Axis::linear(unit));
    systems.into_iter().fold(plot, |plot, system| {
        let heights = scenarios.iter().map(|scenario| {
            let row = comparison.rows_of(scenario).find(|row| row.system == system);
            row.map_or(f64::NAN, &of)
        });
        let heights: Vec<f64> = heights.collect();
        plot.ours_bars(system, heights)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison() -> Comparison {
        let round = |rate: f64| PhaseFigures {
            achieved_rate: rate,
            process: Some(crate::measure::ProcessFigures {
                user_us_per_request: 1e5 / rate,
                ..Default::default()
            }),
            ..PhaseFigures::default()
        };
        let rounds = [round(1_000.0), round(1_100.0), round(900.0)];
        let slower = [round(500.0)];
        let mut comparison = Comparison::new("32 clients".into(), json!({"memory": 7}), 1, 3);
        comparison.rows =
            vec![Row::new("hit", "Larder", &rounds), Row::new("hit", "nginx", &slower)];
        comparison.notes = vec!["SKIPPED: Varnish".into()];
        comparison
    }

    #[test]
    fn the_median_is_the_middle_and_rounds_are_kept() {
        let row = &comparison().rows[0];
        assert_eq!(row.requests_per_second.median, 1_000.0);
        assert_eq!(row.requests_per_second.range, [900.0, 1_100.0]);
        assert!((row.requests_per_second.spread() - 0.2).abs() < 1e-9);
        assert_eq!(Median::of([4.0, 1.0].into_iter()).median, 2.5);
        assert_eq!(Median::of(std::iter::empty()), Median::default());
    }

    #[test]
    fn rounds_are_gathered_by_scenario_and_system() {
        let mut rounds = Rounds::default();
        for (scenario, system, figure) in
            [("a", "x", 1.0), ("b", "x", 2.0), ("a", "y", 3.0), ("a", "x", 5.0)]
        {
            let more = vec![("own MB", figure)];
            rounds.add(scenario, system, Round { figures: PhaseFigures::default(), more });
        }
        let rows = rounds.rows();
        let found: Vec<_> = rows
            .iter()
            .map(|row| (&*row.scenario, &*row.system, row.more["own MB"].median))
            .collect();
        assert_eq!(found, [("a", "x", 3.0), ("a", "y", 3.0), ("b", "x", 2.0)]);
    }

    #[test]
    fn systems_stand_beside_each_other() {
        let comparison = comparison();
        let text = comparison_text(&comparison);
        let nginx = text.lines().find(|line| line.starts_with("nginx")).unwrap();
        assert!(nginx.contains("500") && nginx.contains("2.00"), "{nginx}");
        assert!(text.contains("±10%") && text.contains("SKIPPED: Varnish"), "{text}");
        assert!(text.starts_with("\n32 clients\n"), "{text}");
        assert_eq!(spoken(Protocol::Http2 { streams: 4 }), " of HTTP/2 with 4 requests at a time");
        assert_eq!(serde_json::to_value(&comparison).unwrap()["memory"], 7);
        let page = comparison_page(&comparison).unwrap();
        assert!(page.contains("<svg") && page.contains("Requests a second"));
    }
}
