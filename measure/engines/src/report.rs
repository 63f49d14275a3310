//! The table and the JSON of a comparison.

use std::fmt::Write as _;

use cli::units::size;
use serde_json::{Map, Value, json};

use crate::task::{ENGINES, Figures, Plan};

/// The figures of the table: name, label and decimals.
const ROWS: [(&str, &str, usize); 14] = [
    ("hit_percent", "hit ratio, %", 2),
    ("insert_rate", "insertions per core-second", 0),
    ("refused_percent", "insertions refused, %", 2),
    ("memory_hit_rate", "memory hits per core-second", 0),
    ("disk_hit_rate", "disk hits per core-second", 0),
    ("memory_per_object", "memory beside bodies per object under load, bytes", 0),
    ("memory_per_object_restarted", "the same after a restart, bytes", 0),
    ("memory_peak_mib", "peak of resident memory, MiB", 0),
    ("write_ratio", "written bytes per stored byte", 2),
    ("first_hit_seconds", "first hit after `kill -9`, s", 3),
    ("kept_percent", "objects kept through `kill -9`, %", 1),
    ("wrong", "wrong answers without damage", 0),
    ("wrong_after_damage", "wrong answers after damage", 0),
    ("lost_per_damaged_byte", "objects lost per damaged byte", 2),
];

/// The rounds of both engines, in the order of [`ENGINES`].
pub type Results = [Vec<Figures>; 2];

/// Returns the median of a figure; `None` if a round lacks it.
fn median(rounds: &[Figures], name: &str) -> Option<f64> {
    let values = rounds.iter().map(|round| round.get(name).copied());
    let mut values: Vec<f64> = values.collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}

/// Returns the medians as a Markdown table, with the settings above it.
pub fn markdown(plan: &Plan, results: &Results) -> String {
    let mut text = format!(
        "File {}, memory {}, {} requests, seed {}; median of {} rounds.\n\n\
         | | {} | {} |\n|---|---:|---:|",
        size(plan.file_size),
        size(plan.memory),
        plan.requests,
        plan.seed,
        results[0].len(),
        ENGINES[0],
        ENGINES[1],
    );
    for (name, label, decimals) in ROWS {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n| {label} |");
        for rounds in results {
            let _ = match median(rounds, name) {
                Some(value) => write!(text, " {value:.decimals$} |"),
                None => write!(text, " - |"),
            };
        }
    }
    text
}

/// Returns the settings, the medians and all rounds as JSON.
///
/// # Errors
/// A figure cannot be written as JSON.
pub fn json(plan: &Plan, results: &Results) -> Result<String, String> {
    let mut engines = Map::new();
    for (engine, rounds) in ENGINES.into_iter().zip(results) {
        let medians = ROWS.map(|(name, ..)| (name.to_owned(), json!(median(rounds, name))));
        let medians: Map<String, Value> = medians.into_iter().collect();
        engines.insert(engine.to_owned(), json!({ "medians": medians, "rounds": rounds }));
    }
    let all = json!({ "settings": plan, "engines": engines });
    serde_json::to_string_pretty(&all).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_needs_the_figure_of_every_round() {
        let round = |value: f64| Figures::from([("a".to_owned(), value)]);
        let mut rounds = vec![round(4.0), round(1.0)];
        assert_eq!(median(&rounds, "a"), Some(2.5));
        rounds.push(round(9.0));
        assert_eq!(median(&rounds, "a"), Some(4.0));
        rounds.push(Figures::new());
        assert_eq!(median(&rounds, "a"), None);
        assert_eq!(median(&[], "a"), None);
    }
}
