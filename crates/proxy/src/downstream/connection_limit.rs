//! The process-wide limit on open connections, and the means to close idle ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::downstream::shortage::Shortage;
use tokio::sync::Semaphore;

use crate::client::addresses::Addresses;
use crate::client::reclaimer::{ConnectionReclaimer, Group};

/// Minimum limit on connections of fleet nodes, which otherwise is the clients' limit: a request of
/// another node's client takes one.
const NODES_MIN: usize = 256;

/// Connection permits of one group.
pub(crate) struct Room {
    /// One permit for each connection that may be open.
    pub places: Arc<Semaphore>,
    /// Set once it was logged that all permits are taken.
    pub crowded: AtomicBool,
}

impl Room {
    fn of(places: usize) -> Room {
        Room { places: Arc::new(Semaphore::new(places)), crowded: AtomicBool::new(false) }
    }
}

/// Connections of all workers, and their limits.
pub(crate) struct ConnectionLimit {
    clients: Room,
    nodes: Room,
    /// Means of closing idle connections when a limit is reached.
    pub reclaimer: Arc<ConnectionReclaimer>,
    /// Connections per client address.
    pub addresses: Arc<Addresses>,
    /// Shortage of descriptors, for accepting connections.
    pub descriptors: Shortage,
    /// Open connections of each worker.
    loads: Vec<AtomicUsize>,
    /// Number of workers that may still accept connections, for themselves or for others.
    accepting: AtomicUsize,
}

/// Guard that records, when dropped, that a worker accepts no more connections.
pub(crate) struct AcceptGuard(Arc<ConnectionLimit>);

impl AcceptGuard {
    /// Creates the guard of one worker. Each worker has exactly one.
    pub fn new(limit: Arc<ConnectionLimit>) -> AcceptGuard {
        AcceptGuard(limit)
    }
}

impl Drop for AcceptGuard {
    fn drop(&mut self) {
        self.0.accepting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ConnectionLimit {
    /// Creates the limit for `workers` workers, reached through `reclaimer`, and `connections`
    /// client connections.
    pub fn new(
        workers: usize,
        connections: usize,
        reclaimer: ConnectionReclaimer,
    ) -> ConnectionLimit {
        ConnectionLimit {
            clients: Room::of(connections.max(1)),
            nodes: Room::of(connections.max(NODES_MIN)),
            reclaimer: Arc::new(reclaimer),
            addresses: Arc::default(),
            descriptors: Shortage::default(),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            accepting: AtomicUsize::new(workers),
        }
    }

    /// Returns the permits of a group.
    pub fn room(&self, group: Group) -> &Room {
        match group {
            Group::Clients => &self.clients,
            Group::Nodes => &self.nodes,
        }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.loads.len()
    }

    /// Returns the worker with the fewest connections; on a tie `own`, if it is among them.
    pub fn least_loaded(&self, own: usize) -> usize {
        let load = |index: usize| self.loads[index].load(Ordering::Relaxed);
        (0..self.loads.len()).min_by_key(|&index| (load(index), index != own)).unwrap_or(own)
    }

    /// Counts a connection assigned to a worker.
    pub fn came(&self, worker: usize) {
        self.loads[worker].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a worker has connections or may still get some: a connection that another
    /// worker accepted for it may be on its way.
    pub fn is_needed(&self, worker: usize) -> bool {
        // The order of the loads matters: an accepting worker counts the connection before it drops
        // its guard.
        self.accepting.load(Ordering::Acquire) > 0 || self.loads[worker].load(Ordering::Acquire) > 0
    }

    /// Counts the end of a connection of a worker.
    pub fn left(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }
}
