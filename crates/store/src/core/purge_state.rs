//! The purges that objects and fetches are checked against.

use crate::base::digest::Digest;
use crate::base::labels::{Mode, Target};
use crate::base::record::RecordKind;
use crate::core::object_labels::ObjectLabels;
use crate::index::Index;
use crate::memory::object::Object;
use crate::purge::purges::{Purge, Purges, Scope, Validity};
use crate::purge::tables::PurgeTables;
use crate::space::Space;
use crate::space::cluster_table::State;

/// Fill level of the purge table in percent at which the operator is warned. The warning is
/// repeated only after the table was half full or less.
const WARNED_AT: usize = 75;

/// Number of relabelled objects above which those already written are dropped from the list.
const RELABELLED: usize = 1024;

/// The purge table is nearly full, or was full and has been merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgesFull {
    pub(crate) entries: usize,
    pub(crate) max: usize,
    /// True if the oldest entries were merged into one purge of everything as old.
    pub(crate) merged: bool,
}

/// Replaced metadata in a cluster that may not be written yet.
#[derive(Clone, Copy)]
pub(super) struct Relabelled {
    /// Digest of the object.
    pub(super) digest: Digest,
    /// Position of the metadata.
    pub(super) position: u32,
    /// True if they give the object a label; otherwise only a pattern may tell them from the
    /// metadata before.
    pub(super) has_new_label: bool,
}

/// The purge tables, and what must be known beside them.
pub(super) struct PurgeState {
    pub(super) tables: PurgeTables,
    relabelled: Vec<Relabelled>,
    /// True if the table was reported as nearly full.
    reported_full: bool,
    reported_merges: u64,
}

impl PurgeState {
    pub(super) fn new(tables: PurgeTables) -> PurgeState {
        PurgeState { tables, relabelled: Vec::new(), reported_full: false, reported_merges: 0 }
    }

    /// Returns whether a purge since `begun` concerns an object with this key and metadata.
    pub(super) fn overtake(
        &self,
        labels: &ObjectLabels,
        begun: u64,
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        self.tables.concern(labels.digester(), begun, &labels.named(key, meta))
    }

    /// Returns the effect of purges on `object`, and caches it in the object, so that each purge is
    /// checked once.
    pub(super) fn validity(&self, labels: &ObjectLabels, object: &Object) -> Validity {
        use std::sync::atomic::Ordering::Relaxed;
        let (newest, checked) = (self.tables.newest_in_force(), object.checked.load(Relaxed));
        if newest > checked && object.header.kind == RecordKind::Object {
            let named = labels.named(&object.key, &object.meta);
            match self.tables.validity(labels.digester(), checked, &named) {
                Validity::Purged => return Validity::Purged,
                Validity::Outdated(at) => object.outdate(at),
                Validity::Valid => {}
            }
            object.checked.store(newest, Relaxed);
        }
        object.outdated_since().map_or(Validity::Valid, Validity::Outdated)
    }

    /// Moves the purges of labels and prefixes that no object bears to those for fetches.
    pub(super) fn forget_unused(&mut self, labels: &ObjectLabels) {
        if labels.exist() && labels.filters.unknown() == 0 {
            self.tables.forget_unused(|label| labels.filters.may_be_borne(label));
        }
    }

    /// Drops the purges that are older than every record in `space` and than the last check of
    /// every object in memory, which is `checked` at the earliest.
    pub(super) fn prune(&mut self, space: &Space, checked: u64) {
        match space {
            Space::Clusters(space) => {
                let table = &space.table;
                let oldest = (0..table.clusters())
                    .filter(|cluster| !matches!(table.state(*cluster), State::Free | State::Bad))
                    .map(|cluster| table.incarnation(cluster))
                    .min()
                    .unwrap_or(u64::MAX);
                self.tables.prune(|newest, boundary| boundary <= oldest && newest <= checked);
            }
            Space::Slots(space) => {
                let oldest = space.objects().map(|object| object.sequence).min();
                let oldest = oldest.unwrap_or(u64::MAX);
                self.tables.prune(|newest, _| newest < oldest && newest <= checked);
            }
        }
    }

