//! Whether a node that failed is asked again: a circuit breaker for one peer.
//!
//! Closed, the peer is asked. After a number of failures in a row the breaker opens, and the peer
//! is not asked until a time has passed; then one request is let through to try it (half-open), and
//! its end closes the breaker or opens it for twice the time. The times are bounded, and each is
//! shortened by up to a half, by a seed, so that the nodes of a fleet do not all try at once. A
//! try that never reports its end is given up after a time, so a breaker cannot stay half-open.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it is open at first, at most.
    pub first: Duration,
    /// How long it is open at most, after many failed tries.
    pub longest: Duration,
    /// After how long a try without an end is given up.
    pub try_time: Duration,
}

/// What settings of a breaker may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidSettings {
    /// No failure would open it.
    NoFailures,
    /// A time is zero.
    NoTime,
    /// The first time is longer than the longest.
    FirstAboveLongest,
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidSettings::NoFailures => "a breaker opens after at least one failure",
            InvalidSettings::NoTime => "the times of a breaker must be longer than zero",
            InvalidSettings::FirstAboveLongest => {
                "a breaker's first time must not be longer than its longest"
            }
        })
    }
}

impl Error for InvalidSettings {}

/// True if a peer may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Yes,
    /// It may, by this request alone, whose end decides.
    Try,
    /// It may not.
    No,
}

/// What is known of a peer's failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It failed so many times in a row.
    Closed { failures: u32 },
    /// It is not asked before this moment.
    Open { until: Duration },
    /// A request tries it, and is given up at this moment.
    HalfOpen { until: Duration },
}

/// The breaker of one peer.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: Settings,
    seed: u64,
    state: State,
    /// How often it has opened since it was last closed.
    openings: u32,
}

impl Breaker {
    /// Makes a closed breaker. `seed` should differ between nodes and peers.
    ///
    /// # Errors
    ///
    /// When the settings could not work.
    pub fn new(settings: Settings, seed: u64) -> Result<Breaker, InvalidSettings> {
        if settings.failures == 0 {
            return Err(InvalidSettings::NoFailures);
        }
        if settings.first.is_zero() || settings.try_time.is_zero() {
            return Err(InvalidSettings::NoTime);
        }
        if settings.first > settings.longest {
            return Err(InvalidSettings::FirstAboveLongest);
        }
        Ok(Breaker { settings, seed, state: State::Closed { failures: 0 }, openings: 0 })
    }

    /// Returns whether the peer may be asked now. After [`Permit::Try`] the end of the request must
    /// be told; until then the answer is [`Permit::No`].
    pub fn permit(&mut self, now: Duration) -> Permit {
        match self.state {
            State::Closed { .. } => Permit::Yes,
            State::Open { until } | State::HalfOpen { until } if now < until => Permit::No,
            State::Open { .. } | State::HalfOpen { .. } => {
                let until = now.saturating_add(self.settings.try_time);
                self.state = State::HalfOpen { until };
                Permit::Try
            }
        }
    }

    /// Returns whether the peer is not to be asked now, without trying it.
    pub fn is_open(&self, now: Duration) -> bool {
        match self.state {
            State::Closed { .. } => false,
            State::Open { until } | State::HalfOpen { until } => now < until,
        }
    }

    /// Notes that a request that had `permit` was answered. What was permitted before the breaker
    /// opened says nothing of the peer now.
    pub fn succeeded(&mut self, permit: Permit) {
        let decides = match self.state {
            State::Closed { .. } => permit == Permit::Yes,
            State::HalfOpen { .. } => permit == Permit::Try,
            State::Open { .. } => false,
        };
        if decides {
            self.state = State::Closed { failures: 0 };
            self.openings = 0;
        }
    }

    /// Notes that a request that had `permit` failed.
    pub fn failed(&mut self, permit: Permit, now: Duration) {
        match (self.state, permit) {
            (State::Closed { failures }, Permit::Yes) => {
                let failures = failures.saturating_add(1);
                if failures >= self.settings.failures {
                    self.open(now);
                } else {
                    self.state = State::Closed { failures };
                }
            }
            (State::HalfOpen { .. }, Permit::Try) => self.open(now),
            _ => {}
        }
    }

    fn open(&mut self, now: Duration) {
        self.state = State::Open { until: now.saturating_add(self.pause()) };
        self.openings = self.openings.saturating_add(1);
    }

    /// Computes how long it stays open this time: from half of the time to all of it.
    fn pause(&self) -> Duration {
        let doubled = 2_u32.checked_pow(self.openings).unwrap_or(u32::MAX);
        let whole = self.settings.first.saturating_mul(doubled).min(self.settings.longest);
        let drawn = xxh3_64_with_seed(&self.openings.to_le_bytes(), self.seed);
        let half = whole / 2;
        let share = (drawn % 1024) as u32;
        half.saturating_add(half / 1024 * share)
    }
}
