//! Queue of requests that wait for a server while all are at their limits.
//!
//! Guarantees: requests are served in order of arrival. At most `queue` requests of the site wait,
//! none for longer than `queue_timeout`. A request whose client leaves frees its place at once.
//! Freed server capacity wakes a waiting request, on whichever worker it is.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::failure::error::Failure;
use crate::failure::error::Reason;
use crate::servers::group::{Group, Serving};
use crate::servers::status::QueueStatus;
use net::clock::TokioClock;

/// Queue of one site, shared by all workers. Kept across reloads.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Notified when a request ends. Stores one notification if there is no waiter, so that none is
    /// missed between a check of the servers and the wait.
    freed: Notify,
    waiting: AtomicU32,
    figures: QueueCounters,
}

#[derive(Debug, Default)]
struct QueueCounters {
    /// Requests that waited, whatever the result.
    pub waits: AtomicU64,
    /// Total time that they waited, in microseconds.
    pub wait_us: AtomicU64,
    /// Requests whose wait timed out.
    pub timeouts: AtomicU64,
    /// Requests refused because the queue was full.
    pub refused: AtomicU64,
}

impl Queue {
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    pub fn status(&self) -> QueueStatus {
        let QueueCounters { waits, wait_us, timeouts, refused } = &self.figures;
        QueueStatus {
            waiting: self.waiting(),
            waits: waits.load(Relaxed),
            wait_us: wait_us.load(Relaxed),
            timeouts: timeouts.load(Relaxed),
            refused: refused.load(Relaxed),
        }
    }

    /// Wakes one request, because a server has capacity or is back in use.
    pub fn wake(&self) {
        self.freed.notify_one();
    }
}

/// A place in the queue, freed on drop.
struct Place<'a> {
    queue: &'a Queue,
    since: Instant,
    clock: TokioClock,
}

impl<'a> Place<'a> {
    fn take(queue: &'a Queue, places: u32, clock: TokioClock) -> Option<Place<'a>> {
        let room = |waiting| (waiting < places).then_some(waiting + 1);
        let taken = queue.waiting.fetch_update(SeqCst, SeqCst, room);
        if taken.is_err() {
            queue.figures.refused.fetch_add(1, Relaxed);
            return None;
        }
        queue.figures.waits.fetch_add(1, Relaxed);
        Some(Place { queue, since: clock.instant(), clock })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.waiting.fetch_sub(1, SeqCst);
        let us = u64::try_from(self.clock.since(self.since).as_micros()).unwrap_or(u64::MAX);
        self.queue.figures.wait_us.fetch_add(us, Relaxed);
    }
}

impl Group {
    /// Waits for a server outside the set `refused`, for a request that was not sent to any server
    /// yet. Returns at once if nothing else waits and a server is free.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        refused: u64,
        hash: u64,
        clock: TokioClock,
    ) -> Result<Serving, Failure> {
        let queue = self.queue();
        let behind_others = queue.waiting() > 0;
        if !behind_others {
            match self.choose(refused, hash, clock) {
                Err(failure) if is_busy(&failure) => {}
                chosen => return chosen,
            }
        }
        let Some(_place) = Place::take(queue, self.options().queue, clock) else {
            return Err(self.no_server(clock.millis()));
        };
        let bound = self.options().queue_timeout;
        match timeout(bound, self.wait((refused, hash), behind_others, clock)).await {
            Ok(served) => served,
            Err(_) => {
                queue.figures.timeouts.fetch_add(1, Relaxed);
                Err(self.no_server_for(bound))
            }
        }
    }

    /// Waits until there is a server. `behind_others` skips the first check, so that only a
    /// notification ends the wait.
    async fn wait(
        self: &Arc<Self>,
        (refused, hash): (u64, u64),
        mut behind_others: bool,
        clock: TokioClock,
    ) -> Result<Serving, Failure> {
        let queue = self.queue();
        loop {
            let mut freed = pin!(queue.freed.notified());
            // From here on the request is in the queue, so a server that becomes free during the
            // choice is not missed.
            freed.as_mut().enable();
            if !behind_others {
                match self.choose(refused, hash, clock) {
                    Err(failure) if is_busy(&failure) => {}
                    chosen => {
                        // Several servers may have become free at once. If all are out of use, the
                        // other requests need not wait either.
                        if queue.waiting() > 1 && (chosen.is_err() || self.has_room(clock.millis()))
                        {
                            queue.wake();
                        }
                        return chosen;
                    }
                }
            }
            behind_others = false;
            freed.await;
        }
    }

