//! The cluster table: the state of every cluster of a device (systems C7), the free clusters near
//! the current disk position (C8), and the cluster to give up next (C9).
//!
//! Victims are chosen by LFU with aging. The victim is the cluster with the lowest score, which is
//! its references (plus one) times its live share in sixteenths, or 0 if nothing in it is live.
//! Ties go to the cluster that has not been used for longest, then to the one nearest after the
//! current disk position. The youngest share of the clusters is spared, because these have had no
//! time to collect references. References fade: all are halved each time a share of the clusters
//! has been opened, so that recent requests count, measured by the amount written; or, as UCFS is
//! interpreted here, when their mean exceeds a bound. Where bytes are preferred
//! ([`Prefer::Bytes`]), a reference counts with the size of the requested object, and the clusters
//! that earn the most bytes of hits stay. All clusters have the same size.
//!
//! A cluster that is given up is quarantined until the journal has made the deaths of its records
//! durable (see `docs/reference/format.md`, "Nothing comes back"), and then until its last reader
//! is done.
//!
//! The table is a structure of arrays. For every 512 clusters it keeps the lowest key, so that
//! choosing a victim among 300,000 clusters takes microseconds. It takes at most 40 bytes per
//! cluster (state 1, pins 4, references 2, score 4, last access 4, incarnation 8, live records 4,
//! dead bytes 4, dead records 4, queue of young clusters 4), and about 12 bytes per dead record in
//! clusters in use.

pub(crate) mod codec;
mod free_map;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::base::limits::ClusterId;
use crate::config::options::Prefer;
use crate::space::space_audit::AccountError;
use free_map::FreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not in use.
    Free,
    /// Given up, waiting for the journal.
    Quarantined,
    /// Given up, with a durable journal, waiting for readers.
    Draining,
    /// Accepting records. Its filled part may be on the device.
    Open,
    /// Full, and being written to the device.
    Writing,
    /// On the device.
    OnDisk,
    /// On the device, with all its objects in the memory tier.
    OnDiskAndInMemory,
    /// Unusable, because the device could not write it.
    Bad,
}

impl State {
    const ALL: usize = 8;

    /// Returns whether the cluster may hold live records.
    pub(crate) fn in_use(self) -> bool {
        matches!(self, State::Open | State::Writing | State::OnDisk | State::OnDiskAndInMemory)
    }
}

/// The replacement policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Percent of the clusters that must be opened before all references are halved. With 0, they
    /// are halved when their mean exceeds `mean_references`.
    pub half_life_percent: u8,
    /// Mean of the references above which all are halved.
    pub mean_references: u16,
    /// Percent of the clusters that are spared because they were opened last.
    pub young_percent: u8,
    /// How references are weighted.
    pub prefer: Prefer,
    /// Seconds without access after which a cluster counts as a set of one-timers.
    pub one_timer_seconds: Option<u32>,
    /// Maximum number of dead records in the table; see [`ClusterTable::most_dead`].
    pub max_dead: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            half_life_percent: 0,
            mean_references: 10,
            young_percent: 25,
            prefer: Prefer::Requests,
            one_timer_seconds: None,
            max_dead: 1 << 20,
        }
    }
}

/// Score of a cluster that is not a candidate.
const SPARED: u32 = u32::MAX;
const SPARED_KEY: u64 = u64::MAX;
/// Number of clusters whose least key is kept. Small in tests, so that small tables have several
/// blocks.
const BLOCK: usize = if cfg!(test) { 8 } else { 512 };
/// Weight of one reference if references fade by openings, so that halving loses little precision.
/// Where bytes are preferred, the bonus of a cluster for its first reference.
const FINE: u16 = 16;
/// Weight of all bytes of a cluster where bytes are preferred. No record is longer than its
/// cluster, so the counter saturates when all bytes of a cluster were requested 64 times, less what
/// has faded. If references fade each time a tenth of the clusters is written, the mean of all
/// clusters is a tenth to a fifth of hit bytes divided by written bytes: 0.2 times a cluster's
/// bytes if half of the bytes hit, 4 times if 19 of 20 do. Only clusters far above the mean
/// saturate, and choosing a victim compares only the lowest ones. The first of these means is 200
/// units, so halving and rounding lose little precision.
const UNITS: u32 = 1 << 10;

