//! Decides which nodes a purge is sent to, and which are reported as not reached. Does no I/O.
//!
//! Guarantee: a node that may serve purged objects has received the purge or is reported, unless no
//! node that received it knows of that node. Each node that receives the purge therefore names the
//! other nodes that it knows: a node that left and came back may have met only some of them. A node
//! that has left is neither told nor reported. From before it announces that it leaves, it uses no
//! stored object until it has come back and caught up, for which it waits for all nodes for a
//! while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet::MemberId;
use fleet::member::Address;
use fleet::members::MEMBERS_MAX;

use crate::peers::greeted::Known;

/// A node that comes waits for so long for another that does not answer before it uses what it has
/// stored.
pub(crate) const WAITS_FOR_OTHERS: Duration = Duration::from_secs(10);

/// See the module.
pub(crate) struct Audience {
    own: MemberId,
    /// For how long nodes have been gone that left in order.
    left_for: BTreeMap<MemberId, Duration>,
    /// Nodes that have received the purge or are about to.
    told: BTreeSet<MemberId>,
    reached: BTreeSet<MemberId>,
    unreached: BTreeMap<String, String>,
}

impl Audience {
    /// Makes the audience of a purge at `own`, to which these nodes were lost, and these have left.
    pub fn new(
        own: MemberId,
        lost: BTreeMap<String, String>,
        left_for: BTreeMap<MemberId, Duration>,
    ) -> Audience {
        let (told, reached) = (BTreeSet::from([own.clone()]), BTreeSet::new());
        Audience { own, left_for, told, reached, unreached: lost }
    }

    /// Adds nodes known to another node. Returns those to be told now, with their addresses.
    pub fn add(&mut self, known: Vec<Known>) -> Vec<(MemberId, Address)> {
        let mut next = Vec::new();
        for Known { id, at, lost_for } in known {
            let left_for = self.left_for.get(&id).copied();
            match lost_for {
                // It cannot have come back and serve so soon.
                None if left_for.is_some_and(|since| since < WAITS_FOR_OTHERS) => {}
                None if self.told.len() < MEMBERS_MAX && self.told.insert(id.clone()) => {
                    next.push((id, at));
                }
                None => {}
                // It was lost there before it left here.
                Some(lost) if left_for.is_some_and(|left| lost >= left) => {}
                Some(_) if self.told.contains(&id) => {}
                Some(lost) if self.unreached.len() < MEMBERS_MAX => {
                    let why = format!("another node lost it {} s ago", lost.as_secs());
                    self.unreached.entry(id.to_string()).or_insert(why);
                }
                Some(_) => {}
            }
        }
        next
    }

    /// Returns the names of those that are told, this node among them.
    pub fn told(&self) -> Vec<String> {
        self.told.iter().map(MemberId::to_string).collect()
    }

    /// Notes that a node has carried it out, or why that is not known.
    pub fn end(&mut self, id: &MemberId, told: Result<(), String>) {
        match told {
            Ok(()) => {
                self.unreached.remove(id.as_str());
                self.reached.insert(id.clone());
            }
            Err(why) => {
                self.unreached.insert(id.to_string(), why);
            }
        }
    }

    /// Notes that a node has left in order meanwhile.
    pub fn leave(&mut self, id: &MemberId) {
        self.unreached.remove(id.as_str());
        self.left_for.insert(id.clone(), Duration::ZERO);
    }

    /// Returns how many have carried it out besides this node, and who was not reached, and why.
    pub fn outcome(self) -> (usize, BTreeMap<String, String>) {
        let Audience { own, reached, unreached, .. } = self;
        let others = reached.iter().filter(|id| **id != own).count();
        (others, unreached)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(name: &str) -> MemberId {
        name.parse().unwrap()
    }

    fn known(name: &str, lost_for: Option<u64>) -> Known {
        let at = format!("{name}.example:1").parse().unwrap();
        Known { id: id(name), at, lost_for: lost_for.map(Duration::from_secs) }
    }

    fn audience(left: &[(&str, u64)]) -> Audience {
        let left = left.iter().map(|(name, since)| (id(name), Duration::from_secs(*since)));
        Audience::new(id("own"), BTreeMap::new(), left.collect())
    }

    fn names(next: &[(MemberId, Address)]) -> Vec<&str> {
        next.iter().map(|(id, _)| id.as_str()).collect()
    }

    #[test]
    fn who_is_known_to_one_that_is_told_is_told_too_and_once() {
        let mut audience = audience(&[]);
        let next = audience.add(vec![known("own", None), known("a", None)]);
        assert_eq!(names(&next), ["a"]);
        audience.end(&id("a"), Ok(()));
        let next = audience.add(vec![known("own", None), known("a", None), known("b", None)]);
        assert_eq!(names(&next), ["b"]);
        assert_eq!(audience.told(), ["a", "b", "own"]);
        audience.end(&id("b"), Err("it is silent".to_owned()));
        let (reached, unreached) = audience.outcome();
        assert_eq!((reached, unreached["b"].as_str()), (1, "it is silent"));
    }

    #[test]
    fn who_left_is_neither_told_nor_named_unless_it_may_be_back() {
        let mut audience = audience(&[("just", 2), ("before", 30)]);
        let next = audience.add(vec![known("just", None), known("before", None)]);
        assert_eq!(names(&next), ["before"]);
        // Others lost it before it left here, or after it had come back.
        assert!(audience.add(vec![known("just", Some(2))]).is_empty());
        assert!(audience.unreached.is_empty());
        assert!(audience.add(vec![known("just", Some(1)), known("far", Some(99))]).is_empty());
        let (_, unreached) = audience.outcome();
        assert_eq!(unreached.keys().collect::<Vec<_>>(), ["far", "just"]);
    }

    #[test]
    fn a_node_that_leaves_while_it_is_told_is_not_named() {
        let mut audience = audience(&[]);
        audience.add(vec![known("a", None), known("b", None)]);
        audience.end(&id("b"), Err("it is silent".to_owned()));
        audience.leave(&id("a"));
        audience.leave(&id("b"));
        assert!(audience.add(vec![known("a", None), known("a", Some(9))]).is_empty());
        assert_eq!(audience.outcome(), (0, BTreeMap::new()));
    }

    #[test]
    fn what_was_lost_and_is_reached_is_not_named() {
        let lost = BTreeMap::from([("a".to_owned(), "it was lost".to_owned())]);
        let mut audience = Audience::new(id("own"), lost, BTreeMap::new());
        assert_eq!(names(&audience.add(vec![known("a", None)])), ["a"]);
        assert!(audience.add(vec![known("a", Some(5))]).is_empty());
        audience.end(&id("a"), Ok(()));
        assert_eq!(audience.outcome(), (1, BTreeMap::new()));
    }
}
