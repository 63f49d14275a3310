//! Keys of records that have died and whose deletion is not yet durable in the journal.
//!
//! An insertion waits only for deletions of its own key; `docs/decisions/0009` explains why that is
//! enough. Guarantees: a key is known from its deletion until the journal is durable up to there,
//! and only deletions that are not durable take memory.

use std::collections::{BTreeMap, VecDeque};

use crate::base::digest::Digest;
use crate::format::journal::JournalPosition;

/// The pending deletions, by digest and in order.
#[derive(Default)]
pub(crate) struct PendingDeletions {
    /// The journal position after the last deletion of each digest.
    last: BTreeMap<Digest, JournalPosition>,
    /// All deletions, in order.
    order: VecDeque<(JournalPosition, Digest)>,
}

impl PendingDeletions {
    /// Records that a record of `digest` died, with the journal position `up_to` after that.
    pub(crate) fn note(&mut self, digest: &Digest, up_to: JournalPosition) {
        debug_assert!(self.order.back().is_none_or(|(last, _)| *last < up_to));
        self.last.insert(*digest, up_to);
        self.order.push_back((up_to, *digest));
    }

    /// Returns the journal position after the last deletion of `digest` that is not durable.
    pub(crate) fn last(&self, digest: &Digest) -> Option<JournalPosition> {
        self.last.get(digest).copied()
    }

    /// Forgets the deletions up to `up_to`, the position up to which the journal is durable.
    pub(crate) fn forget(&mut self, up_to: JournalPosition) {
        while let Some((at, digest)) = self.order.pop_front_if(|(at, _)| *at <= up_to) {
            // A digest that was deleted again since then is in the order once more.
            if self.last.get(&digest) == Some(&at) {
                self.last.remove(&digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_deletion_is_known_until_it_is_durable() {
        let [one, two] = [1, 2].map(|byte| Digest([byte; 16]));
        let mut deaths = PendingDeletions::default();
        deaths.note(&one, 3);
        deaths.note(&two, 4);
        deaths.note(&one, 7);
        assert_eq!((deaths.last(&one), deaths.last(&two)), (Some(7), Some(4)));
        deaths.forget(4);
        assert_eq!((deaths.last(&one), deaths.last(&two)), (Some(7), None));
        deaths.forget(6);
        assert_eq!(deaths.last(&one), Some(7));
        deaths.forget(7);
        assert!(deaths.last.is_empty() && deaths.order.is_empty());
    }
}
