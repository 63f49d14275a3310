//! Insertion into a full cuckoo hash table of buckets, for both kinds of index.
//!
//! Every entry has two candidate buckets. When both of a new entry's are full, one of their entries
//! moves to its other bucket, an entry there moves to its own other bucket, and so on, along the
//! shortest chain that ends at a free slot. The search visits a bounded number of buckets.

/// Number of entries in a bucket.
pub(super) const SLOTS: usize = 8;

/// Maximum number of full buckets that an insertion visits in search of a free slot.
const VISITS: usize = 256;

/// The place of an entry: bucket and slot within it.
pub(super) type Place = (usize, usize);

/// The operations of a table of buckets that moving entries takes.
pub(super) trait Table {
    /// Returns a free slot of the bucket, if there is one.
    fn free_place(&self, bucket: usize) -> Option<usize>;
    /// Returns the other candidate bucket of the entry at this place; possibly the same.
    fn other_bucket(&self, place: Place) -> usize;
    /// Moves the entry at `from` to the free place `to`.
    fn shift(&mut self, from: Place, to: Place);
}

/// Frees a slot in one of two buckets by moving entries to their other buckets, along the shortest
/// chain of moves, so that few cache lines are written.
pub(super) fn reserve<T: Table>(table: &mut T, first: usize, second: usize) -> Option<Place> {
    for bucket in [first, second] {
        if let Some(place) = table.free_place(bucket) {
            return Some((bucket, place));
        }
    }
    // Breadth-first search over full buckets. A chain never contains a bucket twice: the first
    // visit to the bucket would have ended the search.
    let mut visits = Visits::new(first, second);
    let mut current = 0;
    while let Some(bucket) = visits.bucket(current) {
        for place in 0..SLOTS {
            let other = table.other_bucket((bucket, place));
            if let Some(free) = table.free_place(other) {
                return Some(shift_all(table, &visits, current, place, (other, free)));
            }
            if other != bucket {
                visits.push(other, current, place);
            }
        }
        current += 1;
    }
    None
}

/// Moves the entry at `place` of the visited bucket to `to`, the entry that led there to the freed
/// place, and so on. Returns the place freed at the start of the chain.
fn shift_all<T: Table>(
    table: &mut T,
    visits: &Visits,
    mut current: usize,
    mut place: usize,
    mut to: Place,
) -> Place {
    loop {
        let visit = visits.list[current];
        let from = (visit.bucket as usize, place);
        table.shift(from, to);
        to = from;
        if visit.parent == Visit::ROOT {
            return to;
        }
        place = usize::from(visit.place);
        current = usize::from(visit.parent);
    }
}

/// One full bucket visited in the search for a free slot, and the entry whose other bucket it is.
#[derive(Clone, Copy)]
struct Visit {
    bucket: u32,
    parent: u16,
    place: u8,
}

impl Visit {
    const ROOT: u16 = u16::MAX;
}

/// A queue of bounded length that keeps the elements taken from it.
struct Visits {
    list: [Visit; VISITS],
    len: usize,
}

impl Visits {
    fn new(first: usize, second: usize) -> Visits {
        let root = |bucket| Visit { bucket: bucket as u32, parent: Visit::ROOT, place: 0 };
        let mut list = [root(first); VISITS];
        list[1] = root(second);
        Visits { list, len: if first == second { 1 } else { 2 } }
    }

    fn bucket(&self, number: usize) -> Option<usize> {
        self.list[..self.len].get(number).map(|visit| visit.bucket as usize)
    }

    fn push(&mut self, bucket: usize, parent: usize, place: usize) {
        if self.len < VISITS {
            self.list[self.len] =
                Visit { bucket: bucket as u32, parent: parent as u16, place: place as u8 };
            self.len += 1;
        }
    }
}
