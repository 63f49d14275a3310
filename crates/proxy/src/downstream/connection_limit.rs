//! The process-wide limit on open connections, and the means to close idle ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::downstream::shortage::Shortage;
use tokio::sync::Semaphore;

use crate::client::addresses::Addresses;
use crate::client::reclaimer::{ConnectionReclaimer, Group};

/// Minimum limit on connections of fleet nodes. Above it they have the clients' limit, because each
/// client request may need one.
const NODES_MIN: usize = 256;

pub(crate) struct GroupPermits {
    pub permits: Arc<Semaphore>,
    /// Set once the exhaustion of the permits has been logged.
    pub was_exhausted: AtomicBool,
}

impl GroupPermits {
    fn of(permits: usize) -> GroupPermits {
        GroupPermits {
            permits: Arc::new(Semaphore::new(permits)),
            was_exhausted: AtomicBool::new(false),
        }
    }
}

/// Open connections of all workers, and their limits.
pub(crate) struct ConnectionLimit {
    clients: GroupPermits,
    nodes: GroupPermits,
    /// Closes idle connections when a limit is reached.
    pub reclaimer: Arc<ConnectionReclaimer>,
    pub addresses: Arc<Addresses>,
    /// Shortage of file descriptors for accepting connections.
    pub descriptors: Shortage,
    loads: Vec<AtomicUsize>,
    /// Number of workers that may still accept connections, for themselves or for others.
    accepting: AtomicUsize,
}

/// Records on drop that a worker accepts no more connections.
pub(crate) struct AcceptGuard(Arc<ConnectionLimit>);

impl AcceptGuard {
    /// Creates the guard of a worker. Each worker has exactly one.
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
    /// Creates the limit for `workers` workers and `connections` client connections.
    pub fn new(
        workers: usize,
        connections: usize,
        reclaimer: ConnectionReclaimer,
    ) -> ConnectionLimit {
        ConnectionLimit {
            clients: GroupPermits::of(connections.max(1)),
            nodes: GroupPermits::of(connections.max(NODES_MIN)),
            reclaimer: Arc::new(reclaimer),
            addresses: Arc::default(),
            descriptors: Shortage::default(),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            accepting: AtomicUsize::new(workers),
        }
    }

    pub fn group(&self, group: Group) -> &GroupPermits {
        match group {
            Group::Clients => &self.clients,
            Group::Nodes => &self.nodes,
        }
    }

    pub fn workers(&self) -> usize {
        self.loads.len()
    }

    /// Returns the worker with the fewest connections; on a tie `own`, if it is one of them.
    pub fn least_loaded(&self, own: usize) -> usize {
        let load = |index: usize| self.loads[index].load(Ordering::Relaxed);
        (0..self.loads.len()).min_by_key(|&index| (load(index), index != own)).unwrap_or(own)
    }

    /// Counts a connection assigned to a worker.
    pub fn connection_assigned(&self, worker: usize) {
        self.loads[worker].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a worker has more than `known` connections, or may get one that another
    /// worker accepted for it.
    pub fn has_more(&self, worker: usize, known: usize) -> bool {
        // The load is read after the flag: an accepting worker counts the connection before it
        // drops its guard.
        self.accepting.load(Ordering::Acquire) > 0
            || self.loads[worker].load(Ordering::Acquire) > known
    }

    pub fn connection_ended(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }
}
