//! The core: the state of one device's store.

use std::sync::Arc;

use crate::base::counters::Counters;
use crate::base::digest::{Digest, Digester};
use crate::base::keyed_checksum::Secret;
use crate::config::options::{Options, ReadUnit, TierAdmission};
use crate::core::background::Background;
use crate::core::fetches::Fetches;
use crate::core::health::Health;
use crate::core::object_labels::ObjectLabels;
use crate::core::placement::Placement;
use crate::core::purge_log::KeptPurgeLog;
use crate::core::purge_state::PurgeState;
use crate::core::reader_holds::ReaderHolds;
use crate::core::reclaim::Reclaim;
use crate::core::recovery::{Recovering, Recovery};
use crate::core::residents::Residents;
use crate::core::schedule::Schedule;
use crate::core::sequence::Sequence;
use crate::core::sizing::{FETCH_PURGES, MemoryPlan, objects_of};
use crate::core::superblock_state::SuperblockState;
use crate::core::waiters::Waiters;
use crate::core::writers::Writers;
use crate::format::device_layout::Areas;
use crate::format::journal::Journal;
use crate::format::purge_log::PurgeLog;
use crate::format::staging_memory::StagingMemory;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::memory::doorkeeper::Doorkeeper;
use crate::policy::Admission;
use crate::purge::label_filters::LabelFilters;
use crate::purge::purges::Purges;
use crate::purge::tables::PurgeTables;
use crate::read::reads::Reads;
use crate::space::Space;
use crate::space::space_audit::{Account, AccountError};

/// The constants of an open cache, available without the lock.
#[derive(Clone)]
pub(crate) struct Constants {
    pub(crate) uuid: [u8; 16],
    /// The division of the device.
    pub(crate) areas: Areas,
    pub(crate) options: Arc<Options>,
    pub(crate) secret: Arc<Secret>,
    pub(crate) digester: Digester,
    /// True if records lie in clusters rather than in slots.
    pub(crate) in_clusters: bool,
    /// Bytes of buffers that are kept for the next reads.
    pub(crate) buffers_max: usize,
    /// Maximum number of body bytes in a piece of a large object.
    pub(crate) piece_size: u32,
    /// Maximum length of a record in bytes.
    pub(crate) record_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// True if it is in use.
    pub(crate) online: bool,
    /// True if recovery is under way.
    pub(crate) recovering: bool,
    /// Clusters or windows that recovery has read, and their total.
    pub(crate) recovered: (u32, u32),
}

/// The state of one device's store.
pub(crate) struct Core {
    pub(super) superblock: SuperblockState,
    pub(super) secret: Arc<Secret>,
    pub(super) options: Arc<Options>,
    pub(super) digester: Digester,
    pub(super) index: Index,
    pub(super) memory: Residents,
    pub(super) placement: Placement,
    pub(super) journal: Journal,
    pub(super) fetches: Fetches,
    pub(super) writers: Writers,
    pub(super) admission: Admission,
    pub(super) holds: ReaderHolds,
    pub(super) purges: PurgeState,
    pub(super) labels: ObjectLabels,
    pub(super) purge_log: KeptPurgeLog,
    pub(super) counters: Counters,
    pub(super) recovery: Recovery,
    pub(super) health: Health,
    pub(super) sequence: Sequence,
    /// Bytes of buffers that are kept for the next reads.
    pub(super) buffers_max: usize,
    /// Copies of the staged objects, if there is memory that outlives the process.
    pub(super) kept: Option<StagingMemory>,
    /// Size of that memory in bytes; 0 if none is wanted.
    staging_size: usize,
    pub(super) schedule: Schedule,
    pub(super) reclaim: Reclaim,
    pub(super) reads: Reads,
    /// Tasks that wait for space, a write, a flush or another change.
    pub(super) waiters: Waiters,
    pub(super) background: Background,
}

/// The parts to create a core from.
pub(crate) struct Parts {
    /// The superblock written for this opening of the cache.
    pub(crate) superblock: Superblock,
    pub(crate) options: Arc<Options>,
    pub(crate) space: Space,
    pub(crate) journal: Journal,
    pub(crate) index: Index,
    /// Bytes of memory for everything.
    pub(crate) memory: u64,
    pub(crate) checkpoint: u64,
    pub(crate) purges: Purges,
    pub(crate) purge_log: Option<PurgeLog>,
    pub(crate) recovering: Option<Recovering>,
    /// The label filters, if an orderly stop saved them.
    pub(crate) label_filters: Option<LabelFilters>,
}

