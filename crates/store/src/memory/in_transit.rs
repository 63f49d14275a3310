//! Pieces of large objects in transit to clients. What does not enter the memory tier, because it
//! would sweep everything else out, is still in memory for as long as somebody sends it: who asks
//! for it meanwhile gets the same bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::base::digest::Digest;
use crate::memory::memory_tier::Weighed;
use crate::memory::object::Object;

/// See the module.
#[derive(Default)]
pub(crate) struct InTransit {
    pieces: BTreeMap<Digest, Weak<Object>>,
    /// When there are so many, those that nobody has any more are looked for.
    sweep_at: usize,
}

/// There are at least so many before they are looked through.
const SWEEP_LEAST: usize = 64;

impl InTransit {
    /// The piece, if somebody has it.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<Object>> {
        self.pieces.get(digest).and_then(Weak::upgrade)
    }

    /// Somebody has this piece.
    pub(crate) fn put(&mut self, digest: Digest, piece: &Arc<Object>) {
        self.pieces.insert(digest, Arc::downgrade(piece));
        if self.pieces.len() >= self.sweep_at.max(SWEEP_LEAST) {
            self.pieces.retain(|_, piece| piece.strong_count() > 0);
            self.sweep_at = 2 * self.pieces.len();
        }
    }

    /// Bytes of memory of the pieces that somebody has.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.values().filter_map(Weak::upgrade).map(|piece| piece.weight()).sum()
    }
}
