//! The cache's secret and the checksums keyed with it.
//!
//! The secret is generated when the cache is created. Because of it, a client can choose neither
//! URLs that collide in the index nor bytes that pass for a record.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Length in bytes of a secret as stored in the superblock.
pub(crate) const SECRET_LEN: usize = 32;
/// Length in bytes of the key material of XXH3.
const XXH3_SECRET_LEN: usize = 192;

/// Key material of one cache.
#[derive(Clone)]
pub struct Secret {
    seed: [u8; SECRET_LEN],
    checksum_key: [u8; XXH3_SECRET_LEN],
}

impl Secret {
    /// Derives the key material from 32 random bytes.
    pub fn new(seed: [u8; SECRET_LEN]) -> Secret {
        let mut checksum_key = [0; XXH3_SECRET_LEN];
        let (left, right) = halves(&seed);
        for (number, chunk) in checksum_key.chunks_exact_mut(8).enumerate() {
            let mut hasher = SipHasher13::new_with_keys(left, right);
            hasher.write_u64(number as u64);
            chunk.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Secret { seed, checksum_key }
    }

    /// Returns the 32 bytes that are stored in the superblock.
    pub(crate) fn seed(&self) -> &[u8; SECRET_LEN] {
        &self.seed
    }

    /// Returns the key of the index's digests: the second half of the seed.
    pub(crate) fn digest_key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key.copy_from_slice(&self.seed[16..]);
        key
    }

    /// Returns the keyed checksum of `bytes`.
    pub(crate) fn checksum(&self, bytes: &[u8]) -> u64 {
        let sum = XxHash3_64::oneshot_with_secret(&self.checksum_key, bytes);
        sum.expect("the key is long enough for XXH3")
    }

    /// Returns the keyed checksum of `bytes` bound to a place, so that the right bytes in the wrong
    /// place fail.
    pub(crate) fn checksum_at(&self, place: u64, bytes: &[u8]) -> u64 {
        let mut bound = [0; 16];
        bound[..8].copy_from_slice(&place.to_le_bytes());
        bound[8..].copy_from_slice(&self.checksum(bytes).to_le_bytes());
        self.checksum(&bound)
    }
}

fn halves(seed: &[u8; SECRET_LEN]) -> (u64, u64) {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&seed[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    (word(0), word(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_another_implementation() {
        let secret = Secret::new([3; 32]);
        let bytes: Vec<u8> =
            (0..200_000u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for len in (0..2_100).chain([65_535, 65_536, 131_072, 199_000]) {
            for start in [0, 1, 7] {
                let part = &bytes[start..start + len];
                let other = xxhash_rust::xxh3::xxh3_64_with_secret(part, &secret.checksum_key);
                assert_eq!(secret.checksum(part), other, "{len} bytes from {start}");
            }
        }
    }

    #[test]
    fn a_checksum_depends_on_secret_place_and_every_byte() {
        let one = Secret::new([1; 32]);
        let other = Secret::new([2; 32]);
        let sum = one.checksum_at(7, b"body");
        assert_ne!(sum, other.checksum_at(7, b"body"));
        assert_ne!(sum, one.checksum_at(8, b"body"));
        assert_ne!(sum, one.checksum_at(7, b"bodz"));
        assert_eq!(sum, Secret::new([1; 32]).checksum_at(7, b"body"));
    }
}
