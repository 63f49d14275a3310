//! An LRU stack that reports depths: the order of last accesses in a Fenwick tree.
//!
//! Each object has a place in the order of accesses, which holds its weight. The depth of an object
//! is the sum of the weights at later places, computed in steps logarithmic in the number of
//! objects. When places run out, those in use are renumbered, so memory and time follow the
//! objects, not the accesses.

/// Number of an object.
pub type Id = u32;

/// Place of an object that is not in the stack, and object of a free place.
const NONE: u32 = u32::MAX;
const LEAST: usize = 1 << 10;

#[derive(Clone, Copy)]
struct Object {
    weight: u64,
    place: u32,
}

/// An LRU stack with weights.
pub struct Stack {
    objects: Vec<Object>,
    /// Object by place, oldest first.
    owners: Vec<Id>,
    /// Sums of weights by place, as a Fenwick tree.
    sums: Vec<u64>,
    /// The next free place.
    next: usize,
    len: usize,
    total: u64,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack::new()
    }
}

impl Stack {
    /// Returns an empty stack.
    pub fn new() -> Stack {
        Stack {
            objects: Vec::new(),
            owners: vec![NONE; LEAST],
            sums: vec![0; LEAST],
            next: 0,
            len: 0,
            total: 0,
        }
    }

    /// Moves an object to the top and sets its weight. Returns the sum of the weights above it
    /// before, if it was in the stack.
    pub fn access(&mut self, id: Id, weight: u64) -> Option<u64> {
        let at = id as usize;
        if at >= self.objects.len() {
            self.objects.resize(at + 1, Object { weight: 0, place: NONE });
        }
        let Object { weight: old, place } = self.objects[at];
        if place != NONE && place as usize + 1 == self.next && old == weight {
            return Some(0);
        }
        let above = (place != NONE).then(|| self.take_out(id));
        if self.next == self.owners.len() {
            self.renumber();
        }
        self.objects[at] = Object { weight, place: self.next as u32 };
        self.owners[self.next] = id;
        self.add(self.next, weight);
        self.next += 1;
        self.len += 1;
        self.total += weight;
        above
    }

    /// Removes an object, which must be in the stack. Returns the sum of the weights above it.
    pub fn take_out(&mut self, id: Id) -> u64 {
        let Object { weight, place } = self.objects[id as usize];
        assert!(place != NONE, "the object is not in the stack");
        let above = self.total - self.sum_to(place as usize);
        self.add(place as usize, weight.wrapping_neg());
        self.owners[place as usize] = NONE;
        self.objects[id as usize].place = NONE;
        self.len -= 1;
        self.total -= weight;
        above
    }

    /// Returns the memory in use in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.objects.capacity() * size_of::<Object>()
            + self.owners.capacity() * size_of::<Id>()
            + self.sums.capacity() * size_of::<u64>()
    }

    /// Returns the sum of the weights up to and including a place.
    fn sum_to(&self, place: usize) -> u64 {
        let (mut end, mut sum) = (place + 1, 0_u64);
        while end > 0 {
            sum = sum.wrapping_add(self.sums[end - 1]);
            end &= end - 1;
        }
        sum
    }

    fn add(&mut self, place: usize, weight: u64) {
        let mut end = place + 1;
        while end <= self.sums.len() {
            self.sums[end - 1] = self.sums[end - 1].wrapping_add(weight);
            end += end & end.wrapping_neg();
        }
    }

    /// Closes the gaps between places, and leaves as many free places as are in use.
    fn renumber(&mut self) {
        let places = (2 * (self.len + 1)).next_power_of_two().max(LEAST);
        assert!(places <= 1 << 31, "places are numbers of 32 bits");
        self.owners.retain(|owner| *owner != NONE);
        self.next = self.owners.len();
        self.owners.resize(places, NONE);
        self.sums.clear();
        self.sums.resize(places, 0);
        for (place, owner) in self.owners[..self.next].iter().enumerate() {
            let object = &mut self.objects[*owner as usize];
            object.place = place as u32;
            self.sums[place] = object.weight;
        }
        // Each node adds its sum to the next node that covers it.
        for end in 1..=places {
            let above = end + (end & end.wrapping_neg());
            if above <= places {
                self.sums[above - 1] = self.sums[above - 1].wrapping_add(self.sums[end - 1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_those_of_a_list() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut stack = Stack::new();
            // Newest first.
            let mut list: Vec<(Id, u64)> = Vec::new();
            for step in 0..4_000 {
                let id = random.u32(..300);
                let weight = random.u64(..1 << 40);
                let depth = list.iter().position(|(other, _)| *other == id);
                let above = depth.map(|at| list[..at].iter().map(|(_, weight)| weight).sum());
                depth.map(|at| list.remove(at));
                if depth.is_some() && random.u8(..10) == 0 {
                    assert_eq!(Some(stack.take_out(id)), above, "seed {seed}, step {step}");
                } else {
                    assert_eq!(stack.access(id, weight), above, "seed {seed}, step {step}");
                    list.insert(0, (id, weight));
                }
            }
            assert!(stack.memory_bytes() < 40_000, "{}", stack.memory_bytes());
        }
    }
}
