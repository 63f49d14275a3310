//! The oracle of the store: which states of an object its history permits, and which it requires.
//! The tests of `store` check against it on a device in memory.
//!
//! The library also runs trials: random histories on a simulated disk with random faults, through
//! orderly stops, kills, power losses and reopenings. Each result is checked against the history of
//! operations.
//!
//! A trial is a number of *sessions* of one cache. In a session the store is opened, several
//! clients use it concurrently, and it ends in one of the ways in which programs end. The next
//! session may find only what the history permits.
//!
//! Guarantees: a seed repeats bit for bit (compare [`Report::history`]); every error is returned as
//! a [`Finding`], panics of the engine included.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod content;
mod oracle;
mod recording_device;
mod run;
mod scenario;
mod variant;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use sim::Contents;

pub use client::{Client, LookupResult, TestedStore, read, read_whole, state_of};
pub use content::{State, Sweep, any_len, key};
pub use oracle::{End, History};
pub use recording_device::RecordingDevice;
pub use run::{Session, SessionEnd, TestSetup};
pub use scenario::Scenario;
pub use variant::{Variant, names, variant, variants};

/// The figures of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of sessions of the cache.
    pub sessions: u32,
    /// Number of operations on the device.
    pub operations: u64,
    /// Number of device operations that failed.
    pub errors: u64,
    /// Number of states that had to be found at a reopening and were found.
    pub kept: u64,
    /// Digest of all events in order.
    pub history: u64,
}

impl Report {
    /// Adds another trial's figures.
    pub fn add(&mut self, other: &Report) {
        self.sessions += other.sessions;
        self.operations += other.operations;
        self.errors += other.errors;
        self.kept += other.kept;
        self.history = self.history.rotate_left(7) ^ other.history;
    }
}

/// A guarantee that the store broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the variant.
    pub variant: &'static str,
    /// The seed that reproduces it.
    pub seed: u64,
    /// Description of the error.
    pub what: String,
    /// The sessions so far, one line each.
    pub sessions: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { variant, seed, what, sessions } = self;
        writeln!(f, "{what}")?;
        sessions.iter().try_for_each(|session| writeln!(f, "  {session}"))?;
        write!(f, "to see it again: cargo xtask sim --layout {variant} --seed {seed}")
    }
}

impl std::error::Error for Finding {}

/// Runs the trial of this seed.
///
/// # Errors
/// The first guarantee that was broken.
pub fn run(variant: Variant, seed: u64) -> Result<Report, Finding> {
    let mut sessions = Vec::new();
    let trial = AssertUnwindSafe(|| course(variant, seed, &mut sessions));
    let result = catch_unwind(trial).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    });
    result.map_err(|what| Finding { variant: variant.name, seed, what, sessions })
}

/// Runs one trial: draws a set-up and runs sessions on it.
fn course(variant: Variant, seed: u64, sessions: &mut Vec<String>) -> Result<Report, String> {
    let mut random = Rng::with_seed(seed);
    let setup = TestSetup::draw(variant, &mut random);
    let mut contents = setup.formatted()?;
    let mut history = History::default();
    let mut report = Report::default();
    let mut len = setup.len;
    for number in 0..random.u32(2..6) {
        let mut session = Session::draw(&setup, &mut random, len, seed ^ u64::from(number));
        let (left, after) = session.live(contents, history, &mut report, sessions)?;
        (contents, history) = (left, after);
        if random.u8(..6) == 0 {
            len = (len + (random.u64(1..8) << 20)).min(setup.room);
        }
    }
    // The last session runs without faults.
    let mut last = Session::quiet(&setup, len, seed);
    let _: (Contents, History) = last.live(contents, history, &mut report, sessions)?;
    Ok(report)
}
