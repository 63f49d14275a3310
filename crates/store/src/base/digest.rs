//! Digests: fixed-size names of records, so that the index and other tables need not hold keys.
//!
//! A digest is SipHash-1-3 with 128 bits of output, keyed with the cache's secret, so that a client
//! cannot choose keys that collide in the index. Equal keys have equal digests for the lifetime of
//! the cache. Two keys with the same digest are possible in theory only; the full key is
//! nevertheless stored with the record and compared.

use crate::base::labels::Labels;
use std::fmt;
use std::hash::{Hash, Hasher};

use siphasher::sip128::SipHasher13;

/// Bytes that separate a text into parts that many texts share.
const SEPARATORS: &[u8] = b"/?&=";

/// The name of one record: an object's head, its replaced metadata or one of its pieces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest(pub [u8; 16]);

/// Mixes the bits of a hash (the finalizer of MurmurHash3).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Computes digests with the secret of one cache.
#[derive(Clone)]
pub(crate) struct Digester {
    keys: SipHasher13,
    pieces: SipHasher13,
    labels: SipHasher13,
    /// Hash state of an empty beginning.
    beginnings: u64,
}

impl Digester {
    /// Creates the digester of the cache that has this secret.
    pub(crate) fn new(secret: &[u8; 16]) -> Digester {
        // Pieces are hashed with a different key than objects, so that no choice of key bytes makes
        // an object's digest that of a piece.
        let pieces = secret.map(|byte| !byte);
        let labels = secret.map(|byte| byte ^ 0x55);
        let labels = SipHasher13::new_with_key(&labels);
        let mut beginnings = labels;
        beginnings.write(b"beginning");
        Digester {
            keys: SipHasher13::new_with_key(secret),
            pieces: SipHasher13::new_with_key(&pieces),
            labels,
            beginnings: beginnings.finish(),
        }
    }

    /// Returns the digest of a label of this kind. Labels with equal digests are purged together: a
    /// keyed hash of 64 bits makes that unlikely enough, and it is harmless.
    pub(crate) fn label(&self, kind: u8, name: &[u8]) -> u64 {
        let mut hasher = self.labels;
        hasher.write_u8(kind);
        hasher.write(name);
        hasher.finish()
    }

    /// Appends to `all` the digests of the labels of an object with this key and metadata, and of
    /// the beginnings of its text.
    pub(crate) fn labels(&self, of: &dyn Labels, key: &[u8], meta: &[u8], all: &mut Vec<u64>) {
        of.labels(key, meta, &mut |label| all.push(self.label(label.kind, label.name)));
        if let Some(text) = of.text(key) {
            self.beginnings(text, |digest| all.push(digest));
        }
    }

    /// Returns the digest of the longest beginning of `prefix` that is also a beginning of every
    /// text that starts with `prefix`. Returns `None` when `prefix` is too short to have one.
    pub(crate) fn beginning(&self, prefix: &[u8]) -> Option<u64> {
        let mut longest = None;
        self.beginnings(prefix, |digest| longest = Some(digest));
        longest
    }

    /// Calls `see` with the digests of the beginnings of `text` that purges of prefixes are matched
    /// by. Where they end depends only on the bytes before: behind a separator, and 2, 8, 32, ...
    /// bytes later. Each stored object has many of them, so they are hashed byte by byte with
    /// FNV-1a. Texts with equal digests cost no more than an entry for a purge.
    fn beginnings(&self, text: &[u8], mut see: impl FnMut(u64)) {
        let (mut hash, mut behind) = (self.beginnings, 0_usize);
        for byte in text {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            behind = if SEPARATORS.contains(byte) { 0 } else { behind + 1 };
            if behind == 0 || (behind.is_power_of_two() && behind.trailing_zeros() % 2 == 1) {
                see(mixed(hash));
            }
        }
    }

    /// Returns the digest of a prefix, which is compared only with those of prefixes of the same
    /// length.
    pub(crate) fn prefix(&self, prefix: &[u8]) -> u64 {
        self.labels.hash(prefix).h1
    }

    /// Returns the digest of the text of a pattern, which is compared only with those of patterns.
    pub(crate) fn pattern(&self, text: &[u8]) -> u64 {
        self.labels.hash(text).h2
    }

