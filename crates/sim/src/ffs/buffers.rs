//! The buffer cache: which blocks are in memory, which of them are dirty, and which to drop when
//! room is needed. It holds no bytes, only sizes.
//!
//! Pure bookkeeping. Eviction is least recently used. A buffer that is being read or written stays;
//! a dirty one is written first. Metadata shares the memory with files and directories, or has a
//! pool of its own. Each pool makes room only for its own kind.

use std::collections::BTreeMap;

use device::Nanos;
use hashlink::LinkedHashMap;

use super::inode::Place;

/// Identifies the content of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A block of a file or directory.
    File {
        inode: u32,
        /// Number of the block in the file.
        block: u64,
    },
    /// The block of metadata at this place.
    Meta(u64),
}

impl Key {
    /// Returns whether one request may carry both blocks.
    fn is_of_same_file(self, other: Key) -> bool {
        match (self, other) {
            (Key::File { inode, .. }, Key::File { inode: other, .. }) => inode == other,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    place: Place,
    state: State,
    /// True if it changed since it was last sent to the disk.
    dirty: bool,
    /// Time of its first change since then.
    since: Nanos,
    /// Number of requests that carry it to the disk.
    writing: u32,
    /// Distinguishes it from a later buffer with the same key.
    birth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Loading,
    Valid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Valid,
    Loading,
    Missing,
}

/// A buffer on its way to or from the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving {
    pub(super) key: Key,
    pub(super) place: Place,
    birth: u64,
}

/// The next step needed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    /// The buffer at this place must be written first.
    Clean(u64),
    /// All candidates are being read or written.
    Wait,
}

/// Buffers that share one memory bound.
#[derive(Debug, Default)]
struct Pool {
    /// Buffers, least recently used first.
    buffers: LinkedHashMap<Key, Buffer>,
    /// Fragments in memory.
    used: u64,
    capacity: u64,
}

