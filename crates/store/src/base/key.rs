//! The key of an object, and its locality.
//!
//! It promises: keys are equal when their bytes are, whatever is said of their locality.

use std::hash::{Hash, Hasher};

use bytes::Bytes;

/// The store's knowledge of an object's locality: two opaque hashes made by the caller. Objects
/// with equal `group` are placed together, then those with equal `site`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locality {
    /// The origin server.
    pub site: u64,
    /// The origin server and the directory of the path.
    pub group: u64,
}

/// The full key of an object. Stored with it and compared on every read.
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
    /// The longest key in bytes that the store takes.
    pub const MAX_LEN: usize = 16 * 1024;

    /// Returns a key of at most [`Key::MAX_LEN`] bytes; `None` when longer.
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
