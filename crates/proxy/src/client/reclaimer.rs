//! Reclaims resources held by idle clients. It closes connections when the limit
//! `client.connections` is reached or the process is out of file descriptors. It ends requests
//! whose clients may be gone when their servers are at their request limit.
//!
//! An open connection that waits for its client uses up the limit for nothing. When the limit is
//! reached, such a connection is closed in favour of a new client, so no client can exclude others
//! by opening connections and leaving them idle. A connection with a request in progress is closed
//! only if its client sends nothing more and so may be gone; these go first. Next are connections
//! without a complete request head within [`GRACE`], then connections between two requests, then
//! new ones. Within each group the longest-waiting goes first.
//!
//! Connections of other fleet nodes have a limit of their own, so a host that can reach the fleet
//! address cannot use up the clients' limit. There, a connection without any request is closed
//! first, however young: an authenticated node sends a request at once, and an unauthenticated host
//! cannot.
//!
//! Only the worker knows the state of its connections. The task that needs room asks all workers
//! for candidates and closes the first ones. With a high limit several are closed at once, to
//! spread the cost of the search.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};
use upstream::send::descriptors::{FreeDescriptors, Freeing};

use crate::client::connection_state::Phase;

/// Time for a client to send its request head before its connection counts as unused.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Maximum number of connections closed by one search.
pub(crate) const CLOSED_AT_ONCE_MAX: usize = 32;

/// Why a connection may be closed, first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CloseRank {
    /// Its client may be gone.
    MayBeGone,
    /// No complete request head within [`GRACE`].
    NoRequest,
    /// Idle between two requests; the client may return.
    Idle,
    /// Just accepted, or its request has just begun.
    New,
}

/// Connection that may be closed; the smallest is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    worth: CloseRank,
    since: Instant,
    pub id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Clients,
    /// Fleet nodes, and hosts that claim to be one.
    Nodes,
}

/// Facts that a worker knows about one of its connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionActivity {
    pub id: u64,
    pub group: Group,
    pub phase: Phase,
    pub has_had_request: bool,
    /// True if a request is in progress and the client sends nothing more.
    pub may_be_gone: bool,
    pub since: Instant,
}

impl ConnectionActivity {
    /// Returns the connection's rank, or `None` if it must not be closed.
    pub fn candidate(&self, now: Instant) -> Option<Candidate> {
        let ConnectionActivity { id, group, phase, has_had_request, may_be_gone, since } = *self;
        let is_old = group == Group::Nodes || now.saturating_duration_since(since) >= GRACE;
        let worth = match (phase, has_had_request) {
            _ if may_be_gone => CloseRank::MayBeGone,
            (Phase::Busy, _) => return None,
            (Phase::Idle, true) => CloseRank::Idle,
            (Phase::Idle | Phase::Head, _) if is_old => CloseRank::NoRequest,
            (Phase::Idle | Phase::Head, _) => CloseRank::New,
        };
        Some(Candidate { worth, since, id })
    }
}

pub(crate) fn first(mut all: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    if all.len() > most {
        all.select_nth_unstable(most);
        all.truncate(most);
    }
    all
}

/// Returns the number of connections to close at once under the limit `connections`.
pub(crate) fn at_once(connections: usize) -> usize {
    (connections / 256).clamp(1, CLOSED_AT_ONCE_MAX)
}

/// Request to a worker.
pub(crate) enum Ask {
    /// Report up to this many candidates, of this group or of all.
    Candidates(usize, Option<Group>, oneshot::Sender<Vec<Candidate>>),
    /// Close these connections and report how many were closed.
    Close(Vec<u64>, oneshot::Sender<usize>),
    /// Close up to this many (second field) connections with a request for these servers (first
    /// field) whose clients may be gone, and report how many were closed.
    CloseAbandoned(usize, usize, oneshot::Sender<usize>),
    /// Close the idle upstream connections and report how many there were.
    CloseUpstreams(oneshot::Sender<usize>),
}

pub(crate) struct ConnectionReclaimer {
    workers: Vec<mpsc::UnboundedSender<Ask>>,
    pub half_closed: Arc<AtomicUsize>,
    at_once: usize,
    /// One lock per group, held from the search until the permit is taken.
    turns: [Mutex<()>; 2],
}

impl ConnectionReclaimer {
    /// Creates the channels to `workers` workers and returns their receiving ends. `connections` is
    /// the connection limit.
    pub fn new(
        workers: usize,
        connections: usize,
    ) -> (ConnectionReclaimer, Vec<mpsc::UnboundedReceiver<Ask>>) {
        let (workers, inboxes) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        (
            ConnectionReclaimer {
                workers,
                half_closed: Arc::default(),
                at_once: at_once(connections),
                turns: Default::default(),
            },
            inboxes,
        )
    }

