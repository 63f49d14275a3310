//! The conditions of one kind of a list of rules.

use std::collections::BTreeMap;

use crate::rules::tables::rule_set::{RuleSet, bits_of};

/// The conditions of one kind (hosts, say) of all rules. A condition is a list of which one entry
/// must fit; an empty list fits everything.
#[derive(Clone, Debug)]
pub(crate) struct Column<T> {
    /// The rules without a condition of this kind.
    pub any: Box<[u64]>,
    /// The rules that name an entry, by what the entry fits.
    pub table: T,
}

impl<T> Column<T> {
    /// Makes the column of `count` rules. `entries` returns the condition of the rule with a
    /// number. `None`: no rule has one.
    pub fn new<K: Ord>(count: usize, entries: impl Fn(usize) -> Vec<K>) -> Option<Column<T>>
    where
        T: FromIterator<(K, RuleSet)>,
    {
        let mut rules: BTreeMap<K, Vec<u32>> = BTreeMap::new();
        for number in 0..count {
            for entry in entries(number) {
                // Far fewer rules than that fit into memory.
                rules.entry(entry).or_default().push(u32::try_from(number).unwrap_or(u32::MAX));
            }
        }
        if rules.is_empty() {
            return None;
        }
        let any = bits_of(count, |number| entries(number).is_empty());
        let table = rules.into_iter().map(|(entry, rules)| (entry, RuleSet::new(rules))).collect();
        Some(Column { any, table })
    }
}
