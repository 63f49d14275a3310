//! Purges of labels, prefixes and everything: their effect on objects, and when they are dropped.

use bytes::Bytes;

use crate::base::digest::Digest;
use crate::base::labels::{Label, Labels, Mode, Target};
use crate::base::now::Now;
use crate::base::record::RecordKind;
use crate::core::sizing::purges_in;
use crate::core::state::Core;
use crate::format::journal::{Fact, JournalPosition};
use crate::memory::object::Object;
use crate::purge::purges::{Labelled, Purge, Purges, Scope, Validity};
use crate::space::Space;
use crate::space::cluster_table::State;

/// When the purge table is full and fewer than one in this many of its entries can be dropped, the
/// oldest are merged.
const GAIN: usize = 16;
/// Fill level of the purge table in percent at which the operator is warned. The warning is
/// repeated only after the table was half full or less.
const WARNED_AT: usize = 75;

/// Unknown labels are read once the table holds more than one in this many of its maximum entries,
/// so that nothing is read on stores with few purges.
const READ_FROM: usize = 8;

/// Number of relabelled objects above which those already written are dropped from the list.
const RELABELLED: usize = 1024;

/// An object's key and metadata, with the reader of its labels.
struct Named<'a> {
    labels: Option<&'a dyn Labels>,
    key: &'a [u8],
    meta: &'a [u8],
}

impl Labelled for Named<'_> {
    fn labels(&self, see: &mut dyn FnMut(Label<'_>)) {
        if let Some(labels) = self.labels {
            labels.labels(self.key, self.meta, see);
        }
    }

    fn text(&self) -> Option<&[u8]> {
        self.labels?.text(self.key)
    }
}

/// The purge table is nearly full, or was full and has been merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgesFull {
    pub(crate) entries: usize,
    pub(crate) max: usize,
    /// True if the oldest entries were merged into one purge of everything as old.
    pub(crate) merged: bool,
}

/// Reports on the purge table that the operator has received.
#[derive(Default)]
pub(super) struct PurgesReported {
    /// True if the table was reported as nearly full.
    filling: bool,
    /// Number of merges reported.
    merged: u64,
}

