//! `w-tinylfu` (Einziger, Friedman, Manes 2017): a small window before a large main part. An object
//! enters the main part only if it was requested more often than the object it displaces.
//!
//! The window, a hundredth of the cache, is LRU. When space is needed, the oldest object of the
//! window competes with the next victim of the main part. A sketch of the accesses, which includes
//! those to objects that have left, decides which of the two is evicted. The main part is a
//! segmented LRU. An object that is requested again while on probation becomes protected; at most
//! four fifths of the part are. An object that loses protection is on probation again. An excess on
//! probation is then evicted without a contest.
//!
//! An object larger than the window is not admitted. The sketch is halved after twelve accesses per
//! object in the cache, but not before 16,384 accesses.

use super::links::{Links, List};
use super::sketch::Sketch;
use super::{Entry, Id, Parameters, Policy, percent};

/// The parts of the cache.
const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Accesses per object in the cache after which the sketch is halved.
const SAMPLE: usize = 12;

/// State of an object: 16 bytes.
#[derive(Clone, Copy, Default)]
struct Note {
    hash: u64,
    /// The size, shifted left by 8, and the number of the part.
    packed: u64,
}

impl Note {
    #[inline]
    fn new(hash: u64, size: u64, part: usize) -> Note {
        Note { hash, packed: size << 8 | part as u64 }
    }

    #[inline]
    fn size(self) -> u64 {
        self.packed >> 8
    }

    #[inline]
    fn part(self) -> usize {
        (self.packed & 0xff) as usize
    }
}

/// One of the three parts.
#[derive(Clone, Copy)]
struct Part {
    list: List,
    used: u64,
}

/// Window, probation, protected part and sketch: 24 bytes per id, and 4 to 8 per object.
pub struct WTinyLfu {
    links: Links<Note>,
    parts: [Part; 3],
    window_share: u64,
    main_share: u64,
    probation_share: u64,
    protected_share: u64,
    sketch: Sketch,
}

impl WTinyLfu {
    /// Returns an empty policy.
    pub fn new(parameters: &Parameters) -> WTinyLfu {
        let window_share = percent(parameters.capacity, parameters.window_percent);
        let main_share = parameters.capacity - window_share;
        let protected_share = percent(main_share, parameters.protected_percent);
        WTinyLfu {
            links: Links::new(),
            parts: [Part { list: List::EMPTY, used: 0 }; 3],
            window_share,
            main_share,
            probation_share: main_share - protected_share,
            protected_share,
            sketch: Sketch::new(SAMPLE),
        }
    }

    #[inline]
    fn shift(&mut self, id: Id, to: usize) {
        let note = self.links.note(id);
        let from = note.part();
        let (mut source, mut target) = (self.parts[from], self.parts[to]);
        self.links.transfer(&mut source.list, &mut target.list, id);
        source.used -= note.size();
        target.used += note.size();
        (self.parts[from], self.parts[to]) = (source, target);
        self.links.set_note(id, Note::new(note.hash, note.size(), to));
    }

    /// Moves the oldest object of the window into the main part if that has space: to the protected
    /// part if only that has space for it, else to probation. Returns false if the main part has no
    /// space.
    #[inline]
    fn move_on(&mut self) -> bool {
        let Some(oldest) = self.parts[WINDOW].list.oldest() else { return false };
        let size = self.links.note(oldest).size();
        if self.main_used() + size > self.main_share {
            return false;
        }
        let probation = self.parts[PROBATION].used + size <= self.probation_share;
        let protected = self.parts[PROTECTED].used + size <= self.protected_share;
        self.shift(oldest, if probation || !protected { PROBATION } else { PROTECTED });
        true
    }

    #[inline]
    fn probation_overflows(&self) -> bool {
        self.parts[PROBATION].used > self.probation_share
    }

    #[inline]
    fn main_used(&self) -> u64 {
        self.parts[PROBATION].used + self.parts[PROTECTED].used
    }

    #[inline]
    fn oldest(&self, part: usize, spared: impl Fn(Id) -> bool) -> Option<Id> {
        self.links.from(self.parts[part].list.oldest()).find(|id| !spared(*id))
    }

    #[inline]
    fn frequency(&self, id: Id) -> u64 {
        self.sketch.estimate(self.links.note(id).hash)
    }
}

impl Policy for WTinyLfu {
    #[inline]
    fn insert(&mut self, id: Id, entry: Entry) {
        self.sketch.fit(self.len() + 1);
        self.sketch.add(entry.hash);
        let part = &mut self.parts[WINDOW];
        part.used += entry.size;
        self.links.push(&mut part.list, id, Note::new(entry.hash, entry.size, WINDOW));
        while self.parts[WINDOW].used > self.window_share && self.move_on() {}
    }

    fn takes(&self, size: u64) -> bool {
        size <= self.window_share.max(1)
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.links.contains(id)
    }

    #[inline]
    fn touch(&mut self, id: Id) {
        if !self.links.contains(id) {
            return;
        }
        let note = self.links.note(id);
        self.sketch.add(note.hash);
        if note.part() != PROBATION {
            self.links.renew(&mut self.parts[note.part()].list, id);
            return;
        }
        self.shift(id, PROTECTED);
        while self.parts[PROTECTED].used > self.protected_share
            && let Some(oldest) = self.parts[PROTECTED].list.oldest()
        {
            self.shift(oldest, PROBATION);
        }
    }

    #[inline]
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        let main = loop {
            let main = self.oldest(PROBATION, &spared);
            if main.is_some() && self.probation_overflows() {
                return main;
            }
            if !self.move_on() {
                break main;
            }
        };
        let main = main.or_else(|| self.oldest(PROTECTED, &spared));
        match (self.oldest(WINDOW, &spared), main) {
            (Some(candidate), Some(main)) => {
                let stays = self.frequency(candidate) > self.frequency(main);
                Some(if stays { main } else { candidate })
            }
            (candidate, main) => candidate.or(main),
        }
    }

    #[inline]
    fn surplus(&self) -> Option<Id> {
        let oldest = self.parts[PROBATION].list.oldest();
        oldest.filter(|_| self.probation_overflows())
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        let note = self.links.note(id);
        let part = &mut self.parts[note.part()];
        self.links.unlink(&mut part.list, id);
        part.used -= note.size();
    }

    fn remove(&mut self, id: Id) {
        self.evict(id);
    }

    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.list.len()).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.sketch.memory_bytes()
    }
}
