//! Memory for bodies that wait: those of requests until they have come, and those of answers until
//! their clients take them.
//!
//! It exists so that a slow client does not keep an origin server busy. All bodies together have
//! one limit, and it is shared out: a client, and likewise a host, gets at most half of what is
//! free at the moment. So many slow clients of one host cannot take the memory of the others.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::observe::metrics::{Samples, Source};

/// The memory of all bodies that wait, shared by all workers.
#[derive(Default)]
pub(crate) struct Buffers {
    used: AtomicU64,
    /// Bytes of each client and host that has any, by hash.
    shares: Mutex<HashMap<u64, Arc<AtomicU64>>>,
    hasher: RandomState,
}

/// The memory of one body. It is given back when this is dropped.
pub(crate) struct Buffered {
    all: Arc<Buffers>,
    limit: u64,
    held: u64,
    /// Of its client and of its host.
    shares: [(u64, Arc<AtomicU64>); 2],
}

impl Buffers {
    /// Returns the names of the shares of a client and a host.
    pub fn shares(&self, client: impl Hash, host: &str) -> [u64; 2] {
        [self.hasher.hash_one((0, client)), self.hasher.hash_one((1, host))]
    }

    /// Begins a body that counts in these shares, when all may have `limit` bytes.
    pub fn begin(all: &Arc<Buffers>, shares: [u64; 2], limit: u64) -> Buffered {
        let mut table = all.table();
        let shares = shares.map(|share| (share, table.entry(share).or_default().clone()));
        Buffered { all: all.clone(), limit, held: 0, shares }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Arc<AtomicU64>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffered {
    /// Takes so many bytes more; returns false, and takes nothing, when they are not to be had.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let free = self.limit.saturating_sub(self.all.used.load(Relaxed));
        let Some(rest) = free.checked_sub(bytes) else { return false };
        if self.shares.iter().any(|(_, share)| share.load(Relaxed) + bytes > rest) {
            return false;
        }
        self.all.used.fetch_add(bytes, Relaxed);
        for (_, share) in &self.shares {
            share.fetch_add(bytes, Relaxed);
        }
        self.held += bytes;
        true
    }

    /// Gives so many bytes back.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.all.used.fetch_sub(bytes, Relaxed);
        for (_, share) in &self.shares {
            share.fetch_sub(bytes, Relaxed);
        }
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.shrink(self.held);
        let mut table = self.all.table();
        for (name, share) in &mut self.shares {
            // Dropped under the lock: the last one must see that it is.
            drop(std::mem::take(share));
            if table.get(name).is_some_and(|share| Arc::strong_count(share) == 1) {
                table.remove(name);
            }
        }
    }
}

/// The metrics of the memory.
pub(crate) struct BufferFigures(pub Arc<Buffers>);

impl Source for BufferFigures {
    fn samples(&self, out: &mut Samples) {
        let help = "Bytes of bodies that wait for slow clients.";
        out.gauge("larder_buffered_bytes", help, &[], self.0.used.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_and_a_host_get_half_of_what_is_free() {
        let all = Arc::<Buffers>::default();
        let begin = |client: u32, host| Buffers::begin(&all, all.shares(client, host), 1000);
        let mut first: Vec<_> = (0..100).map(|client| begin(client, "a")).collect();
        let taken = first.iter_mut().map(|one| one.grow(10)).filter(|grown| *grown).count();
        assert_eq!(taken, 50);
        let mut one = begin(700, "b");
        assert!(one.grow(200) && !one.grow(100));
        let mut another = begin(700, "c");
        assert!(!another.grow(100) && another.grow(10));
        one.shrink(200);
        assert!(another.grow(100));
        drop((first, one, another));
        assert_eq!((all.used.load(Relaxed), all.table().len()), (0, 0));
    }
}
