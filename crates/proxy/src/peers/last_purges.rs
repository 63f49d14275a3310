//! Digest of the last purge carried out from each log.
//!
//! A log position counts purges and does not identify them: a node with an old disk that was purged
//! before it met any other node has a log as long as the known one, with another end. The digest
//! tells the two apart.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fleet::members::MEMBERS_MAX;
use fleet::{LogPosition, MemberId};

/// Digests of the last purges of logs, and the places behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastPurges(BTreeMap<MemberId, (LogPosition, u64)>);

impl LastPurges {
    /// Notes the digest of the purge of `member` that ends before `position`. What is earlier in
    /// the log changes nothing.
    pub fn note(&mut self, member: &MemberId, position: LogPosition, digest: u64) {
        if self.0.get(member).is_none_or(|(known, _)| *known <= position) {
            self.0.insert(member.clone(), (position, digest));
        }
    }

    /// Adds what others say.
    pub fn merge(&mut self, others: &LastPurges) {
        others.0.iter().for_each(|(member, (at, digest))| self.note(member, *at, *digest));
    }

    /// Returns the digest of the purge of `member` that ends before `position`, if it is known.
    pub fn get(&self, member: &MemberId, position: LogPosition) -> Option<u64> {
        self.0.get(member).filter(|(at, _)| *at == position).map(|(_, digest)| *digest)
    }
}

impl fmt::Display for LastPurges {
    /// Writes `name=log.number:digest;…`, by name; the digest as hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (member, (position, digest))) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { ";" };
            write!(f, "{between}{member}={position}:{digest:x}")?;
        }
        Ok(())
    }
}

/// A text that tells no digests of purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidDigests;

impl FromStr for LastPurges {
    type Err = InvalidDigests;

    fn from_str(text: &str) -> Result<LastPurges, InvalidDigests> {
        let mut all = LastPurges::default();
        for part in text.split(';').filter(|_| !text.is_empty()) {
            let (member, position, digest) = read(part).ok_or(InvalidDigests)?;
            let twice = all.0.insert(member, (position, digest)).is_some();
            if twice || all.0.len() > MEMBERS_MAX {
                return Err(InvalidDigests);
            }
        }
        Ok(all)
    }
}

fn read(part: &str) -> Option<(MemberId, LogPosition, u64)> {
    let (name, rest) = part.split_once('=')?;
    let (position, digest) = rest.split_once(':')?;
    let digest = u64::from_str_radix(digest, 16).ok()?;
    Some((name.parse().ok()?, position.parse().ok()?, digest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_purge_is_known_and_only_at_its_place() {
        let (mut last, a) = (LastPurges::default(), "a".parse().unwrap());
        let at = |number| LogPosition { log: 1, number };
        last.note(&a, at(5), 7);
        last.note(&a, at(4), 8);
        assert_eq!((last.get(&a, at(5)), last.get(&a, at(4))), (Some(7), None));
        last.merge(&"a=1.6:9;b=2.1:f".parse().unwrap());
        assert_eq!((last.get(&a, at(6)), last.get(&a, at(5))), (Some(9), None));
        assert_eq!(last.to_string(), "a=1.6:9;b=2.1:f");
    }

    #[test]
    fn digests_are_written_as_they_are_read() {
        for text in ["", "a=0.0:0", "a=ffffffffffffffff.1:ffffffffffffffff;node-b.x=1.a:1"] {
            assert_eq!(text.parse::<LastPurges>().unwrap().to_string(), text);
        }
        for wrong in
            [";", "a", "a=1.1", "a=1:1", "a=1.1:", "a=1.1:g", "a=1.1:1;a=1.1:1", "a=1.1:1;"]
        {
            assert!(wrong.parse::<LastPurges>().is_err(), "{wrong}");
        }
    }
}
