//! The key of an object, and its locality.
//!
//! Guarantees: keys are equal when their bytes are, whatever their localities.

use std::hash::{Hash, Hasher};

use bytes::Bytes;

/// The locality of an object: two opaque hashes computed by the caller. Objects with equal `group`
/// are placed together, then those with equal `site`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locality {
    /// Hash of the origin server.
    pub site: u64,
    /// Hash of the origin server and the directory of the path.
    pub group: u64,
}

/// The full key of an object, stored with it and compared on every read.
#[derive(Clone, Debug)]
pub struct Key {
    bytes: Bytes,
    locality: Locality,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl Key {
    /// Maximum length of a key in bytes.
    pub const MAX_LEN: usize = 16 * 1024;

    /// Returns a key of at most [`Key::MAX_LEN`] bytes; `None` when `bytes` is longer.
    pub fn new(bytes: Bytes, locality: Locality) -> Option<Key> {
        (bytes.len() <= Self::MAX_LEN).then_some(Key { bytes, locality })
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the object's locality.
    pub fn locality(&self) -> Locality {
        self.locality
    }
}