impl Core {
    /// Purges the objects that `targets` concern, as of `now`. Returns the position up to which the
    /// journal must be durable before the purge counts as done, and the sequence number of the
    /// newest purge.
    pub(crate) fn purge(
        &mut self,
        targets: &[Target<'_>],
        mode: Mode,
        now: Now,
    ) -> (JournalPosition, u64) {
        if !self.online() {
            return (JournalPosition::MAX, self.purges.newest());
        }
        if mode == Mode::Soft {
            // A record placed later counts as younger than the purge, so outdated objects cannot be
            // placed: they would be lost.
            self.place_all_staged(now);
        }
        let at = now.unix;
        self.forget_relabelled(targets);
        let (sequence, boundary) = (self.sequence.assign(), self.placement.next_incarnation());
        for target in targets {
            let scope = Scope::of(*target, &self.digester);
            let purge = Purge { scope, mode, sequence, boundary, at };
            let beginning = match target {
                Target::Prefix(prefix) => self.digester.beginning(prefix),
                _ => None,
            };
            if scope.label().or(beginning).is_none_or(|label| self.may_be_borne(label)) {
                self.purges.take_in(&purge);
                if let Some(beginning) = beginning {
                    self.purges.note_beginning(scope, beginning);
                }
                self.journal.note(Fact::Purged(purge));
            } else {
                self.counters.purges_unborne += 1;
                self.purges.take_in_for_fetches(purge);
            }
        }
        self.counters.purges += targets.len() as u64;
        self.limit_purges();
        self.wake_background();
        // Even when nothing was noted: an object that died before, and bore the label, must not
        // come back.
        (self.journal.now(), self.purges.newest())
    }

    fn may_be_borne(&self, label: u64) -> bool {
        self.options.labels.is_none() || self.label_filters.may_be_borne(label)
    }

    /// Drops the purges of labels and prefixes that no object bears any more.
    pub(super) fn forget_unused_purges(&mut self) {
        self.recount_unknown();
        if self.options.labels.is_none() || self.label_filters.unknown() > 0 {
            return;
        }
        let label_filters = &self.label_filters;
        self.purges.forget_unused(|label| label_filters.may_be_borne(label));
    }

    /// Keeps the purge table within its bound.
    fn limit_purges(&mut self) {
        let many = self.purges.len() > self.purges.max() / READ_FROM;
        if many && self.options.labels.is_some() && !self.recovery.is_running() {
            self.label_filters.read_unknown();
        }
        if !self.purges.is_too_long() {
            return;
        }
        self.prune_purges();
        self.forget_unused_purges();
        // Dropped entries are still in the journal: a start must not find more than the table may
        // hold.
        self.schedule.want_checkpoint();
        // If few entries were dropped, the next purge would find the table full again, so make more
        // room.
        while self.purges.len() > self.purges.max() - self.purges.max() / GAIN {
            let Some(purge) = self.purges.merge_oldest() else { return };
            self.counters.purges_merged += 1;
            self.journal.note(Fact::Purged(purge));
        }
    }

    /// Returns the fill of the purge table when the operator should know: once when it fills up,
    /// and again whenever its oldest entries had to be merged.
    pub(crate) fn purges_to_report(&mut self) -> Option<PurgesFull> {
        let (entries, max) = (self.purges.len(), self.purges.max());
        let merged = self.counters.purges_merged;
        let full = entries >= max - max * (100 - WARNED_AT) / 100;
        let reported = &mut self.purges_reported;
        if merged > reported.merged {
            *reported = PurgesReported { filling: true, merged };
            return Some(PurgesFull { entries, max, merged: true });
        }
        if full == reported.filling || (!full && entries > max / 2) {
            return None;
        }
        reported.filling = full;
        full.then_some(PurgesFull { entries, max, merged: false })
    }

    /// Fits the purges found on the device into the bound of this run.
    pub(super) fn fit_purges(&mut self, memory: u64) {
        let in_memory = purges_in(memory);
        let room =
            self.placement.areas.purges_max().min(in_memory).min(u64::from(self.options.purges));
        self.purges.set_max(usize::try_from(room).unwrap_or(usize::MAX));
        self.limit_purges();
    }

    /// Drops the purges that are older than every record.
    pub(super) fn prune_purges(&mut self) {
        self.recount_unknown();
        if self.purges.len() == 0 || self.recovery.is_running() {
            return;
        }
        // An object in memory only has no other age than its last check against the purge table.
        use std::sync::atomic::Ordering::Relaxed;
        let residents =
            self.memory.tier.iter().filter(|(digest, r)| self.lives_in_memory(digest, r));
        let held = residents.map(|(_, r)| r.object.checked.load(Relaxed)).min().unwrap_or(u64::MAX);
        match &self.placement.space {
            Space::Clusters(space) => {
                let table = &space.table;
                let oldest = (0..table.clusters())
                    .filter(|cluster| !matches!(table.state(*cluster), State::Free | State::Bad))
                    .map(|cluster| table.incarnation(cluster))
                    .min()
                    .unwrap_or(u64::MAX);
                self.purges.prune(|newest, boundary| boundary <= oldest && newest <= held);
            }
            Space::Slots(space) => {
                let oldest = space.objects().map(|object| object.sequence).min();
                let oldest = oldest.unwrap_or(u64::MAX);
                self.purges.prune(|newest, _| newest < oldest && newest <= held);
            }
        }
    }

    fn named<'a>(&'a self, key: &'a [u8], meta: &'a [u8]) -> Named<'a> {
        Named { labels: self.options.labels.as_deref(), key, meta }
    }

    /// Returns whether a purge since `begun` concerns an object with this key and metadata.
    pub(crate) fn overtaken(&self, begun: u64, key: &[u8], meta: &[u8]) -> bool {
        let named = self.named(key, meta);
        self.purges.concern(&self.digester, begun, &named)
    }

    /// Returns the effect of purges on `object`, and caches it in the object, so that each purge is
    /// checked once.
    pub(super) fn validity(&self, object: &Object) -> Validity {
        use std::sync::atomic::Ordering::Relaxed;
        let (newest, checked) = (self.purges.newest_in_force(), object.checked.load(Relaxed));
        if newest > checked && object.header.kind == RecordKind::Object {
            let named = self.named(&object.key, &object.meta);
            match self.purges.validity(&self.digester, checked, &named) {
                Validity::Purged => return Validity::Purged,
                Validity::Outdated(at) => object.outdate(at),
                Validity::Valid => {}
            }
            object.checked.store(newest, Relaxed);
        }
        object.outdated_since().map_or(Validity::Valid, Validity::Outdated)
    }

    /// Returns whether `object`, found under `digest`, is alive after all purges. Removes a purged
    /// object if it is still the current version.
    pub(super) fn is_alive(&mut self, digest: &Digest, object: &Object) -> bool {
        if self.validity(object) != Validity::Purged {
            return true;
        }
        // During recovery removals must be remembered; this one can be left out.
        if !self.recovery.is_running() && self.online() && self.is_present(digest, object) {
            self.counters.purged_objects += 1;
            self.forget_version(digest);
            self.wake_waiters();
        }
        false
    }

    /// Remembers a metadata record in a cluster that gives `of` a label which the metadata before
    /// did not. If it were lost in a crash, the object would fall back to metadata that a purge of
    /// that label does not concern.
    pub(super) fn note_labels(&mut self, of: &Object, meta: &Bytes, position: u32) {
        let Some(labels) = self.options.labels.as_deref() else { return };
        if !self.placement.space.has_clusters() {
            return;
        }
        let collect = |meta: &[u8]| {
            let mut all = Vec::new();
            labels.labels(&of.key, meta, &mut |l| all.push(self.digester.label(l.kind, l.name)));
            all
        };
        let before = collect(&of.meta);
        if collect(meta).iter().all(|label| before.contains(label)) {
            return;
        }
        self.relabelled.push((of.header.digest, position));
        if self.relabelled.len() > RELABELLED && self.relabelled.len().is_power_of_two() {
            let space = &self.placement.space;
            self.relabelled.retain(|(_, position)| space.unwritten(*position).is_some());
        }
    }

    /// Removes, before a purge is noted, the objects that it concerns only by their newest
    /// metadata, while these are not written yet.
    fn forget_relabelled(&mut self, targets: &[Target<'_>]) {
        let mut purges = Purges::new(usize::MAX);
        for target in targets {
            let scope = Scope::of(*target, &self.digester);
            purges.take_in(&Purge { scope, mode: Mode::Hard, sequence: 1, boundary: 0, at: 0 });
        }
        let mut concerned = Vec::new();
        let mut relabelled = std::mem::take(&mut self.relabelled);
        relabelled.retain(|(digest, position)| {
            let Some(record) = self.placement.space.unwritten(*position) else { return false };
            let named = self.named(&record.key, &record.meta);
            let dies = purges.validity(&self.digester, 0, &named) == Validity::Purged;
            let slot = self.index.get(&digest.derive_meta());
            if dies && slot.is_some_and(|slot| slot.position == *position) {
                concerned.push(*digest);
            }
            !dies
        });
        self.relabelled = relabelled;
        concerned.iter().for_each(|digest| _ = self.forget_version(digest));
    }
}
