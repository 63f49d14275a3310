//! Doubly linked lists over ids: two 32-bit links per id, for any number of lists. The policy's
//! note for each id lies beside its links, so that an access touches one place in memory.
//!
//! Unlike the slab of the memory tier, this assigns no ids: the user does. An id is in at most one
//! list, and the user knows which.

use super::{ID_MAX, Id};

/// No neighbour: the end of a list.
const NONE: Id = u32::MAX;
/// Stored instead of a link for an id that is in no list.
const ABSENT: Id = ID_MAX + 1;

#[derive(Clone, Copy)]
struct Node<T> {
    newer: Id,
    older: Id,
    note: T,
}

/// The ends and the length of one list. The links are in [`Links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    newest: Id,
    oldest: Id,
    len: u32,
}

impl List {
    pub(super) const EMPTY: List = List { newest: NONE, oldest: NONE, len: 0 };

    /// Returns the id that was pushed first.
    #[inline]
    pub(super) fn oldest(&self) -> Option<Id> {
        some(self.oldest)
    }

    /// Returns the number of ids in the list.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }
}

/// The links and notes of all ids.
pub(super) struct Links<T = ()>(Vec<Node<T>>);

impl<T: Copy + Default> Links<T> {
    /// Returns links without ids.
    pub(super) fn new() -> Links<T> {
        Links(Vec::new())
    }

    /// Returns whether the id is in a list.
    #[inline]
    pub(super) fn contains(&self, id: Id) -> bool {
        self.0.get(id as usize).is_some_and(|node| node.newer != ABSENT)
    }

    /// Returns the note of an id that is in a list.
    #[inline]
    pub(super) fn note(&self, id: Id) -> T {
        self.0[id as usize].note
    }

    /// Returns the note of an id, if it is in a list.
    #[inline]
    pub(super) fn note_mut(&mut self, id: Id) -> Option<&mut T> {
        let node = self.0.get_mut(id as usize).filter(|node| node.newer != ABSENT);
        node.map(|node| &mut node.note)
    }

    /// Changes the note of an id that is in a list.
    #[inline]
    pub(super) fn set_note(&mut self, id: Id, note: T) {
        self.0[id as usize].note = note;
    }

    /// Adds an id that is in no list at the newest end of `list`.
    #[inline]
    pub(super) fn push(&mut self, list: &mut List, id: Id, note: T) {
        assert!(!self.contains(id), "the id is in a list already");
        let at = id as usize;
        if at >= self.0.len() {
            assert!(id <= ID_MAX, "the id is too large");
            let absent = Node { newer: ABSENT, older: ABSENT, note: T::default() };
            self.0.resize(at + 1, absent);
        }
        self.0[at].note = note;
        self.link(list, id);
    }

    /// Removes an id from `list`, which contains it.
    #[inline]
    pub(super) fn unlink(&mut self, list: &mut List, id: Id) {
        self.part(list, id);
        let node = &mut self.0[id as usize];
        node.newer = ABSENT;
        node.older = ABSENT;
    }

    /// Moves an id to the newest end of its list.
    #[inline]
    pub(super) fn renew(&mut self, list: &mut List, id: Id) {
        if list.newest != id {
            self.part(list, id);
            self.link(list, id);
        }
    }

    /// Moves an id from the list that contains it to the newest end of another one.
    #[inline]
    pub(super) fn transfer(&mut self, from: &mut List, to: &mut List, id: Id) {
        self.part(from, id);
        self.link(to, id);
    }

    /// Appends all of `newer` to the newest end of `list`.
    pub(super) fn append(&mut self, list: &mut List, newer: List) {
        if newer.len == 0 {
            return;
        }
        self.0[newer.oldest as usize].older = list.newest;
        match list.newest {
            NONE => list.oldest = newer.oldest,
            newest => self.0[newest as usize].newer = newer.oldest,
        }
        list.newest = newer.newest;
        list.len += newer.len;
    }

    /// Returns the neighbour on the newer side.
    #[inline]
    pub(super) fn newer(&self, id: Id) -> Option<Id> {
        some(self.0[id as usize].newer)
    }

    /// Returns the ids from `from`, if any, towards the newest.
    #[inline]
    pub(super) fn from(&self, from: Option<Id>) -> impl Iterator<Item = Id> {
        std::iter::successors(from, |id| self.newer(*id))
    }

    /// Returns the memory they occupy, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Node<T>>()
    }

    #[inline]
    fn link(&mut self, list: &mut List, id: Id) {
        let node = &mut self.0[id as usize];
        node.newer = NONE;
        node.older = list.newest;
        match list.newest {
            NONE => list.oldest = id,
            newest => self.0[newest as usize].newer = id,
        }
        list.newest = id;
        list.len += 1;
    }

    #[inline]
    fn part(&mut self, list: &mut List, id: Id) {
        let Node { newer, older, .. } = self.0[id as usize];
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

    fn order(links: &Links<char>, list: List) -> String {
        links.from(list.oldest()).map(|id| links.note(id)).collect()
    }

    #[test]
    fn lists_keep_their_order() {
        let mut links = Links::new();
        let (mut left, mut right) = (List::EMPTY, List::EMPTY);
        for (id, note) in [(5, 'a'), (0, 'b'), (9, 'c')] {
            links.push(&mut left, id, note);
        }
        links.push(&mut right, 3, 'd');
        links.renew(&mut left, 5);
        links.renew(&mut left, 5);
        assert_eq!(order(&links, left), "bca");
        links.transfer(&mut left, &mut right, 9);
        assert_eq!((order(&links, left), left.len()), ("ba".into(), 2));
        assert_eq!((order(&links, right), right.len()), ("dc".into(), 2));
        links.append(&mut left, right);
        links.append(&mut left, List::EMPTY);
        assert_eq!((order(&links, left), left.len()), ("badc".into(), 4));
        let mut all = List::EMPTY;
        links.append(&mut all, left);
        assert_eq!(all, left);
        [5, 0, 9, 3].iter().for_each(|id| links.unlink(&mut all, *id));
        assert_eq!(all, List::EMPTY);
        assert!(!links.contains(3) && !links.contains(1_000));
        assert_eq!(links.note_mut(3), None);
    }

    #[test]
    #[should_panic(expected = "in a list already")]
    fn an_id_is_in_one_list_only() {
        let mut links = Links::new();
        links.push(&mut List::EMPTY.clone(), 1, ());
        links.push(&mut List::EMPTY.clone(), 1, ());
    }
}
