//! Tables of hosts and domains.

use crate::rules::access::HostPattern;
use crate::rules::tables::words::Words;

/// Values by host pattern.
#[derive(Clone, Debug)]
pub(crate) struct HostTable<V> {
    /// Names that match only themselves.
    alone: Words<V>,
    /// Names that also match all names below them.
    below: Words<V>,
    /// Length of the longest name in `below`.
    longest: usize,
}

impl<V> HostTable<V> {
    /// Calls `found` with the values of all patterns that match a host.
    pub fn each(&self, host: &str, mut found: impl FnMut(&V)) {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.alone.find(host).for_each(|(_, value)| found(value));
        let mut domain = Some(host);
        while let Some(name) = domain {
            if name.len() <= self.longest {
                self.below.find(name).for_each(|(_, value)| found(value));
            }
            // Labels are short: a search for a character costs more than looking at each byte.
            let dot = name.bytes().position(|byte| byte == b'.');
            domain = dot.map(|at| &name[at + 1..]);
        }
    }
}

impl<'a, V> FromIterator<(&'a HostPattern, V)> for HostTable<V> {
    fn from_iter<I: IntoIterator<Item = (&'a HostPattern, V)>>(patterns: I) -> HostTable<V> {
        let (below, alone): (Vec<_>, Vec<_>) =
            patterns.into_iter().partition(|(pattern, _)| pattern.is_for_all_below());
        let longest = below.iter().map(|(pattern, _)| pattern.name().len()).max().unwrap_or(0);
        let words = |all: Vec<(&'a HostPattern, V)>| {
            all.into_iter().map(|(pattern, value)| (pattern.name(), value)).collect()
        };
        HostTable { alone: words(alone), below: words(below), longest }
    }
}
