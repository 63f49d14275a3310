//! The objects in memory: the tier, and the tables beside it.

use std::sync::Arc;

use crate::config::options::Options;
use crate::core::sizing::MemoryPlan;
use crate::memory::doorkeeper::Doorkeeper;
use crate::memory::in_transit::InTransit;
use crate::memory::locality_staging::LocalityStaging;
use crate::memory::memory_tier::Tier;
use crate::memory::object::Object;

/// The objects in memory.
pub(super) struct Residents {
    pub(super) tier: Tier<Arc<Object>>,
    /// Decides which objects enter the tier when they are read; without one all do.
    pub(super) doorkeeper: Option<Doorkeeper>,
    /// Objects that wait for others to be placed beside, if enabled.
    pub(super) staging: Option<LocalityStaging>,
    /// Pieces that are being sent.
    pub(super) in_transit: InTransit,
}

impl Residents {
    /// Creates empty tables of the sizes in `plan`, for a space of clusters or of slots.
    pub(super) fn new(
        options: &Options,
        doorkeeper: Option<Doorkeeper>,
        clusters: bool,
        plan: &MemoryPlan,
    ) -> Residents {
        Residents {
            tier: Tier::new(plan.tier, options.tier_shares, options.tier_admission),
            doorkeeper,
            staging: LocalityStaging::new(options, clusters, plan.unwritten_max),
            in_transit: InTransit::default(),
        }
    }
}
