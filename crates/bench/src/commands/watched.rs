//! A measurement whose progress is shown on standard error while it runs.

use std::cell::RefCell;

use clap::ArgMatches;

use super::run::moment;
use crate::report::Progress;
use crate::run::Live;

/// Runs `measure`, which is given whom to tell something that stays, and whom to show the load.
/// `--quiet` shows nothing of either. The seed and the notes are said before.
///
/// # Errors
/// Those of `measure`.
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
