//! The core of one device's store: what is where, decided under one lock.
//!
//! Plain `&mut self` code that never waits and never reads a clock. It answers what a lookup needs
//! ([`lookup`]), takes objects in ([`insertion`]), makes them dead ([`removal`]) and says what the
//! background must do next ([`maintenance`]). The shell (`volume`) does it and reports back.
//!
//! Its invariant: a record on the device that no index entry leads to is dead or lies in a cluster
//! that was given up, and the journal says so. Hence what is not found today is not found after a
//! restart either.

mod bearing;
pub(crate) mod fetches;
mod gathering;
mod held;
mod insertion;
mod lookup;
mod maintenance;
mod memory;
mod neighbours;
mod prefetch;
mod purging;
mod removal;
mod slots;
mod virtual_cluster;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::base::counters::Counters;
use crate::base::digest::{Digest, Digester};
use crate::base::keyed_checksum::Secret;
use crate::base::record::Place;
use crate::base::size_class::SizeClass;
use crate::config::options::{Options, ReadUnit, TierAdmission};
use crate::core::fetches::Fetches;
use crate::format::device_layout::{Areas, DEAD_PER_CLUSTER};
use crate::format::journal::Journal;
use crate::format::superblock::{Condition, Superblock};
use crate::index::{Index, IndexOptions};
use crate::memory::doorkeeper::Doorkeeper;
use crate::memory::memory_tier::Tier;
use crate::memory::object::Object;
use crate::policy::Admission;
use crate::purge::bearers::Bearers;
use crate::purge::purges::Purges;
use crate::shell::volume::PIECE_MAX;
use crate::space::Space;
use crate::space::appender::Appender;
use crate::space::cluster_table::{ClusterId, ClusterTable, Policy};
use waiting::Waiters;
pub(crate) use waiting::{WaiterId, Wanted};

use crate::memory::in_transit::InTransit;
pub use crate::read::reads::ReadCounters;
pub(crate) use crate::read::reads::{Reading, Took, WindowId};
pub(crate) use bearing::LabelsPlan;
use gathering::Gathering;
use held::Held;
pub use held::HeldStats;
pub(crate) use held::{HELD_STEP, HeldPiece, LetDown, ReaderId};
pub(crate) use insertion::{Fetched, NewObject, Now, TryInsert};
pub(crate) use lookup::{Company, Expected, Finding, MetaPlan, ReadPlan};
pub(crate) use maintenance::{EvictPlan, SUMMARY_READ, Task};
pub(crate) use prefetch::{Beside, Neighbour, ahead_verified, neighbours, verified};

/// Whether the device is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Reads and writes.
    Online,
    /// Given up after errors, or shut down: every lookup misses, every insertion is refused.
    Offline,
}

/// What recovery has not settled yet.
pub(crate) struct Recovering {
    /// Digests touched since the cache was opened, with the sequence number before which their
    /// records are dead; and those that an earlier, unfinished recovery left.
    pub(crate) removed: BTreeMap<Digest, u64>,
    /// Clusters still to be read with their incarnations, the newest first.
    pub(crate) left: VecDeque<(ClusterId, u64)>,
    /// Those that are being read.
    pub(crate) under_way: Vec<(ClusterId, u64)>,
    /// How many there were in all.
    pub(crate) of: u32,
    /// More was removed than can be remembered: what has not been found by now is lost.
    pub(crate) abandoned: bool,
}

impl Recovering {
    /// Every cluster in use is to be read.
    pub(crate) fn new(removed: BTreeMap<Digest, u64>, clusters: &ClusterTable) -> Recovering {
        let mut left: Vec<(ClusterId, u64)> = (0..clusters.clusters())
            .filter(|cluster| clusters.state(*cluster).in_use())
            .map(|cluster| (cluster, clusters.incarnation(cluster)))
            .collect();
        left.sort_by_key(|(_, incarnation)| std::cmp::Reverse(*incarnation));
        Recovering { of: left.len() as u32, left: left.into(), ..Recovering::of_slots(removed, 0) }
    }

    /// All of a space of slots is to be read, in so many steps.
    pub(crate) fn of_slots(removed: BTreeMap<Digest, u64>, of: u32) -> Recovering {
        let (left, under_way) = (VecDeque::new(), Vec::new());
        Recovering { removed, left, under_way, of, abandoned: false }
    }
}

