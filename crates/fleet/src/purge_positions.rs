//! How far a node has carried out the purges of the whole fleet.
//!
//! Each node logs the purges made at it, and the others follow its log. [`PurgePositions`] is
//! therefore one position per log. Every request between nodes carries the sender's positions, and
//! a node that does not cover them uses none of its copies. A document purged on one node thus
//! cannot return from another.
//!
//! A node's newer log follows its older ones. A follower with a position in an older log must treat
//! everything as purged, because it cannot know how the older log ended.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::log_position::{InvalidPositions, LogPosition};
use crate::member::MemberId;
use crate::members::MEMBERS_MAX;

/// Positions of one node in the logs that it follows, and the end of its own log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgePositions(BTreeMap<MemberId, LogPosition>);

impl PurgePositions {
    /// Returns the position in the log of `member`, if it is followed.
    pub fn get(&self, member: &MemberId) -> Option<LogPosition> {
        self.0.get(member).copied()
    }

    /// Records that all purges before `position` are carried out. Positions never go back.
    pub fn reach(&mut self, member: &MemberId, position: LogPosition) {
        let known = self.0.entry(member.clone()).or_insert(position);
        *known = position.max(*known);
    }

    /// Forgets the log of `member`.
    pub fn forget(&mut self, member: &MemberId) {
        self.0.remove(member);
    }

    /// Returns the logs in which `others` are further, with their positions.
    pub fn lacking<'a>(
        &'a self,
        others: &'a PurgePositions,
    ) -> impl Iterator<Item = (&'a MemberId, LogPosition)> {
        let covered = |(member, position): &(&MemberId, LogPosition)| {
            self.get(member).is_some_and(|own| own.covers(*position))
        };
        others.iter().filter(move |theirs| !covered(theirs))
    }

    /// Returns whether a node with these positions has carried out everything that one with
    /// `others` has.
    pub fn cover(&self, others: &PurgePositions) -> bool {
        self.lacking(others).next().is_none()
    }

    /// Returns all positions, sorted by member.
    pub fn iter(&self) -> impl Iterator<Item = (&MemberId, LogPosition)> {
        self.0.iter().map(|(member, position)| (member, *position))
    }

    /// Returns the number of logs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no log is followed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for PurgePositions {
    /// Writes `name=log.number;…`, sorted by name: equal positions have equal texts.
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
        let mut all = BTreeMap::new();
        for part in text.split(';').filter(|_| !text.is_empty()) {
            let (name, position) = part.split_once('=').ok_or_else(wrong)?;
            let member: MemberId = name.parse().map_err(|_| wrong())?;
            let twice = all.insert(member, position.parse()?).is_some();
            if twice || all.len() > MEMBERS_MAX {
                return Err(wrong());
            }
        }
        Ok(PurgePositions(all))
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
        let own = positions("a=1.5;b=2.0");
        for (others, covered) in [
            ("", true),
            ("a=1.5", true),
            ("a=1.4;b=2.0", true),
            ("a=1.6", false),
            ("b=2.0;c=3.0", false),
            // A newer log: how the older one ended is unknown.
            ("a=7.1", false),
            ("a=0.9", true),
        ] {
            assert_eq!(own.cover(&positions(others)), covered, "{others}");
        }
        let others = positions("a=1.6;b=2.0;c=3.1");
        let lacking: Vec<_> = own.lacking(&others).map(|(id, at)| format!("{id}={at}")).collect();
        assert_eq!(lacking, ["a=1.6", "c=3.1"]);
    }

    #[test]
    fn a_position_does_not_go_back() {
        let (mut own, a) = (positions("a=1.5"), "a".parse().unwrap());
        own.reach(&a, LogPosition { log: 1, number: 3 });
        assert_eq!(own.to_string(), "a=1.5");
        own.reach(&a, LogPosition { log: 1, number: 0x1f });
        assert_eq!(own.to_string(), "a=1.1f");
        own.reach(&a, LogPosition { log: 2, number: 0 });
        own.reach(&a, LogPosition { log: 1, number: 0x2f });
        assert_eq!(own.to_string(), "a=2.0");
        own.forget(&a);
        assert!(own.is_empty());
    }

    #[test]
    fn positions_are_written_as_they_are_read() {
        for text in ["", "a=0.0", "a=ffffffffffffffff.1;node-b.x=1.a"] {
            assert_eq!(positions(text).to_string(), text);
        }
        for wrong in [";", "a", "a=", "a=1", "a=1.", "a=+1.1", "a=1.1;a=1.1", "a=1.1;", "a b=1.1"] {
            assert!(wrong.parse::<PurgePositions>().is_err(), "{wrong}");
        }
        let many = (0..=MEMBERS_MAX).map(|i| format!("n{i}=1.1")).collect::<Vec<_>>().join(";");
        assert!(many.parse::<PurgePositions>().is_err());
    }
}
