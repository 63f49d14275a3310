//! Waits for several futures on one task, without a runtime.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// Completes when both futures have.
pub(crate) async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (false, false);
    poll_fn(|context| {
        a_done = a_done || a.as_mut().poll(context).is_ready();
        b_done = b_done || b.as_mut().poll(context).is_ready();
        if a_done && b_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Completes when all futures have.
pub(crate) async fn all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut left: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        left.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Yields once to the other tasks of the worker.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for all futures and returns their values, in the order of the futures.
pub(crate) async fn values<T, F: Future<Output = T>>(futures: Vec<F>) -> Vec<T> {
    let mut values: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let tasks = futures.into_iter().zip(&mut values).map(|(future, value)| async move {
        *value = Some(future.await);
    });
    all(tasks.collect()).await;
    values.into_iter().flatten().collect()
}
