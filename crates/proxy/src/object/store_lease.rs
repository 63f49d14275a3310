//! Leases of the store. A handover to another process waits for the requests that hold one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Fetch followed by clients while it is stored. A lagging client needs bytes that only the store
/// has.
pub(crate) trait Followed {
    /// Returns whether a client needs bytes that only the store has.
    fn lags(&self) -> bool;

    /// Wakes the fetch, so that it notices that nothing more may be stored.
    fn wake(&self);
}

#[derive(Default)]
pub(crate) struct Leases {
    brief: Cell<usize>,
    firm: Cell<usize>,
    /// Fetches that clients of this worker follow, one slot per client.
    followed: RefCell<Vec<Option<Arc<dyn Followed>>>>,
    vacant: RefCell<Vec<u32>>,
    handover: Cell<Handover>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Handover {
    /// No handover has begun, or it is in its grace period.
    #[default]
    Kept,
    Ending,
    Released,
}

/// Lease of the store, returned on drop.
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
    /// Takes a lease that a handover waits for only during its grace period.
    pub fn lease_until_grace(self: &Rc<Leases>) -> Lease {
        self.brief.set(self.brief.get() + 1);
        Lease { leases: self.clone(), kind: Kind::Brief }
    }

    /// Takes a lease that a handover waits for until it is dropped.
    pub fn lease_until_done(self: &Rc<Leases>) -> Lease {
        self.firm.set(self.firm.get() + 1);
        Lease { leases: self.clone(), kind: Kind::Firm }
    }

    /// Takes the lease of a client that follows a fetch. A handover waits for it while the client
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

    /// Returns whether writers must stop because nothing more may be stored.
    pub fn is_ending(&self) -> bool {
        self.handover.get() != Handover::Kept
    }

    pub fn is_released(&self) -> bool {
        self.handover.get() == Handover::Released
    }

    pub fn end_writing(&self) {
        self.handover.set(Handover::Ending);
        self.followed.borrow().iter().flatten().for_each(|fetch| fetch.wake());
    }

    /// Records that the store has been handed over.
    pub fn release(&self) {
        self.handover.set(Handover::Released);
    }

    /// Returns whether a lease exists that a handover waits for only during its grace period.
    pub fn are_brief(&self) -> bool {
        self.brief.get() > 0
    }

    /// Returns whether a lease exists that a handover waits for until it is dropped, or a lagging
    /// client.
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
    fn leases_end_on_drop() {
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
