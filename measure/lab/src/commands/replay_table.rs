//! Formats the figures of replays as a table for people, as CSV and as JSON.

use std::fmt::Write as _;

use cli::units;
use serde_json::{Value, json};

use crate::advise::log_replay::{Measured, Row};
use crate::csv_text::csv_text;

/// The columns of the CSV file: sizes in bytes, ratios from 0 to 1; figures that do not exist are
/// empty.
pub const CSV_HEADER: &str = "layout,policy,admission,memory,disk,requests,memory_hits,disk_hits,\
                              stale,misses,refused,hit_ratio,byte_hit_ratio,disk_seconds,\
                              disk_hit_ms,disk_hit_p99_ms,waited_ms,reads,read_bytes,writes,\
                              written_bytes,stored_bytes,written_per_stored,turnovers";

const HEADINGS: [&str; 16] = [
    "layout",
    "policy",
    "memory",
    "disk",
    "hits",
    "in memory",
    "on disk",
    "byte hits",
    "disk time",
    "hit ms",
    "p99 ms",
    "reads",
    "writes",
    "wr/stored",
    "stored",
    "turns",
];

/// Number of columns at the left that hold words.
const WORDS: usize = 2;

/// Returns a table with one line for each cache that could be run; below it, the reason for each
/// that could not.
pub fn text(rows: &[Row]) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().filter_map(|row| row.result.as_ref().ok().map(|m| cells(row, m))));
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < WORDS { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    for row in rows {
        if let Err(why) = &row.result {
            let _ = writeln!(text, "{}: {why}", row.setup);
        }
    }
    text
}

fn cells(row: &Row, measured: &Measured) -> [String; HEADINGS.len()] {
    let share = |part: u64| percent(part as f64 / measured.requests.max(1) as f64);
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
    let written = measured.written_per_stored;
    [
        row.setup.system.to_string(),
        policy(row),
        units::about(row.setup.memory),
        units::about(row.setup.disk),
        percent(measured.hit_ratio),
        share(measured.memory_hits),
        share(measured.disk_hits),
        percent(measured.byte_hit_ratio),
        format!("{:.1}s", measured.disk_seconds),
        ms(measured.disk_hit_ms),
        ms(measured.disk_hit_p99_ms),
        measured.reads.to_string(),
        measured.writes.to_string(),
        written.map_or_else(|| "-".to_owned(), |written| format!("{written:.2}")),
        units::about(measured.stored_bytes),
        format!("{:.1}", measured.turnovers),
    ]
}

fn policy(row: &Row) -> String {
    let name = row.setup.policy_name();
    row.setup.admission.map_or_else(|| name.to_owned(), |admission| format!("{name} {admission}"))
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// Returns CSV with [`CSV_HEADER`]; caches that could not be run have empty figures.
pub fn csv(rows: &[Row]) -> String {
    let header: Vec<String> = CSV_HEADER.split(',').map(str::to_owned).collect();
    let line = |row: &Row| {
        let setup = &row.setup;
        let admission = setup.admission.map_or_else(String::new, |name| name.to_string());
        let values = row.result.as_ref().ok().and_then(|m| serde_json::to_value(m).ok());
        let figure = |name: &String| match values.as_ref().and_then(|values| values.get(name)) {
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let named = [
            setup.system.to_string(),
            setup.policy_name().to_owned(),
            admission,
            setup.memory.to_string(),
            setup.disk.to_string(),
        ];
        let figures: Vec<String> = header.iter().skip(named.len()).map(figure).collect();
        named.into_iter().chain(figures).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    csv_text([header].into_iter().chain(lines))
}

/// Returns each cache as an object; one that could not be run has `error` in place of figures.
pub fn json(rows: &[Row]) -> Value {
    let one = |row: &Row| {
        let setup = &row.setup;
        let mut value = json!({
            "layout": setup.system.to_string(),
            "policy": setup.policy_name(),
            "admission": setup.admission.map(|admission| admission.to_string()),
            "memory": setup.memory,
            "disk": setup.disk,
        });
        let figures = match &row.result {
            Ok(measured) => serde_json::to_value(measured).unwrap_or_default(),
            Err(why) => json!({ "error": why }),
        };
        if let (Value::Object(all), Value::Object(figures)) = (&mut value, figures) {
            all.extend(figures);
        }
        value
    };
    Value::Array(rows.iter().map(one).collect())
}
