//! The buffer cache: which blocks are in memory, which of them wait to be written, and which one
//! goes when room is needed. It holds no bytes; what a buffer is worth is its size.
//!
//! Pure bookkeeping. The buffer used longest ago goes first; one that is being read or written
//! stays, one that waits to be written is cleaned first.

use std::collections::BTreeMap;

use device::Nanos;
use hashlink::LinkedHashMap;

use super::inode::Place;

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A block of a file or a directory.
    File {
        /// Whose.
        inode: u32,
        /// Which.
        block: u64,
    },
    /// A block of metadata at this place.
    Meta(u64),
}

impl Key {
    /// Whether one request may carry both.
    fn is_of_same_file(self, other: Key) -> bool {
        match (self, other) {
            (Key::File { inode, .. }, Key::File { inode: other, .. }) => inode == other,
            _ => false,
        }
    }
}

/// A block in memory.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    place: Place,
    state: State,
    /// Changed since it was last sent to the disk.
    dirty: bool,
    /// When it was first changed since then.
    since: Nanos,
    /// Requests that carry it to the disk.
    writing: u32,
    /// Tells it from a later one under the same key.
    birth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Being read.
    Loading,
    Valid,
}

/// Whether something is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Valid,
    Loading,
    Missing,
}

/// A buffer that is on its way to or from the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving {
    pub(super) key: Key,
    pub(super) place: Place,
    birth: u64,
}

/// What to do to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Enough,
    /// The buffer at this place has to be written first.
    Clean(u64),
    /// All that could go is being read or written.
    Wait,
}

/// All buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The one used longest ago first.
    buffers: LinkedHashMap<Key, Buffer>,
    /// What waits to be written, by place.
    dirty: BTreeMap<u64, Key>,
    /// Fragments in memory.
    used: u64,
    dirty_fragments: u64,
    capacity: u64,
    births: u64,
}

impl Buffers {
    /// Room for `capacity` fragments.
    pub(super) fn new(capacity: u64) -> Buffers {
        Buffers {
            buffers: LinkedHashMap::new(),
            dirty: BTreeMap::new(),
            used: 0,
            dirty_fragments: 0,
            capacity,
            births: 0,
        }
    }

