//! How far a node has carried out the purges of the whole fleet.
//!
//! Each node logs the purges made at it, and the others carry them out. [`PurgePositions`] is
//! therefore one position per log. Every request between nodes carries the sender's positions, and
//! a node that does not cover them uses none of its copies. A document purged on one node thus
//! cannot return from another.
//!
//! A node begins another log when it cannot continue the one before, for instance with an empty
//! disk. The logs of one node are apart: how far one was carried out says nothing of another. An
//! empty log has no position, so that a node without purges is never behind and no node behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::log_position::{InvalidPositions, LogPosition};
use crate::member::MemberId;
use crate::members::MEMBERS_MAX;

/// Maximum number of logs of one node that are told apart. Older ones count as carried out.
pub const LOGS_MAX: usize = 8;

/// Positions of one node in the logs that it follows, and the end of its own log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgePositions(BTreeMap<MemberId, Vec<LogPosition>>);

impl PurgePositions {
    /// Returns the position in the newest log of `member` of which a purge is known.
    pub fn get(&self, member: &MemberId) -> Option<LogPosition> {
        self.0.get(member)?.last().copied()
    }

    /// Returns how many purges of a log of `member` are carried out.
    pub fn number(&self, member: &MemberId, log: u64) -> u64 {
        let all = self.0.get(member).into_iter().flatten();
        all.filter(|known| known.log == log).map(|known| known.number).max().unwrap_or(0)
    }

    /// Records that all purges of a log before `position` are carried out. Positions never go back.
    pub fn reach(&mut self, member: &MemberId, position: LogPosition) {
        if self.covers(member, position) {
            return;
        }
        let all = self.0.entry(member.clone()).or_default();
        match all.binary_search_by_key(&position.log, |known| known.log) {
            Ok(at) => all[at] = position,
            Err(at) => all.insert(at, position),
        }
        let over = all.len().saturating_sub(LOGS_MAX);
        all.drain(..over);
    }

    /// Returns whether all purges of a log of `member` before `position` are carried out.
    pub fn covers(&self, member: &MemberId, position: LogPosition) -> bool {
        let all = self.0.get(member).map(Vec::as_slice).unwrap_or_default();
        let is_forgotten = all.len() == LOGS_MAX && position.log < all[0].log;
        is_forgotten || self.number(member, position.log) >= position.number
    }

    /// Returns the logs in which `others` are further, with their positions.
    pub fn lacking<'a>(
        &'a self,
        others: &'a PurgePositions,
    ) -> impl Iterator<Item = (&'a MemberId, LogPosition)> {
        others.iter().filter(|(member, position)| !self.covers(member, *position))
    }

    /// Returns whether a node with these positions has carried out everything that one with
    /// `others` has.
    pub fn cover(&self, others: &PurgePositions) -> bool {
        self.lacking(others).next().is_none()
    }

    /// Returns all positions, sorted by member and log.
    pub fn iter(&self) -> impl Iterator<Item = (&MemberId, LogPosition)> {
        self.0.iter().flat_map(|(member, all)| all.iter().map(move |position| (member, *position)))
    }

    /// Returns the number of members of which purges are known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no purges are known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for PurgePositions {
    /// Writes `name=log.number;…`, sorted by name and log: equal positions have equal texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (member, position)) in self.iter().enumerate() {
            let between = if at == 0 { "" } else { ";" };
            write!(f, "{between}{member}={position}")?;
        }
        Ok(())
    }
}

impl FromStr for PurgePositions {
    type Err = InvalidPositions;

