//! The totals: for each paper how many figures are compared, how many agree, and which are far.

use std::fmt::Write;

use super::{stated, with_unit};
use crate::experiment::{Deviation, Paper, Record, Scale, Stated};

/// Counts of the figures that a paper states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    compared: usize,
    within: usize,
    /// Figures of tables whose order the paper states too.
    ranked: usize,
    in_order: usize,
}

/// Returns the totals of the records as a table in Markdown, and below it a line for each far
/// figure.
pub fn totals(records: &[Record]) -> String {
    let mut table = "| paper | figures compared | within 25% | in the paper's order | far |\n\
                     |---|--:|--:|--:|--:|\n"
        .to_owned();
    let mut lines = String::new();
    let papers = Paper::ALL.into_iter().filter(|paper| *paper != Paper::Beyond);
    for paper in papers {
        let mut totals = Totals::default();
        let records = || records.iter().filter(|record| record.paper == paper);
        records().for_each(|record| add(record, &mut totals, &mut lines));
        let quick = records().any(|record| record.scale != Scale::Full);
        let scale = if quick { " (quick)" } else { "" };
        let Totals { compared, within, ranked, in_order } = totals;
        if compared > 0 {
            let far = compared - within;
            let cells = format!("{compared} | {within} | {in_order} of {ranked} | {far}");
            let heading = paper.heading();
            _ = writeln!(table, "| {heading}{scale} | {cells} |");
        }
    }
    format!("{table}\n{lines}")
}

/// Counts the figures of a record and appends a line for each far one.
fn add(record: &Record, totals: &mut Totals, lines: &mut String) {
    for table in &record.outcome.tables {
        for (index, row) in table.rows.iter().enumerate() {
            if row.paper == Stated::Nothing {
                continue;
            }
            let deviation = table.deviation(index);
            let far = matches!(deviation, Some(Deviation::Far | Deviation::FarAndOrder));
            totals.compared += 1;
            totals.within += usize::from(!far);
            let ranked = table.ordered || table.pairs;
            totals.ranked += usize::from(ranked);
            totals.in_order +=
                usize::from(ranked && matches!(deviation, None | Some(Deviation::Far)));
            if !far {
                continue;
            }
            let (paper, ours) = (stated(row.paper, &row.unit), with_unit(row.ours, &row.unit));
            let place = format!("{}, {}: {}", record.name, table.id, row.what);
            _ = writeln!(lines, "* {place}: {ours} (paper: {paper})");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Outcome, Table};

    #[test]
    fn every_far_figure_is_counted_and_has_its_line() {
        let mut table = Table::new("total-time", "T").ordered();
        table.row("a", "×", 7.0..=19.0, 8.0).row("b", "×", 1.0, 9.0);
        table.row("c", "×", Stated::Nothing, 1.0);
        let record = Record {
            name: "ucfs-fig-0".to_owned(),
            paper: Paper::Ucfs,
            place: "nowhere".to_owned(),
            title: "T".to_owned(),
            parameters: Vec::new(),
            scale: Scale::Quick,
            seed: 1,
            outcome: Outcome::new("").table(table),
        };
        let text = totals(&[record]);
        assert!(text.contains("\n| UCFS (quick) | 2 | 1 | 0 of 2 | 1 |\n"), "{text}");
        let line = "\n* ucfs-fig-0, total-time: b: 9\u{a0}× (paper: 1\u{a0}×)\n";
        assert!(text.ends_with(line), "{text}");
    }
}
