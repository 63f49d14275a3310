//! The tables that an orderly stop saves, read from a core that no longer changes.

use crate::core::state::Core;
use crate::index::IndexKind;
use crate::purge::label_filters::LabelFilters;
use crate::space::slot_dump;

/// A view of the tables that are saved.
pub(crate) struct Dump<'a>(&'a mut Core);

impl Core {
    /// Returns the tables that an orderly stop saves.
    pub(crate) fn dump(&mut self) -> Dump<'_> {
        Dump(self)
    }
}

impl<'a> Dump<'a> {
    /// Returns the kind of the index, and its number of buckets.
    pub(crate) fn index_shape(&self) -> (IndexKind, usize) {
        (self.0.index.kind(), self.0.index.bucket_count())
    }

    /// Writes the index from bucket `first` on to `bytes`.
    pub(crate) fn index(&self, first: usize, bytes: &mut [u8]) {
        self.0.index.dump(first, bytes);
    }

    /// Encodes the list of all records in slots; see [`slot_dump::encode`].
    pub(crate) fn records(&mut self) -> Option<Vec<u8>> {
        slot_dump::encode(self.0.placement.space.slots_mut()?, &self.0.index)
    }

    /// Returns the label filters, and the version of the way labels were read; `None` when there is
    /// nothing to save.
    pub(crate) fn label_filters(self) -> Option<(&'a LabelFilters, u64)> {
        let Core { labels, placement, recovery, .. } = self.0;
        labels.prepare_dump(&placement.space, recovery)
    }
}
