//! The members of a fleet as one node knows them at one moment.
//!
//! An immutable value: a change makes a new view with a higher version, and a decision keeps the
//! view that it began with. Members are sorted by name, so nodes with the same knowledge decide
//! alike.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::member::{Member, MemberId};

/// Maximum members of a view. Placement visits every member for every key.
pub const MEMBERS_MAX: usize = 1024;

/// Why a member list was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidMembers {
    /// Two members have this name.
    Twice(MemberId),
    /// The list has this many members, more than [`MEMBERS_MAX`].
    TooMany(usize),
}

impl fmt::Display for InvalidMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidMembers::Twice(id) => {
                write!(f, "two members are named {id}: give each node a name of its own")
            }
            InvalidMembers::TooMany(count) => {
                write!(f, "{count} members: a fleet has at most {MEMBERS_MAX}")
            }
        }
    }
}

impl Error for InvalidMembers {}

/// The members as one node knows them, sorted by name. Cloning is cheap: clones share the list.
#[derive(Clone, Debug)]
pub struct Members {
    version: u64,
    list: Arc<[Member]>,
}

impl Members {
    /// Makes a view. `version` counts this node's views; versions of different nodes are unrelated.
    ///
    /// # Errors
    ///
    /// If two members have the same name, or if there are more than [`MEMBERS_MAX`].
    pub fn new(version: u64, mut list: Vec<Member>) -> Result<Members, InvalidMembers> {
        if list.len() > MEMBERS_MAX {
            return Err(InvalidMembers::TooMany(list.len()));
        }
        list.sort_by(|a, b| a.id.cmp(&b.id));
        match list.windows(2).find(|pair| pair[0].id == pair[1].id) {
            Some(pair) => Err(InvalidMembers::Twice(pair[0].id.clone())),
            None => Ok(Members { version, list: list.into() }),
        }
    }

    /// Makes the view of a node without a fleet: no member owns anything.
    pub fn empty() -> Members {
        Members { version: 0, list: Arc::new([]) }
    }

    /// Returns the version; a higher one is newer.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Finds a member by name.
    pub fn get(&self, id: &MemberId) -> Option<&Member> {
        let found = self.list.binary_search_by(|member| member.id.cmp(id)).ok()?;
        Some(&self.list[found])
    }

    /// Returns all members, sorted by name.
    pub fn iter(&self) -> std::slice::Iter<'_, Member> {
        self.list.iter()
    }

    /// Returns the members that satisfy `is_meant`, as a view of the same version.
    pub fn only(&self, is_meant: impl Fn(&Member) -> bool) -> Members {
        match self.list.iter().all(&is_meant) {
            true => self.clone(),
            false => {
                let list = self.list.iter().filter(|member| is_meant(member)).cloned().collect();
                Members { version: self.version, list }
            }
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether `other` places every key as this view does, apart from loads: the same
    /// members may own keys, with the same weights and zones.
    pub fn places_like(&self, other: &Members) -> bool {
        fn facts(view: &Members) -> impl Iterator<Item = (&MemberId, u32, &str)> {
            let owning = view.list.iter().filter(|member| member.may_own());
            owning.map(|member| (&member.id, member.weight, &*member.zone))
        }
        facts(self).eq(facts(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::State;
    use crate::protocol::Protocols;

    fn member(name: &str) -> Member {
        Member {
            id: name.parse().unwrap(),
            address: "h:1".parse().unwrap(),
            zone: "".into(),
            weight: 1,
            load: 0,
            program: "0.1.0".into(),
            protocols: Protocols::OWN,
            policy_version: 0,
            disk_failed: false,
            has_cache: true,
            state: State::Serving,
        }
    }

    #[test]
    fn members_are_sorted_and_found_by_name() {
        let view = Members::new(7, vec![member("b"), member("c"), member("a")]).unwrap();
        let names: Vec<_> = view.iter().map(|member| member.id.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(view.get(&"b".parse().unwrap()).unwrap().id.as_str(), "b");
        assert!(view.get(&"d".parse().unwrap()).is_none());
        assert_eq!((view.version(), view.len(), view.is_empty()), (7, 3, false));
    }

    #[test]
    fn a_name_stands_once_and_the_list_is_bounded() {
        let error = Members::new(0, vec![member("a"), member("a")]).unwrap_err();
        assert_eq!(error.to_string(), "two members are named a: give each node a name of its own");
        let many = (0..=MEMBERS_MAX).map(|i| member(&format!("n{i}"))).collect();
        assert_eq!(Members::new(0, many).unwrap_err(), InvalidMembers::TooMany(MEMBERS_MAX + 1));
    }

    #[test]
    fn views_place_alike_when_those_that_own_are_the_same() {
        let two = Members::new(1, vec![member("a"), member("b")]).unwrap();
        let busy = Members::new(2, vec![Member { load: 9, ..member("a") }, member("b")]).unwrap();
        let joining = Member { state: State::Joining, ..member("c") };
        let three = Members::new(3, vec![member("a"), member("b"), joining]).unwrap();
        assert!(two.places_like(&busy) && two.places_like(&three));
        let heavy = Members::new(4, vec![Member { weight: 2, ..member("a") }, member("b")]);
        assert!(!two.places_like(&heavy.unwrap()));
    }
}