    /// Waits for the lock to search in a group.
    pub async fn turn(&self, group: Group) -> MutexGuard<'_, ()> {
        let [clients, nodes] = &self.turns;
        match group {
            Group::Clients => clients.lock().await,
            Group::Nodes => nodes.lock().await,
        }
    }

    /// Closes idle upstream connections to free descriptors. Returns how many there were.
    pub async fn close_idle_upstreams(&self) -> usize {
        let mut closed = 0;
        for (_, told) in self.ask(Ask::CloseUpstreams) {
            closed += told.await.unwrap_or(0);
        }
        closed
    }

    /// Closes the first candidates of a group, or of all. Returns how many were closed.
    pub async fn close_idle(&self, group: Option<Group>) -> usize {
        let mut all = Vec::new();
        let asked = self.ask(|tell| Ask::Candidates(self.at_once, group, tell));
        for (worker, candidates) in asked {
            // A worker that has ended has no candidates.
            let found = candidates.await.unwrap_or_default();
            all.extend(found.into_iter().map(|candidate| (candidate, worker)));
        }
        all.sort_unstable();
        all.truncate(self.at_once);
        let mut closed = 0;
        for (worker, way) in self.workers.iter().enumerate() {
            let of_worker = all.iter().filter(|(_, of)| *of == worker);
            let ids: Vec<u64> = of_worker.map(|(candidate, _)| candidate.id).collect();
            if ids.is_empty() {
                continue;
            }
            let (tell, told) = oneshot::channel();
            if way.send(Ask::Close(ids, tell)).is_ok() {
                closed += told.await.unwrap_or(0);
            }
        }
        closed
    }

    fn ask<T>(
        &self,
        question: impl Fn(oneshot::Sender<T>) -> Ask,
    ) -> Vec<(usize, oneshot::Receiver<T>)> {
        let asked = self.workers.iter().enumerate().map(|(worker, way)| {
            let (tell, told) = oneshot::channel();
            // If the send fails, the receiver reports it.
            let _ = way.send(question(tell));
            (worker, told)
        });
        asked.collect()
    }
}

impl FreeDescriptors for ConnectionReclaimer {
    /// Closes idle upstream connections, or idle client connections if there are none.
    fn free(&self) -> Freeing<'_> {
        Box::pin(async {
            let _turn = self.turn(Group::Clients).await;
            self.close_idle_upstreams().await > 0 || self.close_idle(None).await > 0
        })
    }

    fn free_places(&self, servers: usize, most: u32) -> Freeing<'_> {
        Box::pin(async move {
            if self.half_closed.load(Relaxed) == 0 {
                return false;
            }
            let most = most as usize;
            let mut closed = 0;
            for worker in &self.workers {
                let (tell, told) = oneshot::channel();
                if worker.send(Ask::CloseAbandoned(servers, most - closed, tell)).is_ok() {
                    closed += told.await.unwrap_or(0);
                }
                if closed >= most {
                    break;
                }
            }
            closed > 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::clock::TokioClock;

    #[test]
    fn node_connections_without_a_request_are_closed_first() {
        let now = TokioClock::system().instant();
        let node = |id, has_had_request, phase| {
            let activity = standing(id, phase, has_had_request, now);
            ConnectionActivity { group: Group::Nodes, ..activity }.candidate(now)
        };
        assert!(node(2, false, Phase::Idle) < node(1, true, Phase::Idle));
        assert!(node(2, false, Phase::Head) < node(1, true, Phase::Idle));
        assert_eq!(node(3, true, Phase::Busy), None);
    }

    fn standing(
        id: u64,
        phase: Phase,
        has_had_request: bool,
        since: Instant,
    ) -> ConnectionActivity {
        let may_be_gone = false;
        ConnectionActivity { id, group: Group::Clients, phase, has_had_request, may_be_gone, since }
    }

    #[test]
    fn candidates_are_closed_in_order_of_worth() {
        let began = TokioClock::system().instant();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let all = [
            standing(1, Phase::Busy, true, at(0)),
            standing(2, Phase::Head, false, at(99)),
            standing(3, Phase::Idle, false, at(98)),
            standing(4, Phase::Idle, true, at(10)),
            standing(5, Phase::Idle, true, at(10)),
            standing(6, Phase::Idle, true, at(1)),
            standing(7, Phase::Head, true, at(95)),
            standing(8, Phase::Idle, false, at(20)),
            standing(9, Phase::Head, false, at(15)),
            ConnectionActivity { may_be_gone: true, ..standing(10, Phase::Busy, true, at(99)) },
        ];
        let candidates: Vec<_> = all.iter().filter_map(|one| one.candidate(at(100))).collect();
        let mut order = candidates.clone();
        order.sort_unstable();
        let ids: Vec<u64> = order.iter().map(|candidate| candidate.id).collect();
        assert_eq!(ids, [10, 9, 8, 7, 6, 4, 5, 3, 2]);
        for most in 0..=10 {
            let mut found = first(candidates.clone(), most);
            found.sort_unstable();
            assert_eq!(found, order[..most.min(9)]);
        }
    }

    #[test]
    fn a_low_limit_closes_one_connection_at_a_time() {
        assert_eq!([1, 4, 511, 512, 16_384].map(at_once), [1, 1, 1, 2, 32]);
    }
}
