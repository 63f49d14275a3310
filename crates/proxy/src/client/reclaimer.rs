//! Closes connections for new clients when the places of `client.connections` are all taken, or the
//! process has no descriptor left, and ends requests whose clients may be gone when their servers
//! have as many as they may.
//!
//! An open connection that waits for its client occupies a place without any use. Where places are
//! short it is closed for a client with a request, so that no client can exclude the others by
//! opening connections and leaving them idle. A connection with a request under way is closed only
//! when its client sends nothing more and so may be gone; these go first. Of the others those are
//! closed first that have asked for nothing, or not ended a head, in [`GRACE`]; then those between
//! two requests; and then new ones. Within each group those that have waited longest come first.
//!
//! Connections of other nodes of a fleet have places of their own, so that who can reach the
//! address for nodes takes none of the clients'. There one on which nothing was ever asked is
//! closed first, however young: a node that is let in asks at once, a stranger cannot.
//!
//! Each worker alone knows the state of its connections: the task that needs a place asks all of
//! them, and tells those with the first candidates to close them. Several are closed at once where
//! there are many, so that the search costs little for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};
use upstream::send::descriptors::{FreeDescriptors, Freeing};

use crate::client::connection_state::Phase;

/// Time for a client to send its head before its connection counts as unused.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Most connections that are closed at a time.
pub(crate) const MOST: usize = 32;

/// The worth of a connection to its client, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worth {
    /// Its client may be gone.
    Left,
    /// Nothing was asked for, or a head was not ended, for a while.
    Nothing,
    /// Its client may come back.
    Idle,
    /// Its client has just come, or just begun to ask.
    Young,
}

/// A connection that may be closed; the least in order is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    worth: Worth,
    since: Instant,
    /// The connection's number on its worker.
    pub id: u64,
}

/// Whose connections have places together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Clients,
    /// Nodes of a fleet, and who wants to be taken for one.
    Nodes,
}

/// The facts of a connection that a worker knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionActivity {
    pub id: u64,
    pub group: Group,
    pub phase: Phase,
    /// It has had a request.
    pub has_asked: bool,
    /// A request is under way, and its client sends nothing more.
    pub may_be_left: bool,
    pub since: Instant,
}

impl ConnectionActivity {
    /// Returns the place of a connection in the order; `None` when it must not be closed.
    pub fn candidate(&self, now: Instant) -> Option<Candidate> {
        let ConnectionActivity { id, group, phase, has_asked, may_be_left, since } = *self;
        let is_old = group == Group::Nodes || now.saturating_duration_since(since) >= GRACE;
        let worth = match (phase, has_asked) {
            _ if may_be_left => Worth::Left,
            (Phase::Busy, _) => return None,
            (Phase::Idle, true) => Worth::Idle,
            (Phase::Idle | Phase::Head, _) if is_old => Worth::Nothing,
            (Phase::Idle | Phase::Head, _) => Worth::Young,
        };
        Some(Candidate { worth, since, id })
    }
}

/// Returns the first `most` of all candidates, in any order.
pub(crate) fn first(mut all: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    if all.len() > most {
        all.select_nth_unstable(most);
        all.truncate(most);
    }
    all
}

/// Returns how many connections are closed at once where so many may be open.
pub(crate) fn at_once(connections: usize) -> usize {
    (connections / 256).clamp(1, MOST)
}

/// A question or an order to a worker.
pub(crate) enum Ask {
    /// Its first so many candidates, of this group or of all.
    Candidates(usize, Option<Group>, oneshot::Sender<Vec<Candidate>>),
    /// To close these, and say how many it could.
    Close(Vec<u64>, oneshot::Sender<usize>),
    /// To close at most so many connections with a request for these servers whose client may be
    /// gone, and say how many there were.
    CloseLeft(usize, usize, oneshot::Sender<usize>),
    /// To close its idle connections to origin servers, and say how many there were.
    LetGo(oneshot::Sender<usize>),
}

/// The means to ask all workers for connections to close.
pub(crate) struct ConnectionReclaimer {
    workers: Vec<mpsc::UnboundedSender<Ask>>,
    /// Connections that are half closed.
    pub half_closed: Arc<AtomicUsize>,
    at_once: usize,
    /// Held from the search for a place until it is taken: among clients, and among nodes.
    turns: [Mutex<()>; 2],
}

impl ConnectionReclaimer {
    /// Makes the channels to so many workers, and returns their receiving ends too. `connections`:
    /// how many may be open.
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

    /// Waits for the right to search for a place in a group.
    pub async fn turn(&self, group: Group) -> MutexGuard<'_, ()> {
        let [clients, nodes] = &self.turns;
        match group {
            Group::Clients => clients.lock().await,
            Group::Nodes => nodes.lock().await,
        }
    }

    /// Closes the idle connections to origin servers, and returns how many there were. For want of
    /// descriptors, when no client's connection can be closed.
    pub async fn let_go(&self) -> usize {
        let mut closed = 0;
        for (_, told) in self.ask(Ask::LetGo) {
            closed += told.await.unwrap_or(0);
        }
        closed
    }

    /// Closes the first candidates of a group, or of all, and returns how many were closed.
    pub async fn close_idle(&self, group: Option<Group>) -> usize {
        let mut all = Vec::new();
        let asked = self.ask(|tell| Ask::Candidates(self.at_once, group, tell));
        for (worker, candidates) in asked {
            // A worker that has ended has none.
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
            // Where it cannot be sent, the answer does not come either.
            let _ = way.send(question(tell));
            (worker, told)
        });
        asked.collect()
    }
}

impl FreeDescriptors for ConnectionReclaimer {
    /// Closes idle connections, those to origin servers first.
    fn free(&self) -> Freeing<'_> {
        Box::pin(async {
            let _turn = self.turn(Group::Clients).await;
            self.let_go().await > 0 || self.close_idle(None).await > 0
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
                if worker.send(Ask::CloseLeft(servers, most - closed, tell)).is_ok() {
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
    fn who_never_asked_makes_way_for_nodes_however_young_it_is() {
        let now = TokioClock::system().instant();
        let node = |id, has_asked, phase| {
            let activity = standing(id, phase, has_asked, now);
            ConnectionActivity { group: Group::Nodes, ..activity }.candidate(now)
        };
        assert!(node(2, false, Phase::Idle) < node(1, true, Phase::Idle));
        assert!(node(2, false, Phase::Head) < node(1, true, Phase::Idle));
        assert_eq!(node(3, true, Phase::Busy), None);
    }

    fn standing(id: u64, phase: Phase, has_asked: bool, since: Instant) -> ConnectionActivity {
        let may_be_left = false;
        ConnectionActivity { id, group: Group::Clients, phase, has_asked, may_be_left, since }
    }

    #[test]
    fn those_that_are_worth_least_go_first() {
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
            ConnectionActivity { may_be_left: true, ..standing(10, Phase::Busy, true, at(99)) },
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
    fn few_places_are_given_up_one_by_one() {
        assert_eq!([1, 4, 511, 512, 16_384].map(at_once), [1, 1, 1, 2, 32]);
    }
}
