//! Tables of port ranges.

use std::collections::BTreeSet;

/// Values by port range.
#[derive(Clone, Debug)]
pub(crate) struct PortTable<V> {
    values: Vec<V>,
    /// First port of each stretch of ports that lie in the same ranges, and the positions of the
    /// values of those ranges.
    stretches: Vec<(u16, Vec<usize>)>,
}

impl<V> PortTable<V> {
    /// Calls `found` with the values of all ranges that contain a port.
    pub fn each(&self, port: u16, found: impl FnMut(&V)) {
        let behind = self.stretches.partition_point(|(first, _)| *first <= port);
        let stretch = behind.checked_sub(1).map(|at| &self.stretches[at].1);
        stretch.into_iter().flatten().map(|at| &self.values[*at]).for_each(found);
    }
}

impl<V> FromIterator<((u16, u16), V)> for PortTable<V> {
    /// Creates a table of ranges, each given by its first and last port.
    fn from_iter<I: IntoIterator<Item = ((u16, u16), V)>>(ranges: I) -> PortTable<V> {
        let (ranges, values): (Vec<(u16, u16)>, Vec<V>) = ranges.into_iter().unzip();
        let begins = |(first, last): &(u16, u16)| [Some(*first), last.checked_add(1)];
        let firsts: BTreeSet<u16> = ranges.iter().flat_map(begins).flatten().collect();
        let of = |port: u16| {
            let has = |at: &usize| (ranges[*at].0..=ranges[*at].1).contains(&port);
            (port, (0..ranges.len()).filter(has).collect())
        };
        PortTable { stretches: firsts.into_iter().map(of).collect(), values }
    }
}
