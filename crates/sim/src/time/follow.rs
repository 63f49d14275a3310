//! An executor on the clock of a tokio runtime, so that its disks share the time of everything else
//! that runs there.
//!
//! The runtime's clock should be paused; it then jumps from timer to timer, the events of the
//! executor among them. tokio's timers count milliseconds: an event happens at the first
//! millisecond that is not before it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use device::Nanos;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::time::executor::{Executor, Handle};

impl Executor {
    /// Runs the events of this executor at their times, for ever. `began` is the instant at which
    /// its clock showed 0.
    pub async fn follow(self, began: Instant) {
        let handle = self.handle();
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        let passed = || Nanos::try_from(began.elapsed().as_nanos()).unwrap_or(Nanos::MAX);
        poll_fn(|cx| {
            handle.tell(cx.waker().clone());
            loop {
                let Some(next) = self.run_until(passed()) else { return Poll::<()>::Pending };
                let due = began + Duration::from_nanos(next);
                match &mut timer {
                    Some(timer) if timer.deadline() == due => {}
                    Some(timer) => timer.as_mut().reset(due),
                    None => timer = Some(Box::pin(sleep_until(due))),
                }
                let armed = timer.as_mut().expect("it is armed");
                if armed.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }
}

impl Handle {
    /// Sets the clock to the time passed since `began`. Call it before starting an operation that
    /// the clock times.
    pub fn catch_up(&self, began: Instant) {
        let passed = Nanos::try_from(began.elapsed().as_nanos()).unwrap_or(Nanos::MAX);
        self.advance_to(passed);
    }
}