    fn no_server_for(&self, bound: Duration) -> Failure {
        let seconds = bound.as_secs_f32();
        let text = format!("{self} were at their request limit for {seconds} s");
        Failure::Failed(Reason::UpstreamBusy, text)
    }
}

fn is_busy(failure: &Failure) -> bool {
    matches!(failure, Failure::Failed(Reason::UpstreamBusy, _))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::servers::group::{GroupOptions, Server};
    use crate::servers::health::Blame;
    use crate::settings::endpoint::Endpoint;

    fn group(servers: u16, max: u32, queue: u32) -> Arc<Group> {
        let server = |at| {
            let mut server = Server::new(Endpoint::plain("a.example", 8000 + at));
            server.max_requests = Some(max);
            server
        };
        let options = GroupOptions { queue, ..GroupOptions::default() };
        Arc::new(Group::new("site", (0..servers).map(server).collect(), options))
    }

    fn clock() -> TokioClock {
        TokioClock::system()
    }

    async fn settle() {
        for _ in 0..20 {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_is_fair_and_bounded() {
        let (all, served) = (group(1, 2, 3), Rc::new(RefCell::new(Vec::new())));
        let waits = async {
            let mut held = vec![
                all.admit(0, 0, clock()).await.unwrap(),
                all.admit(0, 0, clock()).await.unwrap(),
            ];
            for number in 0..3 {
                let (all, served) = (all.clone(), served.clone());
                spawn_local(async move {
                    let serving = all.admit(0, 0, clock()).await.unwrap();
                    served.borrow_mut().push((number, serving));
                });
                settle().await;
            }
            assert_eq!(all.queue().waiting(), 3);
            assert!(is_busy(&all.admit(0, 0, clock()).await.unwrap_err()));
            held.pop();
            settle().await;
            let numbers = || served.borrow().iter().map(|(n, _)| *n).collect::<Vec<_>>();
            assert_eq!(numbers(), [0]);
            // Frees the capacity of two requests at once.
            held.pop();
            served.borrow_mut().clear();
            settle().await;
            assert_eq!(numbers(), [1, 2]);
            let figures = &all.queue().figures;
            let counted = [&figures.waits, &figures.timeouts, &figures.refused];
            assert_eq!(counted.map(|n| n.load(Relaxed)), [3, 0, 1]);
            assert_eq!(all.queue().waiting(), 0);
        };
        LocalSet::new().run_until(waits).await;
    }

    #[tokio::test(start_paused = true)]
    async fn waits_time_out_and_cancelled_requests_free_their_place() {
        let all = group(1, 1, 10);
        let waits = async {
            let held = all.admit(0, 0, clock()).await.unwrap();
            let failure = all.admit(0, 0, clock()).await.unwrap_err();
            assert!(is_busy(&failure), "{failure:?}");
            assert_eq!(all.queue().figures.timeouts.load(Relaxed), 1);
            // The first in the queue leaves at the moment its turn comes.
            let (first, second) = (all.clone(), all.clone());
            let leaving = spawn_local(async move { drop(first.admit(0, 0, clock()).await) });
            settle().await;
            let staying = spawn_local(async move { second.admit(0, 0, clock()).await.unwrap() });
            settle().await;
            drop(held);
            leaving.abort();
            settle().await;
            assert!(staying.is_finished());
            assert_eq!(all.queue().waiting(), 0);
        };
        LocalSet::new().run_until(waits).await;
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiting_requests_learn_that_no_server_is_left() {
        let options = GroupOptions { max_fails: 1, ..GroupOptions::default() };
        let server = |at| {
            let mut server = Server::new(Endpoint::plain("a.example", at));
            server.max_requests = Some(1);
            server
        };
        let all = Arc::new(Group::new("site", (8000..8002).map(server).collect(), options));
        let waits = async {
            let held =
                [all.admit(0, 0, clock()).await.unwrap(), all.admit(0, 0, clock()).await.unwrap()];
            let asked: Vec<_> = (0..3)
                .map(|_| {
                    let all = all.clone();
                    spawn_local(async move { all.admit(0, 0, clock()).await.map(drop) })
                })
                .collect();
            settle().await;
            held.into_iter().for_each(|serving| serving.failed(Blame::Silence, "it is a test"));
            settle().await;
            for task in asked {
                assert!(task.is_finished());
                let failure = task.await.unwrap().unwrap_err();
                assert!(matches!(failure, Failure::Failed(Reason::NoUpstream, _)), "{failure:?}");
            }
        };
        LocalSet::new().run_until(waits).await;
    }
}
