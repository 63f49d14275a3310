//! Rate limiting of warnings that network input can trigger: at most one a minute of each kind.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Minimum time between two warnings of a kind.
const PAUSE: Duration = Duration::from_secs(60);

/// The rate limiter of one kind of warning.
#[derive(Debug, Default)]
pub struct WarningLimiter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Duration>,
    /// Number of warnings suppressed since the last one.
    unsaid: u64,
}

impl WarningLimiter {
    /// Records an occurrence. If a warning is due, returns the text to append to it: the number of
    /// occurrences suppressed since the last warning, or nothing.
    pub fn due(&self, now: Duration) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_sub(last) < PAUSE) {
            state.unsaid += 1;
            return None;
        }
        state.last = Some(now);
        Some(match std::mem::take(&mut state.unsaid) {
            0 => String::new(),
            unsaid => format!(" (and {unsaid} times since the last warning)"),
        })
    }
}

#[test]
fn one_a_minute_is_said() {
    let (limiter, at) = (WarningLimiter::default(), Duration::from_secs);
    assert_eq!(limiter.due(at(0)).as_deref(), Some(""));
    assert!((1..60).all(|second| limiter.due(at(second)).is_none()));
    assert_eq!(limiter.due(at(60)).as_deref(), Some(" (and 59 times since the last warning)"));
    assert_eq!(limiter.due(at(120)).as_deref(), Some(""));
}
