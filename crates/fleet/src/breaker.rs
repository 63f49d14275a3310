//! Circuit breaker for one peer: decides whether a node that failed is asked again.
//!
//! While closed, the peer is asked. After a number of consecutive failures the breaker opens and
//! the peer is not asked until a pause has passed. Then one trial request is let through
//! (half-open): success closes the breaker, failure opens it for twice the time.
//!
//! Pauses are bounded, and a seed shortens each by up to a half so that the nodes of a fleet do not
//! all retry at once. A trial request that never reports a result times out, so a breaker cannot
//! stay half-open.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Thresholds and times of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Consecutive failures that open the breaker.
    pub failures: u32,
    /// Upper bound of the first pause.
    pub first: Duration,
    /// Upper bound of any pause, however many trials failed.
    pub longest: Duration,
    /// Timeout of a trial request that reports no result.
    pub try_time: Duration,
}

/// Why breaker settings were rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidSettings {
    /// The failure threshold is zero.
    NoFailures,
    /// A time is zero.
    NoTime,
    /// The first pause is longer than the longest one.
    FirstAboveLongest,
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidSettings::NoFailures => "a breaker needs a threshold of at least one failure",
            InvalidSettings::NoTime => "the times of a breaker must be longer than zero",
            InvalidSettings::FirstAboveLongest => {
                "a breaker's first time must not be longer than its longest"
            }
        })
    }
}

impl Error for InvalidSettings {}

/// Permission to ask a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Allowed: the breaker is closed.
    Yes,
    /// Allowed for this request only, as the trial whose result closes or reopens the breaker.
    Try,
    /// Denied: the breaker is open, or a trial is running.
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Consecutive failures so far.
    Closed { failures: u32 },
    /// The peer is not asked before `until`.
    Open { until: Duration },
    /// A trial request is running; it times out at `until`.
    HalfOpen { until: Duration },
}

/// The breaker of one peer.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: Settings,
    seed: u64,
    state: State,
    /// Times it opened since it was last closed.
    openings: u32,
}

impl Breaker {
    /// Makes a closed breaker. `seed` should differ between nodes and peers.
    ///
    /// # Errors
    ///
    /// If the settings are contradictory or zero.
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

    /// Returns whether the peer may be asked now. After [`Permit::Try`] the caller must report the
    /// result; until then the answer is [`Permit::No`].
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

    /// Returns whether the breaker is open now, without starting a trial.
    pub fn is_open(&self, now: Duration) -> bool {
        match self.state {
            State::Closed { .. } => false,
            State::Open { until } | State::HalfOpen { until } => now < until,
        }
    }

    /// Returns whether it is closed and has recorded no failure since.
    pub fn is_quiet(&self) -> bool {
        self.state == State::Closed { failures: 0 }
    }

    /// Records that a request with `permit` was answered. A result of a request permitted before
    /// the breaker opened is ignored.
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

    /// Records that a request with `permit` failed.
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

    /// Computes the next pause: between half of the nominal time and all of it.
    fn pause(&self) -> Duration {
        let doubled = 2_u32.checked_pow(self.openings).unwrap_or(u32::MAX);
        let whole = self.settings.first.saturating_mul(doubled).min(self.settings.longest);
        let drawn = xxh3_64_with_seed(&self.openings.to_le_bytes(), self.seed);
        let half = whole / 2;
        let share = (drawn % 1024) as u32;
        half.saturating_add(half / 1024 * share)
    }
}
