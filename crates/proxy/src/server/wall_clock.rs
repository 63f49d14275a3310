//! Steps of the wall clock. The age of stored responses depends on that clock, so a step makes all
//! of them older or younger at once. The operator is warned once per step.
//!
//! A step shows in the difference between wall time and the time since the start, which cannot be
//! set. The difference changes slowly while time servers adjust the clock rate. It jumps when the
//! clock is set or the machine was suspended.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use net::clock::TokioClock;

/// Changes between two checks up to this are ignored.
const STEP: Duration = Duration::from_secs(2);

/// A detector of clock steps, shared by all threads.
pub struct WallClock {
    clock: TokioClock,
    /// Wall time minus the time since the start at the last check, in milliseconds.
    distance: Mutex<Option<i128>>,
}

impl WallClock {
    /// Creates a detector that has not checked yet.
    pub fn new(clock: TokioClock) -> WallClock {
        WallClock { clock, distance: Mutex::new(None) }
    }

    /// Returns the milliseconds by which the clock was set since the last check, negative if it was
    /// set back; `None` if it was not set, or only by a little.
    pub fn step(&self) -> Option<i64> {
        self.step_at(self.clock.running(), self.clock.wall())
    }

    fn step_at(&self, running: Duration, wall: SystemTime) -> Option<i64> {
        let wall = match wall.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_millis() as i128,
            Err(before) => -(before.duration().as_millis() as i128),
        };
        let distance = wall - running.as_millis() as i128;
        let mut last = self.distance.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(distance)?;
        let step = distance - before;
        (step.unsigned_abs() > STEP.as_millis()).then(|| i64::try_from(step).unwrap_or(i64::MAX))
    }
}

/// Returns the warning about a step of `step` milliseconds.
pub fn warning(step: i64) -> String {
    let by = Duration::from_millis(step.unsigned_abs()).as_secs_f64();
    if step < 0 {
        format!(
            "the clock was set back by {by:.1} s: what was stored at times that are still to come \
             is validated before it is used"
        )
    } else {
        format!(
            "the clock was set forward by {by:.1} s, or the machine was asleep: what is stored \
             counts as so much older"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_noticed_once_and_slow_corrections_are_not() {
        let clock = WallClock::new(TokioClock::system());
        let wall = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let at = |seconds: u64, set: i64| {
            let running = Duration::from_secs(seconds);
            let wall = wall + Duration::from_secs(seconds);
            let by = Duration::from_millis(set.unsigned_abs());
            clock.step_at(running, if set < 0 { wall - by } else { wall + by })
        };
        assert_eq!(at(0, 0), None);
        assert_eq!(at(1, 1), None);
        // Time servers adjust the rate.
        assert!((2..2_000).all(|second| at(second, second as i64 * 5).is_none()));
        assert_eq!(at(2_000, 10_000 - 3_600_000), Some(-3_600_000 + 5));
        assert_eq!(at(2_001, 10_000 - 3_600_000), None);
        assert_eq!(at(2_002, 10_000), Some(3_600_000));
        assert_eq!(at(2_003, 12_000), None, "two seconds are little");
        assert_eq!(at(2_004, 14_001), Some(2_001));
        assert_eq!(at(90_000, 14_001), None, "nobody looked for a day");
    }

    #[test]
    fn a_clock_before_1970_is_one() {
        let clock = WallClock::new(TokioClock::system());
        assert_eq!(clock.step_at(Duration::ZERO, UNIX_EPOCH + Duration::from_secs(5)), None);
        let before = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(clock.step_at(Duration::ZERO, before), Some(-10_000));
    }

    #[test]
    fn the_warning_names_size_and_direction() {
        assert!(warning(-3_600_000).starts_with("the clock was set back by 3600.0 s: "));
        let forward = warning(2_500);
        assert!(forward.starts_with("the clock was set forward by 2.5 s, or the machine was asl"));
    }
}
