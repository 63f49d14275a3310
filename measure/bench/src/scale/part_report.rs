//! The result of a part, and the functions that receive its progress.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::PhaseFigures;
use crate::report::Table;
use crate::run::{Live, Session};

/// The functions that receive progress.
pub struct Watcher<'a> {
    /// Receives lines that stay.
    pub say: &'a mut dyn FnMut(&str),
    /// Receives the current load.
    pub watch: &'a mut dyn FnMut(&Live),
}

/// The result of a part.
#[derive(Debug, Serialize)]
pub struct PartReport {
    /// The name of the part.
    pub id: &'static str,
    /// The column headings.
    pub headings: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Notes that accompany the rows.
    pub notes: Vec<String>,
    /// The first wrong responses.
    pub failures: Vec<String>,
    /// The number of wrong responses.
    pub failure_count: u64,
    /// All figures of the generator.
    pub phases: Vec<PhaseFigures>,
}

impl PartReport {
    /// Creates an empty report with these headings.
    pub fn new<S: Into<String>>(
        id: &'static str,
        headings: impl IntoIterator<Item = S>,
    ) -> PartReport {
        PartReport {
            id,
            headings: headings.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            failures: Vec::new(),
            failure_count: 0,
            phases: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds the failures of a session.
    pub fn take_failures(&mut self, session: &Session) {
        let (failures, count) = session.failures();
        self.failures.extend(failures.iter().map(ToString::to_string));
        self.failure_count += count;
    }

    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut table = Table::new(self.headings.iter().map(String::as_str));
        for row in &self.rows {
            table.row(row.iter().map(String::as_str));
        }
        let notes = self.notes.iter().map(|note| format!("note: {note}\n"));
        let failures = self.failures.iter().map(|failure| format!("WRONG: {failure}\n"));
        let errors = self.errors().into_iter().map(|(kind, n)| format!("{n} errors: {kind}\n"));
        let below: String = notes.chain(errors).chain(failures).collect();
        format!("{}\n{}{below}", self.id, table.text())
    }

    /// Returns the number of failed requests in all phases, by kind.
    fn errors(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for (kind, count) in self.phases.iter().flat_map(|phase| &phase.errors) {
            *all.entry(kind.as_str()).or_default() += count;
        }
        all
    }
}
