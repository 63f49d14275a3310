//! The complete result of a run.

use serde::Serialize;

use crate::measure::{PhaseFigures, TimerAccuracy};

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// The version of this program.
    pub version: &'static str,
    /// The program under test.
    pub target: String,
    /// The workload.
    pub workload: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The command line, to repeat the run.
    pub command: String,
    /// The cores of the generator.
    pub generator_cores: Vec<usize>,
    /// How accurately this machine wakes a thread.
    pub timer: TimerAccuracy,
    /// The phases, in their order.
    pub phases: Vec<PhaseFigures>,
    /// The first wrong responses.
    pub failures: Vec<String>,
    /// The number of wrong responses.
    pub failure_count: u64,
    /// True if a signal ended the run.
    pub interrupted: bool,
    /// Notes that accompany the figures.
    pub notes: Vec<String>,
}

impl RunReport {
    /// Returns the remarks below the figures: notes, warnings, wrong responses.
    pub fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        let interrupted = self.interrupted.then(|| "note: interrupted".to_owned());
        let warnings = self.phases.iter().flat_map(|phase| {
            phase.warnings.iter().map(|warning| format!("warning: {}: {warning}", phase.name))
        });
        let failures = self.failures.iter().map(|failure| format!("WRONG: {failure}"));
        let more = self.failure_count - self.failures.len() as u64;
        let more = (more > 0).then(|| format!("WRONG: and {more} more answers"));
        notes.chain(interrupted).chain(warnings).chain(failures).chain(more)
    }

    /// Returns the number of failed requests, without those that were never sent.
    pub fn errors(&self) -> u64 {
        self.phases.iter().map(PhaseFigures::error_count).sum()
    }
}
