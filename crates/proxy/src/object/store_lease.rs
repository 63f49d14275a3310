//! Leases of the store: the requests that still use it before it can be handed over to another
//! process.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A fetch that clients follow while it is stored. A lagging client needs bytes that only the store
/// has.
pub(crate) trait Followed {
    /// Returns whether a client needs bytes that only the store has.
    fn lags(&self) -> bool;

    /// Wakes the fetch, so that it notices that nothing more is to be stored.
    fn wake(&self);
}

/// The leases of the store on one worker.
#[derive(Default)]
pub(crate) struct Leases {
    brief: Cell<usize>,
    firm: Cell<usize>,
    /// Fetches that clients of this worker follow, one slot for each client.
    followed: RefCell<Vec<Option<Arc<dyn Followed>>>>,
    vacant: RefCell<Vec<u32>>,
    handover: Cell<Handover>,
}

/// The progress of a hand-over.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Handover {
    /// No hand-over has begun, or it is in its grace period.
    #[default]
    Kept,
    /// Nothing more is to be stored.
    Ending,
    /// The store has been handed over.
    Released,
}

/// A lease of the store, which ends when it is dropped.
pub(crate) struct Lease {
    leases: Rc<Leases>,
    kind: Kind,
}

enum Kind {
    Brief,
    Firm,
    Follows(u32),
}

impl Leases {
    /// Takes a lease that a hand-over waits for during its grace period only.
    pub fn lease_until_grace(self: &Rc<Leases>) -> Lease {
        self.brief.set(self.brief.get() + 1);
        Lease { leases: self.clone(), kind: Kind::Brief }
    }

    /// Takes a lease that a hand-over waits for until it is dropped.
    pub fn lease_until_done(self: &Rc<Leases>) -> Lease {
        self.firm.set(self.firm.get() + 1);
        Lease { leases: self.clone(), kind: Kind::Firm }
    }

    /// Takes the lease of a client that follows a fetch. A hand-over waits for it while the client
    /// lags.
    pub fn following(self: &Rc<Leases>, fetch: Arc<dyn Followed>) -> Lease {
        let mut followed = self.followed.borrow_mut();
        // The slots fit in `u32`: there is no memory for 2^32 clients.
        let place = self.vacant.borrow_mut().pop().unwrap_or(followed.len() as u32);
        if place as usize == followed.len() {
            followed.push(None);
        }
        followed[place as usize] = Some(fetch);
        Lease { leases: self.clone(), kind: Kind::Follows(place) }
    }

    /// Returns whether writers must stop: nothing more is to be stored.
    pub fn is_ending(&self) -> bool {
        self.handover.get() != Handover::Kept
    }

    pub fn is_released(&self) -> bool {
        self.handover.get() == Handover::Released
    }

    /// Makes writers stop: nothing more is to be stored.
    pub fn end_writing(&self) {
        self.handover.set(Handover::Ending);
        self.followed.borrow().iter().flatten().for_each(|fetch| fetch.wake());
    }

    /// Records that the store has been handed over.
    pub fn release(&self) {
        self.handover.set(Handover::Released);
    }

    /// Returns whether there is a lease that a hand-over waits for during its grace period only.
    pub fn are_brief(&self) -> bool {
        self.brief.get() > 0
    }

    /// Returns whether there is a lease that a hand-over waits for until it is dropped, or a client
    /// that lags.
    pub fn are_firm(&self) -> bool {
        self.firm.get() > 0 || self.followed.borrow().iter().flatten().any(|fetch| fetch.lags())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Leases { brief, firm, followed, vacant, .. } = &*self.leases;
        match self.kind {
            Kind::Brief => brief.set(brief.get() - 1),
            Kind::Firm => firm.set(firm.get() - 1),
            Kind::Follows(place) => {
                followed.borrow_mut()[place as usize] = None;
                vacant.borrow_mut().push(place);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn needs_end_with_those_who_have_them() {
        let leases = Rc::<Leases>::default();
        assert!(!leases.are_firm());
        let (brief, firm, other) =
            (leases.lease_until_grace(), leases.lease_until_done(), leases.lease_until_done());
        drop(firm);
        assert!(leases.are_firm());
        drop(other);
        assert!(!leases.are_firm());
        assert!(leases.are_brief());
        drop(brief);
        assert!(!leases.are_brief());
    }
}
