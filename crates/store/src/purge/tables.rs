//! The purges in force, and those that only fetches may meet: of labels that nothing bore when they
//! were made, or bears any more.
//!
//! It promises: an object is held against those in force, a fetch against both; each table stays
//! within its bound once [`PurgeTables::merge_oldest`] says so, and what is merged is forgotten by
//! nobody.

use crate::base::digest::Digester;
use crate::base::labels::Mode;
use crate::base::wire::Encoder;
use crate::purge::purges::{Labelled, Purge, Purges, Scope, Validity};

/// Purges of labels, prefixes and everything. See the module.
pub(crate) struct PurgeTables {
    in_force: Purges,
    for_fetches: Purges,
}

impl PurgeTables {
    /// Tables of which the first has the purges `in_force`; the second may have so many.
    pub(crate) fn new(in_force: Purges, for_fetches: usize) -> PurgeTables {
        PurgeTables { in_force, for_fetches: Purges::new(for_fetches) }
    }

    /// The sequence number of the newest purge, whatever it concerned.
    pub(crate) fn newest(&self) -> u64 {
        self.in_force.newest().max(self.for_fetches.newest())
    }

    /// The sequence number of the newest purge that may concern an object.
    pub(crate) fn newest_in_force(&self) -> u64 {
        self.in_force.newest()
    }

    /// Number of purges in force.
    pub(crate) fn len(&self) -> usize {
        self.in_force.len()
    }

    /// How many may be in force.
    pub(crate) fn max(&self) -> usize {
        self.in_force.max()
    }

    /// Changes how many may be in force.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.in_force.set_max(max);
    }

    /// Whether more are in force than may be.
    pub(crate) fn is_too_long(&self) -> bool {
        self.in_force.is_too_long()
    }

    /// Takes in a purge that is in force.
    pub(crate) fn take_in(&mut self, purge: &Purge) {
        self.in_force.take_in(purge);
    }

    /// Notes which beginning all objects have that an entry for a prefix concerns.
    pub(crate) fn note_beginning(&mut self, scope: Scope, beginning: u64) {
        self.in_force.note_beginning(scope, beginning);
    }

    /// Takes in a purge of what nothing bears. What is being fetched may bear it.
    pub(crate) fn take_in_for_fetches(&mut self, purge: Purge) {
        self.for_fetches.take_in(&Purge { mode: Mode::Hard, ..purge });
        while self.for_fetches.is_too_long() {
            let Some(merged) = self.for_fetches.merged() else { return };
            self.for_fetches.take_in(&merged);
        }
    }

    /// Leaves those in force for labels and prefixes that nothing bears to fetches alone.
    pub(crate) fn forget_unused(&mut self, may_be_borne: impl Fn(u64) -> bool) {
        let unused = self.in_force.take_unused(may_be_borne);
        unused.into_iter().for_each(|purge| self.take_in_for_fetches(purge));
    }

    /// Drops those in force that concern no record any more.
    pub(crate) fn prune(&mut self, concerns_none: impl Fn(u64, u64) -> bool) {
        self.in_force.prune(concerns_none);
    }

    /// Puts one purge of everything in the place of the oldest quarter of those in force, and
    /// returns it to be noted down; `None` when that makes them no fewer.
    pub(crate) fn merge_oldest(&mut self) -> Option<Purge> {
        let purge = self.in_force.merged()?;
        self.in_force.take_in(&purge);
        Some(purge)
    }

    /// What the purges in force since `since` have made of an object.
    pub(crate) fn validity(
        &self,
        digester: &Digester,
        since: u64,
        object: &impl Labelled,
    ) -> Validity {
        self.in_force.validity(digester, since, object)
    }

    /// Whether a purge since `begun` concerns what a fetch has brought.
    pub(crate) fn concern(&self, digester: &Digester, begun: u64, object: &impl Labelled) -> bool {
        [&self.in_force, &self.for_fetches].into_iter().any(|purges| {
            purges.newest() > begun && purges.validity(digester, begun, object) != Validity::Valid
        })
    }

    /// Encodes those in force for a checkpoint, and says how many they are.
    pub(crate) fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = Vec::with_capacity(self.in_force.len() * Purges::ENTRY_LEN);
        self.in_force.encode(&mut Encoder(&mut bytes));
        (bytes, self.in_force.len() as u32)
    }
}