/// The cluster table. See the module documentation.
pub(crate) struct ClusterTable {
    /// Size of a cluster, in bytes.
    size: u32,
    policy: Policy,
    states: Vec<State>,
    pins: Vec<u32>,
    references: Vec<u16>,
    scores: Vec<u32>,
    /// A lower bound of the keys of each block of clusters; the exact minimum unless stale.
    block_keys: Vec<u64>,
    /// True if a block's least key may have risen. It is recomputed when a victim is chosen, so
    /// that the cost of an access does not depend on how often its cluster is requested.
    stale_blocks: Vec<bool>,
    last_access: Vec<u32>,
    incarnations: Vec<u64>,
    live_records: Vec<u32>,
    dead_bytes: Vec<u32>,
    dead_counts: Vec<u32>,
    /// Dead records: cluster, and offset in granules.
    dead: BTreeSet<(ClusterId, u32)>,
    /// Journal position after which the cluster is free, and the cluster; positions ascend.
    quarantine: VecDeque<(u64, ClusterId)>,
    /// The clusters opened last, with their incarnations, oldest first.
    young: VecDeque<(u64, ClusterId)>,
    free: FreeMap,
    counts: [u32; State::ALL],
    sum_references: u64,
    /// Clusters opened since references were last halved.
    opened: u32,
    /// Clusters from this one on were never used, so ageing can skip them. A large cache that is
    /// nearly empty ages after every few hits.
    used: usize,
    /// No cluster becomes a set of one-timers before this second.
    one_timer_not_before: u32,
    next_incarnation: u64,
    /// Records of clusters with at least this incarnation were counted individually.
    counted_from: u64,
    position: ClusterId,
}

impl ClusterTable {
    /// Returns a table of free clusters of `size` bytes.
    pub(crate) fn new(clusters: u32, size: u32, policy: Policy) -> ClusterTable {
        assert!(
            size > 0 && policy.young_percent <= 100,
            "a cluster has a size, a share is percent"
        );
        let mut table = ClusterTable {
            size,
            policy,
            states: Vec::new(),
            pins: Vec::new(),
            references: Vec::new(),
            scores: Vec::new(),
            block_keys: Vec::new(),
            stale_blocks: Vec::new(),
            last_access: Vec::new(),
            incarnations: Vec::new(),
            live_records: Vec::new(),
            dead_bytes: Vec::new(),
            dead_counts: Vec::new(),
            dead: BTreeSet::new(),
            quarantine: VecDeque::new(),
            young: VecDeque::new(),
            free: FreeMap::new(0),
            counts: [0; State::ALL],
            sum_references: 0,
            opened: 0,
            used: 0,
            one_timer_not_before: 0,
            next_incarnation: 1,
            counted_from: u64::MAX,
            position: 0,
        };
        table.grow(clusters);
        table
    }

    /// Appends free clusters until there are `clusters`.
    pub(crate) fn grow(&mut self, clusters: u32) {
        let old = self.clusters();
        assert!(clusters >= old, "a table never shrinks");
        let len = clusters as usize;
        self.states.resize(len, State::Free);
        self.pins.resize(len, 0);
        self.references.resize(len, 0);
        self.scores.resize(len, SPARED);
        self.block_keys.resize(len.div_ceil(BLOCK), SPARED_KEY);
        self.stale_blocks.resize(len.div_ceil(BLOCK), false);
        self.last_access.resize(len, 0);
        self.incarnations.resize(len, 0);
        self.live_records.resize(len, 0);
        self.dead_bytes.resize(len, 0);
        self.dead_counts.resize(len, 0);
        self.free.grow(clusters);
        self.counts[State::Free as usize] += clusters - old;
        (old..clusters).for_each(|cluster| self.free.set(cluster, true));
        // More clusters are young now. The queue has dropped those that had left it, so it is
        // rebuilt.
        self.rebuild();
    }

