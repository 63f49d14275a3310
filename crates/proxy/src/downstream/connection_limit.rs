//! The limit on open connections of the whole process, and the means to close idle ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use net::shortage::Shortage;
use tokio::sync::Semaphore;

use crate::client::addresses::Addresses;
use crate::client::reclaimer::{ConnectionReclaimer, Group};

/// Connections of nodes of a fleet: a quarter of those of clients, and this many at least.
const NODES_MIN: usize = 64;

/// The places of connections.
pub(crate) struct Room {
    /// One permit for each connection that may be open.
    pub places: Arc<Semaphore>,
    /// All permits are taken, and this was logged.
    pub crowded: AtomicBool,
}

impl Room {
    fn of(places: usize) -> Room {
        Room { places: Arc::new(Semaphore::new(places)), crowded: AtomicBool::new(false) }
    }
}

/// The connections of all workers, and their limits.
pub(crate) struct ConnectionLimit {
    clients: Room,
    nodes: Room,
    /// Closes idle connections when there is no room.
    pub reclaimer: Arc<ConnectionReclaimer>,
    /// The connections of each client address.
    pub addresses: Arc<Addresses>,
    /// A shortage of descriptors.
    pub descriptors: Shortage,
    /// Open connections of each worker.
    loads: Vec<AtomicUsize>,
    /// Workers that may still accept connections, for themselves and for others.
    accepting: AtomicUsize,
}

/// A guard that says, when dropped, that a worker accepts no more connections.
pub(crate) struct AcceptGuard(Arc<ConnectionLimit>);

impl AcceptGuard {
    /// Makes that of one worker: each has one.
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
    /// Makes the limit for so many workers, which are asked through `reclaimer`, and so many
    /// connections.
    pub fn new(
        workers: usize,
        connections: usize,
        reclaimer: ConnectionReclaimer,
    ) -> ConnectionLimit {
        ConnectionLimit {
            clients: Room::of(connections.max(1)),
            nodes: Room::of((connections / 4).max(NODES_MIN)),
            reclaimer: Arc::new(reclaimer),
            addresses: Arc::default(),
            descriptors: Shortage::default(),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            accepting: AtomicUsize::new(workers),
        }
    }

    /// Returns the places of a group.
    pub fn room(&self, group: Group) -> &Room {
        match group {
            Group::Clients => &self.clients,
            Group::Nodes => &self.nodes,
        }
    }

    /// Returns how many workers there are.
    pub fn workers(&self) -> usize {
        self.loads.len()
    }

    /// Returns the worker with the fewest connections: `own` where it is one of them.
    pub fn least_loaded(&self, own: usize) -> usize {
        let load = |index: usize| self.loads[index].load(Ordering::Relaxed);
        (0..self.loads.len()).min_by_key(|&index| (load(index), index != own)).unwrap_or(own)
    }

    /// Counts a connection of a worker that was accepted.
    pub fn came(&self, worker: usize) {
        self.loads[worker].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a worker has connections or may get some: one that another worker accepted
    /// for it may be on its way.
    pub fn is_needed(&self, worker: usize) -> bool {
        // In this order: who accepts counts the connection first.
        self.accepting.load(Ordering::Acquire) > 0 || self.loads[worker].load(Ordering::Acquire) > 0
    }

    /// Counts a connection of a worker that has ended.
    pub fn left(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }
}
