//! Digest of the last purge carried out from each log.
//!
//! A log position counts purges and does not identify them: a node with an old disk that was purged
//! before it met any other node has a log as long as the known one, with another end. The digest
//! tells the two apart.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fleet::MemberId;
use fleet::members::MEMBERS_MAX;
use fleet::purges::Maker;

/// The last purge of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Last {
    incarnation: u64,
    number: u64,
    digest: u64,
}

/// Digests of the last purges of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastPurges(BTreeMap<MemberId, Last>);

impl LastPurges {
    /// Notes the digest of the purge of `maker` with this number. An earlier one changes nothing.
    pub fn note(&mut self, maker: &Maker, number: u64, digest: u64) {
        let (incarnation, member) = (maker.incarnation, &maker.member);
        let known = self.0.get(member);
        if known.is_none() && self.0.len() >= MEMBERS_MAX {
            return;
        }
        if known.is_none_or(|known| (known.incarnation, known.number) <= (incarnation, number)) {
            self.0.insert(member.clone(), Last { incarnation, number, digest });
        }
    }

    /// Adds what others say.
    pub fn merge(&mut self, others: &LastPurges) {
        for (member, last) in &others.0 {
            let maker = Maker { member: member.clone(), incarnation: last.incarnation };
            self.note(&maker, last.number, last.digest);
        }
    }

    /// Returns the digest of the purge of `maker` with this number, if it is known.
    pub fn get(&self, maker: &Maker, number: u64) -> Option<u64> {
        let last = self.0.get(&maker.member)?;
        let is_same = (last.incarnation, last.number) == (maker.incarnation, number);
        is_same.then_some(last.digest)
    }
}

impl fmt::Display for LastPurges {
    /// Writes `name/incarnation=number:digest;…` in hexadecimal digits, sorted by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (member, last)) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { ";" };
            let Last { incarnation, number, digest } = last;
            write!(f, "{between}{member}/{incarnation:x}={number:x}:{digest:x}")?;
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
            let (member, last) = read(part).ok_or(InvalidDigests)?;
            let twice = all.0.insert(member, last).is_some();
            if twice || all.0.len() > MEMBERS_MAX {
                return Err(InvalidDigests);
            }
        }
        Ok(all)
    }
}

fn read(part: &str) -> Option<(MemberId, Last)> {
    let (maker, rest) = part.split_once('=')?;
    let (number, digest) = rest.split_once(':')?;
    let Maker { member, incarnation } = maker.parse().ok()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((member, Last { incarnation, number: hex(number)?, digest: hex(digest)? }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_purge_is_known_and_only_by_its_number() {
        let (mut last, a) = (LastPurges::default(), "a/1".parse().unwrap());
        last.note(&a, 5, 7);
        last.note(&a, 4, 8);
        assert_eq!((last.get(&a, 5), last.get(&a, 4)), (Some(7), None));
        last.merge(&"a/1=6:9;b/2=1:f".parse().unwrap());
        assert_eq!((last.get(&a, 6), last.get(&a, 5)), (Some(9), None));
        assert_eq!(last.to_string(), "a/1=6:9;b/2=1:f");
    }

    #[test]
    fn digests_are_written_as_they_are_read() {
        for text in ["", "a/0=0:0", "a/ffffffffffffffff=1:ffffffffffffffff;node-b.x/1=a:1"] {
            assert_eq!(text.parse::<LastPurges>().unwrap().to_string(), text);
        }
        for wrong in
            [";", "a", "a/1=1", "a=1:1", "a/1=1:", "a/1=1:g", "a/1=1:1;a/1=1:1", "a/1=1:1;"]
        {
            assert!(wrong.parse::<LastPurges>().is_err(), "{wrong}");
        }
    }
}
