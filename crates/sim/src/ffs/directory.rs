//! A directory: entries of different lengths in chunks of 512 bytes, which no entry crosses. A new
//! entry goes to the first chunk with room; chunks are never freed.

use std::collections::{BTreeSet, HashMap};

/// Bytes of a chunk.
pub(super) const CHUNK: u64 = 512;

#[derive(Debug, Default)]
pub(super) struct Directory {
    entries: HashMap<Box<str>, Entry>,
    /// Free bytes of each chunk.
    free: Vec<u16>,
    /// Chunks with room for at least the shortest name.
    roomy: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The inode that the entry refers to.
    pub(super) inode: u32,
    pub(super) chunk: u32,
}

/// Returns the length of an entry in bytes: inode number and lengths, and the name with its
/// terminator, padded to words of 4 bytes.
fn length(name: &str) -> u16 {
    let name = (name.len() + 1).next_multiple_of(4);
    8 + u16::try_from(name.min(256)).unwrap_or(256)
}

impl Directory {
    /// Returns a new directory with the entries `.` and `..`.
    pub(super) fn new() -> Directory {
        let free = CHUNK as u16 - 2 * length(".");
        Directory { entries: HashMap::new(), free: vec![free], roomy: BTreeSet::from([0]) }
    }

    /// Returns the length of the directory's file in bytes.
    pub(super) fn size(&self) -> u64 {
        self.free.len() as u64 * CHUNK
    }

    /// Returns the number of entries, `.` and `..` excluded.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn find(&self, name: &str) -> Option<Entry> {
        self.entries.get(name).copied()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.values().copied()
    }

    /// Returns about how many entries lie in the chunks up to `chunk`, which a search for an entry
    /// there passes.
    pub(super) fn entries_up_to(&self, chunk: u32) -> f64 {
        let share = f64::from(chunk + 1) / self.free.len() as f64;
        2.0 + self.entries.len() as f64 * share
    }

    /// Inserts a new entry and returns its chunk. The name must not exist yet.
    pub(super) fn insert(&mut self, name: &str, inode: u32) -> u32 {
        let length = length(name);
        let found = self.roomy.iter().find(|chunk| self.free[**chunk as usize] >= length);
        let chunk = found.copied().unwrap_or_else(|| {
            self.free.push(CHUNK as u16);
            self.free.len() as u32 - 1
        });
        self.set_free(chunk, self.free[chunk as usize] - length);
        let before = self.entries.insert(name.into(), Entry { inode, chunk });
        debug_assert!(before.is_none(), "{name} is new");
        chunk
    }

    /// Removes the entry of a name and returns it.
    pub(super) fn remove(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.set_free(entry.chunk, self.free[entry.chunk as usize] + length(name));
        Some(entry)
    }

    fn set_free(&mut self, chunk: u32, free: u16) {
        self.free[chunk as usize] = free;
        match free >= length("x") {
            true => self.roomy.insert(chunk),
            false => self.roomy.remove(&chunk),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fill_chunks_and_gaps() {
        let mut directory = Directory::new();
        // 20 bytes each: 24 fit beside the two of 12 bytes, then 25 per chunk.
        for number in 0..60 {
            let chunk = directory.insert(&format!("{number:08X}"), number);
            let expected = match number {
                ..24 => 0,
                24..49 => 1,
                _ => 2,
            };
            assert_eq!(chunk, expected, "{number}");
        }
        assert_eq!((directory.size(), directory.len()), (3 * CHUNK, 60));
        assert_eq!(directory.remove("00000005"), Some(Entry { inode: 5, chunk: 0 }));
        assert_eq!(directory.remove("00000005"), None);
        assert_eq!(directory.insert("000000FF", 255), 0);
        assert_eq!(directory.find("000000FF"), Some(Entry { inode: 255, chunk: 0 }));
        assert_eq!(directory.find("FF"), None);
        // Only the third chunk has room for a name that long, then none has.
        assert_eq!(directory.insert(&"name".repeat(63), 6), 2);
        assert_eq!(directory.insert(&"long".repeat(63), 7), 3);
        assert_eq!(directory.insert("short", 8), 2);
        assert!(directory.entries_up_to(0) < directory.entries_up_to(3));
    }
}