    pub(crate) fn clusters(&self) -> u32 {
        self.states.len() as u32
    }

    /// Returns the number of clusters in a state.
    pub(crate) fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// Returns the state of a cluster.
    pub(crate) fn state(&self, cluster: ClusterId) -> State {
        self.states[cluster as usize]
    }

    /// Returns the incarnation of the cluster, which its records bear since it was opened.
    pub(crate) fn incarnation(&self, cluster: ClusterId) -> u64 {
        self.incarnations[cluster as usize]
    }

    /// Returns the incarnation of a cluster if it is in use.
    pub(crate) fn incarnation_in_use(&self, cluster: ClusterId) -> Option<u64> {
        self.state(cluster).in_use().then(|| self.incarnation(cluster))
    }

    /// Returns the incarnation that the next opened cluster gets.
    pub(crate) fn next_incarnation(&self) -> u64 {
        self.next_incarnation
    }

    /// Makes the next opened cluster get at least this incarnation, as the first of this run.
    pub(crate) fn skip_incarnations(&mut self, least: u64) {
        self.next_incarnation = self.next_incarnation.max(least);
        self.counted_from = self.next_incarnation;
        self.rebuild();
    }

    /// Returns the accesses since the cluster was opened, halved from time to time. Where bytes are
    /// preferred, returns how many 64ths of its bytes were requested.
    pub(crate) fn references(&self, cluster: ClusterId) -> u16 {
        self.references[cluster as usize] / self.reference()
    }

    /// Returns the time of the last access, in unix seconds.
    pub(crate) fn last_access(&self, cluster: ClusterId) -> u32 {
        self.last_access[cluster as usize]
    }

    #[cfg(test)]
    /// Returns the current disk position: clusters from it on are preferred.
    pub(crate) fn position(&self) -> ClusterId {
        self.position
    }

