//! Doubly linked lists over one slab. Links are 32-bit numbers; freed slots are reused.

const NONE: u32 = u32::MAX;

/// The number of a slot in the slab.
pub(super) type Id = u32;

struct Place<V> {
    /// The next value towards the most recently used end of its list.
    newer: Id,
    /// The next value towards the least recently used end; for a free slot, the next free one.
    older: Id,
    value: Option<V>,
}

/// The ends of one list. The values are in the [`Slab`].
#[derive(Clone, Copy)]
pub(super) struct List {
    newest: Id,
    oldest: Id,
}

impl List {
    pub(super) const EMPTY: List = List { newest: NONE, oldest: NONE };

    pub(super) fn newest(&self) -> Option<Id> {
        (self.newest != NONE).then_some(self.newest)
    }

    pub(super) fn oldest(&self) -> Option<Id> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

/// Storage for the values of any number of lists. Each value is in at most one list.
pub(super) struct Slab<V> {
    places: Vec<Place<V>>,
    free: Id,
}

impl<V> Slab<V> {
    pub(super) fn new() -> Slab<V> {
        Slab { places: Vec::new(), free: NONE }
    }

    /// Stores a value that is in no list yet.
    pub(super) fn add(&mut self, value: V) -> Id {
        let place = Place { newer: NONE, older: NONE, value: Some(value) };
        if self.free != NONE {
            let id = self.free;
            self.free = self.places[id as usize].older;
            self.places[id as usize] = place;
            return id;
        }
        let id = Id::try_from(self.places.len()).ok().filter(|id| *id != NONE);
        self.places.push(place);
        id.expect("a tier holds fewer than 2^32 - 1 objects")
    }

    /// Removes and returns a value that is in no list any more.
    pub(super) fn take(&mut self, id: Id) -> V {
        let place = &mut self.places[id as usize];
        place.older = self.free;
        self.free = id;
        place.value.take().expect("an id names a value until it is taken")
    }

    pub(super) fn get(&self, id: Id) -> &V {
        self.places[id as usize].value.as_ref().expect("an id names a value until it is taken")
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut V {
        self.places[id as usize].value.as_mut().expect("an id names a value until it is taken")
    }

    /// Returns the neighbour on the newer side.
    pub(super) fn newer(&self, id: Id) -> Option<Id> {
        let newer = self.places[id as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// Returns the memory of the slab itself, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place<V>>()
    }

    pub(super) fn push_newest(&mut self, list: &mut List, id: Id) {
        let place = &mut self.places[id as usize];
        place.newer = NONE;
        place.older = list.newest;
        match list.newest {
            NONE => list.oldest = id,
            newest => self.places[newest as usize].newer = id,
        }
        list.newest = id;
    }

    pub(super) fn push_oldest(&mut self, list: &mut List, id: Id) {
        let place = &mut self.places[id as usize];
        place.older = NONE;
        place.newer = list.oldest;
        match list.oldest {
            NONE => list.newest = id,
            oldest => self.places[oldest as usize].older = id,
        }
        list.oldest = id;
    }

    pub(super) fn unlink(&mut self, list: &mut List, id: Id) {
        let Place { newer, older, .. } = self.places[id as usize];
        match newer {
            NONE => list.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
    }
}
