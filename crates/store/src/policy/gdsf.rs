//! `gdsf`, Greedy-Dual-Size-Frequency (Cherkasova 1998): evicts the object whose absence costs
//! least.
//!
//! An object's value is `L + count × cost / size`. Its count is 1 when it enters and rises with
//! each access. `L` is the value of the last evicted object, so it overtakes objects that are no
//! longer requested. Values are set when an object enters and when it is requested; of equal
//! values, the oldest one goes first.

use super::heap::{Heap, Rank};
use super::{Cost, Entry, Id, Parameters, Policy};

/// Greedy-Dual-Size-Frequency: 24 bytes per object in the cache and 20 per id.
pub struct Gdsf {
    heap: Heap,
    notes: Vec<Note>,
    cost: Cost,
    /// `L` in the formula.
    floor: f64,
    turn: u64,
}

/// State of an object: 16 bytes.
#[derive(Clone, Copy, Default)]
struct Note {
    /// Cost divided by size.
    worth: f64,
    count: u32,
}

impl Gdsf {
    /// Returns an empty policy.
    pub fn new(parameters: &Parameters) -> Gdsf {
        let (heap, notes) = (Heap::new(), Vec::new());
        Gdsf { heap, notes, cost: parameters.cost, floor: 0.0, turn: 0 }
    }

    #[inline]
    fn rank(&mut self, note: Note) -> Rank {
        self.turn += 1;
        Rank { value: self.floor + f64::from(note.count) * note.worth, turn: self.turn }
    }
}

impl Policy for Gdsf {
    #[inline]
    fn insert(&mut self, id: Id, entry: Entry) {
        let note = Note { worth: self.cost.of(entry.size) / entry.size.max(1) as f64, count: 1 };
        let rank = self.rank(note);
        self.heap.push(id, rank);
        let at = id as usize;
        if at >= self.notes.len() {
            self.notes.resize(at + 1, Note::default());
        }
        self.notes[at] = note;
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.heap.contains(id)
    }

    #[inline]
    fn touch(&mut self, id: Id) {
        if self.heap.contains(id) {
            let note = &mut self.notes[id as usize];
            note.count = note.count.saturating_add(1);
            let note = *note;
            let rank = self.rank(note);
            self.heap.postpone(id, rank);
        }
    }

    #[inline]
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        self.heap.first(spared)
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        // The value is not the least if that object was spared; `L` never decreases.
        self.floor = self.floor.max(self.heap.rank(id).value);
        self.heap.remove(id);
    }

    fn remove(&mut self, id: Id) {
        self.heap.remove(id);
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes() + self.notes.capacity() * size_of::<Note>()
    }
}
