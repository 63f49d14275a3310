//! Drives a [`Ring`] from a tokio event loop: the one place that knows tokio, behind the feature
//! of that name, because handing a descriptor to it takes `unsafe`.
//!
//! It promises: while the driver lives, operations of one turn of the event loop share a system
//! call; when it ends, each goes to the kernel by itself again, so that nothing is left behind.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::uring::ring::Ring;

/// Reaps and submits for `ring` until it is dropped; to be spawned on the ring's thread beside the
/// tasks that use it. Ends only with an error of the event loop.
pub async fn drive(ring: Ring) -> io::Result<Infallible> {
    // SAFETY: `as_raw_fd` of a ring is its eventfd, the same at each call, which the ring owns and
    // closes when its last handle goes; the `AsyncFd` holds such a handle.
    let event = unsafe { AsyncFd::register_with_interest(ring.clone(), Interest::READABLE) }?;
    ring.batch(true);
    let _single = Single(ring.clone());
    // Completions from before the registration make no edge.
    ring.reap();
    poll_fn(|context| {
        if let Poll::Ready(()) = ring.poll_queued(context) {
            ring.submit();
            // Nothing is queued now, so that this leaves the waker.
            _ = ring.poll_queued(context);
        }
        while let Poll::Ready(ready) = event.poll_read_ready(context) {
            // Cleared first: a completion after the reaping then makes a new edge.
            match ready {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
            ring.reap();
        }
        Poll::Pending
    })
    .await
}

/// Ends batching with the driver.
struct Single(Ring);

impl Drop for Single {
    fn drop(&mut self) {
        self.0.batch(false);
    }
}
