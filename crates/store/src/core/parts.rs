//! Parts of a core that consist of several tables.

use std::sync::Arc;
use std::task::Waker;

use crate::config::options::Options;
use crate::core::sizing::MemoryPlan;
use crate::memory::doorkeeper::Doorkeeper;
use crate::memory::in_transit::InTransit;
use crate::memory::locality_staging::LocalityStaging;
use crate::memory::memory_tier::Tier;
use crate::memory::object::Object;

/// The objects in memory.
pub(super) struct InMemory {
    pub(super) tier: Tier<Arc<Object>>,
    /// Decides which objects enter the tier when they are read; without one all do.
    pub(super) doorkeeper: Option<Doorkeeper>,
    /// Objects that wait for others to be placed beside, if enabled.
    pub(super) staging: Option<LocalityStaging>,
    /// Pieces that are being sent.
    pub(super) in_transit: InTransit,
}

impl InMemory {
    /// Creates empty tables of the sizes in `plan`, for a space of clusters or of slots.
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

/// The background task: whether it runs, and how to wake it.
#[derive(Default)]
pub(crate) struct Background {
    /// The waker of the idle background.
    waker: Option<Waker>,
    /// True if anything changed since it was last given a task.
    woken: bool,
    runs: bool,
}

impl Background {
    /// Records that the background asks for its next task, and so knows of all changes.
    pub(super) fn begin_task(&mut self) {
        self.woken = false;
    }

    /// Wakes the background, because there may be a task for it.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Registers `waker` to wake the background. Returns false when something changed since it was
    /// last given a task: it must not idle.
    pub(crate) fn idle(&mut self, waker: &Waker) -> bool {
        if self.woken {
            return false;
        }
        self.waker = Some(waker.clone());
        true
    }

    /// Records that the background runs.
    pub(crate) fn start(&mut self) {
        self.runs = true;
    }

    /// Records that the background has ended.
    pub(super) fn stop(&mut self) {
        self.runs = false;
    }

    /// Returns whether the background runs.
    pub(super) fn runs(&self) -> bool {
        self.runs
    }
}
