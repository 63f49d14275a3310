//! Drives a [`Ring`] from a tokio event loop. This is the only place in the crate that uses tokio,
//! behind the feature of that name, because registering a descriptor requires `unsafe`.
//!
//! Guarantees: while the driver runs, operations of one turn of the event loop share a system call;
//! when it ends, each operation is submitted individually again, so none is left behind.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::uring::ring::Ring;

/// Reaps and submits for `ring` until dropped. Spawn it on the ring's thread beside the tasks that
/// use the ring. Returns only on an error of the event loop.
pub async fn drive(ring: Ring) -> io::Result<Infallible> {
    // SAFETY: `as_raw_fd` of a ring returns its eventfd, the same one on each call, which the ring
    // owns and closes with its last handle; the `AsyncFd` holds such a handle.
    let event = unsafe { AsyncFd::register_with_interest(ring.clone(), Interest::READABLE) }?;
    ring.batch(true);
    let _single = Single(ring.clone());
    // Completions from before the registration cause no edge.
    ring.reap();
    poll_fn(|context| {
        if let Poll::Ready(()) = ring.poll_queued(context) {
            ring.submit();
            // Nothing is queued now, so this registers the waker.
            _ = ring.poll_queued(context);
        }
        while let Poll::Ready(ready) = event.poll_read_ready(context) {
            // Clear first: a completion after the reaping then causes a new edge.
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

/// Ends batching when the driver ends.
struct Single(Ring);

impl Drop for Single {
    fn drop(&mut self) {
        self.0.batch(false);
    }
}
