//! Copies on nodes: which are kept, what happens to evicted ones, and which nodes are notified.

use std::collections::BTreeSet;
use std::rc::Rc;

use device::Clock;
use fleet::class::{DocumentFacts, LookupStep, Replication};
use fleet::eviction::{self, EvictedCopy, Fate};
use fleet::lookup::Keep;
use fleet::{MemberId, Policy, placement};

use super::{MESSAGE, NOTICE, NOTICE_WAIT, Nodes, Notified, Storage};
use crate::experiments::olaru_tichy::hardware::transfer;
use crate::experiments::olaru_tichy::lru::Cached;

impl Nodes {
    /// Returns the policy of a document whose size is known.
    pub(super) fn policy(&self, document: u32) -> Policy {
        self.policy_by_size(Some(self.documents.size(document)))
    }

    /// Returns the policy of a document as far as a node knows it.
    pub(super) fn known_policy(&self, at: usize, document: u32) -> Policy {
        let sizes = self.nodes[at].sizes.borrow();
        self.policy_by_size(sizes.get(Nodes::key(document)).and_then(|known| known.size))
    }

    fn policy_by_size(&self, size: Option<u64>) -> Policy {
        self.setup.table.classify(&DocumentFacts { size, ..DocumentFacts::default() }).policy
    }

    /// Records that a node knows the size of a document.
    pub(super) fn learn_size(&self, at: usize, document: u32) {
        let size = Some(self.documents.size(document));
        self.nodes[at].sizes.borrow_mut().note(Nodes::key(document), size, None);
    }

    /// Returns whether a node's disk has a document.
    pub(super) fn is_on_disk(&self, at: usize, document: u32) -> bool {
        match self.setup.storage {
            Storage::Cache(_) => self.nodes[at].cache.borrow().contains(document),
            Storage::All => {
                self.setup.weights[at] > 0 || self.policy(document).replication == Replication::All
            }
        }
    }

    /// Stores a document in the places that `keep` names.
    pub(super) fn keep(self: &Rc<Nodes>, at: usize, document: u32, keep: Keep) {
        let cached = Cached { document, size: self.blocks(document), moves: 0 };
        if keep.disk {
            self.nodes[at].cache.borrow_mut().insert(cached);
        }
        if keep.memory {
            self.remember(at, cached);
        }
    }

    /// Puts a copy into a node's memory; evicted copies are dropped or offered.
    fn remember(self: &Rc<Nodes>, at: usize, copy: Cached) {
        if self.nodes[at].memory.borrow().contains(copy.document) {
            return;
        }
        self.learn_size(at, copy.document);
        let gone = self.nodes[at].memory.borrow_mut().insert(copy);
        self.tell(at, copy.document, true);
        for evicted in gone {
            self.tell(at, evicted.document, false);
            self.evicted(at, evicted);
        }
    }

    /// Tells the nodes concerned that a copy came or went, with the next batch of notices.
    fn tell(self: &Rc<Nodes>, at: usize, document: u32, came: bool) {
        if !self.policy(document).lookup.has(LookupStep::Peers) {
            return;
        }
        let notified: Vec<usize> = match self.setup.hints {
            Notified::None => Vec::new(),
            Notified::Owner => self.owner(document).into_iter().collect(),
            Notified::All => (0..self.nodes.len()).collect(),
        };
        let notified: Vec<usize> = notified.into_iter().filter(|to| *to != at).collect();
        self.note_message(notified.len() as u64, NOTICE);
        if notified.is_empty() {
            return;
        }
        let nodes = Rc::clone(self);
        let arrival = self.clock.now().next_multiple_of(NOTICE_WAIT) + self.setup.hardware.latency;
        drop(self.clock.spawn(async move {
            nodes.clock.sleep_until(arrival).await;
            notified.iter().for_each(|to| nodes.told(*to, at, document, came));
        }));
    }

    /// Takes in a notice of a copy at node `of`.
    fn told(&self, at: usize, of: usize, document: u32, came: bool) {
        let (key, mut hints) = (Nodes::key(document), self.nodes[at].hints.borrow_mut());
        if came {
            hints.note(key, &self.nodes[of].id);
            self.learn_size(at, document);
        } else {
            hints.forget(key, &self.nodes[of].id);
        }
    }

    /// Returns the first owner of a document.
    fn owner(&self, document: u32) -> Option<usize> {
        let members = self.members.borrow().1.clone();
        let owners = placement::owners(Nodes::key(document), &members, 1, None, |_| true);
        owners.first().and_then(|owner| self.places.get(&owner.id)).copied()
    }

    /// Returns whether, according to the notified nodes, no other memory has the document.
    fn is_last(&self, at: usize, document: u32) -> bool {
        let knows = match self.setup.hints {
            Notified::None => return true,
            Notified::All => at,
            Notified::Owner => {
                self.note_message(2, NOTICE);
                self.owner(document).unwrap_or(at)
            }
        };
        let hints = self.nodes[knows].hints.borrow();
        let me = &self.nodes[at].id;
        hints.holders(Nodes::key(document)).all(|holder| holder == me)
    }

    /// Decides on a copy evicted from memory.
    fn evicted(self: &Rc<Nodes>, at: usize, evicted: Cached) {
        let node = &self.nodes[at];
        let policy = self.policy(evicted.document);
        if !policy.eviction.offers() {
            return;
        }
        let copy = EvictedCopy {
            key: Nodes::key(evicted.document),
            size: evicted.size,
            last: self.is_last(at, evicted.document),
            moves: evicted.moves,
        };
        let members = self.members();
        let Some(me) = members.get(&node.id) else { return };
        let avoid = self.avoid(at);
        let mut rate = node.offers.borrow_mut();
        let fate = eviction::decide(&copy, &policy, me, &members, &avoid, &mut rate, self.now());
        if let Fate::Offered { to, moves } = fate
            && let Some(to) = to.first().and_then(|to| self.places.get(to))
        {
            self.offer(at, *to, Cached { moves, ..evicted });
        }
    }

    /// Sends a copy to another node's memory.
    fn offer(self: &Rc<Nodes>, at: usize, to: usize, copy: Cached) {
        let nodes = Rc::clone(self);
        self.counts.borrow_mut().offers += 1;
        drop(self.clock.spawn(async move {
            nodes.send(at, copy.size).await;
            let [each, kib] = nodes.setup.hardware.peer;
            let receiver = &nodes.nodes[to];
            receiver.processor.serve(&nodes.clock, each + kib * copy.size / 1_024).await;
            if receiver.is_up.get() {
                nodes.remember(to, copy);
            }
        }));
    }

    /// Sends a document from one node to another.
    pub(super) async fn send(&self, from: usize, size: u64) {
        {
            let mut counts = self.counts.borrow_mut();
            counts.between[0] += 1;
            counts.between[1] += size;
        }
        self.note_message(1, MESSAGE);
        let hardware = &self.setup.hardware;
        let [each, kib] = hardware.peer;
        let node = &self.nodes[from];
        node.processor.serve(&self.clock, each / 2 + kib * size / 1_024).await;
        node.link.serve(&self.clock, transfer(size + MESSAGE, hardware.link)).await;
        self.clock.sleep_until(self.clock.now() + hardware.latency).await;
    }

    /// Returns the nodes that this one currently avoids.
    pub(super) fn avoid(&self, at: usize) -> BTreeSet<MemberId> {
        let now = self.now();
        let breakers = self.nodes[at].breakers.borrow();
        let open = breakers.iter().filter(|(_, breaker)| breaker.is_open(now));
        open.map(|(to, _)| self.nodes[*to].id.clone()).collect()
    }
}
