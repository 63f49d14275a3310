//! Text tables, and the report of a run as one.

use super::number::{bytes, count, rate, share, time};
use super::run_report::RunReport;
use crate::measure::{PhaseFigures, Times};

/// A table whose first column is left-aligned; the others are right-aligned.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these headings.
    pub fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Table {
        Table { rows: vec![headings.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns the table as lines of text.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let room = " ".repeat(widths[column] - cell.chars().count());
                match column {
                    0 => line.extend([cell.as_str(), &room]),
                    _ => line.extend(["  ", &room, cell.as_str()]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Table {
    /// Returns the table in Markdown, ending with a newline.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let Some((headings, rows)) = self.rows.split_first() else { return String::new() };
        let rules = (0..headings.len()).map(|column| if column == 0 { "---" } else { "--:" });
        let rules = rules.collect::<Vec<_>>().join("|");
        let rows: String = rows.iter().map(|row| line(row)).collect();
        format!("{}|{rules}|\n{rows}", line(headings))
    }
}

/// A line of the report: its name, and the function that formats its cell for a phase.
type Line = (&'static str, fn(&PhaseFigures) -> String);

const LINES: &[Line] = &[
    ("seconds", |p| format!("{:.1}", p.seconds)),
    ("requests", |p| count(p.offered)),
    ("requests/s offered", |p| rate(p.offered_rate)),
    ("requests/s achieved", |p| rate(p.achieved_rate)),
    ("hit ratio offered", |p| share(p.offered_hit_ratio)),
    ("hit ratio", |p| share(p.hit_ratio)),
    ("byte hit ratio offered", |p| share(p.offered_byte_hit_ratio)),
    ("byte hit ratio", |p| share(p.byte_hit_ratio)),
    ("validated", |p| share(p.validated_ratio)),
    ("bytes/s", |p| bytes(p.bytes_per_second)),
    ("errors", |p| count(p.error_count())),
    ("never sent", |p| count(p.unsent)),
    ("aborted", |p| count(p.aborted)),
    ("asked again", |p| count(p.asked_again)),
    ("wrong answers", |p| count(p.verification_failures)),
];

const PROCESS: &[Line] = &[
    ("CPU of the target, µs/request", |p| of_process(p, |f| format!("{:.1}", f.cpu_us()))),
    ("  user", |p| of_process(p, |f| format!("{:.1}", f.user_us_per_request))),
    ("  system", |p| of_process(p, |f| format!("{:.1}", f.system_us_per_request))),
    ("  cores used", |p| of_process(p, |f| format!("{:.2}", f.cores))),
    ("  waits/request", |p| of_process(p, |f| format!("{:.2}", f.voluntary_switches_per_request))),
    ("  preemptions/request", |p| {
        of_process(p, |f| format!("{:.3}", f.involuntary_switches_per_request))
    }),
    ("  system calls/request", |p| {
        of_process(p, |f| f.system_calls_per_request.map_or("-".into(), |n| format!("{n:.2}")))
    }),
];

const DEVICE: &[Line] = &[
    ("device reads/request", |p| of_device(p, |f| format!("{:.3}", f.reads_per_request))),
    ("device writes/request", |p| of_device(p, |f| format!("{:.4}", f.writes_per_request))),
    ("device read/request", |p| of_device(p, |f| bytes(f.read_bytes_per_request))),
    ("device written/request", |p| of_device(p, |f| bytes(f.written_bytes_per_request))),
];

const GENERATOR: &[Line] = &[
    ("generator: client, µs/request", |p| shown(p.generator.client_us_per_request, 1)),
    ("generator: origin, µs/answer", |p| shown(p.generator.origin_us_per_answer, 1)),
    ("generator: client, cores", |p| shown(p.generator.client_cores, 2)),
    ("generator: origin, cores", |p| shown(p.generator.origin_cores, 2)),
    ("generator: waited for a core", |p| p.generator.starved.map_or("-".into(), share)),
    ("generator: late, median", |p| time(p.generator.late_p50)),
    ("generator: late, 99%", |p| time(p.generator.late_p99)),
    ("connections busy at most", |p| count(p.generator.connections_busy as u64)),
];

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".into(), |figure| format!("{figure:.digits$}"))
}

fn of_process(
    phase: &PhaseFigures,
    text: impl Fn(&crate::measure::ProcessFigures) -> String,
) -> String {
    phase.process.as_ref().map_or_else(|| "-".into(), text)
}

fn of_device(
    phase: &PhaseFigures,
    text: impl Fn(&crate::measure::DeviceFigures) -> String,
) -> String {
    phase.device.as_ref().map_or_else(|| "-".into(), text)
}

/// Returns the report as text.
pub fn run_text(report: &RunReport) -> String {
    let phases = &report.phases;
    let names = phases.iter().map(|phase| phase.name.clone());
    let mut table = Table::new(["".to_owned()].into_iter().chain(names));
    let mut add = |lines: &[Line]| {
        for (name, cell) in lines {
            let cells = phases.iter().map(cell);
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
    };
    add(LINES);
    if phases.iter().any(|phase| phase.process.is_some()) {
        add(PROCESS);
    }
    if phases.iter().any(|phase| phase.device.is_some()) {
        add(DEVICE);
    }
    add(GENERATOR);
    let mut text = format!("\n{}\n{}", table.text(), times(phases));
    for phase in phases {
        for (kind, count) in &phase.errors {
            text.push_str(&format!("{}: {count} errors: {kind}\n", phase.name));
        }
    }
    let unread =
        phases.iter().find_map(|phase| phase.process.as_ref()?.system_calls_unread.as_ref());
    text.extend(unread.map(|why| format!("system calls are not readable: {why}\n")));
    text.extend(report.remarks().map(|remark| format!("{remark}\n")));
    text
}

/// Returns one line for each kind of time in each phase.
fn times(phases: &[PhaseFigures]) -> String {
    let mut table = Table::new(["", "count", "mean", "50%", "90%", "95%", "99%", "99.9%", "max"]);
    for phase in phases {
        let kinds: [(&str, &Times); 4] = [
            ("response, from when due", &phase.response_time),
            ("response, from when sent", &phase.response_time_since_sent),
            ("hit, from when sent", &phase.hit_time),
            ("miss, from when sent", &phase.miss_time),
        ];
        for (kind, times) in kinds.iter().filter(|(_, times)| times.count > 0) {
            let Times { mean, p50, p90, p95, p99, p999, max, .. } = **times;
            let cells = [mean, p50, p90, p95, p99, p999, max].map(time);
            let name = format!("{}: {kind}", phase.name);
            table.row([name, count(times.count)].into_iter().chain(cells));
        }
    }
    table.text()
}

#[test]
fn columns_are_as_wide_as_their_cells() {
    let mut table = Table::new(["", "µs", "count"]);
    table.row(["a", "1", "1,000,000"]);
    table.row(["longer", "12.5", "7"]);
    assert_eq!(
        table.text(),
        "          µs      count\na          1  1,000,000\nlonger  12.5          7\n"
    );
}
