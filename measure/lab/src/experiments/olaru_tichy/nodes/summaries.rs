//! Nodes as sibling caches: which ones a node asks for a document that it lacks, either all of them
//! or by summaries of their contents (Fan and others, "Summary Cache", SIGCOMM 1998).
//!
//! A summary is a Bloom filter with four hashes and eight bits for each document in the cache. It
//! is as old as its last exchange: later additions are missing from it, and later removals still in
//! it.

use std::rc::Rc;

use device::{Clock, Nanos};
use fleet::lookup::Ask;

use super::{MESSAGE, Nodes, Siblings};
use crate::experiments::olaru_tichy::exchange;
use workload::contents::mix;

const HASHES: u64 = 4;
const BITS: u64 = 8;
/// Maximum number of siblings asked because their summaries have the document.
const ASKED_MAX: usize = 2;

/// The summaries of all nodes, the same at every node.
#[derive(Default)]
pub(super) struct Summaries {
    exchanged: Option<Nanos>,
    filters: Rc<[Filter]>,
}

struct Filter(Vec<u64>);

impl Filter {
    fn new(documents: &[u32]) -> Filter {
        let words = (documents.len() as u64 * BITS).div_ceil(64).max(1);
        let mut filter = Filter(vec![0; words as usize]);
        for document in documents {
            for bit in filter.bits(*document) {
                filter.0[(bit / 64) as usize] |= 1 << (bit % 64);
            }
        }
        filter
    }

    fn may_have(&self, document: u32) -> bool {
        self.bits(document).iter().all(|bit| self.0[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }

    fn bits(&self, document: u32) -> [u64; HASHES as usize] {
        let size = self.0.len() as u64 * 64;
        let bit = |hash| mix(u64::from(document) << 3 | hash) % size;
        [0, 1, 2, 3].map(bit)
    }
}

impl Nodes {
    /// Returns the requests to siblings for a document that a node lacks.
    pub(super) fn siblings(&self, at: usize, document: u32) -> Vec<Ask> {
        let count = self.nodes.len();
        // Each node starts at another sibling, so that no node gets all requests.
        let start = (mix(u64::from(document)) as usize).wrapping_add(at);
        let others = (0..count).map(|step| start.wrapping_add(step) % count);
        let others = others.filter(|to| *to != at && self.nodes[*to].is_member.get());
        let ask = |to: usize| exchange::ask_sibling(self.nodes[to].id.clone());
        match self.setup.siblings {
            Siblings::None => Vec::new(),
            Siblings::AskAll => {
                // A query and a reply for each sibling.
                self.note_message(2 * (count as u64 - 1), MESSAGE);
                let has = |to: &usize| {
                    self.nodes[*to].memory.borrow().contains(document)
                        || self.nodes[*to].cache.borrow().contains(document)
                };
                others.into_iter().find(has).map(ask).into_iter().collect()
            }
            Siblings::Summaries(age) => {
                self.exchange_summaries(age);
                let filters = Rc::clone(&self.summaries.borrow().filters);
                others
                    .filter(|to| filters[*to].may_have(document))
                    .take(ASKED_MAX)
                    .map(ask)
                    .collect()
            }
        }
    }

    fn exchange_summaries(&self, age: Nanos) {
        let now = self.clock.now();
        let exchanged = self.summaries.borrow().exchanged;
        if exchanged.is_some_and(|exchanged| now < exchanged + age) {
            return;
        }
        let filters = self.nodes.iter().map(|node| {
            let documents: Vec<u32> = node.cache.borrow().documents().collect();
            Filter::new(&documents)
        });
        let filters: Rc<[Filter]> = filters.collect();
        let others = self.nodes.len() as u64 - 1;
        for filter in filters.iter() {
            self.note_message(others, filter.0.len() as u64 * 8);
        }
        *self.summaries.borrow_mut() = Summaries { exchanged: Some(now), filters };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_what_it_was_made_of_and_little_else() {
        let documents: Vec<u32> = (0..5_000).map(|number| number * 7).collect();
        let filter = Filter::new(&documents);
        assert!(documents.iter().all(|document| filter.may_have(*document)));
        let wrong = (0..50_000_u32).filter(|number| number % 7 != 0);
        let wrong = wrong.filter(|document| filter.may_have(*document)).count();
        // (1 − e^(−4/8))^4 is 2.4%.
        assert!((500..2_000).contains(&wrong), "{wrong}");
        assert!(!Filter::new(&[]).may_have(1));
    }
}
