//! Drives a fetch in the task of the request that began it, while that request waits for the head.
//! Most fetches end in that time and need no task of their own.
//!
//! Guarantees: a fetch moves to a task of its own when its head has arrived and its body has not,
//! and when its request is dropped while other clients wait. Before the head, the fetch ends when
//! no client waits for it. From the head on, the fetch itself decides whether it is still wanted.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::spawn_local;
use upstream::connection::origin_body::OriginBody;

use crate::fill::state::Fill;

/// A running fetch. It returns the response body if the response is only for the request that
/// drives the fetch; dropping that body unread cancels the transfer.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Box<OriginBody>>>>>;

/// Fetch without a driving request, and the fill whose clients keep it alive.
type DetachedFetch = (Running, Option<Arc<Fill>>);

/// Fetches of one worker without a driving request.
pub(crate) struct Detached {
    sender: UnboundedSender<DetachedFetch>,
    receiver: RefCell<Option<UnboundedReceiver<DetachedFetch>>>,
}

impl Default for Detached {
    fn default() -> Detached {
        let (sender, receiver) = mpsc::unbounded_channel();
        Detached { sender, receiver: RefCell::new(Some(receiver)) }
    }
}

impl Detached {
    /// Spawns a task for each such fetch. Never returns, except that a second call returns at once.
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

    /// Drives a fetch until its fill has a head, and then as far as it gets without waiting. If
    /// this future is dropped earlier, [`Detached::run`] continues the fetch while clients wait for
    /// its head. A fetch with a head but without its body continues in a task of its own. Returns
    /// the output of a fetch that has ended.
    pub async fn drive(&self, fill: &Arc<Fill>, fetch: Running) -> Option<Box<OriginBody>> {
        let mut led = DrivenFetch { running: Some(fetch), fill: Some(fill), detached: self };
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

struct DrivenFetch<'a> {
    running: Option<Running>,
    /// The fill whose clients keep the fetch alive; `None` if the fetch continues in any case.
    fill: Option<&'a Arc<Fill>>,
    detached: &'a Detached,
}

impl Drop for DrivenFetch<'_> {
    fn drop(&mut self) {
        // The receiver is gone when the worker is ending; dropping the fetch then ends its fill.
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
    async fn a_fetch_continues_without_the_request_that_began_it() {
        let (detached, ended) = (Rc::new(Detached::default()), Rc::new(Cell::new(false)));
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let noted = ended.clone();
        let fetch: Running = Box::pin(async move {
            receiver.await.ok();
            noted.set(true);
            None
        });
        drop(DrivenFetch { running: Some(fetch), fill: None, detached: &detached });
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
