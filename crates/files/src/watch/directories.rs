//! The watched directories: their paths, their watches in the kernel, and which of them an event
//! affects. A table without system calls.
//!
//! Guarantee: a directory keeps its number and its watch until all are removed at once.

use std::collections::HashMap;

/// The number of a directory in the table.
pub(super) type Number = u32;

/// The effect of an event on earlier lookups below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: the event belongs to a watch that was removed.
    None,
    /// Something in these directories may have changed.
    In(Vec<Number>),
    /// Paths may lead elsewhere now: every earlier lookup may be out of date.
    Everywhere,
}

/// An event of a watch, in the terms of inotify(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// The kernel's number of the watch.
    pub watch: i32,
    /// The event is about a directory inside the watched one (IN_ISDIR).
    pub of_directory: bool,
    /// The directory was moved in or out (IN_MOVED_FROM, IN_MOVED_TO), changed its permissions
    /// (IN_ATTRIB), or was removed (IN_DELETE). The watch of a removed directory survives while a
    /// process has it open, and would be mistaken for that of the next directory with this name.
    pub moved_changed_or_removed: bool,
    /// The watched directory itself was moved (IN_MOVE_SELF).
    pub moved_itself: bool,
    /// The watch is gone (IN_IGNORED): its directory was removed or unmounted.
    pub gone: bool,
}

#[derive(Debug)]
pub(super) struct Directories {
    by_path: HashMap<Box<[u8]>, Number>,
    /// Several numbers per watch, because mounts can give a directory several paths.
    by_watch: HashMap<i32, Vec<Number>>,
    most: usize,
}

impl Directories {
    /// Creates a table with room for `most` directories.
    pub fn new(most: usize) -> Directories {
        Directories { by_path: HashMap::new(), by_watch: HashMap::new(), most }
    }

    /// Returns the number of watched directories.
    pub fn len(&self) -> usize {
        self.by_path.len()
    }

    /// Returns whether there is no room for another directory.
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Returns the number of a watched directory.
    pub fn number(&self, path: &[u8]) -> Option<Number> {
        self.by_path.get(path).copied()
    }

    /// Adds a directory with its watch. Returns its number; `None` if the table is full.
    pub fn add(&mut self, path: &[u8], watch: i32) -> Option<Number> {
        if let Some(number) = self.number(path) {
            return Some(number);
        }
        if self.is_full() {
            return None;
        }
        let number = Number::try_from(self.len()).ok()?;
        self.by_path.insert(path.into(), number);
        self.by_watch.entry(watch).or_default().push(number);
        Some(number)
    }

    /// Removes all directories. Returns their watches.
    pub fn clear(&mut self) -> Vec<i32> {
        self.by_path.clear();
        self.by_watch.drain().map(|(watch, _)| watch).collect()
    }

    /// Returns the effect of an event.
    pub fn apply(&self, event: Event) -> Effect {
        let Some(numbers) = self.by_watch.get(&event.watch) else { return Effect::None };
        let is_elsewhere = event.of_directory && event.moved_changed_or_removed;
        match event.moved_itself || event.gone || is_elsewhere {
            true => Effect::Everywhere,
            false => Effect::In(numbers.clone()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn events_are_of_the_directories_of_their_watch() {
        let mut table = Directories::new(3);
        let (root, a) = (table.add(b"", 1).unwrap(), table.add(b"a", 2).unwrap());
        // The same directory at another path.
        let b = table.add(b"b", 2).unwrap();
        assert!(table.is_full());
        assert_eq!((table.add(b"c", 4), table.add(b"a", 9)), (None, Some(a)));
        let of = |watch| Event { watch, ..Event::default() };
        assert_eq!(table.apply(of(1)), Effect::In(vec![root]));
        assert_eq!(table.apply(of(2)), Effect::In(vec![a, b]));
        assert_eq!(table.apply(of(3)), Effect::None);
    }

    #[test]
    fn a_directory_that_is_moved_or_gone_changes_everything() {
        let mut table = Directories::new(2);
        let root = table.add(b"", 1).unwrap();
        let event = Event { watch: 1, of_directory: true, ..Event::default() };
        // A directory was created.
        assert_eq!(table.apply(event), Effect::In(vec![root]));
        let event = Event { moved_changed_or_removed: true, ..event };
        assert_eq!(table.apply(event), Effect::Everywhere);
        let gone = Event { watch: 1, gone: true, ..Event::default() };
        assert_eq!(table.apply(gone), Effect::Everywhere);
        let itself = Event { watch: 1, moved_itself: true, ..Event::default() };
        assert_eq!(table.apply(itself), Effect::Everywhere);
        assert_eq!(table.clear(), [1]);
        assert_eq!((table.len(), table.apply(event)), (0, Effect::None));
    }
}
