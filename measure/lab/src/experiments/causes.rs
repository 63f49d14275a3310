//! The causes of numbers that differ from a paper's by more than a quarter. A cause is listed only
//! if an arm of the experiment, or the paper itself, shows it.

/// The cause of some far numbers of an experiment.
struct Cause {
    experiment: &'static str,
    /// The table's id.
    table: &'static str,
    /// Part of the names of the rows; empty for all rows of the table.
    rows: &'static str,
    why: &'static str,
}

const CAUSES: &[Cause] = &[];

/// Returns the cause why the row `what` of a table is far from the paper; `None` if none is known.
pub fn of(experiment: &str, table: &str, what: &str) -> Option<&'static str> {
    let is_it = |cause: &&Cause| {
        cause.experiment == experiment && cause.table == table && what.contains(cause.rows)
    };
    CAUSES.iter().find(is_it).map(|cause| cause.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_of_rows_that_exist() {
        for cause in CAUSES {
            let Cause { experiment, table, rows, .. } = cause;
            let path = format!("{}/tests/golden/{experiment}.csv", env!("CARGO_MANIFEST_DIR"));
            let golden = std::fs::read_to_string(&path).expect("the experiment has a golden file");
            let is_row = |line: &str| {
                line.strip_prefix(&format!("{table},")).is_some_and(|row| row.contains(rows))
            };
            assert!(golden.lines().any(is_row), "{experiment}, {table}: {rows}");
        }
    }
}