    /// Fragments that wait to be written.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty_fragments
    }

    /// Fragments in memory.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Looks a block up; it becomes the one used last.
    pub(super) fn find(&mut self, key: Key) -> Found {
        match self.buffers.to_back(&key) {
            None => Found::Missing,
            Some(buffer) if buffer.state == State::Loading => Found::Loading,
            Some(_) => Found::Valid,
        }
    }

    /// Whether a block is in memory or on its way there.
    pub(super) fn has(&self, key: Key) -> bool {
        self.buffers.contains_key(&key)
    }

    /// Frees memory until `fragments` more would fit, or says what must happen first.
    pub(super) fn make_room(&mut self, fragments: u64) -> Room {
        let mut seen = 0;
        while self.used + fragments > self.capacity {
            let Some((key, buffer)) = self.buffers.front().map(|(key, buffer)| (*key, *buffer))
            else {
                // More than the memory has: let it pass.
                return Room::Enough;
            };
            let busy = buffer.state == State::Loading || buffer.writing > 0;
            if busy || buffer.dirty {
                self.buffers.to_back(&key);
                seen += 1;
                if !busy {
                    return Room::Clean(buffer.place.at);
                }
                if seen > self.buffers.len() {
                    return Room::Wait;
                }
                continue;
            }
            self.buffers.pop_front();
            self.used -= buffer.place.count;
        }
        Room::Enough
    }

    /// A block is about to be read; it was missing.
    pub(super) fn begin_load(&mut self, key: Key, place: Place) -> Moving {
        self.enter(key, place, State::Loading)
    }

    /// A block has been read.
    pub(super) fn end_load(&mut self, moving: &Moving, succeeded: bool) {
        let Some(buffer) = self.same(moving) else { return };
        buffer.state = State::Valid;
        if !succeeded {
            self.discard(moving.key);
        }
    }

    /// A block was changed in memory, or made there, at `now`; `place` is where it lies now.
    pub(super) fn change(&mut self, key: Key, place: Place, now: Nanos) {
        if let Some(buffer) = self.buffers.to_back(&key) {
            let (was, old) = (buffer.dirty, buffer.place);
            buffer.dirty = true;
            buffer.since = if was { buffer.since } else { now };
            buffer.state = State::Valid;
            buffer.place = place;
            self.used = self.used - old.count + place.count;
            if was {
                self.dirty.remove(&old.at);
                self.dirty_fragments -= old.count;
            }
        } else {
            self.enter(key, place, State::Valid);
            if let Some(buffer) = self.buffers.get_mut(&key) {
                buffer.dirty = true;
                buffer.since = now;
            }
        }
        self.dirty_fragments += place.count;
        self.dirty.insert(place.at, key);
    }

    /// Takes what waits to be written from the place `at` on, neighbours in one file joined up to
    /// `most` fragments: it is on its way now. Empty when nothing waits there.
    pub(super) fn begin_write(&mut self, at: u64, most: u64) -> Vec<Moving> {
        let mut row: Vec<Moving> = Vec::new();
        let mut next = at;
        while let Some(key) = self.dirty.get(&next).copied() {
            let buffer = self.buffers.get_mut(&key).expect("what is dirty is in memory");
            let place = buffer.place;
            let joins = row.first().is_none_or(|first| first.key.is_of_same_file(key));
            if !joins || (!row.is_empty() && next + place.count - at > most) {
                break;
            }
            buffer.dirty = false;
            buffer.writing += 1;
            row.push(Moving { key, place, birth: buffer.birth });
            self.dirty.remove(&next);
            self.dirty_fragments -= place.count;
            next += place.count;
        }
        row
    }

    /// A block has reached the disk.
    pub(super) fn end_write(&mut self, moving: &Moving) {
        if let Some(buffer) = self.same(moving) {
            buffer.writing -= 1;
        }
    }

    /// Whether a block waits to be written, and where.
    pub(super) fn dirty_at(&self, key: Key) -> Option<u64> {
        self.buffers.get(&key).filter(|buffer| buffer.dirty).map(|buffer| buffer.place.at)
    }

    /// Whether a block is on its way to the disk.
    pub(super) fn is_writing(&self, key: Key) -> bool {
        self.buffers.get(&key).is_some_and(|buffer| buffer.writing > 0)
    }

    /// The place of the first block that waits, from `from` on.
    pub(super) fn next_dirty(&self, from: u64) -> Option<u64> {
        self.dirty.range(from..).next().map(|(at, _)| *at)
    }

    /// The places of the blocks that wait since `until` or longer.
    pub(super) fn dirty_since(&self, until: Nanos) -> impl Iterator<Item = u64> {
        let old = move |key: &Key| self.buffers.get(key).is_some_and(|it| it.since <= until);
        self.dirty.iter().filter(move |(_, key)| old(key)).map(|(at, _)| *at)
    }

    /// The places of all blocks that wait, and what they are.
    pub(super) fn all_dirty(&self) -> impl Iterator<Item = (u64, Key)> {
        self.dirty.iter().map(|(at, key)| (*at, *key))
    }

    /// Forgets a block whatever its state: what it belonged to is gone.
    pub(super) fn discard(&mut self, key: Key) {
        let Some(buffer) = self.buffers.remove(&key) else { return };
        self.used -= buffer.place.count;
        if buffer.dirty {
            self.dirty.remove(&buffer.place.at);
            self.dirty_fragments -= buffer.place.count;
        }
    }

    fn enter(&mut self, key: Key, place: Place, state: State) -> Moving {
        self.births += 1;
        let birth = self.births;
        let buffer = Buffer { place, state, dirty: false, since: 0, writing: 0, birth };
        let before = self.buffers.insert(key, buffer);
        debug_assert!(before.is_none(), "{key:?} was missing");
        self.used += place.count;
        Moving { key, place, birth }
    }

    fn same(&mut self, moving: &Moving) -> Option<&mut Buffer> {
        self.buffers.get_mut(&moving.key).filter(|buffer| buffer.birth == moving.birth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u64) -> Key {
        Key::File { inode: 5, block }
    }

    fn place(block: u64) -> Place {
        Place { at: 100 + block * 4, count: 4 }
    }

    #[test]
    fn the_one_used_longest_ago_goes_and_what_is_dirty_is_cleaned_first() {
        let mut buffers = Buffers::new(12);
        for block in 0..3 {
            assert_eq!(buffers.make_room(4), Room::Enough);
            let moving = buffers.begin_load(key(block), place(block));
            assert_eq!(buffers.find(key(block)), Found::Loading);
            buffers.end_load(&moving, true);
        }
        assert_eq!(buffers.find(key(0)), Found::Valid);
        buffers.change(key(1), place(1), 0);
        assert_eq!(buffers.make_room(4), Room::Enough);
        assert_eq!(buffers.find(key(2)), Found::Missing);
        buffers.change(key(3), place(3), 0);
        assert_eq!(buffers.make_room(8), Room::Clean(place(1).at));
        let row = buffers.begin_write(place(1).at, 16);
        assert_eq!((row.len(), buffers.dirty()), (1, 4));
        assert!(buffers.is_writing(key(1)));
        // Changed again on its way: it waits again when it has arrived.
        buffers.change(key(1), place(1), 0);
        buffers.end_write(&row[0]);
        assert_eq!(buffers.dirty_at(key(1)), Some(place(1).at));
    }

    #[test]
    fn neighbours_go_together_and_what_is_gone_is_not_written() {
        let mut buffers = Buffers::new(1_000);
        for block in [0, 1, 2, 3, 5] {
            buffers.change(key(block), place(block), block);
        }
        let row = buffers.begin_write(place(0).at, 12);
        assert_eq!(row.iter().map(|moving| moving.key).collect::<Vec<_>>(), [0, 1, 2].map(key));
        assert_eq!(buffers.next_dirty(0), Some(place(3).at));
        buffers.discard(key(3));
        buffers.discard(key(1));
        row.iter().for_each(|moving| buffers.end_write(moving));
        assert_eq!(buffers.next_dirty(0), Some(place(5).at));
        assert_eq!((buffers.used(), buffers.dirty()), (12, 4));
        assert!(buffers.begin_write(place(4).at, 12).is_empty());
        // One that is moved on the disk.
        buffers.change(key(5), Place { at: 7, count: 2 }, 9);
        assert_eq!(buffers.dirty_since(4).count(), 0);
        assert_eq!(buffers.dirty_since(5).collect::<Vec<_>>(), [7]);
        assert_eq!(buffers.all_dirty().collect::<Vec<_>>(), [(7, key(5))]);
        assert_eq!((buffers.used(), buffers.dirty()), (10, 2));
    }
}