impl Pool {
    /// Makes room as [`Buffers::make_room`] does.
    fn make_room(&mut self, fragments: u64) -> Room {
        let mut seen = 0;
        while self.used + fragments > self.capacity {
            let Some((key, buffer)) = self.buffers.front().map(|(key, buffer)| (*key, *buffer))
            else {
                // The request exceeds the memory: let it pass.
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
}

#[derive(Debug)]
pub(super) struct Buffers {
    /// The pool of files and directories, and of metadata without a pool of its own.
    common: Pool,
    metadata: Option<Pool>,
    dirty: BTreeMap<u64, Key>,
    dirty_fragments: u64,
    births: u64,
}

impl Buffers {
    /// Returns a cache with room for `capacity` fragments, and a separate pool of `metadata`
    /// fragments. With `None`, metadata shares the first pool.
    pub(super) fn new(capacity: u64, metadata: Option<u64>) -> Buffers {
        let pool = |capacity| Pool { capacity, ..Pool::default() };
        Buffers {
            common: pool(capacity),
            metadata: metadata.map(pool),
            dirty: BTreeMap::new(),
            dirty_fragments: 0,
            births: 0,
        }
    }

    fn pool(&self, key: Key) -> &Pool {
        match (key, &self.metadata) {
            (Key::Meta(_), Some(pool)) => pool,
            _ => &self.common,
        }
    }

    fn pool_mut(&mut self, key: Key) -> &mut Pool {
        match (key, &mut self.metadata) {
            (Key::Meta(_), Some(pool)) => pool,
            _ => &mut self.common,
        }
    }

    fn get(&self, key: Key) -> Option<&Buffer> {
        self.pool(key).buffers.get(&key)
    }

    pub(super) fn dirty(&self) -> u64 {
        self.dirty_fragments
    }

    /// Returns the number of fragments in memory.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.common.used + self.metadata.as_ref().map_or(0, |pool| pool.used)
    }

    /// Looks a block up and marks it most recently used.
    pub(super) fn find(&mut self, key: Key) -> Found {
        match self.pool_mut(key).buffers.to_back(&key) {
            None => Found::Missing,
            Some(buffer) if buffer.state == State::Loading => Found::Loading,
            Some(_) => Found::Valid,
        }
    }

    /// Returns whether a block is in memory or being read.
    pub(super) fn has(&self, key: Key) -> bool {
        self.pool(key).buffers.contains_key(&key)
    }

    /// Frees memory until `fragments` more of the kind of `key` fit, or returns the step that must
    /// come first.
    pub(super) fn make_room(&mut self, key: Key, fragments: u64) -> Room {
        self.pool_mut(key).make_room(fragments)
    }

    /// Adds a missing block that is about to be read.
    pub(super) fn begin_load(&mut self, key: Key, place: Place) -> Moving {
        self.enter(key, place, State::Loading)
    }

    /// Records that a read has ended; a failed one discards the block.
    pub(super) fn end_load(&mut self, moving: &Moving, succeeded: bool) {
        let Some(buffer) = self.same(moving) else { return };
        buffer.state = State::Valid;
        if !succeeded {
            self.discard(moving.key);
        }
    }

    /// Records that a block was changed or created in memory at `now`; `place` is its current
    /// place.
    pub(super) fn change(&mut self, key: Key, place: Place, now: Nanos) {
        let pool = self.pool_mut(key);
        if let Some(buffer) = pool.buffers.to_back(&key) {
            let (was, old) = (buffer.dirty, buffer.place);
            buffer.dirty = true;
            buffer.since = if was { buffer.since } else { now };
            buffer.state = State::Valid;
            buffer.place = place;
            pool.used = pool.used - old.count + place.count;
            if was {
                self.dirty.remove(&old.at);
                self.dirty_fragments -= old.count;
            }
        } else {
            self.enter(key, place, State::Valid);
            if let Some(buffer) = self.pool_mut(key).buffers.get_mut(&key) {
                buffer.dirty = true;
                buffer.since = now;
            }
        }
        self.dirty_fragments += place.count;
        self.dirty.insert(place.at, key);
    }

    /// Starts writing the dirty blocks from place `at` on: neighbours of one file are joined, up to
    /// `most` fragments. Returns an empty list if no block is dirty there.
    pub(super) fn begin_write(&mut self, at: u64, most: u64) -> Vec<Moving> {
        let mut row: Vec<Moving> = Vec::new();
        let mut next = at;
        while let Some(key) = self.dirty.get(&next).copied() {
            let buffer = self.pool_mut(key).buffers.get_mut(&key);
            let buffer = buffer.expect("what is dirty is in memory");
            let place = buffer.place;
            let joins = row.first().is_none_or(|first| first.key.is_of_same_file(key));
            if !joins || (!row.is_empty() && next + place.count - at > most) {
                break;
            }
            buffer.dirty = false;
            buffer.writing += 1;
            let birth = buffer.birth;
            row.push(Moving { key, place, birth });
            self.dirty.remove(&next);
            self.dirty_fragments -= place.count;
            next += place.count;
        }
        row
    }

    pub(super) fn end_write(&mut self, moving: &Moving) {
        if let Some(buffer) = self.same(moving) {
            buffer.writing -= 1;
        }
    }

    /// Returns the place of a block if it is dirty.
    pub(super) fn dirty_at(&self, key: Key) -> Option<u64> {
        self.get(key).filter(|buffer| buffer.dirty).map(|buffer| buffer.place.at)
    }

    /// Returns whether a block is being written.
    pub(super) fn is_writing(&self, key: Key) -> bool {
        self.get(key).is_some_and(|buffer| buffer.writing > 0)
    }

    /// Returns the place of the first dirty block at or after `from`.
    pub(super) fn next_dirty(&self, from: u64) -> Option<u64> {
        self.dirty.range(from..).next().map(|(at, _)| *at)
    }

    /// Returns the places of the blocks that have been dirty since `until` or longer.
    pub(super) fn dirty_since(&self, until: Nanos) -> impl Iterator<Item = u64> {
        let old = move |key: &Key| self.get(*key).is_some_and(|it| it.since <= until);
        self.dirty.iter().filter(move |(_, key)| old(key)).map(|(at, _)| *at)
    }

    /// Returns all dirty blocks with their places.
    pub(super) fn all_dirty(&self) -> impl Iterator<Item = (u64, Key)> {
        self.dirty.iter().map(|(at, key)| (*at, *key))
    }

    /// Removes a block in any state, because its file or directory is gone.
    pub(super) fn discard(&mut self, key: Key) {
        let pool = self.pool_mut(key);
        let Some(buffer) = pool.buffers.remove(&key) else { return };
        pool.used -= buffer.place.count;
        if buffer.dirty {
            self.dirty.remove(&buffer.place.at);
            self.dirty_fragments -= buffer.place.count;
        }
    }

    fn enter(&mut self, key: Key, place: Place, state: State) -> Moving {
        self.births += 1;
        let birth = self.births;
        let buffer = Buffer { place, state, dirty: false, since: 0, writing: 0, birth };
        let pool = self.pool_mut(key);
        let before = pool.buffers.insert(key, buffer);
        debug_assert!(before.is_none(), "{key:?} was missing");
        pool.used += place.count;
        Moving { key, place, birth }
    }

    fn same(&mut self, moving: &Moving) -> Option<&mut Buffer> {
        let buffer = self.pool_mut(moving.key).buffers.get_mut(&moving.key);
        buffer.filter(|buffer| buffer.birth == moving.birth)
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
        let mut buffers = Buffers::new(12, None);
        for block in 0..3 {
            assert_eq!(buffers.make_room(key(0), 4), Room::Enough);
            let moving = buffers.begin_load(key(block), place(block));
            assert_eq!(buffers.find(key(block)), Found::Loading);
            buffers.end_load(&moving, true);
        }
        assert_eq!(buffers.find(key(0)), Found::Valid);
        buffers.change(key(1), place(1), 0);
        assert_eq!(buffers.make_room(key(0), 4), Room::Enough);
        assert_eq!(buffers.find(key(2)), Found::Missing);
        buffers.change(key(3), place(3), 0);
        assert_eq!(buffers.make_room(key(0), 8), Room::Clean(place(1).at));
        let row = buffers.begin_write(place(1).at, 16);
        assert_eq!((row.len(), buffers.dirty()), (1, 4));
        assert!(buffers.is_writing(key(1)));
        // Changed again while being written, so it is dirty again afterwards.
        buffers.change(key(1), place(1), 0);
        buffers.end_write(&row[0]);
        assert_eq!(buffers.dirty_at(key(1)), Some(place(1).at));
    }

    #[test]
    fn metadata_with_a_bound_of_their_own_go_for_each_other() {
        let mut buffers = Buffers::new(8, Some(4));
        let meta = |number: u64| (Key::Meta(number * 4), Place { at: number * 4, count: 4 });
        for (key, place) in [(key(0), place(0)), meta(0), (key(1), place(1)), meta(1)] {
            assert_eq!(buffers.make_room(key, 4), Room::Enough);
            let moving = buffers.begin_load(key, place);
            buffers.end_load(&moving, true);
        }
        assert_eq!([key(0), key(1)].map(|key| buffers.find(key)), [Found::Valid; 2]);
        let found = [0, 1].map(|number| buffers.find(meta(number).0));
        assert_eq!((found, buffers.used()), ([Found::Missing, Found::Valid], 12));
        buffers.change(meta(1).0, meta(1).1, 0);
        assert_eq!(buffers.make_room(meta(0).0, 4), Room::Clean(4));
        assert_eq!(buffers.make_room(key(2), 4), Room::Enough);
    }

    #[test]
    fn neighbours_go_together_and_what_is_gone_is_not_written() {
        let mut buffers = Buffers::new(1_000, None);
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
        // A block that moved on the disk.
        buffers.change(key(5), Place { at: 7, count: 2 }, 9);
        assert_eq!(buffers.dirty_since(4).count(), 0);
        assert_eq!(buffers.dirty_since(5).collect::<Vec<_>>(), [7]);
        assert_eq!(buffers.all_dirty().collect::<Vec<_>>(), [(7, key(5))]);
        assert_eq!((buffers.used(), buffers.dirty()), (10, 2));
    }
}