/// The state of one device's store.
pub(crate) struct Core {
    pub(crate) superblock: Superblock,
    pub(crate) areas: Areas,
    pub(crate) secret: Arc<Secret>,
    pub(crate) options: Arc<Options>,
    pub(crate) digester: Digester,
    pub(crate) index: Index,
    pub(crate) tier: Tier<Arc<Object>>,
    /// Says what enters the tier when it is read; without one all does.
    pub(crate) doorkeeper: Option<Doorkeeper>,
    pub(crate) space: Space,
    pub(crate) journal: Journal,
    pub(crate) fetches: Fetches,
    pub(crate) admission: Admission,
    /// What waits for others that it is to lie beside, when that is wanted.
    pub(crate) gathering: Option<Gathering>,
    /// What the readers of large objects hold.
    pub(crate) held: Held,
    /// Pieces that are being sent.
    pub(crate) in_transit: InTransit,
    /// The purges in force.
    pub(crate) purges: Purges,
    /// Purges of what nothing bore when they were made: for fetches that had begun before.
    passing: Purges,
    /// Which labels may be borne.
    bearers: Bearers,
    /// Metadata in clusters that gave their object a label and may not be written yet: digest of
    /// the object, position of the metadata.
    relabelled: Vec<(Digest, u32)>,
    pub(crate) counters: Counters,
    pub(crate) recovering: Option<Recovering>,
    pub(crate) health: Health,
    /// The last sequence number given out.
    pub(crate) sequence: u64,
    /// Bytes of records that may wait to be written.
    pub(crate) unwritten_max: usize,
    /// Bytes of buffers that are kept for the next reads.
    pub(crate) buffers_max: usize,
    /// How many removed digests a checkpoint has room for.
    removed_max: u64,
    /// The run of the store in which it was opened; the superblock's is higher when devices were
    /// given up since.
    pub(crate) first_run: u64,
    /// Number of the last checkpoint.
    pub(crate) checkpoint: u64,
    pub(crate) maintenance: maintenance::State,
    pub(crate) reading: Reading,
    /// Clusters that recovery has read, and how many there are.
    pub(crate) scanned: (u32, u32),
    /// Tasks that wait for room, a write, a flush or another change.
    pub(crate) waiters: Waiters,
    /// The background task, when it idles.
    background: Option<Waker>,
    /// Something changed since the background was last told what to do.
    kicked: bool,
    /// The background runs.
    pub(crate) maintained: bool,
}

/// What a core is made of.
pub(crate) struct Parts {
    /// As written for this opening of the cache.
    pub(crate) superblock: Superblock,
    pub(crate) options: Arc<Options>,
    pub(crate) space: Space,
    pub(crate) journal: Journal,
    pub(crate) index: Index,
    /// Bytes of memory for everything.
    pub(crate) memory: u64,
    pub(crate) checkpoint: u64,
    pub(crate) purges: Purges,
    pub(crate) recovering: Option<Recovering>,
    /// The filters of borne labels, when they are known from an orderly stop.
    pub(crate) bearers: Option<Bearers>,
}

/// How memory is divided; see `docs/architecture.md`.
pub(crate) struct MemoryPlan {
    pub(crate) unwritten_max: usize,
    pub(crate) buffers: usize,
    pub(crate) tier: usize,
    /// Of what reads bring along.
    pub(crate) ahead: usize,
}

impl MemoryPlan {
    /// Divides `memory` bytes beside tables that take `tables` bytes. An eighth, but at least two
    /// clusters, is for records that wait; they are in aligned buffers once more while they are
    /// written. An eighth is for reads and what fills collect; an eighth of that may be buffers
    /// that wait for the next reads. The rest is the tier's, but for an eighth of it that keeps
    /// what reads bring along, where that is kept apart.
    fn new(memory: u64, tables: usize, areas: &Areas, reads_ahead: bool) -> MemoryPlan {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let unwritten_max = (memory / 8).max(2 * areas.cluster_size as usize);
        let reserved = tables + 2 * unwritten_max + memory / 8;
        let rest = memory.saturating_sub(reserved).max(memory / 8);
        let ahead = if reads_ahead { rest / 8 } else { 0 };
        MemoryPlan { unwritten_max, buffers: memory / 64, tier: rest - ahead, ahead }
    }
}

/// Objects that a cache of `size` bytes is expected to hold: as many as the index was made for, who
/// may have been told otherwise.
pub(crate) fn objects_of(index: IndexOptions, size: u64, mean_object: u32) -> u64 {
    let expected = size / u64::from(mean_object.max(1));
    expected.max(index.entries_for(size, mean_object))
}