    /// Returns the fill of the purge table when the operator should know: once when it fills up,
    /// and again whenever its oldest entries had to be merged, of which there were `merges` so far.
    pub(super) fn report(&mut self, merges: u64) -> Option<PurgesFull> {
        let (entries, max) = (self.tables.len(), self.tables.max());
        let full = entries >= max - max * (100 - WARNED_AT) / 100;
        if merges > self.reported_merges {
            (self.reported_full, self.reported_merges) = (true, merges);
            return Some(PurgesFull { entries, max, merged: true });
        }
        if full == self.reported_full || (!full && entries > max / 2) {
            return None;
        }
        self.reported_full = full;
        full.then_some(PurgesFull { entries, max, merged: false })
    }

    /// Remembers a metadata record in a cluster by which a purge may concern its object. If it were
    /// lost in a crash, the object would fall back to metadata that the purge does not concern.
    pub(super) fn note_relabelled(&mut self, relabelled: Relabelled, space: &Space) {
        self.relabelled.push(relabelled);
        if self.relabelled.len() > RELABELLED && self.relabelled.len().is_power_of_two() {
            self.relabelled.retain(|known| space.unwritten(known.position).is_some());
        }
    }

    /// Takes the objects that a purge of `targets` concerns only by their newest metadata, while
    /// these are not written yet.
    pub(super) fn take_relabelled(
        &mut self,
        targets: &[Target<'_>],
        labels: &ObjectLabels,
        space: &Space,
        index: &Index,
    ) -> Vec<Digest> {
        let mut purges = Purges::new(usize::MAX);
        for target in targets {
            let scope = Scope::of(*target, labels.digester());
            if let Target::Pattern(text) = target {
                purges.take_in_pattern(scope, text);
            }
            purges.take_in(&Purge { scope, mode: Mode::Hard, sequence: 1, boundary: 0, at: 0 });
        }
        let has_pattern = targets.iter().any(|target| matches!(target, Target::Pattern(_)));
        let mut concerned = Vec::new();
        self.relabelled.retain(|Relabelled { digest, position, has_new_label }| {
            if !has_new_label && !has_pattern {
                return true;
            }
            let Some(record) = space.unwritten(*position) else { return false };
            let named = labels.named(&record.key, &record.meta);
            let dies = purges.validity(labels.digester(), 0, &named) == Validity::Purged;
            let slot = index.get(&digest.derive_meta());
            if dies && slot.is_some_and(|slot| slot.position == *position) {
                concerned.push(*digest);
            }
            !dies
        });
        concerned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digester;
    use crate::base::labels::Label;
    use crate::format::superblock::tests::sample;

    #[test]
    fn a_full_table_is_reported_once_until_it_was_half_empty() {
        let mut state = PurgeState::new(PurgeTables::new(Purges::new(8), 1));
        let digester = Digester::new(&sample().secret.digest_key());
        let purge = |sequence: u64| {
            let target = Target::Label(Label { kind: 0, name: &sequence.to_le_bytes() });
            let scope = Scope::of(target, &digester);
            Purge { scope, mode: Mode::Hard, sequence, boundary: 0, at: 0 }
        };
        (1..=5).for_each(|label| state.tables.take_in(&purge(label)));
        assert_eq!(state.report(0), None);
        state.tables.take_in(&purge(6));
        let full = PurgesFull { entries: 6, max: 8, merged: false };
        assert_eq!((state.report(0), state.report(0)), (Some(full), None));
        let merged = PurgesFull { merged: true, ..full };
        assert_eq!((state.report(1), state.report(1)), (Some(merged), None));
        state.tables.prune(|newest, _| newest <= 1);
        assert_eq!(state.report(1), None, "above half of it");
        state.tables.take_in(&purge(7));
        assert_eq!(state.report(1), None, "no second warning");
        state.tables.prune(|newest, _| newest <= 4);
        assert_eq!(state.report(1), None);
        (8..=12).for_each(|label| state.tables.take_in(&purge(label)));
        assert_eq!(state.report(1).map(|full| full.entries), Some(8));
    }
}
