//! The clock of a simulation: [`Handle`] as a [`Clock`].
//!
//! Guarantees: a sleeper wakes exactly when the clock shows its deadline; a dropped sleeper leaves
//! nothing behind.

use std::future::{Future, poll_fn};
use std::task::Poll;

use device::{Clock, Nanos};

use crate::time::event_queue::Key;
use crate::time::executor::{Due, Handle};

impl Clock for Handle {
    fn now(&self) -> Nanos {
        self.inner.now.get()
    }

    fn unix_seconds(&self) -> u64 {
        self.inner.unix_start.get().wrapping_add(self.inner.now.get() / 1_000_000_000)
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> {
        let mut sleep = Sleep { clock: self.clone(), key: None };
        poll_fn(move |context| {
            if sleep.clock.now() >= deadline {
                return Poll::Ready(());
            }
            let inner = &sleep.clock.inner;
            if let Some(key) = sleep.key
                && let Some(Due::Wake(waker)) = inner.timetable.borrow_mut().get_mut(key)
            {
                waker.clone_from(context.waker());
                return Poll::Pending;
            }
            sleep.key = Some(inner.sleep(deadline, context.waker().clone()));
            Poll::Pending
        })
    }
}

impl Handle {
    /// Sets wall time alone, also backwards, as an administrator may.
    pub fn set_unix_seconds(&self, seconds: u64) {
        let passed = self.now() / 1_000_000_000;
        self.inner.unix_start.set(seconds.wrapping_sub(passed));
    }
}

/// A sleeper's entry in the timetable, removed on drop.
struct Sleep {
    clock: Handle,
    key: Option<Key>,
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let due = self.clock.inner.timetable.borrow_mut().remove(key);
            drop(due);
        }
    }
}

/// Waits for `future`, or until the clock reaches `deadline`; then drops it and returns `None`.
pub async fn until<T>(
    clock: &impl Clock,
    deadline: Nanos,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(clock.sleep_until(deadline));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
    })
    .await
}
