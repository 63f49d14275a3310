//! What a document is called among the nodes of a fleet: a hash of its cache key.
//!
//! All nodes must come to the same hash, so it is made under a seed that the fleet shares and not
//! under the secret of one node's device. It decides who is asked, never what is answered: two
//! documents with one hash have the same owners, and each is still found by its full key.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A number that the nodes of one fleet share, best a random one that no stranger knows.
///
/// It keeps strangers from computing offline which URLs belong to one node. XXH3 is no
/// cryptographic hash: who can watch which node answers can still find such URLs, and
/// [`LoadBound`](crate::placement::LoadBound) is what limits the harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSeed(pub u64);

/// The hash of a cache key in a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Hashes the bytes of a cache key: XXH3, 64 bits, with `seed`.
    pub fn of(key: &[u8], seed: FleetSeed) -> KeyHash {
        KeyHash(xxh3_64_with_seed(key, seed.0))
    }

    /// Takes a hash that another node sent.
    pub const fn from_bits(bits: u64) -> KeyHash {
        KeyHash(bits)
    }

    /// Returns the hash as a number, to be sent.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_hash_on_every_platform_and_another_with_every_seed() {
        assert_eq!(KeyHash::of(b"", FleetSeed(0)).bits(), 0x2d06_8005_38d3_94c2);
        let key = b"site GET http://a.example/";
        assert_ne!(KeyHash::of(key, FleetSeed(1)), KeyHash::of(key, FleetSeed(2)));
        let hash = KeyHash::of(key, FleetSeed(1));
        assert_eq!(KeyHash::from_bits(hash.bits()), hash);
    }
}
