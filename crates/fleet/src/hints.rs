//! Fixed-size table of hints: which node may hold a copy of a document in memory.
//!
//! A hint takes four bytes: a 16-bit tag that distinguishes keys of one bucket, and a member
//! number. A bucket has eight hints and evicts the oldest. Hints are therefore forgotten, and may
//! name a node that never had the document: a key without hints finds another key's with a
//! probability of at most 8 / 65,535, about one in 8,000. Hints affect only the order in which
//! nodes are asked.

use crate::buckets::{Buckets, tag};
use crate::key::KeyHash;
use crate::member::MemberId;

/// Maximum members that hints can name at a time.
const MEMBERS_MAX: usize = u16::MAX as usize;

/// A hint. `member` is a position in [`Hints::members`], from 1; 0 marks an unused hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hint {
    tag: u16,
    member: u16,
}

/// A node's memory of where copies are.
#[derive(Clone, Debug)]
pub struct Hints {
    buckets: Buckets<Hint>,
    /// Members that hints name. The place of a departed member is reused.
    members: Vec<Option<MemberId>>,
}

impl Hints {
    /// Makes an empty table of at most `bytes` bytes, but at least one bucket.
    pub fn new(bytes: usize) -> Hints {
        Hints { buckets: Buckets::new(bytes), members: Vec::new() }
    }

    /// Returns the number of hints that fit.
    pub fn capacity(&self) -> usize {
        self.buckets.capacity()
    }

    /// Records that `member` has a copy now. Evicts the oldest hint of a full bucket.
    pub fn note(&mut self, key: KeyHash, member: &MemberId) {
        let Some(member) = self.number(member) else { return };
        let hint = Hint { tag: tag(key), member };
        self.buckets.put(key, hint, |known| *known == hint);
    }

    /// Records that `member` has no copy.
    pub fn forget(&mut self, key: KeyHash, member: &MemberId) {
        let Some(at) = self.find(member) else { return };
        let gone = |hint: &Hint| hint.tag == tag(key) && usize::from(hint.member) == at + 1;
        self.buckets.remove(key, gone);
    }

    /// Forgets all hints that name `member`, which has left or restarted. Scans the whole table.
    pub fn forget_member(&mut self, member: &MemberId) {
        let Some(at) = self.find(member) else { return };
        self.buckets.remove_everywhere(|hint| usize::from(hint.member) == at + 1);
        self.members[at] = None;
    }

    /// Returns the members that may hold a copy, most recently noted first.
    pub fn holders(&self, key: KeyHash) -> impl Iterator<Item = &MemberId> {
        let named = self.buckets.of(key).iter().filter(move |hint| hint.tag == tag(key));
        named.filter_map(|hint| {
            let at = usize::from(hint.member).checked_sub(1)?;
            self.members.get(at)?.as_ref()
        })
    }

    fn find(&self, member: &MemberId) -> Option<usize> {
        self.members.iter().position(|known| known.as_ref() == Some(member))
    }

    /// Returns a member's number, assigning one if needed; `None` if all are taken.
    fn number(&mut self, member: &MemberId) -> Option<u16> {
        if let Some(at) = self.find(member) {
            return u16::try_from(at + 1).ok();
        }
        let free = self.members.iter().position(Option::is_none);
        let at = match free {
            Some(at) => at,
            None if self.members.len() < MEMBERS_MAX => {
                self.members.push(None);
                self.members.len() - 1
            }
            None => return None,
        };
        self.members[at] = Some(member.clone());
        u16::try_from(at + 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MemberId {
        name.parse().unwrap()
    }

    fn named(hints: &Hints, key: u64) -> Vec<&str> {
        hints.holders(KeyHash::from_bits(key)).map(MemberId::as_str).collect()
    }

    #[test]
    fn the_latest_holder_is_named_first_and_the_oldest_hint_makes_way() {
        let mut hints = Hints::new(0);
        assert_eq!(hints.capacity(), 8);
        let key = KeyHash::from_bits;
        hints.note(key(1), &id("a"));
        hints.note(key(1), &id("b"));
        assert_eq!(named(&hints, 1), ["b", "a"]);
        hints.note(key(1), &id("a"));
        assert_eq!(named(&hints, 1), ["a", "b"]);
        (2..9).for_each(|other| hints.note(key(other), &id("a")));
        assert_eq!(named(&hints, 1), ["a"]);
        hints.forget(key(1), &id("a"));
        assert!(named(&hints, 1).is_empty());
        assert_eq!(named(&hints, 8), ["a"]);
    }

    #[test]
    fn a_member_that_left_is_named_no_more_nor_is_one_in_its_place() {
        let mut hints = Hints::new(1 << 10);
        hints.note(KeyHash::from_bits(1), &id("a"));
        hints.note(KeyHash::from_bits(1), &id("b"));
        hints.forget_member(&id("a"));
        hints.note(KeyHash::from_bits(2), &id("c"));
        assert_eq!(named(&hints, 1), ["b"]);
        assert_eq!(named(&hints, 2), ["c"]);
        hints.forget_member(&id("never"));
    }
}