    pub(crate) fn key(&self, bytes: &[u8]) -> Digest {
        let hash = self.keys.hash(bytes);
        Digest::from_halves(hash.h1, hash.h2)
    }

    /// Returns the digest of piece `number` of the large object with this id.
    pub(crate) fn piece(&self, object_id: u64, number: u32) -> Digest {
        let mut message = [0; 12];
        message[..8].copy_from_slice(&object_id.to_le_bytes());
        message[8..].copy_from_slice(&number.to_le_bytes());
        let hash = self.pieces.hash(&message);
        Digest::from_halves(hash.h1, hash.h2)
    }
}

impl Digest {
    /// Returns the digest with these first and last eight bytes, read as little-endian numbers.
    pub(crate) fn from_halves(low: u64, high: u64) -> Digest {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Digest(bytes)
    }

    /// Returns the digest reduced to its tag: the part that it shares with every digest that a
    /// compact index may take for it.
    pub(crate) fn tag_alone(&self) -> Digest {
        let tag = (self.halves().1 >> 40).max(1);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&tag.to_le_bytes());
        Digest(bytes)
    }

    /// Returns the first and the last eight bytes as little-endian numbers.
    pub(crate) fn halves(&self) -> (u64, u64) {
        let all = u128::from_le_bytes(self.0);
        (all as u64, (all >> 64) as u64)
    }

    /// Returns the digest of the record that replaces the metadata of the object with this digest.
    pub(crate) fn derive_meta(&self) -> Digest {
        // A bijection without fixed points in practice; as uniform as its argument.
        let (low, high) = self.halves();
        let low = (low ^ 0x6d65_7461_2d72_6563).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let high = (high ^ 0x6f72_642d_6f66_2d61).wrapping_mul(0xd1b5_4a32_d192_ed03);
        Digest::from_halves(low ^ (low >> 32), high ^ (high >> 32))
    }
}

/// A digest is already uniform: hash tables use its first half unchanged.
impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.halves().0);
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_secret_key_and_role() {
        let a = Digester::new(&[1; 16]);
        let b = Digester::new(&[2; 16]);
        assert_eq!(a.key(b"x"), Digester::new(&[1; 16]).key(b"x"));
        assert_ne!(a.key(b"x"), b.key(b"x"));
        assert_ne!(a.key(b"x"), a.key(b"y"));
        assert_ne!(a.key(b"x"), a.key(b"x").derive_meta());
        assert_ne!(a.piece(1, 0), a.piece(1, 1));
        assert_ne!(a.piece(1, 0), a.piece(2, 0));
        let mut message = 1_u64.to_le_bytes().to_vec();
        message.extend_from_slice(&0_u32.to_le_bytes());
        assert_ne!(a.piece(1, 0), a.key(&message));
    }

    #[test]
    fn every_prefix_of_a_text_has_a_beginning_that_the_text_has() {
        let digester = Digester::new(&[1; 16]);
        let text = b"a.example/images/2024/some-long-name.jpg?width=100&format=webp";
        let mut all = Vec::new();
        digester.beginnings(text, |digest| all.push(digest));
        for len in 1..=text.len() {
            let beginning = digester.beginning(&text[..len]);
            assert!(beginning.is_none_or(|digest| all.contains(&digest)), "{len}");
        }
        assert_eq!(digester.beginning(b""), None);
        for foreign in
            [&b"b.example/"[..], b"a.example/jp", b"a.example/images/2023/", b"a.exbmple"]
        {
            let beginning = digester.beginning(foreign);
            assert!(beginning.is_some_and(|digest| !all.contains(&digest)), "{foreign:?}");
        }
    }

    #[test]
    fn halves_and_bytes_agree() {
        let digest = Digest::from_halves(0x0102, 0x0304);
        assert_eq!(digest.halves(), (0x0102, 0x0304));
        assert_eq!((digest.0[0], digest.0[8]), (0x02, 0x04));
        assert_eq!(format!("{digest:?}"), "02010000000000000403000000000000");
    }

    #[test]
    fn the_format_of_a_digest_is_fixed() {
        // Digests are stored on devices: this value may never change within a format version.
        let digest = Digester::new(&[7; 16]).key(b"http://example.org/");
        assert_eq!(format!("{digest:?}"), "34ea0ed502dd2691f3cffce7fb195386");
    }
}
