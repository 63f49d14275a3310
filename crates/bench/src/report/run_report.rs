//! All that a run came to.

use serde::Serialize;

use crate::measure::{PhaseFigures, TimerAccuracy};

/// See the module.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// The version of this program.
    pub version: &'static str,
    /// What was tested.
    pub target: String,
    /// What was asked for.
    pub workload: String,
    /// From which all chance follows.
    pub seed: u64,
    /// The arguments, to run it again.
    pub command: String,
    /// The cores of the generator.
    pub generator_cores: Vec<usize>,
    /// How exactly this machine wakes a thread.
    pub timer: TimerAccuracy,
    /// The phases, in their order.
    pub phases: Vec<PhaseFigures>,
    /// The first wrong answers.
    pub failures: Vec<String>,
    /// How many wrong answers there were.
    pub failure_count: u64,
    /// Whether it was ended by a signal.
    pub interrupted: bool,
    /// What is to be known beside the figures.
    pub notes: Vec<String>,
}

impl RunReport {
    /// What is to be said below the figures: notes, warnings, wrong answers.
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

    /// Requests that went wrong, without those that were never sent.
    pub fn errors(&self) -> u64 {
        self.phases.iter().map(PhaseFigures::error_count).sum()
    }
}
