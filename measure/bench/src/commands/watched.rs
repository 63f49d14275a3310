//! Measurements whose progress is shown on standard error.

use std::cell::RefCell;

use clap::ArgMatches;

use super::run::moment;
use crate::report::Progress;
use crate::run::Live;

/// Runs `measure`, which receives one function that logs a line and one that shows the current
/// load. `--quiet` suppresses both. The seed and the notes are logged first.
///
/// # Errors
/// Returns the errors of `measure`.
pub fn watched<T, E>(
    matches: &ArgMatches,
    seed: u64,
    notes: &[String],
    measure: impl FnOnce(&mut dyn FnMut(&str), &mut dyn FnMut(&Live)) -> Result<T, E>,
) -> Result<T, E> {
    let progress = RefCell::new(Progress::new(matches.get_flag("quiet")));
    progress.borrow_mut().say(&format!("seed {seed}"));
    notes.iter().for_each(|note| progress.borrow_mut().say(note));
    let measured = measure(&mut |text| progress.borrow_mut().say(text), &mut |live| {
        progress.borrow_mut().show(&moment(live));
    });
    progress.borrow_mut().clear();
    measured
}
