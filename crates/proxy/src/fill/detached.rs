//! Fetches that a request's own task drives as long as the request waits for the head: most end in
//! that time, and need no task of their own.
//!
//! It promises: a fetch goes on in a task of its own when the head is there and the body is not,
//! and when the request leaves before and others wait for it. Without a head it ends when no client
//! waits for it any more; from the head on the fetch itself decides whether it is still wanted.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::spawn_local;
use upstream::connection::origin_body::OriginBody;

use crate::fill::state::Fill;

/// A fetch under way. It returns the body of an answer that is for the request alone that drives
/// it: dropped without being read, that is cancelled.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Box<OriginBody>>>>>;

/// A fetch whose request has left.
type LeftFetch = (Running, Option<Arc<Fill>>);

/// A worker's fetches whose request has left.
pub(crate) struct Detached {
    sender: UnboundedSender<LeftFetch>,
    receiver: RefCell<Option<UnboundedReceiver<LeftFetch>>>,
}

impl Default for Detached {
    fn default() -> Detached {
        let (sender, receiver) = mpsc::unbounded_channel();
        Detached { sender, receiver: RefCell::new(Some(receiver)) }
    }
}

impl Detached {
    /// Gives each a task of its own, for ever. Only the first call does.
    pub async fn run(&self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        while let Some((mut running, fill)) = receiver.recv().await {
            spawn_local(poll_fn(move |cx| match running.as_mut().poll(cx) {
                Poll::Pending if fill.as_ref().is_some_and(|fill| fill.is_abandoned(cx)) => {
                    Poll::Ready(())
                }
                polled => polled.map(drop),
            }));
        }
    }

    /// Drives a fetch until its fill has a head, and as far as that goes without waiting. Dropped
    /// before, the fetch goes on all the same. Returns what the fetch does, if it has ended.
    pub async fn drive(&self, fill: &Arc<Fill>, fetch: Running) -> Option<Box<OriginBody>> {
        let mut led = Led { running: Some(fetch), fill: Some(fill), detached: self };
        let handed_over = poll_fn(|cx| {
            let Some(running) = &mut led.running else { return Poll::Ready(None) };
            match running.as_mut().poll(cx) {
                Poll::Ready(handed_over) => {
                    led.running = None;
                    Poll::Ready(handed_over)
                }
                Poll::Pending if fill.is_waiting() => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await;
        led.running.take().into_iter().for_each(|running| drop(spawn_local(running)));
        handed_over
    }
}

/// A fetch that is driven by a request.
struct Led<'a> {
    running: Option<Running>,
    /// The fill, without whose clients the fetch ends; `None`: it goes on in any case.
    fill: Option<&'a Arc<Fill>>,
    detached: &'a Detached,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        // A worker that ends takes no more: the fetch is dropped, which ends its fill.
        self.running
            .take()
            .into_iter()
            .for_each(|running| drop(self.detached.sender.send((running, self.fill.cloned()))));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[tokio::test(flavor = "local")]
    async fn a_fetch_whose_request_leaves_goes_on() {
        let (detached, ended) = (Rc::new(Detached::default()), Rc::new(Cell::new(false)));
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let noted = ended.clone();
        let fetch: Running = Box::pin(async move {
            receiver.await.ok();
            noted.set(true);
            None
        });
        drop(Led { running: Some(fetch), fill: None, detached: &detached });
        let taking = detached.clone();
        let worker = spawn_local(async move { taking.run().await });
        tokio::task::yield_now().await;
        sender.send(()).expect("the fetch goes on");
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(ended.get());
        worker.abort();
    }
}
