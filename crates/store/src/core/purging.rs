//! Purges of labels, prefixes and everything: what they make of objects, and when they are
//! forgotten.

use bytes::Bytes;

use crate::base::digest::Digest;
use crate::base::labels::{Label, Labels, Mode, Target};
use crate::base::now::Now;
use crate::base::record::RecordKind;
use crate::core::maintenance_state::PurgesReported;
use crate::core::sizing::purges_in;
use crate::core::state::Core;
use crate::format::journal::{Fact, JournalPosition};
use crate::memory::object::Object;
use crate::purge::purges::{Labelled, Purge, Purges, Scope, Validity};
use crate::space::Space;
use crate::space::cluster_table::State;

/// When the table is full, and less than one in so many of its entries can be dropped, the oldest
/// are merged.
const GAIN: usize = 16;
/// The operator is warned when the table is so many percent full, and again when it was less so.
const WARNED_AT: usize = 75;

/// Labels that are unknown are read when the table has more than one in so many of the entries that
/// it may have: who purges little has nothing read.
const READ_FROM: usize = 8;

/// Relabelled objects that are remembered before those are looked for that have been written.
const RELABELLED: usize = 1024;

/// An object's key and metadata, with who can read them.
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

/// The table of purges is nearly full, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgesFull {
    pub(crate) entries: usize,
    pub(crate) max: usize,
    /// The oldest entries became one purge of everything as old.
    pub(crate) merged: bool,
}

impl Core {
    /// Purges what `targets` concern, as of `now`. The journal position is the one up to which the
    /// journal must be durable before it counts as done.
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
            // What is placed later passes for younger: it would be lost instead of outdated.
            self.place_all_staged(now);
        }
        let at = now.unix;
        self.forget_relabelled(targets);
        self.sequence += 1;
        let (sequence, boundary) = (self.sequence, self.boundary());
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
        // Also when nothing was noted: what died before, and bore the label, must not come back.
        (self.journal.now(), self.purges.newest())
    }

    fn may_be_borne(&self, label: u64) -> bool {
        self.options.labels.is_none() || self.label_filters.may_be_borne(label)
    }

    /// Returns the lowest incarnation that clusters opened from now on have.
    fn boundary(&self) -> u64 {
        match &self.space {
            Space::Clusters(space) => space.table.next_incarnation(),
            Space::Slots(_) => 0,
        }
    }

    /// Drops the purges of labels and prefixes that nothing bears any more.
    pub(super) fn forget_unused_purges(&mut self) {
        self.recount_unknown();
        if self.options.labels.is_none() || self.label_filters.unknown() > 0 {
            return;
        }
        let label_filters = &self.label_filters;
        self.purges.forget_unused(|label| label_filters.may_be_borne(label));
    }

    /// Keeps the table within its bound.
    fn limit_purges(&mut self) {
        let many = self.purges.len() > self.purges.max() / READ_FROM;
        if many && self.options.labels.is_some() && self.recovering.is_none() {
            self.label_filters.read_unknown();
        }
        if !self.purges.is_too_long() {
            return;
        }
        self.prune_purges();
        self.forget_unused_purges();
        // What has gone is in the journal: a start must not find more than there may be.
        self.maintenance.checkpoint_wanted = true;
        // Were that worth little, it would be worth as little at the next purge.
        while self.purges.len() > self.purges.max() - self.purges.max() / GAIN {
            let Some(purge) = self.purges.merge_oldest() else { return };
            self.counters.purges_merged += 1;
            self.journal.note(Fact::Purged(purge));
        }
    }

    /// Returns how many entries the table of purges has, and may have, when operators should know:
    /// once when it fills up, and once more when the oldest of them had to be merged.
    pub(crate) fn purges_to_report(&mut self) -> Option<PurgesFull> {
        let (entries, max) = (self.purges.len(), self.purges.max());
        let merged = self.counters.purges_merged;
        let full = entries >= max - max * (100 - WARNED_AT) / 100;
        let reported = &mut self.maintenance.purges_reported;
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

    /// Makes what was found on the device fit the bound of this run.
    pub(super) fn fit_purges(&mut self, memory: u64) {
        let in_memory = purges_in(memory);
        let room = self.areas.purges_max().min(in_memory).min(u64::from(self.options.purges));
        self.purges.set_max(usize::try_from(room).unwrap_or(usize::MAX));
        self.limit_purges();
    }

    /// Drops the purges that no record is older than.
    pub(super) fn prune_purges(&mut self) {
        self.recount_unknown();
        if self.purges.len() == 0 || self.recovering.is_some() {
            return;
        }
        // What lives in memory alone has no other age than when it was last held against the table.
        use std::sync::atomic::Ordering::Relaxed;
        let residents =
            self.memory.tier.iter().filter(|(digest, r)| self.lives_in_memory(digest, r));
        let held = residents.map(|(_, r)| r.object.checked.load(Relaxed)).min().unwrap_or(u64::MAX);
        match &self.space {
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

    /// Returns whether a purge since `begun` concerns an object with this key and these metadata.
    pub(crate) fn overtaken(&self, begun: u64, key: &[u8], meta: &[u8]) -> bool {
        let named = self.named(key, meta);
        self.purges.concern(&self.digester, begun, &named)
    }

    /// Returns what purges have made of `object`, which it remembers: each is asked about once.
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

    /// Returns whether `object`, which was found under `digest`, is alive after all purges. What is
    /// not is removed, if it still is the present version.
    pub(super) fn is_alive(&mut self, digest: &Digest, object: &Object) -> bool {
        if self.validity(object) != Validity::Purged {
            return true;
        }
        // While recovery goes on, removals have to be remembered: this one need not be.
        if self.recovering.is_none() && self.online() && self.is_present(digest, object) {
            self.counters.purged_objects += 1;
            self.forget_version(digest);
            self.wake_waiters();
        }
        false
    }

    /// Remembers metadata that give `of` a label which those before did not, in a cluster: should
    /// they be lost in a crash, the object would fall back to what a purge of that label does not
    /// concern.
    pub(super) fn note_labels(&mut self, of: &Object, meta: &Bytes, position: u32) {
        let Some(labels) = self.options.labels.as_deref() else { return };
        if !self.space.has_clusters() {
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
            let space = &self.space;
            self.relabelled.retain(|(_, position)| space.unwritten(*position).is_some());
        }
    }

    /// Objects whose newest metadata are not written yet, and alone make a purge concern them, are
    /// removed before the purge is noted down.
    fn forget_relabelled(&mut self, targets: &[Target<'_>]) {
        let mut purges = Purges::new(usize::MAX);
        for target in targets {
            let scope = Scope::of(*target, &self.digester);
            purges.take_in(&Purge { scope, mode: Mode::Hard, sequence: 1, boundary: 0, at: 0 });
        }
        let mut concerned = Vec::new();
        let mut relabelled = std::mem::take(&mut self.relabelled);
        relabelled.retain(|(digest, position)| {
            let Some(record) = self.space.unwritten(*position) else { return false };
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
