//! Letting go of the store while the process still serves: another one takes over and waits for it.
//!
//! Who needs the store is known here, so that tunnels, answers that are only passed on and
//! connections that wait do not hold it. Needs come in two kinds. *Brief* ones are waited for only
//! for [`GRACE`]: they can go on without the store. *Firm* ones are waited for until the drain
//! ends: an answer that is read from the store and that no origin could go on with, an unsafe
//! request, whose answer may make invalid what is stored. After the grace fills stop storing (their
//! clients get all the same bytes); a client that lags behind its fill's window is a firm need.
//!
//! It promises: nothing is read or written here once the store has been let go of, and no answer to
//! an unsafe request is given here whose effect on the store would be lost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::fill::state::Fill;
use crate::object::stored_response::Store;
use crate::server::worker::Worker;

/// Time for what could go on without the store to end with it. Less than the next process makes its
/// clients wait for it.
const GRACE: Duration = Duration::from_secs(1);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Who needs the store on one worker.
#[derive(Default)]
pub(crate) struct Needs {
    brief: Cell<usize>,
    firm: Cell<usize>,
    /// Fills that clients of this worker follow, each in a place of its own.
    followed: RefCell<Vec<Option<Arc<Fill>>>>,
    vacant: RefCell<Vec<u32>>,
    stage: Cell<Stage>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Kept,
    /// Nothing more is to be stored.
    Ending,
    /// The store is another process's.
    Released,
}

/// A need, until it is dropped.
pub(crate) struct Need {
    needs: Rc<Needs>,
    kind: Kind,
}

enum Kind {
    Brief,
    Firm,
    Follows(u32),
}

impl Needs {
    /// A need that ends when the grace does.
    pub fn briefly(self: &Rc<Needs>) -> Need {
        self.brief.set(self.brief.get() + 1);
        Need { needs: self.clone(), kind: Kind::Brief }
    }

    /// A need that is waited for.
    pub fn firmly(self: &Rc<Needs>) -> Need {
        self.firm.set(self.firm.get() + 1);
        Need { needs: self.clone(), kind: Kind::Firm }
    }

    /// The need of a client that follows a fill: firm whenever it lags.
    pub fn following(self: &Rc<Needs>, fill: &Arc<Fill>) -> Need {
        let mut followed = self.followed.borrow_mut();
        // So many clients have no room in memory.
        let place = self.vacant.borrow_mut().pop().unwrap_or(followed.len() as u32);
        if place as usize == followed.len() {
            followed.push(None);
        }
        followed[place as usize] = Some(fill.clone());
        Need { needs: self.clone(), kind: Kind::Follows(place) }
    }

    /// Nothing more is to be stored: who writes lets go.
    pub fn is_ending(&self) -> bool {
        self.stage.get() != Stage::Kept
    }

    /// The store is another process's.
    pub fn is_released(&self) -> bool {
        self.stage.get() == Stage::Released
    }

    fn are_firm(&self) -> bool {
        self.firm.get() > 0 || self.followed.borrow().iter().flatten().any(|fill| fill.lags())
    }
}

impl Drop for Need {
    fn drop(&mut self) {
        let Needs { brief, firm, followed, vacant, .. } = &*self.needs;
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

/// Waits until nobody on this worker needs the store, or until `drained`; takes it from the worker.
pub(crate) async fn let_go(worker: &Worker, drained: &Cell<bool>) -> Option<Store> {
    let needs = &worker.needs;
    let begun = Instant::now();
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let in_grace = begun.elapsed() < GRACE;
        if !in_grace && !needs.is_ending() {
            needs.stage.set(Stage::Ending);
            worker.shared.fills.nudge();
            needs.followed.borrow().iter().flatten().for_each(|fill| fill.nudge());
        }
        let waits = needs.are_firm() || in_grace && (needs.brief.get() > 0 || worker.has_fresh());
        if !waits || drained.get() {
            break;
        }
    }
    let store = worker.store()?;
    needs.stage.set(Stage::Released);
    worker.set_store(None);
    Some(store)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn needs_end_with_those_who_have_them() {
        let needs = Rc::<Needs>::default();
        assert!(!needs.are_firm());
        let (brief, firm, other) = (needs.briefly(), needs.firmly(), needs.firmly());
        drop(firm);
        assert!(needs.are_firm());
        drop(other);
        assert!(!needs.are_firm());
        assert_eq!(needs.brief.get(), 1);
        drop(brief);
        assert_eq!(needs.brief.get(), 0);
    }
}
