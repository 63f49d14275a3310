//! A record found by a scan or in a dump, and its entry into the tables.

use crate::base::digest::Digest;
use crate::base::size_class::SizeClass;
use crate::index::{Index, Slot};
use crate::layout::Run;
use crate::space::slots::SlotSpace;
use crate::space::slots::record_table::Listed;

pub(crate) struct FoundRecord {
    pub(crate) listed: Listed,
    pub(crate) further: Vec<Run>,
    /// For metadata: position and sequence number of their object's record.
    pub(crate) target: (u32, u64),
    /// True if the body was still being written when the process ended.
    pub(crate) unfinished: bool,
    /// The labels that the record bears, unless they are known already.
    pub(crate) labels: Vec<u64>,
}

/// Lists a record and adds it to the index. Records that it displaces there are no longer listed.
pub(crate) fn enter(
    index: &mut Index,
    space: &mut SlotSpace,
    digest: &Digest,
    record: &FoundRecord,
) {
    let listed = record.listed;
    let slot = Slot {
        position: listed.run.first,
        class: SizeClass::for_len(listed.len),
        refreshed: false,
    };
    let inserted = index.insert(digest, slot);
    for out in inserted.old.into_iter().chain(inserted.displaced) {
        space.unlist(out.position);
    }
    space.found(listed, &record.further);
}
