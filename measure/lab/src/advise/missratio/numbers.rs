//! Dense numbers for objects, so that the tables of simulations are arrays.
//!
//! A trace identifies objects by any 64-bit number. Here they are numbered in the order of their
//! first requests, once for all caches that see the trace.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use workload::trace::Access;

/// A request whose object has a number.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    /// Number of the object; dense, in the order of first requests.
    pub id: u32,
    /// Uniform hash of the object's name.
    pub hash: u64,
    /// Size of the object in bytes.
    pub bytes: u64,
}

/// Assigns dense numbers to objects.
#[derive(Default)]
pub struct Numbers(HashTable<(u64, u32)>);

impl Numbers {
    /// Returns the access with its object's number; `None` once almost 2^32 objects have one.
    pub fn number(&mut self, access: Access) -> Option<Numbered> {
        let hash = mix(access.object);
        let next = self.0.len() as u32;
        let same = |known: &(u64, u32)| known.0 == access.object;
        let id = match self.0.entry(hash, same, |known| mix(known.0)) {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(_) if next == store::policy::ID_MAX => return None,
            Entry::Vacant(place) => place.insert((access.object, next)).get().1,
        };
        Some(Numbered { id, hash, bytes: access.size })
    }

    /// Returns the number of objects so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no object was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.allocation_size()
    }
}

/// Spreads a number over 64 bits (the finalizer of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
