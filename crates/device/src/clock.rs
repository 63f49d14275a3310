//! The engine's view of time. Clocks are passed in, so that a simulator can control time.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
#[cfg(feature = "tokio")]
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds of a monotonic clock, from an arbitrary start.
pub type Nanos = u64;

/// A source of time. Monotonic time orders and bounds waits; wall time dates data on disk.
pub trait Clock: Clone + 'static {
    /// Returns the monotonic time in nanoseconds.
    fn now(&self) -> Nanos;

    /// Returns the seconds since 1970-01-01 UTC by the system clock.
    fn unix_seconds(&self) -> u64;

    /// Completes when [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()>;
}

/// The system's clock, with the timers of tokio: [`Clock::sleep_until`] must run in a tokio runtime
/// with time enabled. All copies show the same time, on all threads.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

#[cfg(feature = "tokio")]
impl SystemClock {
    /// Creates a clock that shows 0 ns now.
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

#[cfg(feature = "tokio")]
impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

#[cfg(feature = "tokio")]
impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        // 64 bits of nanoseconds last for 584 years.
        self.start.elapsed().as_nanos() as Nanos
    }

    fn unix_seconds(&self) -> u64 {
        // A system clock set before 1970 counts as 1970.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    async fn sleep_until(&self, deadline: Nanos) {
        let deadline = self.start + Duration::from_nanos(deadline);
        tokio::time::sleep_until(deadline.into()).await;
    }
}

/// A clock that only moves when told to, for tests. A clone shows the same time.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Mutex<Hands>>);

#[derive(Default)]
struct Hands {
    now: Nanos,
    unix_seconds: u64,
    next_id: u64,
    /// Wakers by deadline; the number distinguishes sleepers with the same deadline.
    sleepers: BTreeMap<(Nanos, u64), Waker>,
}

impl ManualClock {
    /// Returns a clock at 0 ns and `unix_seconds`.
    pub fn new(unix_seconds: u64) -> ManualClock {
        ManualClock(Arc::new(Mutex::new(Hands { unix_seconds, ..Hands::default() })))
    }

    /// Advances the clock, including wall time, and wakes the sleepers whose deadline has passed.
    /// Wall time advances by the whole seconds of monotonic time that passed.
    pub fn advance(&self, by: Nanos) {
        let mut hands = self.hands();
        let before = hands.now / 1_000_000_000;
        hands.now += by;
        hands.unix_seconds += hands.now / 1_000_000_000 - before;
        let later = hands.now + 1;
        let rest = hands.sleepers.split_off(&(later, 0));
        let due = std::mem::replace(&mut hands.sleepers, rest);
        drop(hands);
        due.into_values().for_each(Waker::wake);
    }

    /// Sets only the wall time, possibly backwards, as an administrator may.
    pub fn set_unix_seconds(&self, seconds: u64) {
        self.hands().unix_seconds = seconds;
    }

    /// Returns the earliest deadline of a sleeper, to which a test can advance next.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.hands().sleepers.keys().next().map(|(deadline, _)| *deadline)
    }

    fn next_id(&self) -> u64 {
        let mut hands = self.hands();
        hands.next_id += 1;
        hands.next_id
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        // No code under this lock can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        self.hands().now
    }

    fn unix_seconds(&self) -> u64 {
        self.hands().unix_seconds
    }

    async fn sleep_until(&self, deadline: Nanos) {
        let sleep = Sleep { clock: self, key: (deadline, self.next_id()) };
        poll_fn(|context| {
            let mut hands = sleep.clock.hands();
            if hands.now >= deadline {
                return Poll::Ready(());
            }
            hands.sleepers.insert(sleep.key, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A sleeper's entry in the table, removed when its future is dropped.
struct Sleep<'a> {
    clock: &'a ManualClock,
    key: (Nanos, u64),
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.clock.hands().sleepers.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[cfg(feature = "tokio")]
    #[tokio::test]
    async fn the_system_clock_sleeps_until_its_deadline() {
        let clock = SystemClock::new();
        let copy = clock;
        let deadline = clock.now() + 2_000_000;
        copy.sleep_until(deadline).await;
        assert!(clock.now() >= deadline);
        // A deadline in the past does not wait.
        clock.sleep_until(0).await;
    }

    #[test]
    fn sleepers_wake_at_their_deadline_and_leave_when_dropped() {
        let clock = ManualClock::new(1_000);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut early = pin!(clock.sleep_until(1_500_000_000));
            let mut late = pin!(clock.sleep_until(3_000_000_000));
            assert!(early.as_mut().poll(&mut context).is_pending());
            assert!(late.as_mut().poll(&mut context).is_pending());
            assert_eq!(clock.next_deadline(), Some(1_500_000_000));
            clock.advance(1_500_000_000);
            assert!(early.as_mut().poll(&mut context).is_ready());
            assert!(late.as_mut().poll(&mut context).is_pending());
            assert_eq!(clock.next_deadline(), Some(3_000_000_000));
            assert_eq!((clock.now(), clock.unix_seconds()), (1_500_000_000, 1_001));
        }
        assert_eq!(clock.next_deadline(), None);
        clock.advance(500_000_000);
        assert_eq!(clock.unix_seconds(), 1_002);
    }
}
