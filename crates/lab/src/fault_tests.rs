//! Trials of the engine: histories by chance on a simulated disk that fails by chance, through
//! orderly stops, kills, power losses and reopenings, each answer checked against what was asked.
//!
//! A trial is a number of *lives* of one cache. In a life the store is opened, several clients work
//! on it at once, and it ends in one of the ways in which programs end. What the next life finds
//! must be what the history permits.
//!
//! It promises: a seed repeats bit for bit ([`Report::history`] tells); whatever goes wrong comes
//! back as a [`Finding`], panics of the engine included.

mod client;
mod content;
pub(crate) mod oracle;
pub(crate) mod recording_device;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod variant;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use sim::Contents;

pub use client::{Client, Seen, Subject};
pub use content::{State, any_len, key};
pub use oracle::{End, History};
pub use recording_device::Watched;
pub use run::{Close, Ground, Life};
pub use scenario::Scene;
pub use variant::{Arm, arm, arms, names};

/// What happened in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lives of the cache.
    pub lives: u32,
    /// Operations on the device.
    pub operations: u64,
    /// Operations of the device that failed.
    pub errors: u64,
    /// States that had to be found at a reopening, and were.
    pub kept: u64,
    /// A digest of everything that happened, in its order.
    pub history: u64,
}

impl Report {
    /// Adds another trial's figures.
    pub fn add(&mut self, other: &Report) {
        self.lives += other.lives;
        self.operations += other.operations;
        self.errors += other.errors;
        self.kept += other.kept;
        self.history = self.history.rotate_left(7) ^ other.history;
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The arm's name.
    pub arm: &'static str,
    /// The seed that shows it.
    pub seed: u64,
    /// What was found.
    pub what: String,
    /// The lives up to then, a line each.
    pub lives: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { arm, seed, what, lives } = self;
        writeln!(f, "{what}")?;
        lives.iter().try_for_each(|life| writeln!(f, "  {life}"))?;
        write!(f, "to see it again: cargo xtask sim --layout {arm} --seed {seed}")
    }
}

impl std::error::Error for Finding {}

/// Runs the trial of this seed.
///
/// # Errors
/// The first promise that was not kept.
pub fn run(arm: Arm, seed: u64) -> Result<Report, Finding> {
    let mut lives = Vec::new();
    let trial = AssertUnwindSafe(|| course(arm, seed, &mut lives));
    let result = catch_unwind(trial).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    });
    result.map_err(|what| Finding { arm: arm.name, seed, what, lives })
}

/// One trial: a ground, and lives on it.
fn course(arm: Arm, seed: u64, lives: &mut Vec<String>) -> Result<Report, String> {
    let mut random = Rng::with_seed(seed);
    let ground = Ground::draw(arm, &mut random);
    let mut contents = ground.formatted()?;
    let mut history = History::default();
    let mut report = Report::default();
    let mut len = ground.len;
    for number in 0..random.u32(2..6) {
        let mut life = Life::draw(&ground, &mut random, len, seed ^ u64::from(number));
        let (left, after) = life.live(contents, history, &mut report, lives)?;
        (contents, history) = (left, after);
        if random.u8(..6) == 0 {
            len = (len + (random.u64(1..8) << 20)).min(ground.room);
        }
    }
    // The last word has a store that nothing happens to.
    let mut last = Life::quiet(&ground, len, seed);
    let _: (Contents, History) = last.live(contents, history, &mut report, lives)?;
    Ok(report)
}
