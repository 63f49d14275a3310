//! The conditions of one kind in a list of rules.

use std::collections::BTreeMap;

use crate::rules::tables::rule_set::{RuleSet, bits_of};

/// Conditions of one kind (hosts, for example) of all rules. A condition is a list of alternative
/// entries; an empty list matches everything.
#[derive(Clone, Debug)]
pub(crate) struct Column<T> {
    /// The rules without a condition of this kind.
    pub any: Box<[u64]>,
    /// The rules with a condition of this kind, by its entries.
    pub table: T,
}

impl<T> Column<T> {
    /// Creates the column of `count` rules; `None` if no rule has a condition. `entries` returns
    /// the condition of the rule with a given number.
    pub fn new<K: Ord>(count: usize, entries: impl Fn(usize) -> Vec<K>) -> Option<Column<T>>
    where
        T: FromIterator<(K, RuleSet)>,
    {
        let mut rules: BTreeMap<K, Vec<u32>> = BTreeMap::new();
        for number in 0..count {
            for entry in entries(number) {
                // Memory holds far fewer rules than `u32::MAX`.
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
