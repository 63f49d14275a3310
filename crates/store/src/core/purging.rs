//! Purges of labels, prefixes and everything: their effect on objects, and when they are dropped.

use bytes::Bytes;

use crate::base::digest::Digest;
use crate::base::labels::{Mode, Target};
use crate::base::now::Now;
use crate::core::purge_state::{PurgesFull, Relabelled};
use crate::core::sizing::purges_in;
use crate::core::state::Core;
use crate::format::journal::{Fact, JournalPosition};
use crate::format::staging_memory::StagingMemory;
use crate::memory::object::Object;
use crate::purge::purges::{Purge, Scope, Validity};

/// When the purge table is full and fewer than one in this many of its entries can be dropped, the
/// oldest are merged.
const GAIN: usize = 16;
/// Unknown labels are read once the table holds more than one in this many of its maximum entries,
/// so that nothing is read on stores with few purges.
const READ_FROM: usize = 8;

/// The result of a purge under the lock.
pub(crate) struct Purged {
    /// The journal must be durable up to here before the purge counts as done.
    pub(crate) up_to: JournalPosition,
    /// Sequence number of the newest purge.
    pub(crate) newest: u64,
    /// State of the purge table, if the operator should know of it.
    pub(crate) report: Option<PurgesFull>,
}

impl Core {
    /// Purges the objects that `targets` concern. A soft purge outdates them since `at`, in unix
    /// seconds.
    pub(crate) fn purge(
        &mut self,
        targets: &[Target<'_>],
        (mode, at): (Mode, u32),
        now: Now,
    ) -> Purged {
        let (up_to, newest) = self.note_purge(targets, (mode, at), now);
        let report = self.purges.report(self.counters.purges_merged);
        Purged { up_to, newest, report }
    }

    /// Notes a purge. Returns the position up to which the journal must be durable, and the
    /// sequence number of the newest purge.
    fn note_purge(
        &mut self,
        targets: &[Target<'_>],
        (mode, at): (Mode, u32),
        now: Now,
    ) -> (JournalPosition, u64) {
        if !self.online() {
            return (JournalPosition::MAX, self.purges.tables.newest());
        }
        if mode == Mode::Soft {
            // A record placed later counts as younger than the purge, so outdated objects cannot be
            // placed: they would be lost.
            self.write_staged_by(self.schedule.write_by(now.monotonic, false));
            self.place_all_staged(now);
        }
        let relabelled =
            self.purges.take_relabelled(targets, &self.labels, &self.placement.space, &self.index);
        relabelled.iter().for_each(|digest| _ = self.forget_version(digest));
        let (sequence, boundary) = (self.sequence.assign(), self.placement.next_incarnation());
        for target in targets {
            let scope = Scope::of(*target, &self.digester);
            if let Target::Pattern(text) = target {
                let parts = self.purges.tables.take_in_pattern(scope, text);
                parts.into_iter().for_each(|part| self.journal.note(Fact::Pattern(part)));
            }
            let purge = Purge { scope, mode, sequence, boundary, at };
            let beginning = match target {
                Target::Prefix(prefix) => self.digester.beginning(prefix),
                _ => None,
            };
            if scope.label().or(beginning).is_none_or(|label| self.labels.may_be_borne(label)) {
                self.purges.tables.take_in(&purge);
                if let Some(beginning) = beginning {
                    self.purges.tables.note_beginning(scope, beginning);
                }
                self.journal.note(Fact::Purged(purge));
            } else {
                self.counters.purges_unborne += 1;
                self.purges.tables.take_in_for_fetches(purge);
            }
        }
        self.counters.purges += targets.len() as u64;
        self.limit_purges();
        self.wake_background();
        // Even when nothing was noted: an object that died before, and bore the label, must not
        // come back.
        (self.journal.now(), self.purges.tables.newest())
    }

    /// Drops the purges of labels and prefixes that no object bears any more.
    pub(super) fn forget_unused_purges(&mut self) {
        self.recount_unknown();
        self.purges.forget_unused(&self.labels);
    }

    /// Keeps the purge table within its bound.
    pub(crate) fn limit_purges(&mut self) {
        let many = self.purges.tables.len() > self.purges.tables.max() / READ_FROM;
        if many && self.labels.exist() && !self.recovery.is_running() {
            self.labels.filters.read_unknown();
        }
        if !self.purges.tables.is_too_long() {
            return;
        }
        self.prune_purges();
        self.forget_unused_purges();
        // Dropped entries are still in the journal: a start must not find more than the table may
        // hold.
        self.schedule.want_checkpoint();
        // If few entries were dropped, the next purge would find the table full again, so make more
        // space.
        while !self.purges.tables.has_room(GAIN) {
            let Some(purge) = self.purges.tables.merge_oldest() else { return };
            self.counters.purges_merged += 1;
            self.journal.note(Fact::Purged(purge));
        }
    }

    /// Sets the bound of this run for purges; [`Core::limit_purges`] fits those found into it.
    pub(super) fn fit_purges(&mut self, memory: u64) {
        let in_memory = purges_in(memory);
        let room =
            self.placement.areas.purges_max().min(in_memory).min(u64::from(self.options.purges));
        self.purges.tables.set_max(usize::try_from(room).unwrap_or(usize::MAX));
    }

    /// Drops the purges that are older than every record.
    pub(super) fn prune_purges(&mut self) {
        self.recount_unknown();
        if self.purges.tables.len() == 0 || self.recovery.is_running() {
            return;
        }
        // An object in memory only has no other age than its last check against the purge table.
        use std::sync::atomic::Ordering::Relaxed;
        let residents =
            self.memory.tier.iter().filter(|(digest, r)| self.lives_in_memory(digest, r));
        let held = residents.map(|(_, r)| r.object.checked.load(Relaxed)).min().unwrap_or(u64::MAX);
        let kept = self.kept.as_ref().and_then(StagingMemory::checked).unwrap_or(u64::MAX);
        let held = held.min(kept);
        self.purges.prune(&self.placement.space, held);
    }

    /// Returns whether a purge since `begun` concerns an object with this key and metadata.
    pub(crate) fn overtaken(&self, begun: u64, key: &[u8], meta: &[u8]) -> bool {
        self.purges.overtake(&self.labels, begun, key, meta)
    }

    /// Returns the effect of purges on `object`, and caches it in the object, so that each purge is
    /// checked once.
    pub(super) fn validity(&self, object: &Object) -> Validity {
        self.purges.validity(&self.labels, object)
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

    /// Remembers the metadata at `position`, if purges may concern `of` by them that did not by the
    /// metadata before.
    pub(super) fn note_labels(&mut self, of: &Object, meta: &Bytes, position: u32) {
        let (space, labels) = (&self.placement.space, &self.labels);
        if space.has_clusters() && labels.may_match_others(&of.meta, meta) {
            let has_new_label = labels.are_added(&of.key, &of.meta, meta);
            let digest = of.header.digest;
            self.purges.note_relabelled(Relabelled { digest, position, has_new_label }, space);
        }
    }
}