impl Parts {
    /// Divides the memory: what these tables take, and what is left for the rest.
    fn divide_memory(&self, admission: &Admission, doorkeeper: Option<&Doorkeeper>) -> MemoryPlan {
        let Parts { superblock, options, space, .. } = self;
        let expected = superblock.areas.end() / u64::from(superblock.mean_object.max(1));
        let tables = self.index.memory_bytes()
            + space.expected_memory(expected)
            + admission.memory_bytes()
            + doorkeeper.map_or(0, Doorkeeper::memory_bytes);
        let objects = objects_of(options.index, superblock.areas.end(), superblock.mean_object);
        let labels = options.labels.as_ref().map(|_| objects);
        let reads_ahead = options.read_unit == ReadUnit::Auto && space.has_clusters();
        let kept = options.keeps_staged() && space.has_clusters();
        let kept_batch = kept.then_some(options.batch);
        MemoryPlan::new(self.memory, tables, labels, &superblock.areas, reads_ahead, kept_batch)
    }
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Core {
        let admission = Admission::new(parts.options.admission, parts.options.admission_keys);
        let by_second_use = parts.options.tier_admission == TierAdmission::SecondUse;
        let doorkeeper = by_second_use.then(|| Doorkeeper::new(parts.memory));
        let memory = parts.divide_memory(&admission, doorkeeper.as_ref());
        let has_clusters = parts.space.has_clusters();
        let areas = &parts.superblock.areas;
        let secret = Arc::new(parts.superblock.secret.clone());
        let sequence = Sequence::of_generation(parts.superblock.generation);
        let digester = Digester::new(&secret.digest_key());
        let filters = parts.label_filters.unwrap_or_else(|| {
            let clusters = if has_clusters { areas.clusters } else { 0 };
            LabelFilters::new(memory.label_filters, clusters, sequence.last())
        });
        let labels = ObjectLabels::new(parts.options.labels.clone(), digester.clone(), filters);
        let mut core = Core {
            holds: ReaderHolds::new(&parts.options, areas, memory.tier),
            digester,
            memory: Residents::new(&parts.options, doorkeeper, has_clusters, &memory),
            buffers_max: memory.buffers,
            kept: None,
            staging_size: memory.staging,
            fetches: Fetches::default(),
            writers: Writers::default(),
            purge_log: KeptPurgeLog::new(parts.purge_log, &parts.superblock),
            admission,
            counters: Counters::default(),
            health: Health::default(),
            schedule: Schedule::new(&parts.options),
            reclaim: Reclaim::new(areas.clusters, areas.cluster_size),
            reads: Reads::new(&parts.options, memory.tier, memory.ahead),
            waiters: Waiters::default(),
            background: Background::default(),
            placement: Placement::new(parts.space, areas.clone(), memory.unwritten_max),
            recovery: Recovery::new(parts.recovering, areas.removed_max()),
            superblock: SuperblockState::new(parts.superblock, parts.checkpoint),
            secret,
            options: parts.options,
            index: parts.index,
            journal: parts.journal,
            purges: PurgeState::new(PurgeTables::new(parts.purges, FETCH_PURGES)),
            labels,
            sequence,
        };
        core.recount_unknown();
        core.fit_purges(parts.memory);
        core
    }

    /// Recounts the space, see [`crate::Store::account`].
    pub(crate) fn account(&self) -> Result<Account, AccountError> {
        self.placement.account(&self.index)
    }

    /// Returns the constants of the open cache.
    pub(crate) fn constants(&self) -> Constants {
        Constants {
            uuid: self.superblock.get().uuid,
            areas: self.placement.areas.clone(),
            options: Arc::clone(&self.options),
            secret: Arc::clone(&self.secret),
            digester: self.digester.clone(),
            in_clusters: self.placement.space.has_clusters(),
            buffers_max: self.buffers_max,
            piece_size: self.placement.piece_size(),
            record_max: self.placement.record_max(),
        }
    }

    /// Returns the bytes of memory that must outlive the process; 0 if none is wanted.
    pub(crate) fn staging_size(&self) -> usize {
        self.staging_size
    }

    /// Returns whether the device is in use, and the progress of recovery.
    pub(crate) fn status(&self) -> Status {
        Status {
            online: self.online(),
            recovering: self.recovery.is_running(),
            recovered: self.recovery.progress(),
        }
    }

    /// Returns the superblock to write next.
    pub(crate) fn superblock(&self) -> &Superblock {
        self.superblock.get()
    }

    pub(crate) fn space(&self) -> &Space {
        &self.placement.space
    }

    /// Returns the log of purges by name.
    pub(crate) fn purge_log(&mut self) -> &mut KeptPurgeLog {
        &mut self.purge_log
    }

    pub(crate) fn memory(&mut self) -> &mut Residents {
        &mut self.memory
    }

    /// Returns the state of the device's reads: their queue, and the reads that lookups wait for.
    pub(crate) fn reads(&mut self) -> &mut Reads {
        &mut self.reads
    }

    /// Returns the stamp of the object under `digest`, see [`crate::Store::stamp`].
    pub(crate) fn stamp(&self, digest: &Digest) -> Option<u32> {
        self.index.stamp(digest)
    }

    pub(super) fn online(&self) -> bool {
        self.health.is_online()
    }

    /// Wakes the background, because there may be a task for it.
    pub(super) fn wake_background(&mut self) {
        self.background.wake();
    }

    /// Returns the state of the background task, apart from its tasks.
    pub(crate) fn background(&mut self) -> &mut Background {
        &mut self.background
    }

    /// Takes the device offline: nothing is read or written from now on. Returns true the first
    /// time.
    pub(crate) fn go_offline(&mut self) -> bool {
        let first = self.health.go_offline();
        self.wake_waiters();
        self.wake_background();
        first
    }
}
