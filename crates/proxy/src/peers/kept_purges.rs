//! Purges of other nodes that are kept in memory, for nodes that lack them.

use std::collections::{BTreeMap, VecDeque};

use fleet::purges::Maker;
use store::LoggedPurge;

/// Maximum number of purges kept.
const KEPT: usize = 16_384;

/// Purge with its place in the sequence of its maker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberedPurge {
    pub maker: Maker,
    pub number: u64,
    pub purge: LoggedPurge,
}

/// The last purges that arrived; those of one maker are in order of their numbers.
#[derive(Default)]
pub(crate) struct KeptPurges {
    of_makers: BTreeMap<Maker, VecDeque<NumberedPurge>>,
    /// Their makers, in order of arrival.
    arrived: VecDeque<Maker>,
}

impl KeptPurges {
    pub fn keep(&mut self, purges: impl IntoIterator<Item = NumberedPurge>) {
        for purge in purges {
            self.arrived.push_back(purge.maker.clone());
            self.of_makers.entry(purge.maker.clone()).or_default().push_back(purge);
        }
        while self.arrived.len() > KEPT
            && let Some(maker) = self.arrived.pop_front()
        {
            let kept = self.of_makers.entry(maker.clone()).or_default();
            kept.pop_front();
            if kept.is_empty() {
                self.of_makers.remove(&maker);
            }
        }
    }

    /// Returns the purges of `maker` behind number `after`, at most `count`; `None` if the next
    /// one is not kept.
    pub fn after(&self, maker: &Maker, after: u64, count: usize) -> Option<Vec<NumberedPurge>> {
        let kept = self.of_makers.get(maker)?;
        let begin = kept.partition_point(|kept| kept.number <= after);
        let is_next = kept.get(begin).is_some_and(|next| next.number == after + 1);
        is_next.then(|| kept.range(begin..).take(count).cloned().collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use store::{Mode, PurgedTarget};

    use super::*;

    #[test]
    fn purges_are_told_on_without_gaps() {
        let maker = |text: &str| text.parse::<Maker>().unwrap();
        let purge = |of: &str, number| {
            let purge =
                LoggedPurge { target: PurgedTarget::Everything, mode: Mode::Hard, at: number };
            NumberedPurge { maker: maker(of), number, purge }
        };
        let mut kept = KeptPurges::default();
        kept.keep([purge("a/1", 6), purge("b/1", 1), purge("a/1", 7), purge("a/1", 8)]);
        let after = |of: &str, number, count| {
            let found = kept.after(&maker(of), number, count);
            found.map(|found| found.iter().map(|kept| kept.number).collect::<Vec<_>>())
        };
        assert_eq!(after("a/1", 5, 9), Some(vec![6, 7, 8]));
        assert_eq!(after("a/1", 6, 1), Some(vec![7]));
        assert_eq!(
            [after("a/1", 4, 9), after("a/1", 8, 9), after("a/2", 5, 9)],
            [None, None, None]
        );
    }
}
