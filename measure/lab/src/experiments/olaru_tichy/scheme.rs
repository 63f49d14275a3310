//! The ways to share a cache that are compared beyond the paper: Larder's own, and those of other
//! systems.

use std::num::NonZeroU32;

use device::Nanos;
use fleet::class::{Copies, Eviction, Lookup, Replication};
use fleet::placement::LoadBound;
use fleet::popularity::Hotness;
use fleet::{ClassTable, Policy};

use super::hardware::Hardware;
use super::nodes::{Notified, Setup, Siblings, Storage};
use crate::experiment::Failed;

pub(super) const SECOND: Nanos = 1_000_000_000;

/// Consistent hashing: every document comes from its owner, which alone keeps it.
const HASHED: Policy = Policy {
    lookup: Lookup::OWNER,
    copies: Copies::DiscardCache,
    eviction: Eviction::DROP,
    replication: Replication::ONE,
};

/// On the owner's disk, and in the memory of each node that asks.
const SHARED: Policy = Policy { lookup: Lookup::COOPERATE, copies: Copies::Exclusive, ..HASHED };

const ALONE: Policy = Policy {
    lookup: Lookup::LOCAL,
    copies: Copies::Exclusive,
    eviction: Eviction::DROP,
    replication: Replication::All,
};

#[derive(Clone, Debug)]
pub(super) struct Scheme {
    pub(super) name: &'static str,
    policy: Policy,
    siblings: Siblings,
    bound: Option<u32>,
    load_age: Nanos,
    hot: bool,
    reports_owners: bool,
    hints: Notified,
    /// True for nodes with the paper's mechanical disks and otherwise present-day hardware.
    turning: bool,
}

impl Scheme {
    /// Larder's: owners with bounded loads, hints at owners, several owners for hot documents.
    pub(super) const FLEET: Scheme = Scheme {
        name: "fleet",
        policy: SHARED,
        siblings: Siblings::None,
        bound: Some(25),
        load_age: SECOND,
        hot: true,
        reports_owners: true,
        hints: Notified::Owner,
        turning: false,
    };

    /// Larder's, with copies only in the memories of owners.
    pub(super) const AT_OWNERS: Scheme =
        Scheme { name: "fleet, copies at owners", policy: HASHED, ..Scheme::FLEET };

    pub(super) const HASHING: Scheme = Scheme {
        name: "consistent hashing",
        policy: HASHED,
        bound: None,
        hot: false,
        reports_owners: false,
        hints: Notified::None,
        ..Scheme::FLEET
    };

    const EQUALS: Scheme = Scheme { name: "", policy: ALONE, ..Scheme::HASHING };

    /// A node asks all others for a document that it lacks.
    pub(super) const ASK_ALL: Scheme =
        Scheme { name: "ask all", siblings: Siblings::AskAll, ..Scheme::EQUALS };

    /// A node asks those whose summary, exchanged each second, has the document.
    pub(super) const SUMMARIES: Scheme =
        Scheme { name: "summaries", siblings: Siblings::Summaries(SECOND), ..Scheme::EQUALS };

    /// No node asks another: each keeps all.
    pub(super) const REPLICATION: Scheme = Scheme { name: "full replication", ..Scheme::EQUALS };

    /// All schemes compared by the number of nodes.
    pub(super) const ALL: [Scheme; 6] = [
        Scheme::FLEET,
        Scheme::AT_OWNERS,
        Scheme::HASHING,
        Scheme::ASK_ALL,
        Scheme::SUMMARIES,
        Scheme::REPLICATION,
    ];

    /// Larder's scheme, each time with one part changed.
    pub(super) const PARTS: [Scheme; 12] = [
        Scheme::FLEET,
        Scheme { name: "no bound on loads", bound: None, ..Scheme::FLEET },
        Scheme { name: "loads always known", load_age: 0, ..Scheme::FLEET },
        Scheme { name: "no hints", hints: Notified::None, ..Scheme::FLEET },
        Scheme { name: "nothing is hot", hot: false, ..Scheme::FLEET },
        Scheme::AT_OWNERS,
        Scheme { name: "at owners, no bound", bound: None, ..Scheme::AT_OWNERS },
        Scheme { name: "at owners, hot not told", reports_owners: false, ..Scheme::AT_OWNERS },
        Scheme { name: "at owners, nothing is hot", hot: false, ..Scheme::AT_OWNERS },
        Scheme { name: "turning disks", turning: true, ..Scheme::FLEET },
        Scheme {
            name: "turning disks, no hints",
            turning: true,
            hints: Notified::None,
            ..Scheme::FLEET
        },
        Scheme { name: "turning disks, at owners", turning: true, ..Scheme::AT_OWNERS },
    ];

    /// Returns a set-up of `nodes` present-day nodes, each with `memory` and `disk` bytes.
    pub(super) fn setup(
        &self,
        nodes: usize,
        memory: u64,
        disk: u64,
        seed: u64,
    ) -> Result<Setup, Failed> {
        let table = ClassTable::new(1, Vec::new(), self.policy);
        let bound = self.bound.map(LoadBound::new).transpose();
        let owners_max = u32::try_from(nodes).unwrap_or(u32::MAX).min(8);
        let hot = NonZeroU32::new(20).zip(NonZeroU32::new(owners_max));
        let hot = hot.map(|(per_owner, owners_max)| Hotness { per_owner, owners_max });
        let disk_model = if self.turning { Hardware::PAPER.disk } else { Hardware::TODAY.disk };
        Ok(Setup {
            hardware: Hardware { disk: disk_model, ..Hardware::TODAY },
            memory,
            block: 1,
            storage: Storage::Cache(disk),
            weights: vec![1; nodes],
            servers: (0..nodes).collect(),
            memory_for_peers: true,
            table: table.map_err(|why| Failed(why.to_string()))?,
            siblings: self.siblings,
            bound: bound.map_err(|why| Failed(why.to_string()))?,
            hot: hot.filter(|_| self.hot),
            reports_owners: self.reports_owners,
            hints: self.hints,
            load_age: self.load_age,
            offers: 1 << 27,
            timeout: SECOND,
            breakers: true,
            origin: 30 * SECOND / 1_000,
            seed,
        })
    }
}
