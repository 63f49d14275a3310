//! The keys of records that have died, and whose deletion is not yet durable in the journal.
//!
//! An insertion waits for deletions of its own key alone: `docs/decisions/0009` says why that is
//! enough. It promises: a key is known from its deletion until the journal is durable up to
//! there, and memory is taken for deletions that are not durable alone.

use std::collections::{BTreeMap, VecDeque};

use crate::base::digest::Digest;
use crate::format::journal::JournalPosition;

/// See the module.
#[derive(Default)]
pub(crate) struct PendingDeletions {
    /// The journal position after the last deletion of each.
    last: BTreeMap<Digest, JournalPosition>,
    /// All of them, in their order.
    order: VecDeque<(JournalPosition, Digest)>,
}

impl PendingDeletions {
    /// Notes that a record of `digest` died, and that the journal's position after that was
    /// `up_to`.
    pub(crate) fn note(&mut self, digest: &Digest, up_to: JournalPosition) {
        debug_assert!(self.order.back().is_none_or(|(last, _)| *last < up_to));
        self.last.insert(*digest, up_to);
        self.order.push_back((up_to, *digest));
    }

    /// Returns the journal position after the last deletion of `digest` that is not durable.
    pub(crate) fn last(&self, digest: &Digest) -> Option<JournalPosition> {
        self.last.get(digest).copied()
    }

    /// Forgets the deletions before `up_to`: the journal is durable up to there.
    pub(crate) fn forget(&mut self, up_to: JournalPosition) {
        while let Some((at, digest)) = self.order.pop_front_if(|(at, _)| *at <= up_to) {
            // One that died again since is in the order once more.
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
    fn who_died_twice_is_known_until_the_second_death_is_durable() {
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