    /// Returns the memory of the table, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // State, pins, references, score, last access, incarnation, live, dead bytes, dead records.
        let columns = 1 + 4 + 2 + 4 + 4 + 8 + 4 + 4 + 4;
        let queues = (self.young.capacity() + self.quarantine.capacity()) * 16;
        self.states.capacity() * columns + queues + self.free.memory_bytes() + self.dead.len() * 12
    }

    // ---- From free to the device and back

    /// Moves the current disk position to a run of `clusters` free clusters, if the next run is
    /// shorter and such a run exists (C8).
    pub(crate) fn seek_run(&mut self, clusters: u32) {
        let here = self.free.run_after(self.position, clusters);
        if here.is_none_or(|run| run.len() as u32 >= clusters) {
            return;
        }
        if let Some(start) = self.free.long_run_after(self.position, clusters) {
            self.position = start;
        }
    }

    /// Moves the current disk position behind `cluster`, which is read as a whole (C8).
    pub(crate) fn read_past(&mut self, cluster: ClusterId) {
        self.position = (cluster + 1) % self.clusters();
    }

    /// Opens at most `most` adjacent free clusters: the first run after the current disk position,
    /// which moves behind them. Returns `None` if no cluster is free.
    pub(crate) fn take_free_run(&mut self, most: u32, now: u32) -> Option<Range<ClusterId>> {
        let run = self.free.run_after(self.position, most)?;
        for cluster in run.clone() {
            self.open(cluster, self.next_incarnation, now);
            self.fade();
        }
        self.position = if run.end == self.clusters() { 0 } else { run.end };
        Some(run)
    }

    /// Records that the open cluster is full and being written.
    pub(crate) fn start_writing(&mut self, cluster: ClusterId) {
        self.change(cluster, &[State::Open], State::Writing);
    }

    /// Records that the whole cluster is on the device.
    pub(crate) fn written(&mut self, cluster: ClusterId) {
        self.change(cluster, &[State::Open, State::Writing], State::OnDisk);
    }

    /// Sets whether all live objects of the cluster are in the memory tier.
    pub(crate) fn set_in_memory(&mut self, cluster: ClusterId, in_memory: bool) {
        let on_disk = [State::OnDisk, State::OnDiskAndInMemory];
        self.change(cluster, &on_disk, on_disk[usize::from(in_memory)]);
    }

    /// Gives up the cluster: its records are dead from now on. It becomes free when the journal is
    /// durable up to `after` (positions never decrease) and the last reader is done.
    pub(crate) fn give_up(&mut self, cluster: ClusterId, after: u64) {
        assert!(self.state(cluster).in_use(), "only a cluster in use can be given up");
        let last = self.quarantine.back().map_or(0, |(after, _)| *after);
        assert!(after >= last, "journal positions never fall");
        self.forget(cluster);
        self.set_state(cluster, State::Quarantined);
        self.quarantine.push_back((after, cluster));
    }

    /// Frees the clusters that waited for the journal to be durable up to `position`. Returns the
    /// number of clusters freed.
    pub(crate) fn journal_durable(&mut self, position: u64) -> u32 {
        let free = self.free.free();
        while let Some((_, cluster)) = self.quarantine.pop_front_if(|(at, _)| *at <= position) {
            // The cluster may have turned bad meanwhile.
            if self.state(cluster) == State::Quarantined {
                let pinned = self.pins[cluster as usize] > 0;
                self.set_state(cluster, if pinned { State::Draining } else { State::Free });
            }
        }
        self.free.free() - free
    }

    /// Marks a cluster that the device cannot write as bad. It is not used again during this run.
    pub(crate) fn mark_bad(&mut self, cluster: ClusterId) {
        self.forget(cluster);
        self.set_state(cluster, State::Bad);
    }

    /// Keeps the cluster unchanged for a reader.
    pub(crate) fn pin(&mut self, cluster: ClusterId) {
        let pins = &mut self.pins[cluster as usize];
        *pins = pins.checked_add(1).expect("readers are fewer than 2^32");
        self.score(cluster);
    }

    /// Releases a pin. Returns whether that freed the cluster.
    pub(crate) fn unpin(&mut self, cluster: ClusterId) -> bool {
        let pins = &mut self.pins[cluster as usize];
        *pins = pins.checked_sub(1).expect("a reader unpins what it pinned, once");
        let last = *pins == 0;
        self.score(cluster);
        let freed = last && self.state(cluster) == State::Draining;
        if freed {
            self.set_state(cluster, State::Free);
        }
        freed
    }

    /// Returns the number of readers of the cluster.
    pub(crate) fn pins(&self, cluster: ClusterId) -> u32 {
        self.pins[cluster as usize]
    }

    /// Recounts all incrementally maintained figures.
    ///
    /// # Errors
    /// If a figure is wrong.
    pub(crate) fn recount(&self) -> Result<(), AccountError> {
        let mut counts = [0_u32; State::ALL];
        for (cluster, state) in self.states.iter().enumerate() {
            counts[*state as usize] += 1;
            if self.free.get(cluster as ClusterId) != (*state == State::Free) {
                return Err(AccountError::FreeMap { cluster: cluster as ClusterId });
            }
            let pins = self.pins[cluster];
            if (pins == 0 && *state == State::Draining) || (pins > 0 && *state == State::Free) {
                let cluster = cluster as ClusterId;
                return Err(AccountError::Readers { cluster, readers: pins });
            }
        }
        if counts != self.counts {
            let (found, counted) = (counts.to_vec(), self.counts.to_vec());
            return Err(AccountError::States { found, counted });
        }
        let waiting: BTreeSet<ClusterId> = self.quarantine.iter().map(|(_, id)| *id).collect();
        let lost = (0..self.clusters())
            .find(|id| self.state(*id) == State::Quarantined && !waiting.contains(id));
        match lost {
            Some(cluster) => Err(AccountError::Quarantine { cluster }),
            None => Ok(()),
        }
    }

    // ---- Records

    /// Counts a record added to the cluster.
    pub(crate) fn add_record(&mut self, cluster: ClusterId) {
        self.live_records[cluster as usize] += 1;
    }

    /// Marks a record of `bytes` bytes at `offset` granules in the cluster as dead. Returns false
    /// if it already was, or the cluster is not in use.
    pub(crate) fn mark_dead(&mut self, cluster: ClusterId, offset: u32, bytes: u32) -> bool {
        if !self.state(cluster).in_use() || !self.dead.insert((cluster, offset)) {
            return false;
        }
        let at = cluster as usize;
        self.dead_counts[at] += 1;
        self.dead_bytes[at] = self.dead_bytes[at].saturating_add(bytes).min(self.size);
        // Recovery learns of dead records before it has counted the live ones.
        self.live_records[at] = self.live_records[at].saturating_sub(1);
        self.score(cluster);
        true
    }

    /// Returns whether the record at `offset` granules is dead, or the cluster is not in use.
    pub(crate) fn is_dead(&self, cluster: ClusterId, offset: u32) -> bool {
        !self.state(cluster).in_use() || self.dead.contains(&(cluster, offset))
    }

    /// Returns the offsets of the cluster's dead records in granules, ascending.
    pub(crate) fn dead_records(&self, cluster: ClusterId) -> impl Iterator<Item = u32> {
        self.dead.range((cluster, 0)..=(cluster, u32::MAX)).map(|(_, offset)| *offset)
    }

    /// Returns whether all records in the cluster are certainly dead. This is never true of
    /// clusters opened before this run, because the records that recovery finds in them are not
    /// counted.
    pub(crate) fn is_all_dead(&self, cluster: ClusterId) -> bool {
        let at = cluster as usize;
        self.is_counted(cluster) && self.live_records[at] == 0
    }

    /// Returns whether the cluster was opened in this run, so that its records were counted
    /// individually.
    pub(crate) fn is_counted(&self, cluster: ClusterId) -> bool {
        self.incarnations[cluster as usize] >= self.counted_from
    }

    /// Returns the bytes of the cluster not known to be dead, per live record.
    pub(crate) fn mean_live_bytes(&self, cluster: ClusterId) -> u32 {
        let at = cluster as usize;
        (self.size - self.dead_bytes[at]) / self.live_records[at].max(1)
    }

    #[cfg(test)]
    /// Returns the number of records in the cluster that are not dead.
    pub(crate) fn live_records(&self, cluster: ClusterId) -> u32 {
        self.live_records[cluster as usize]
    }

    #[cfg(test)]
    /// Returns the size of the cluster's dead records, in bytes.
    pub(crate) fn dead_bytes(&self, cluster: ClusterId) -> u32 {
        self.dead_bytes[cluster as usize]
    }

    /// Returns the number of dead records in all clusters.
    pub(crate) fn total_dead(&self) -> usize {
        self.dead.len()
    }

    /// Returns the cluster on the device with the most dead records, to be given up, if more dead
    /// records are known than the policy allows.
    pub(crate) fn most_dead(&self) -> Option<ClusterId> {
        if self.dead.len() <= self.policy.max_dead { None } else { self.deadest() }
    }

    /// Returns the cluster on the device with the most dead records; `None` if no cluster has any.
    pub(crate) fn deadest(&self) -> Option<ClusterId> {
        let on_disk = (0..self.clusters()).filter(|cluster| {
            matches!(self.state(*cluster), State::OnDisk | State::OnDiskAndInMemory)
        });
        on_disk
            .max_by_key(|cluster| self.dead_counts[*cluster as usize])
            .filter(|cluster| self.dead_counts[*cluster as usize] > 0)
    }

    // ---- Replacement

    /// Records a request for an object of `bytes` bytes in the cluster.
    pub(crate) fn touch(&mut self, cluster: ClusterId, bytes: u32, now: u32) {
        let at = cluster as usize;
        if !self.states[at].in_use() {
            return;
        }
        let key = self.key(at);
        self.last_access[at] = now;
        let more = self.weight(bytes).min(u16::MAX - self.references[at]);
        self.references[at] += more;
        self.sum_references += u64::from(more);
        self.scores[at] = self.score_of(at);
        self.key_changed(at, key);
        if self.policy.half_life_percent > 0 {
            return;
        }
        let in_use = [State::Open, State::Writing, State::OnDisk, State::OnDiskAndInMemory];
        let in_use: u64 = in_use.map(|state| u64::from(self.count(state))).iter().sum();
        let mean = u64::from(self.policy.mean_references) * u64::from(self.reference());
        if self.sum_references > in_use * mean {
            self.age();
        }
    }

    /// Returns the weight of a reference, where all references count the same.
    fn reference(&self) -> u16 {
        match self.policy.prefer {
            Prefer::Requests if self.policy.half_life_percent == 0 => 1,
            Prefer::Requests | Prefer::Bytes => FINE,
        }
    }

    /// Returns the weight of a reference to an object of `bytes` bytes.
    fn weight(&self, bytes: u32) -> u16 {
        match self.policy.prefer {
            Prefer::Requests => self.reference(),
            Prefer::Bytes => {
                let units = (u64::from(bytes) * u64::from(UNITS)).div_ceil(u64::from(self.size));
                u16::try_from(units.max(1)).unwrap_or(u16::MAX)
            }
        }
    }

    /// Counts the opening of a cluster, and ages references if due.
    fn fade(&mut self) {
        self.opened += 1;
        let half_life = u64::from(self.clusters()) * u64::from(self.policy.half_life_percent);
        if half_life > 0 && u64::from(self.opened) * 100 >= half_life {
            self.opened = 0;
            self.age();
        }
    }

    /// Returns the cluster to give up for room; `None` if there is none. Clusters for which
    /// `protected` returns true are spared. Pinned clusters are not candidates; clusters in memory
    /// and young ones are candidates only if nothing else is left.
    pub(crate) fn victim(&mut self, protected: impl Fn(ClusterId) -> bool) -> Option<ClusterId> {
        let Some(least) = self.settled_least_key() else { return self.last_resort(protected) };
        let blocks = (0..self.block_keys.len()).filter(|block| self.block_keys[*block] == least);
        let equals = blocks.flat_map(|block| self.block(block));
        equals
            .filter(|cluster| self.key(*cluster as usize) == least && !protected(*cluster))
            .min_by_key(|cluster| self.distance(*cluster))
            .or_else(|| self.victim_among_all(&protected))
            .or_else(|| self.last_resort(protected))
    }

    /// Returns the least key of all candidates; `None` if there are none.
    fn settled_least_key(&mut self) -> Option<u64> {
        loop {
            let least = *self.block_keys.iter().min()?;
            let mut settled = true;
            for block in 0..self.block_keys.len() {
                if self.block_keys[block] == least && self.stale_blocks[block] {
                    self.block_keys[block] = self.least_key(block);
                    self.stale_blocks[block] = false;
                    settled = false;
                }
            }
            if settled {
                return (least != SPARED_KEY).then_some(least);
            }
        }
    }

    /// Chooses a victim like [`ClusterTable::victim`] when the best candidates are protected.
    fn victim_among_all(&self, protected: impl Fn(ClusterId) -> bool) -> Option<ClusterId> {
        (0..self.clusters())
            .filter(|cluster| self.scores[*cluster as usize] != SPARED && !protected(*cluster))
            .min_by_key(|cluster| (self.key(*cluster as usize), self.distance(*cluster)))
    }

    /// Returns a cluster on the device that had no access for the time set by the policy; `None` if
    /// there is none. After a `None`, repeated calls are cheap until a cluster can have reached
    /// that age.
    pub(crate) fn one_timer(&mut self, now: u32) -> Option<ClusterId> {
        let seconds = self.policy.one_timer_seconds?;
        if now < self.one_timer_not_before {
            return None;
        }
        let on_disk = (0..self.clusters())
            .filter(|cluster| self.state(*cluster) == State::OnDisk && self.pins(*cluster) == 0);
        let oldest = on_disk.min_by_key(|cluster| self.last_access(*cluster));
        let oldest =
            oldest.filter(|oldest| now.saturating_sub(self.last_access(*oldest)) >= seconds);
        if oldest.is_none() {
            // Accesses only make clusters younger. A pinned or open one may be older but is not a
            // candidate yet; checking once a second finds it soon enough.
            self.one_timer_not_before = now.saturating_add(1);
        }
        oldest
    }

    // ---- Recovery

    /// Replays the opening of the cluster with this incarnation from the journal.
    pub(crate) fn replay_open(&mut self, cluster: ClusterId, incarnation: u64, now: u32) {
        self.forget(cluster);
        self.open(cluster, incarnation, now);
    }

    /// Replays the giving up of the cluster from the journal.
    pub(crate) fn replay_give_up(&mut self, cluster: ClusterId) {
        self.forget(cluster);
        self.set_state(cluster, State::Free);
    }

    /// Makes bad clusters usable again, because the cause may have gone, for example when a full
    /// file system has space again.
    pub(crate) fn retry_bad(&mut self) {
        for cluster in 0..self.clusters() {
            if self.state(cluster) == State::Bad {
                self.set_state(cluster, State::Free);
            }
        }
    }

    /// Ends recovery, in which facts may have been replayed in any order. Only after this may
    /// victims be requested.
    pub(crate) fn recovered(&mut self) {
        self.rebuild();
    }

    // ---- Internals

    fn open(&mut self, cluster: ClusterId, incarnation: u64, now: u32) {
        let at = cluster as usize;
        self.incarnations[at] = incarnation;
        self.last_access[at] = now;
        self.used = self.used.max(at + 1);
        self.set_state(cluster, State::Open);
        self.next_incarnation = self.next_incarnation.max(incarnation.saturating_add(1));
        self.young.push_back((incarnation, cluster));
        let first = self.first_young();
        while let Some((_, grown)) = self.young.pop_front_if(|(opened, _)| *opened < first) {
            self.score(grown);
        }
    }

    /// Returns the lowest young incarnation. Every opening takes one number, so at most the
    /// policy's share of the clusters is that young.
    fn first_young(&self) -> u64 {
        self.next_incarnation.saturating_sub(self.young_share())
    }

    fn young_share(&self) -> u64 {
        u64::from(self.clusters()) * u64::from(self.policy.young_percent) / 100
    }

    /// Clears the data on a cluster's contents.
    fn forget(&mut self, cluster: ClusterId) {
        let at = cluster as usize;
        self.sum_references -= u64::from(std::mem::take(&mut self.references[at]));
        self.live_records[at] = 0;
        self.dead_bytes[at] = 0;
        if std::mem::take(&mut self.dead_counts[at]) > 0 {
            let offsets: Vec<u32> = self.dead_records(cluster).collect();
            for offset in offsets {
                self.dead.remove(&(cluster, offset));
            }
        }
    }

    fn change(&mut self, cluster: ClusterId, from: &[State], to: State) {
        let state = self.state(cluster);
        assert!(from.contains(&state), "cluster {cluster} goes from {state:?} to {to:?}");
        self.set_state(cluster, to);
    }

    fn set_state(&mut self, cluster: ClusterId, state: State) {
        let old = std::mem::replace(&mut self.states[cluster as usize], state);
        self.counts[old as usize] -= 1;
        self.counts[state as usize] += 1;
        self.free.set(cluster, state == State::Free);
        self.score(cluster);
    }

    /// Updates the score of a cluster.
    fn score(&mut self, cluster: ClusterId) {
        let at = cluster as usize;
        let key = self.key(at);
        self.scores[at] = self.score_of(at);
        self.key_changed(at, key);
    }

    fn score_of(&self, at: usize) -> u32 {
        let candidate = self.states[at] == State::OnDisk
            && self.pins[at] == 0
            && self.incarnations[at] < self.first_young();
        if candidate { self.worth(at) } else { SPARED }
    }

    /// Returns the score and the last access as one number; the lowest is the first victim.
    fn key(&self, at: usize) -> u64 {
        match self.scores[at] {
            SPARED => SPARED_KEY,
            score => u64::from(score) << 32 | u64::from(self.last_access[at]),
        }
    }

    /// Updates the least key of the cluster's block after the cluster's key changed from `old`.
    fn key_changed(&mut self, at: usize, old: u64) {
        let block = at / BLOCK;
        let key = self.key(at);
        if key <= self.block_keys[block] {
            self.block_keys[block] = key;
            self.stale_blocks[block] = false;
        } else if old == self.block_keys[block] {
            self.stale_blocks[block] = true;
        }
    }

    fn least_key(&self, block: usize) -> u64 {
        self.block(block).map(|cluster| self.key(cluster as usize)).min().unwrap_or(SPARED_KEY)
    }

    fn block(&self, block: usize) -> Range<ClusterId> {
        let first = (block * BLOCK) as u32;
        first..self.clusters().min(first.saturating_add(BLOCK as u32))
    }

    /// Updates the scores of the first clusters, and the least keys of their blocks.
    fn score_first(&mut self, clusters: usize) {
        (0..clusters).for_each(|at| self.scores[at] = self.score_of(at));
        for block in 0..clusters.div_ceil(BLOCK) {
            self.block_keys[block] = self.least_key(block);
            self.stale_blocks[block] = false;
        }
    }

    fn worth(&self, at: usize) -> u32 {
        if self.is_all_dead(at as ClusterId) {
            return 0;
        }
        let dead = u64::from(self.dead_bytes[at]) * 16 / u64::from(self.size);
        (u32::from(self.references[at]) + u32::from(self.reference())) * (16 - dead.min(15) as u32)
    }

    fn age(&mut self) {
        let used = &mut self.references[..self.used];
        used.iter_mut().for_each(|references| *references /= 2);
        self.sum_references = used.iter().map(|references| u64::from(*references)).sum();
        self.score_first(self.used);
    }

    /// Returns the distance of the cluster after the current disk position, wrapping around.
    fn distance(&self, cluster: ClusterId) -> u32 {
        if cluster >= self.position {
            cluster - self.position
        } else {
            self.clusters() - self.position + cluster
        }
    }

    fn last_resort(&self, protected: impl Fn(ClusterId) -> bool) -> Option<ClusterId> {
        let on_disk = |state| matches!(state, State::OnDisk | State::OnDiskAndInMemory);
        (0..self.clusters())
            .filter(|cluster| on_disk(self.state(*cluster)) && self.pins(*cluster) == 0)
            .filter(|cluster| !protected(*cluster))
            .min_by_key(|cluster| {
                let in_memory = self.state(*cluster) == State::OnDiskAndInMemory;
                let worth = self.worth(*cluster as usize);
                (in_memory, worth, self.last_access(*cluster), self.distance(*cluster))
            })
    }

    /// Recomputes everything that is derived from the other columns.
    fn rebuild(&mut self) {
        let last = self.states.iter().rposition(|state| state.in_use());
        self.used = self.used.max(last.map_or(0, |last| last + 1));
        let first = self.first_young();
        let young = self.incarnations.iter().copied().zip(0..);
        let in_use = young.filter(|(_, cluster)| self.state(*cluster).in_use());
        let mut young: Vec<_> = in_use.filter(|(opened, _)| *opened >= first).collect();
        young.sort_unstable();
        young.reserve_exact((self.young_share() as usize + 1).saturating_sub(young.len()));
        self.young = young.into();
        self.sum_references = self.references.iter().map(|references| u64::from(*references)).sum();
        self.score_first(self.scores.len());
    }
}

#[cfg(test)]
mod tests;
