//! Doubly linked lists over ids: two 32-bit links per id, for any number of lists.
//!
//! Unlike the slab of the memory tier it owns no values and hands out no ids: whoever uses it does.
//! An id is in one list at most; which one, its owner knows.

use super::{ID_MAX, Id};

/// No neighbour: the end of a list.
const NONE: Id = u32::MAX;
/// In the place of a link: the id is in no list.
const ABSENT: Id = ID_MAX + 1;

#[derive(Clone, Copy)]
struct Link {
    newer: Id,
    older: Id,
}

const UNLINKED: Link = Link { newer: ABSENT, older: ABSENT };

/// The ends and the length of one list; the links are in [`Links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    newest: Id,
    oldest: Id,
    len: u32,
}

impl List {
    pub(super) const EMPTY: List = List { newest: NONE, oldest: NONE, len: 0 };

    /// What was pushed first.
    pub(super) fn oldest(&self) -> Option<Id> {
        some(self.oldest)
    }

    /// Ids in the list.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }
}

/// The links of all ids.
#[derive(Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    /// Whether the id is in a list.
    #[inline]
    pub(super) fn contains(&self, id: Id) -> bool {
        self.0.get(id as usize).is_some_and(|link| link.newer != ABSENT)
    }

    /// Puts an id that is in no list at the newest end of `list`.
    #[inline]
    pub(super) fn push(&mut self, list: &mut List, id: Id) {
        assert!(!self.contains(id), "the id is in a list already");
        let at = id as usize;
        if at >= self.0.len() {
            assert!(id <= ID_MAX, "the id is too large");
            self.0.resize(at + 1, UNLINKED);
        }
        self.link(list, id);
    }

    /// Takes an id out of `list`, which it is in.
    #[inline]
    pub(super) fn unlink(&mut self, list: &mut List, id: Id) {
        self.part(list, id);
        self.0[id as usize] = UNLINKED;
    }

    /// Moves an id to the newest end of its list.
    #[inline]
    pub(super) fn renew(&mut self, list: &mut List, id: Id) {
        if list.newest != id {
            self.part(list, id);
            self.link(list, id);
        }
    }

    /// The neighbour on the newer side.
    #[inline]
    pub(super) fn newer(&self, id: Id) -> Option<Id> {
        some(self.0[id as usize].newer)
    }

    /// The ids from `from`, if any, towards the newest.
    pub(super) fn from(&self, from: Option<Id>) -> impl Iterator<Item = Id> {
        std::iter::successors(from, |id| self.newer(*id))
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Link>()
    }

    #[inline]
    fn link(&mut self, list: &mut List, id: Id) {
        self.0[id as usize] = Link { newer: NONE, older: list.newest };
        match list.newest {
            NONE => list.oldest = id,
            newest => self.0[newest as usize].newer = id,
        }
        list.newest = id;
        list.len += 1;
    }

    #[inline]
    fn part(&mut self, list: &mut List, id: Id) {
        let Link { newer, older } = self.0[id as usize];
        assert!(newer != ABSENT, "the id is in no list");
        match newer {
            NONE => list.newest = older,
            newer => self.0[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.0[older as usize].newer = newer,
        }
        list.len -= 1;
    }
}

#[inline]
fn some(id: Id) -> Option<Id> {
    (id != NONE).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order() {
        let mut links = Links::default();
        let (mut left, mut right) = (List::EMPTY, List::EMPTY);
        for id in [5, 0, 9] {
            links.push(&mut left, id);
        }
        links.push(&mut right, 3);
        links.renew(&mut left, 5);
        links.renew(&mut left, 5);
        let order = |links: &Links, list: List| links.from(list.oldest()).collect::<Vec<_>>();
        assert_eq!(order(&links, left), [0, 9, 5]);
        links.unlink(&mut left, 9);
        assert_eq!((order(&links, left), left.len()), (vec![0, 5], 2));
        links.unlink(&mut left, 5);
        links.unlink(&mut left, 0);
        assert_eq!(left, List::EMPTY);
        assert_eq!(order(&links, right), [3]);
        assert!(links.contains(3) && !links.contains(0) && !links.contains(1_000));
    }

    #[test]
    #[should_panic(expected = "in a list already")]
    fn an_id_is_in_one_list_only() {
        let mut links = Links::default();
        links.push(&mut List::EMPTY.clone(), 1);
        links.push(&mut List::EMPTY.clone(), 1);
    }
}
