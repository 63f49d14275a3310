//! `s3-fifo` (Yang and others, SOSP 2023): three first-in, first-out queues.
//!
//! New objects enter a small queue, a tenth of the cache. Objects requested often enough there move
//! to the main queue; the others are evicted and remembered in a ghost queue as long as the main
//! one. An object that returns while it is remembered enters the main queue at once. In the main
//! queue an object goes round once more for each request, at most three times.
//!
//! An object larger than the small queue is not admitted.

use super::ghosts::Ghosts;
use super::links::{Links, List};
use super::{Entry, Id, Parameters, Policy};

/// Largest request count of an object.
const MOST_ASKED: u8 = 3;

/// State of an object: 16 bytes.
#[derive(Clone, Copy, Default)]
struct Note {
    hash: u64,
    /// The size, shifted left by 8; 0x80 if in the main queue; the number of requests.
    packed: u64,
}

impl Note {
    const IN_MAIN: u64 = 0x80;

    fn new(entry: Entry, in_main: bool) -> Note {
        let packed = entry.size << 8 | if in_main { Note::IN_MAIN } else { 0 };
        Note { hash: entry.hash, packed }
    }

    #[inline]
    fn size(self) -> u64 {
        self.packed >> 8
    }

    #[inline]
    fn in_main(self) -> bool {
        self.packed & Note::IN_MAIN != 0
    }

    #[inline]
    fn asked(self) -> u8 {
        self.packed as u8 & MOST_ASKED
    }
}

/// Small, main and ghost queue: 24 bytes per id, and about 25 per ghost.
pub struct S3Fifo {
    links: Links<Note>,
    small: List,
    main: List,
    small_used: u64,
    small_share: u64,
    main_used: u64,
    main_share: u64,
    /// Number of requests that moves an object from the small queue to the main one.
    threshold: u8,
    ghosts: Ghosts,
}

impl S3Fifo {
    /// Returns an empty policy.
    pub fn new(parameters: &Parameters) -> S3Fifo {
        let small = super::percent(parameters.capacity, parameters.small_percent);
        let main_share = parameters.capacity - small;
        S3Fifo {
            links: Links::new(),
            small: List::EMPTY,
            main: List::EMPTY,
            small_used: 0,
            small_share: small,
            main_used: 0,
            main_share,
            threshold: parameters.small_threshold.min(MOST_ASKED),
            ghosts: Ghosts::new(main_share),
        }
    }

    fn oldest(&self, list: List, spared: impl Fn(Id) -> bool) -> Option<Id> {
        self.links.from(list.oldest()).find(|id| !spared(*id))
    }

    /// Returns the first object of the small queue that was not requested often enough. Moves those
    /// before it to the main queue.
    fn small_victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        while let Some(id) = self.oldest(self.small, &spared) {
            let note = self.links.note(id);
            if note.asked() < self.threshold {
                return Some(id);
            }
            self.links.transfer(&mut self.small, &mut self.main, id);
            self.links.set_note(id, Note { packed: note.size() << 8 | Note::IN_MAIN, ..note });
            self.small_used -= note.size();
            self.main_used += note.size();
        }
        None
    }

    /// Returns the first object of the main queue without requests. Those before it go round again.
    fn main_victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        while let Some(id) = self.oldest(self.main, &spared) {
            let note = self.links.note(id);
            if note.asked() == 0 {
                return Some(id);
            }
            self.links.set_note(id, Note { packed: note.packed - 1, ..note });
            self.links.renew(&mut self.main, id);
        }
        None
    }

    fn leave(&mut self, id: Id) -> Note {
        let note = self.links.note(id);
        if note.in_main() {
            self.links.unlink(&mut self.main, id);
            self.main_used -= note.size();
        } else {
            self.links.unlink(&mut self.small, id);
            self.small_used -= note.size();
        }
        note
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn insert(&mut self, id: Id, entry: Entry) {
        let in_main = self.ghosts.take(entry.hash);
        let (list, used) = if in_main {
            (&mut self.main, &mut self.main_used)
        } else {
            (&mut self.small, &mut self.small_used)
        };
        *used += entry.size;
        self.links.push(list, id, Note::new(entry, in_main));
    }

    fn takes(&self, size: u64) -> bool {
        size <= self.small_share.max(1)
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.links.contains(id)
    }

    #[inline]
    fn touch(&mut self, id: Id) {
        if let Some(note) = self.links.note_mut(id)
            && note.asked() < MOST_ASKED
        {
            note.packed += 1;
        }
    }

    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        if self.main_used > self.main_share
            && let Some(id) = self.main_victim(&spared)
        {
            return Some(id);
        }
        self.small_victim(&spared).or_else(|| self.main_victim(&spared))
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        let note = self.leave(id);
        if !note.in_main() {
            self.ghosts.remember(note.hash, note.size());
        }
    }

    fn remove(&mut self, id: Id) {
        self.leave(id);
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.ghosts.memory_bytes()
    }
}
