//! Time, as one value that a proxy is given at its start. No other code reads a clock, so a
//! simulation can control time (`clippy.toml` enforces this).
//!
//! Monotonic time is the runtime's, which tokio's timers also use; it is virtual where the
//! runtime's clock is paused. Wall time is the system's; in a simulation it is the start time plus
//! the time elapsed since.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use device::{Clock, Nanos};
use semantics::Time;

/// A clock. All copies show the same time, on all threads. It is a pointer, because many values of
/// a request hold one. The target is never freed: a process creates one clock, a test a few.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(&'static Start);

#[derive(Debug)]
struct Start {
    start: Instant,
    /// Wall time at the start; `None`: use the system clock.
    unix_start: Option<Duration>,
}

impl TokioClock {
    /// Creates the production clock.
    pub fn system() -> TokioClock {
        TokioClock::new(None)
    }

    /// Creates a clock whose wall time follows the runtime's and is `since_1970` after 1970 now.
    /// Call it within the runtime.
    pub fn starting_at(since_1970: Duration) -> TokioClock {
        TokioClock::new(Some(since_1970))
    }

    fn new(unix_start: Option<Duration>) -> TokioClock {
        TokioClock(Box::leak(Box::new(Start { start: instant(), unix_start })))
    }

    /// Returns the current monotonic time.
    pub fn instant(&self) -> Instant {
        instant()
    }

    /// Returns the monotonic time since the clock was created.
    pub fn running(&self) -> Duration {
        self.since(self.0.start)
    }

    /// Returns the time elapsed since `then`.
    pub fn since(&self, then: Instant) -> Duration {
        self.instant().saturating_duration_since(then)
    }

    /// Returns the milliseconds since the clock was created plus one, so never 0.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.running().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Returns the wall time.
    #[allow(clippy::disallowed_methods)] // All other code reads wall time here.
    pub fn wall(&self) -> SystemTime {
        match self.0.unix_start {
            None => SystemTime::now(),
            Some(then) => UNIX_EPOCH + then + self.running(),
        }
    }

    /// Returns the wall time since 1970. A clock set before 1970 counts as 1970.
    pub fn since_1970(&self) -> Duration {
        self.wall().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Returns the wall time in the type that the caching rules use.
    pub fn time(&self) -> Time {
        Time::from_unix_millis(self.since_1970().as_millis() as u64)
    }
}

#[allow(clippy::disallowed_methods)] // All other code reads monotonic time here.
fn instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Clock for TokioClock {
    fn now(&self) -> Nanos {
        // 64 bits of nanoseconds last for 584 years.
        self.running().as_nanos() as Nanos
    }

    fn unix_seconds(&self) -> u64 {
        self.since_1970().as_secs()
    }

    async fn sleep_until(&self, deadline: Nanos) {
        let deadline = self.0.start + Duration::from_nanos(deadline);
        tokio::time::sleep_until(deadline.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn in_a_simulation_all_time_is_the_runtimes() {
        let clock = TokioClock::starting_at(Duration::from_secs(1_700_000_000));
        let before = clock.instant();
        clock.sleep_until(86_400_000_000_000).await;
        assert_eq!(clock.since(before), Duration::from_secs(86_400));
        assert_eq!((clock.now(), clock.millis()), (86_400_000_000_000, 86_400_001));
        assert_eq!(clock.unix_seconds(), 1_700_086_400);
        assert_eq!(clock.time(), Time::from_unix(1_700_086_400));
    }
}
