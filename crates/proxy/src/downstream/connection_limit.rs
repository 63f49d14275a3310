//! The limit on open connections of the whole process, and the means to close idle ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use net::shortage::Shortage;
use tokio::sync::Semaphore;

use crate::client::addresses::Addresses;
use crate::client::reclaimer::ConnectionReclaimer;

/// The connections of all workers, and their limits.
pub(crate) struct ConnectionLimit {
    /// One permit for each connection that may be open.
    pub room: Arc<Semaphore>,
    /// Closes idle connections when there is no room.
    pub reclaimer: Arc<ConnectionReclaimer>,
    /// The connections of each client address.
    pub addresses: Arc<Addresses>,
    /// All permits are taken, and this was logged.
    pub crowded: AtomicBool,
    /// A shortage of descriptors.
    pub descriptors: Shortage,
    /// Open connections of each worker.
    loads: Vec<AtomicUsize>,
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
            room: Arc::new(Semaphore::new(connections.max(1))),
            reclaimer: Arc::new(reclaimer),
            addresses: Arc::default(),
            crowded: AtomicBool::new(false),
            descriptors: Shortage::default(),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
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

    /// Counts a connection of a worker that has ended.
    pub fn left(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }
}