/// The policy by which a table of `clusters` clusters replaces them.
pub(crate) fn cluster_policy(options: &Options, clusters: u32) -> Policy {
    Policy {
        half_life_percent: options.reference_half_life,
        mean_references: options.aging_mean,
        young_percent: options.young_percent,
        prefer: options.prefer,
        one_timer_seconds: options.one_timer_age.map(|age| age.as_secs() as u32),
        max_dead: (u64::from(clusters) * DEAD_PER_CLUSTER) as usize,
    }
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Core {
        let admission = Admission::new(parts.options.admission, parts.options.admission_keys);
        let expected =
            parts.superblock.areas.end() / u64::from(parts.superblock.mean_object.max(1));
        let tables = parts.index.memory_bytes() + parts.space.expected_memory(expected);
        let by_second_use = parts.options.tier_admission == TierAdmission::SecondUse;
        let doorkeeper = by_second_use.then(|| Doorkeeper::new(parts.memory));
        let remembered = doorkeeper.as_ref().map_or(0, Doorkeeper::memory_bytes);
        let clusters = parts.space.has_clusters().then_some(parts.superblock.areas.clusters);
        let named = parts.options.labels.is_some();
        let (superblock, index) = (&parts.superblock, parts.options.index);
        let objects = objects_of(index, superblock.areas.end(), superblock.mean_object);
        let bearers = if named { Bearers::bytes_for(objects, parts.memory) } else { 0 };
        let purges = if named { purging::table_bytes(parts.memory) } else { 0 };
        let tables = tables + admission.memory_bytes() + remembered;
        let tables = tables + usize::try_from(bearers + purges).unwrap_or(usize::MAX);
        let reads_ahead = parts.options.read_unit == ReadUnit::Auto && parts.space.has_clusters();
        let memory = MemoryPlan::new(parts.memory, tables, &parts.superblock.areas, reads_ahead);
        let secret = Arc::new(parts.superblock.secret.clone());
        // Sequence numbers of different openings never meet: 2^40 each.
        let sequence = parts.superblock.generation << 40;
        let mut core = Core {
            held: Held::of(&parts.options, &parts.superblock.areas, memory.tier),
            in_transit: InTransit::default(),
            digester: Digester::new(&secret.digest_key()),
            tier: Tier::new(memory.tier, parts.options.tier_shares, parts.options.tier_admission),
            doorkeeper,
            unwritten_max: memory.unwritten_max,
            buffers_max: memory.buffers,
            removed_max: parts.superblock.areas.removed_max(),
            fetches: Fetches::default(),
            admission,
            gathering: Gathering::new(&parts.options, &parts.space, memory.unwritten_max),
            counters: Counters::default(),
            health: Health::Online,
            sequence,
            maintenance: maintenance::State::default(),
            reading: Reading::new(&parts.options, memory.tier, memory.ahead),
            scanned: (0, 0),
            waiters: Waiters::default(),
            background: None,
            kicked: false,
            maintained: false,
            first_run: parts.superblock.run,
            areas: parts.superblock.areas.clone(),
            superblock: parts.superblock,
            secret,
            options: parts.options,
            index: parts.index,
            space: parts.space,
            journal: parts.journal,
            recovering: parts.recovering,
            checkpoint: parts.checkpoint,
            purges: parts.purges,
            passing: Purges::new(purging::PASSING),
            bearers: parts
                .bearers
                .unwrap_or_else(|| Bearers::new(bearers, clusters.unwrap_or(0), sequence)),
            relabelled: Vec::new(),
        };
        core.recount_unknown();
        core.fit_purges(parts.memory);
        core
    }

    pub(crate) fn online(&self) -> bool {
        self.health == Health::Online
    }

    /// Wakes the background: it may have something to do.
    pub(crate) fn kick(&mut self) {
        self.kicked = true;
        if let Some(background) = self.background.take() {
            background.wake();
        }
    }

    /// Whether the background was kicked since it was last told what to do.
    pub(crate) fn kicked(&self) -> bool {
        self.kicked
    }

    /// The superblock that says that nothing here may be believed any more.
    pub(crate) fn condemned_superblock(&self) -> Superblock {
        Superblock { condition: Condition::Condemned, ..self.superblock.clone() }
    }

    /// `waker` is the idle background's.
    pub(crate) fn idle(&mut self, waker: &Waker) {
        self.background = Some(waker.clone());
    }

    /// Gives the device up, or ends: nothing is read or written from now on. True the first time.
    pub(crate) fn go_offline(&mut self) -> bool {
        let first = self.online();
        self.health = Health::Offline;
        self.wake();
        self.kick();
        first
    }

    /// Bytes of the largest record.
    pub(crate) fn record_max(&self) -> usize {
        match &self.space {
            Space::Clusters(_) => Appender::record_max(&self.areas),
            Space::Slots(_) => SizeClass::MAX_LEN as usize,
        }
    }

    /// Bytes of body in a piece of a large object: small enough for a reader's buffer and for the
    /// clusters; large enough for one read to be worth it.
    pub(crate) fn piece_size(&self) -> u32 {
        match &self.space {
            Space::Clusters(_) => Appender::piece_size(&self.areas),
            Space::Slots(_) => PIECE_MAX,
        }
    }

    /// The place that a record at `position` has now; `None` when nothing lives there.
    fn place_at(&self, position: u32) -> Option<Place> {
        self.space.place_at(&self.areas, position)
    }

    /// Whether the record at `position` is the one that has, or had, `place`.
    fn is_at(&self, position: u32, place: Option<Place>) -> bool {
        place.is_some() && self.place_at(position) == place
    }
}
