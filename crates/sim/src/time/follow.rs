//! An executor on the clock of a tokio runtime: its disks take part in the time of whatever else
//! runs there.
//!
//! The runtime's clock is meant to be paused; it then jumps from timer to timer, and the events of
//! the executor are among them. tokio's timers count milliseconds: an event happens at the first of
//! them that is not before it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use device::Nanos;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::time::executor::{Executor, Handle};

impl Executor {
    /// Has everything of this executor happen at its time, for ever. `began` is when its clock
    /// showed nothing.
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
    /// Sets the clock to what has passed since `began`, before something begins that it times.
    pub fn catch_up(&self, began: Instant) {
        let passed = Nanos::try_from(began.elapsed().as_nanos()).unwrap_or(Nanos::MAX);
        self.advance_to(passed);
    }
}
