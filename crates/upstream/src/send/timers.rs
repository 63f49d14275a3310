//! Timeouts with reusable timers. Most waits end in time, and arming and disarming a timer for each
//! request costs more than many reads. A worker therefore keeps its timers armed. A timer that
//! fires before the deadline of its current request is armed again.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use net::clock::TokioClock;
use tokio::task::coop::{has_budget_remaining, unconstrained};
use tokio::time::{Instant, Sleep, sleep_until};

/// Maximum number of timers kept, enough for this many concurrent waits.
const KEPT_MAX: usize = 64;

type Timer = Pin<Box<Sleep>>;

/// Timers of one worker.
pub(crate) struct Timers {
    clock: TokioClock,
    kept: RefCell<Vec<Timer>>,
}

/// Timer of one wait, returned to the worker's timers on drop.
struct BorrowedTimer<'a> {
    timers: &'a Timers,
    timer: Option<Timer>,
}

impl Drop for BorrowedTimer<'_> {
    fn drop(&mut self) {
        let mut kept = self.timers.kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.extend(self.timer.take());
        }
    }
}

impl Timers {
    /// Creates a set without timers.
    pub fn new(clock: TokioClock) -> Timers {
        Timers { clock, kept: RefCell::default() }
    }

    /// Waits for `work`; returns `None` if it takes longer than `bound`.
    pub async fn within<T>(&self, bound: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut deadline) = (pin!(work), None);
        let mut lent = BorrowedTimer { timers: self, timer: None };
        poll_fn(|cx| {
            let had_budget = has_budget_remaining();
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            // Work that uses up the task's budget must not prevent its timer from being polled.
            let is_spent = had_budget && !has_budget_remaining();
            let arm = || Instant::from_std(self.clock.instant() + bound);
            let deadline = *deadline.get_or_insert_with(arm);
            let timer = lent.timer.get_or_insert_with(|| self.take(deadline));
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            loop {
                ready!(match is_spent {
                    true => pin!(unconstrained(timer.as_mut())).poll(cx),
                    false => timer.as_mut().poll(cx),
                });
                if timer.deadline() >= deadline {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(deadline);
            }
        })
        .await
    }

    /// Takes a kept timer, or arms a new one.
    fn take(&self, deadline: Instant) -> Timer {
        let kept = self.kept.borrow_mut().pop();
        kept.unwrap_or_else(|| Box::pin(sleep_until(deadline)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::coop::consume_budget;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_own_bound_whatever_its_timer_was_armed_for() {
        let (clock, second) = (TokioClock::system(), Duration::from_secs(1));
        let timers = Timers::new(clock);
        let waited = async |bound: u32| {
            let began = clock.instant();
            let ended = timers.within(second * bound, pending::<()>()).await;
            assert_eq!(ended, None);
            clock.since(began)
        };
        // Armed for 9 s and kept; then used for less, for more, and long after it had fired.
        let slow = async { sleep(second * 2).await };
        assert_eq!(timers.within(second * 9, slow).await, Some(()));
        assert_eq!(timers.kept.borrow().len(), 1);
        for bound in [3, 20, 1, 50] {
            let (waited, bound) = (waited(bound).await, second * bound);
            let late = waited.checked_sub(bound).expect("not before its bound");
            assert!(late <= Duration::from_millis(2), "{waited:?} for {bound:?}");
            sleep(second * 100).await;
        }
        assert_eq!(timers.within(second, async { 7 }).await, Some(7));
        assert_eq!(timers.kept.borrow().len(), 1, "one did for all");
    }

    #[tokio::test]
    async fn busy_work_ends_at_its_bound() {
        let timers = Timers::new(TokioClock::system());
        let restless = async {
            loop {
                consume_budget().await;
            }
        };
        let waited = timers.within(Duration::from_millis(20), restless);
        let ended = tokio::time::timeout(Duration::from_secs(20), waited).await;
        assert_eq!(ended, Ok(None::<()>));
    }
}