    fn from_str(text: &str) -> Result<PurgePositions, InvalidPositions> {
        let wrong = || InvalidPositions::of(text);
        let mut all = PurgePositions::default();
        for part in text.split(';').filter(|_| !text.is_empty()) {
            let (name, position) = part.split_once('=').ok_or_else(wrong)?;
            let member: MemberId = name.parse().map_err(|_| wrong())?;
            let position: LogPosition = position.parse()?;
            let logs = all.0.get(&member).map_or(0, Vec::len);
            if all.number(&member, position.log) > 0 || logs == LOGS_MAX {
                return Err(wrong());
            }
            all.reach(&member, position);
            if all.len() > MEMBERS_MAX {
                return Err(wrong());
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str) -> PurgePositions {
        text.parse().unwrap()
    }

    #[test]
    fn positions_without_a_purge_do_not_cover_it() {
        let own = positions("a=1.5;b=2.1");
        for (others, covered) in [
            ("", true),
            ("a=1.5", true),
            ("a=1.4;b=2.1", true),
            ("a=1.6", false),
            ("b=2.1;c=3.1", false),
            // Neither log of a node says how far the other was carried out.
            ("a=7.1", false),
            ("a=0.9", false),
            ("a=1.5;a=7.1", false),
        ] {
            assert_eq!(own.cover(&positions(others)), covered, "{others}");
        }
        let others = positions("a=1.6;a=2.2;b=2.1;c=3.1");
        let lacking: Vec<_> = own.lacking(&others).map(|(id, at)| format!("{id}={at}")).collect();
        assert_eq!(lacking, ["a=1.6", "a=2.2", "c=3.1"]);
    }

    #[test]
    fn an_empty_log_is_not_lag() {
        let (mut own, a) = (positions("a=1.5"), "a".parse().unwrap());
        let empty = LogPosition { log: 7, number: 0 };
        assert!(own.covers(&a, empty) && PurgePositions::default().covers(&a, empty));
        own.reach(&a, empty);
        assert_eq!(own.to_string(), "a=1.5");
    }

    #[test]
    fn a_position_does_not_go_back() {
        let (mut own, a) = (positions("a=1.5"), "a".parse().unwrap());
        own.reach(&a, LogPosition { log: 1, number: 3 });
        assert_eq!(own.to_string(), "a=1.5");
        own.reach(&a, LogPosition { log: 1, number: 0x1f });
        own.reach(&a, LogPosition { log: 3, number: 1 });
        own.reach(&a, LogPosition { log: 2, number: 4 });
        assert_eq!(own.to_string(), "a=1.1f;a=2.4;a=3.1");
        assert_eq!(own.get(&a), Some(LogPosition { log: 3, number: 1 }));
        assert_eq!((own.number(&a, 2), own.number(&a, 9)), (4, 0));
    }

    #[test]
    fn the_oldest_of_many_logs_count_as_carried_out() {
        let (mut own, a) = (PurgePositions::default(), "a".parse().unwrap());
        let logs = LOGS_MAX as u64;
        let at = |log| LogPosition { log, number: 1 };
        (1..=logs).for_each(|log| own.reach(&a, at(log)));
        assert!(own.covers(&a, at(1)) && !own.covers(&a, LogPosition { log: 1, number: 2 }));
        own.reach(&a, at(logs + 1));
        assert!(own.covers(&a, LogPosition { log: 1, number: 2 }));
        assert_eq!(own.iter().count(), LOGS_MAX);
        let before = own.clone();
        own.reach(&a, at(1));
        assert_eq!(own, before);
    }

    #[test]
    fn positions_are_written_as_they_are_read() {
        for text in ["", "a=0.1", "a=1.5;a=2.1", "a=ffffffffffffffff.1;node-b.x=1.a"] {
            assert_eq!(positions(text).to_string(), text);
        }
        for wrong in [";", "a", "a=", "a=1", "a=1.", "a=+1.1", "a=1.1;a=1.1", "a=1.1;", "a b=1.1"] {
            assert!(wrong.parse::<PurgePositions>().is_err(), "{wrong}");
        }
        let many = |count, of: fn(usize) -> String| {
            (0..count).map(of).collect::<Vec<_>>().join(";").parse::<PurgePositions>()
        };
        assert!(many(MEMBERS_MAX + 1, |i| format!("n{i}=1.1")).is_err());
        assert!(many(LOGS_MAX, |i| format!("a={i}.1")).is_ok());
        assert!(many(LOGS_MAX + 1, |i| format!("a={i}.1")).is_err());
    }
}
