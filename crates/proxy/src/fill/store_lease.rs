//! Leases of the store: which requests still use it, so that it can be handed over to another
//! process.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::fill::state::Fill;

/// The leases of the store on one worker.
#[derive(Default)]
pub(crate) struct Leases {
    pub(crate) brief: Cell<usize>,
    firm: Cell<usize>,
    /// Fills that clients of this worker follow, each at a place of its own.
    pub(crate) followed: RefCell<Vec<Option<Arc<Fill>>>>,
    vacant: RefCell<Vec<u32>>,
    pub(crate) stage: Cell<Stage>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Kept,
    /// Nothing more is to be stored.
    Ending,
    /// The store has been handed over.
    Released,
}

/// A need of the store, which ends when it is dropped.
pub(crate) struct Lease {
    leases: Rc<Leases>,
    kind: Kind,
}

pub(crate) enum Kind {
    Brief,
    Firm,
    Follows(u32),
}

impl Leases {
    /// Takes a lease that is waited for during the grace period only.
    pub fn lease_until_grace(self: &Rc<Leases>) -> Lease {
        self.brief.set(self.brief.get() + 1);
        Lease { leases: self.clone(), kind: Kind::Brief }
    }

    /// Takes a lease that is waited for until it is dropped.
    pub fn lease_until_done(self: &Rc<Leases>) -> Lease {
        self.firm.set(self.firm.get() + 1);
        Lease { leases: self.clone(), kind: Kind::Firm }
    }

    /// Takes the lease of a client that follows a fill: it is waited for while the client lags.
    pub fn following(self: &Rc<Leases>, fill: &Arc<Fill>) -> Lease {
        let mut followed = self.followed.borrow_mut();
        // There is no memory for 2^32 clients.
        let place = self.vacant.borrow_mut().pop().unwrap_or(followed.len() as u32);
        if place as usize == followed.len() {
            followed.push(None);
        }
        followed[place as usize] = Some(fill.clone());
        Lease { leases: self.clone(), kind: Kind::Follows(place) }
    }

    /// Returns whether nothing more is to be stored: writers stop.
    pub fn is_ending(&self) -> bool {
        self.stage.get() != Stage::Kept
    }

    /// Returns whether the store has been handed over.
    pub fn is_released(&self) -> bool {
        self.stage.get() == Stage::Released
    }

    pub(crate) fn are_firm(&self) -> bool {
        self.firm.get() > 0 || self.followed.borrow().iter().flatten().any(|fill| fill.lags())
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
        assert_eq!(leases.brief.get(), 1);
        drop(brief);
        assert_eq!(leases.brief.get(), 0);
    }
}
