//! The parts of a core that are several tables each.

use std::sync::Arc;
use std::task::Waker;

use crate::config::options::Options;
use crate::core::sizing::MemoryPlan;
use crate::memory::doorkeeper::Doorkeeper;
use crate::memory::in_transit::InTransit;
use crate::memory::locality_staging::LocalityStaging;
use crate::memory::memory_tier::Tier;
use crate::memory::object::Object;

/// What is in memory.
pub(super) struct InMemory {
    pub(super) tier: Tier<Arc<Object>>,
    /// Says what enters the tier when it is read; without one all does.
    pub(super) doorkeeper: Option<Doorkeeper>,
    /// What waits for others that it is to lie beside, when that is wanted.
    pub(super) staging: Option<LocalityStaging>,
    /// Pieces that are being sent.
    pub(super) in_transit: InTransit,
}

impl InMemory {
    /// Makes it empty, with as much room as `plan` gives it; beside a space of clusters or not.
    pub(super) fn new(
        options: &Options,
        doorkeeper: Option<Doorkeeper>,
        clusters: bool,
        plan: &MemoryPlan,
    ) -> InMemory {
        InMemory {
            tier: Tier::new(plan.tier, options.tier_shares, options.tier_admission),
            doorkeeper,
            staging: LocalityStaging::new(options, clusters, plan.unwritten_max),
            in_transit: InTransit::default(),
        }
    }
}

/// The background task: whether it runs, and how it is woken.
#[derive(Default)]
pub(crate) struct Background {
    /// To wake it, when it idles.
    waker: Option<Waker>,
    /// Something changed since it was last given a task.
    woken: bool,
    runs: bool,
}

impl Background {
    /// Notes that the background is asked for what it does next: it knows of all changes.
    pub(super) fn begin_task(&mut self) {
        self.woken = false;
    }

    /// Wakes it: it may have something to do.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Lets `waker` wake it. False when something changed since it was last given a task: it is not
    /// to idle.
    pub(crate) fn idle(&mut self, waker: &Waker) -> bool {
        if self.woken {
            return false;
        }
        self.waker = Some(waker.clone());
        true
    }

    /// Notes that it runs from now on.
    pub(crate) fn start(&mut self) {
        self.runs = true;
    }

    /// Notes that it has ended.
    pub(super) fn stop(&mut self) {
        self.runs = false;
    }

    /// Returns whether it runs.
    pub(super) fn runs(&self) -> bool {
        self.runs
    }
}
