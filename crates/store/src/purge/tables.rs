//! The purges in force, and purges that only fetches can meet: those of labels that no object bore
//! when the purge was made, or bears any more.
//!
//! Guarantees: an object is checked against the purges in force, a fetch against both tables; the
//! table of purges in force stays within its bound if [`PurgeTables::merge_oldest`] is called
//! whenever it is too long, the other one by itself; merging loses no purge.

use crate::base::digest::Digester;
use crate::base::labels::Mode;
use crate::base::wire::Encoder;
use crate::purge::patterns::PatternPart;
use crate::purge::purges::{Labelled, Purge, Purges, Scope, Validity};

/// Purges of labels, prefixes and everything. See the module documentation.
pub(crate) struct PurgeTables {
    in_force: Purges,
    for_fetches: Purges,
}

impl PurgeTables {
    /// Returns tables with the purges `in_force` and up to `for_fetches` purges for fetches.
    pub(crate) fn new(in_force: Purges, for_fetches: usize) -> PurgeTables {
        PurgeTables { in_force, for_fetches: Purges::new(for_fetches) }
    }

    /// Returns the sequence number of the newest purge of either table.
    pub(crate) fn newest(&self) -> u64 {
        self.in_force.newest().max(self.for_fetches.newest())
    }

    /// Returns the sequence number of the newest purge that may match an object.
    pub(crate) fn newest_in_force(&self) -> u64 {
        self.in_force.newest()
    }

    /// Returns the number of purges in force.
    pub(crate) fn len(&self) -> usize {
        self.in_force.len()
    }

    /// Returns the maximum number of purges in force.
    pub(crate) fn max(&self) -> usize {
        self.in_force.max()
    }

    /// Changes the maximum number of purges in force.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.in_force.set_max(max);
    }

    /// Returns whether more purges are in force than the maximum.
    pub(crate) fn is_too_long(&self) -> bool {
        self.in_force.is_too_long()
    }

    /// Returns whether more than one in `share` entries are free.
    pub(crate) fn has_room(&self, share: usize) -> bool {
        self.in_force.has_room(share)
    }

    pub(crate) fn take_in(&mut self, purge: &Purge) {
        self.in_force.take_in(purge);
    }

    /// Sets the digest of a beginning that all objects matching the prefix of an entry have.
    pub(crate) fn note_beginning(&mut self, scope: Scope, beginning: u64) {
        self.in_force.note_beginning(scope, beginning);
    }

    /// Adds the text of the pattern of `scope`, before the purge by it. Returns the parts to record
    /// in the journal.
    pub(crate) fn take_in_pattern(&mut self, scope: Scope, text: &[u8]) -> Vec<PatternPart> {
        self.in_force.take_in_pattern(scope, text)
    }

    /// Adds a purge of a scope that no stored object bears. An object being fetched may bear it.
    pub(crate) fn take_in_for_fetches(&mut self, purge: Purge) {
        self.for_fetches.take_in(&Purge { mode: Mode::Hard, ..purge });
        while self.for_fetches.is_too_long() {
            let Some(merged) = self.for_fetches.merged() else { return };
            self.for_fetches.take_in(&merged);
        }
    }

    /// Moves purges in force of labels and prefixes that no object bears to those for fetches.
    pub(crate) fn forget_unused(&mut self, may_be_borne: impl Fn(u64) -> bool) {
        let unused = self.in_force.take_unused(may_be_borne);
        unused.into_iter().for_each(|purge| self.take_in_for_fetches(purge));
    }

    /// Drops the purges in force that no longer match any record.
    pub(crate) fn prune(&mut self, concerns_none: impl Fn(u64, u64) -> bool) {
        self.in_force.prune(concerns_none);
    }

    /// Replaces the oldest quarter of the purges in force by one purge of everything. Returns it,
    /// to be recorded; `None` if that would not shorten the table.
    pub(crate) fn merge_oldest(&mut self) -> Option<Purge> {
        let purge = self.in_force.merged()?;
        self.in_force.take_in(&purge);
        Some(purge)
    }

    /// Returns the effect that the purges in force since `since` have on an object.
    pub(crate) fn validity(
        &self,
        digester: &Digester,
        since: u64,
        object: &impl Labelled,
    ) -> Validity {
        self.in_force.validity(digester, since, object)
    }

    /// Returns whether a purge since `begun` matches a fetched object.
    pub(crate) fn concern(&self, digester: &Digester, begun: u64, object: &impl Labelled) -> bool {
        [&self.in_force, &self.for_fetches].into_iter().any(|purges| {
            purges.newest() > begun && purges.validity(digester, begun, object) != Validity::Valid
        })
    }

    /// Encodes the purges in force for a checkpoint. Returns the bytes and the number of purges.
    pub(crate) fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = Vec::with_capacity(self.in_force.len() * Purges::ENTRY_LEN);
        self.in_force.encode(&mut Encoder(&mut bytes));
        (bytes, self.in_force.len() as u32)
    }
}
