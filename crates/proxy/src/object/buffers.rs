//! Memory for waiting bodies: request bodies until they are complete, and response bodies until
//! their clients take them.
//!
//! This memory keeps slow clients from occupying an origin server. All bodies together have one
//! limit, which is divided: a host gets at most half of the memory that is free at the moment, and
//! a client half of its host's share. The slow clients of one host therefore cannot take the memory
//! of other hosts, and one client cannot take that of its host.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::observe::metrics::{Samples, Source};

#[derive(Default)]
pub(crate) struct Buffers {
    used: AtomicU64,
    /// Bytes used by each client and host with waiting bodies, by hash.
    shares: Mutex<HashMap<u64, Arc<AtomicU64>>>,
    hasher: RandomState,
}

/// The memory of one body, released on drop.
pub(crate) struct Buffered {
    all: Arc<Buffers>,
    limit: u64,
    held: u64,
    /// Shares of the body's client and host.
    shares: [(u64, Arc<AtomicU64>); 2],
}

impl Buffers {
    /// Returns the hashes that name the shares of a client and a host.
    pub fn shares(&self, client: impl Hash, host: &str) -> [u64; 2] {
        [self.hasher.hash_one((0, client)), self.hasher.hash_one((1, host))]
    }

    /// Registers a body that counts in these shares. All bodies together may have `limit` bytes.
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
    /// Takes `bytes` more bytes, or none. Returns whether they were available.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let free = self.limit.saturating_sub(self.all.used.load(Relaxed));
        let Some(rest) = free.checked_sub(bytes) else { return false };
        let [client, host] = self.shares.each_ref().map(|(_, share)| share.load(Relaxed) + bytes);
        // The host may still take half of the difference.
        let Some(rest) = rest.checked_sub(host) else { return false };
        if client > rest / 2 {
            return false;
        }
        self.all.used.fetch_add(bytes, Relaxed);
        for (_, share) in &self.shares {
            share.fetch_add(bytes, Relaxed);
        }
        self.held += bytes;
        true
    }

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
            // Dropped under the lock, so that the last holder sees that it is the last.
            drop(std::mem::take(share));
            if table.get(name).is_some_and(|share| Arc::strong_count(share) == 1) {
                table.remove(name);
            }
        }
    }
}

/// Metrics source for the memory of waiting bodies.
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
    fn a_host_gets_half_of_what_is_free_and_a_client_half_of_that() {
        let all = Arc::<Buffers>::default();
        let begin = |client: u32, host| Buffers::begin(&all, all.shares(client, host), 1000);
        let mut first: Vec<_> = (0..100).map(|client| begin(client, "a")).collect();
        let taken = first.iter_mut().map(|one| one.grow(10)).filter(|grown| *grown).count();
        assert_eq!(taken, 49);
        let mut one = begin(700, "b");
        assert!(one.grow(120) && !one.grow(10));
        let mut elsewhere = begin(700, "c");
        assert!(!elsewhere.grow(40) && elsewhere.grow(30));
        // Other clients of the host have memory left.
        let mut other = begin(701, "b");
        assert!(!other.grow(70) && other.grow(60));
        one.shrink(120);
        assert!(elsewhere.grow(40));
        drop((first, one, elsewhere, other));
        assert_eq!((all.used.load(Relaxed), all.table().len()), (0, 0));
    }
}
