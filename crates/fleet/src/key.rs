//! Fleet-wide name of a document: a hash of its cache key.
//!
//! All nodes must compute the same hash, so its seed is shared by the fleet rather than taken from
//! a node's device. The hash decides which node is asked, never which document is served: documents
//! with equal hashes have the same owners, and each is found by its full key.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seed that the nodes of one fleet share; choose it at random and keep it secret.
///
/// It keeps outsiders from computing which URLs one node owns. XXH3 is not a cryptographic hash: an
/// attacker who can observe which node answers can still find such URLs, and
/// [`LoadBound`](crate::placement::LoadBound) limits the harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSeed(pub u64);

/// Hash of a cache key within a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Hashes the bytes of a cache key: XXH3, 64 bits, with `seed`.
    pub fn of(key: &[u8], seed: FleetSeed) -> KeyHash {
        KeyHash(xxh3_64_with_seed(key, seed.0))
    }

    /// Makes a key hash from the bits that another node sent.
    pub const fn from_bits(bits: u64) -> KeyHash {
        KeyHash(bits)
    }

    /// Returns the bits, to be sent to another node.
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
