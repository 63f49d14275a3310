//! The result of a comparison: medians of the rounds and their spread.

use maud::html;
use plot::{Axis, Plot};
use serde::Serialize;

use super::comparison::Plan;
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
        }
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
    /// Duration of a round in seconds.
    pub seconds: f64,
    /// Number of connections.
    pub connections: usize,
    /// HTTP version.
    pub http: u8,
    /// Concurrent requests per connection.
    pub streams: usize,
    /// Bytes of each cache.
    pub cache: u64,
    /// Bytes of each system's memory.
    pub memory: u64,
    /// Operations per second to which the devices were limited.
    pub operations: Option<u32>,
    /// The rows, scenario by scenario.
    pub rows: Vec<Row>,
    /// The first wrong responses.
    pub failures: Vec<String>,
    /// The number of wrong responses.
    pub failure_count: u64,
    /// True if a signal ended the comparison.
    pub interrupted: bool,
    /// Notes, such as what was left out and why.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Creates an empty result.
    pub fn of(plan: &Plan) -> Comparison {
        Comparison {
            version: env!("CARGO_PKG_VERSION"),
            seed: plan.seed,
            rounds: plan.rounds,
            seconds: plan.time.as_secs_f64(),
            connections: plan.connections,
            http: if plan.protocol.is_http2() { 2 } else { 1 },
            streams: plan.protocol.streams(),
            cache: plan.grant.cache,
            memory: plan.grant.memory,
            operations: plan.grant.operations,
            rows: Vec::new(),
            failures: Vec::new(),
            failure_count: 0,
            interrupted: false,
            notes: Vec::new(),
        }
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

/// Returns the result as text: a table for each scenario.
pub fn comparison_text(comparison: &Comparison) -> String {
    let held = comparison
        .operations
        .map_or_else(String::new, |most| format!(", devices held to {most} operations a second"));
    let spoken = match (comparison.http, comparison.streams) {
        (1, _) => String::new(),
        (_, 1) => " of HTTP/2".to_owned(),
        (_, streams) => format!(" of HTTP/2 with {streams} requests at a time"),
    };
    let mut text = format!(
        "\nmedians of {} rounds of {:.0} s (± half of how far they are apart); {} \
         connections{spoken}, caches of {}, {} of memory and one core for each{held}; seed {}\n",
        comparison.rounds,
        comparison.seconds,
        comparison.connections,
        bytes(comparison.cache as f64),
        bytes(comparison.memory as f64),
        comparison.seed,
    );
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
    let mut table = Table::new([
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
    ]);
    let larder = comparison.rows_of(scenario).find(|row| row.system == "Larder");
    for row in comparison.rows_of(scenario) {
        let ratio = larder.filter(|larder| larder.cpu_us.median > 0.0);
        let ratio = ratio.map(|larder| row.cpu_us.median / larder.cpu_us.median);
        let some = |median: &Option<Median>, digits: usize| {
            median.as_ref().map_or("-".into(), |median| format!("{:.digits$}", median.median))
        };
        let spread = |median: &Median| format!("±{:.0}%", 50.0 * median.spread());
        table.row([
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
        ]);
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
        h1 { "larder bench compare" }
        @for figure in &figures { (figure) }
        h2 { "Figures" }
        pre { (comparison_text(comparison)) }
    };
    Ok(document("larder bench compare", &body))
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
        Comparison {
            version: "0",
            seed: 1,
            rounds: 3,
            seconds: 4.0,
            connections: 32,
            http: 2,
            streams: 4,
            cache: 1,
            memory: 1,
            operations: None,
            rows: vec![Row::new("hit", "Larder", &rounds), Row::new("hit", "nginx", &slower)],
            failures: Vec::new(),
            failure_count: 0,
            interrupted: false,
            notes: vec!["SKIPPED: Varnish".into()],
        }
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
    fn systems_stand_beside_each_other() {
        let comparison = comparison();
        let text = comparison_text(&comparison);
        let nginx = text.lines().find(|line| line.starts_with("nginx")).unwrap();
        assert!(nginx.contains("500") && nginx.contains("2.00"), "{nginx}");
        assert!(text.contains("±10%") && text.contains("SKIPPED: Varnish"), "{text}");
        assert!(
            text.contains("32 connections of HTTP/2 with 4 requests at a time, caches"),
            "{text}"
        );
        let page = comparison_page(&comparison).unwrap();
        assert!(page.contains("<svg") && page.contains("Requests a second"));
    }
}
