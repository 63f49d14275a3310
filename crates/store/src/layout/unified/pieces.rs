//! Free pieces: finds the largest one, and each by its first or its last slot.
//!
//! A maximum heap by length (systems U4) and two hash tables (front-rear hashing, U5) over one
//! array of nodes. A node takes 8 bytes and a heap entry 8; both arrays grow by an eighth. Each
//! table holds the node's number, 4 bytes, and a tag byte, at a load between 7/32 and 7/8, because
//! removals leave tombstones: 28 to 64 bytes per piece in total. No memory is returned when the
//! number of pieces falls. Each heap entry has four children, so that a piece sinks through half
//! the levels of a binary heap and the children lie in one or two cache lines.

use hashbrown::HashTable;

use crate::layout::Run;

/// Marks the absence of a node.
const NONE: u32 = u32::MAX;

/// Children per heap entry.
const ARITY: usize = 4;

struct Node {
    /// The piece's first slot; in a vacant node, the next vacant node.
    first: u32,
    /// Position of the piece in the heap.
    at: u32,
}

#[derive(Clone, Copy)]
struct Ranked {
    len: u32,
    node: u32,
}

/// Disjoint, non-adjacent pieces. See the module documentation.
pub(super) struct Pieces {
    nodes: Vec<Node>,
    vacant: u32,
    heap: Vec<Ranked>,
    front: HashTable<u32>,
    rear: HashTable<u32>,
    /// Number of times the heap has written an entry.
    pub(super) moves: u64,
}

impl Default for Pieces {
    fn default() -> Pieces {
        let (front, rear) = (HashTable::new(), HashTable::new());
        Pieces { nodes: Vec::new(), vacant: NONE, heap: Vec::new(), front, rear, moves: 0 }
    }
}

/// Spreads slot numbers over both the low and the high bits, which the tables use. The hash has no
/// seed: clients cannot choose slot numbers.
fn hash(slot: u32) -> u64 {
    let product = u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

fn run(nodes: &[Node], heap: &[Ranked], number: u32) -> Run {
    let node = &nodes[number as usize];
    Run { first: node.first, len: heap[node.at as usize].len }
}

/// Reserves space for one more element, growing by an eighth if the array is full. Doubling would
/// leave up to half of this memory, the bulk of the total, unused.
fn grow<T>(array: &mut Vec<T>) {
    if array.len() == array.capacity() {
        array.reserve_exact(array.len() / 8 + 16);
    }
}

impl Pieces {
    /// Returns the number of slots in the largest piece.
    pub fn largest(&self) -> Option<u32> {
        self.heap.first().map(|entry| entry.len)
    }

    pub fn insert(&mut self, piece: Run) {
        let at = self.heap.len() as u32;
        let node = Node { first: piece.first, at };
        let number = match self.nodes.get_mut(self.vacant as usize) {
            Some(vacant) => {
                let number = self.vacant;
                self.vacant = std::mem::replace(vacant, node).first;
                number
            }
            None => {
                grow(&mut self.nodes);
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        grow(&mut self.heap);
        self.heap.push(Ranked { len: piece.len, node: number });
        let (nodes, heap) = (&self.nodes, &self.heap);
        let first = |number: &u32| hash(nodes[*number as usize].first);
        self.front.insert_unique(hash(piece.first), number, first);
        let last = |number: &u32| hash(run(nodes, heap, *number).end() - 1);
        self.rear.insert_unique(hash(piece.end() - 1), number, last);
        self.rise(at as usize);
    }

    /// Removes and returns the piece that starts with `slot`.
    ///
    /// # Panics
    /// If there is none.
    pub fn remove_first(&mut self, slot: u32) -> Run {
        let nodes = &self.nodes;
        let found = self.front.find(hash(slot), |number| nodes[*number as usize].first == slot);
        let number = *found.expect("a free piece is in the front table");
        self.remove(number)
    }

    /// Removes and returns the piece that ends with `slot`.
    ///
    /// # Panics
    /// If there is none.
    pub fn remove_last(&mut self, slot: u32) -> Run {
        let (nodes, heap) = (&self.nodes, &self.heap);
        let ends = |number: &u32| run(nodes, heap, *number).end() - 1 == slot;
        let number = *self.rear.find(hash(slot), ends).expect("a free piece is in the rear table");
        self.remove(number)
    }

    /// Removes and returns the largest piece.
    ///
    /// # Panics
    /// If there is none.
    pub fn pop_largest(&mut self) -> Run {
        let number = self.heap.first().expect("there is a piece").node;
        self.remove(number)
    }

    fn remove(&mut self, number: u32) -> Run {
        let piece = run(&self.nodes, &self.heap, number);
        for (table, slot) in [(&mut self.front, piece.first), (&mut self.rear, piece.end() - 1)] {
            let found = table.find_entry(hash(slot), |other| *other == number);
            found.expect("a free piece is in both tables").remove();
        }
        let at = self.nodes[number as usize].at as usize;
        self.nodes[number as usize].first = self.vacant;
        self.vacant = number;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.rise(at);
            self.sink(at);
        }
        piece
    }

    /// Moves an entry up until no entry above it is smaller.
    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].len >= entry.len {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    /// Moves an entry down until no entry below it is larger.
    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let children = at * ARITY + 1..(at * ARITY + 1 + ARITY).min(self.heap.len());
            let Some(largest) = children.max_by_key(|child| self.heap[*child].len) else { break };
            if self.heap[largest].len <= entry.len {
                break;
            }
            self.put(at, self.heap[largest]);
            at = largest;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: Ranked) {
        self.moves += 1;
        self.heap[at] = entry;
        self.nodes[entry.node as usize].at = at as u32;
    }

    /// Returns the memory that the pieces occupy, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let arrays =
            self.nodes.capacity() * size_of::<Node>() + self.heap.capacity() * size_of::<Ranked>();
        arrays + self.front.allocation_size() + self.rear.allocation_size()
    }
}

#[cfg(test)]
impl Pieces {
    /// Returns all pieces in ascending order, after checking that the heap, the positions in it and
    /// both tables agree.
    pub(super) fn all(&self) -> Vec<Run> {
        assert_eq!((self.front.len(), self.rear.len()), (self.heap.len(), self.heap.len()));
        let mut all = Vec::new();
        for (at, entry) in self.heap.iter().enumerate() {
            assert!(at == 0 || self.heap[(at - 1) / ARITY].len >= entry.len, "heap order at {at}");
            assert_eq!(self.nodes[entry.node as usize].at as usize, at);
            let piece = run(&self.nodes, &self.heap, entry.node);
            let is_node = |number: &u32| *number == entry.node;
            assert!(self.front.find(hash(piece.first), is_node).is_some());
            assert!(self.rear.find(hash(piece.end() - 1), is_node).is_some());
            all.push(piece);
        }
        all.sort_unstable();
        all
    }
}
