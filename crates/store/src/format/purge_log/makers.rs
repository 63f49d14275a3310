//! The last logged purge of each maker other than this store.
//!
//! Bounded: so many makers as their numbers fit half of a group of blocks. Beyond that the one
//! whose last purge is the oldest is forgotten: the log then claims nothing of it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::base::logged_purge::PurgeMaker;
use crate::format::purge_log::block::ROOM;
use crate::format::purge_log::entry::{Entry, MAKER_NAME_MAX, len_of_reached};

/// Maximum number of blocks that the numbers of all makers take.
pub(super) const BLOCKS_MAX: u64 = 16;

/// The last purge of a maker.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Number of the purge.
    number: u64,
    /// Number of the entry that logged it.
    entry: u64,
    /// Number of the last durable purge.
    durable: u64,
}

/// The makers whose purges are in the log.
#[derive(Clone, Debug)]
pub(super) struct Makers {
    last: BTreeMap<PurgeMaker, Last>,
    /// Maximum and present number of bytes that stating all numbers takes.
    max: usize,
    bytes: usize,
    /// Makers with purges since the last write began, and with purges in that write.
    unwritten: BTreeSet<PurgeMaker>,
    writing: Vec<(PurgeMaker, u64)>,
}

impl Makers {
    /// Creates an empty table for groups of `group` blocks.
    pub(super) fn new(group: u64) -> Makers {
        let max = (group / 2).clamp(1, BLOCKS_MAX) as usize * (ROOM - len_of_longest());
        let (last, unwritten, writing) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Makers { last, max, bytes: 0, unwritten, writing }
    }

    /// Notes what an entry, which is not durable yet, says of a maker.
    pub(super) fn note(&mut self, at: u64, entry: &Entry) {
        let (Entry::Made(maker, number, _) | Entry::Reached(maker, number)) = entry else {
            return;
        };
        if let Some(last) = self.last.get_mut(maker) {
            last.number = *number;
            if matches!(entry, Entry::Made(..)) {
                last.entry = at;
            }
        } else {
            let len = len_of_reached(maker);
            while self.bytes + len > self.max && self.forget_oldest() {}
            self.bytes += len;
            let last = Last { number: *number, entry: at, durable: 0 };
            self.last.insert(maker.clone(), last);
        }
        self.unwritten.insert(maker.clone());
    }

    /// Forgets the maker whose last purge is the oldest. Returns false if there is none.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.last.iter().min_by_key(|(_, last)| last.entry);
        let Some(maker) = oldest.map(|(maker, _)| maker.clone()) else { return false };
        self.bytes -= len_of_reached(&maker);
        self.last.remove(&maker);
        true
    }

    /// Returns the number of the last purge of a maker that is logged; 0 if none is known.
    pub(super) fn logged(&self, maker: &PurgeMaker) -> u64 {
        self.last.get(maker).map_or(0, |last| last.number)
    }

    /// Returns the entries that state the number of each maker, the one with the oldest purge
    /// first: an opening learns that order from them.
    pub(super) fn stated(&self) -> Vec<Entry> {
        let mut makers: Vec<_> = self.last.iter().collect();
        makers.sort_by_key(|(_, last)| last.entry);
        let state =
            |(maker, last): (&PurgeMaker, &Last)| Entry::Reached(maker.clone(), last.number);
        makers.into_iter().map(state).collect()
    }

    /// Records that all entries are being written.
    pub(super) fn begin_write(&mut self) {
        for maker in std::mem::take(&mut self.unwritten) {
            let number = self.logged(&maker);
            self.writing.push((maker, number));
        }
    }

    /// Records that the entries of the last write are durable.
    pub(super) fn end_flush(&mut self) {
        for (maker, number) in self.writing.drain(..) {
            if let Some(last) = self.last.get_mut(&maker) {
                last.durable = number.max(last.durable);
            }
        }
    }

    /// Returns the number of a maker's last durable purge; 0 if none is known.
    pub(super) fn durable_of(&self, maker: &PurgeMaker) -> u64 {
        self.last.get(maker).map_or(0, |last| last.durable)
    }

    /// Returns the makers with the numbers of their last durable purges.
    pub(super) fn durable(&self) -> impl Iterator<Item = (&PurgeMaker, u64)> {
        let durable = self.last.iter().map(|(maker, last)| (maker, last.durable));
        durable.filter(|(_, durable)| *durable > 0)
    }
}

/// Returns the length in bytes of the longest entry that states a number, which a block may lack.
fn len_of_longest() -> usize {
    let name = Bytes::from_static(&[0; MAKER_NAME_MAX]);
    len_of_reached(&PurgeMaker { name, incarnation: 0 })
}
