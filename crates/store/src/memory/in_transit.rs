//! Pieces of large objects in transit to clients. They do not enter the memory tier, because they
//! would push everything else out. A piece is still in memory while a response sends it, and
//! requests for it meanwhile share the same bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::base::digest::Digest;
use crate::memory::memory_tier::Weighed;
use crate::memory::object::Object;

/// The pieces in transit. See the module documentation.
#[derive(Default)]
pub(crate) struct InTransit {
    pieces: BTreeMap<Digest, Weak<Object>>,
    /// Number of entries at which the map is swept of pieces that have been dropped.
    sweep_at: usize,
}

/// Minimum number of entries before a sweep.
const SWEEP_LEAST: usize = 64;

impl InTransit {
    /// Returns the piece if it is still in use.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<Object>> {
        self.pieces.get(digest).and_then(Weak::upgrade)
    }

    /// Records that this piece is in use.
    pub(crate) fn put(&mut self, digest: Digest, piece: &Arc<Object>) {
        self.pieces.insert(digest, Arc::downgrade(piece));
        if self.pieces.len() >= self.sweep_at.max(SWEEP_LEAST) {
            self.pieces.retain(|_, piece| piece.strong_count() > 0);
            self.sweep_at = 2 * self.pieces.len();
        }
    }

    /// Returns the memory of all pieces in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.values().filter_map(Weak::upgrade).map(|piece| piece.weight()).sum()
    }
}
