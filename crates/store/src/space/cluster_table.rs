//! The cluster table: what every cluster of a device is used for (systems C7), which are free near
//! the current disk position (C8), and which to give up next (C9).
//!
//! Victims are chosen by LFU with aging: the cluster with the least score, which is its references
//! (plus one) times the share of it that is alive, in sixteenths, and none when nothing in it is;
//! among equals the one that was not used for longest; among those the one nearest after the
//! current disk position. A cluster among the youngest share is spared: it has no references yet
//! and must get its chance. References fade: all are halved each time that a share of the clusters
//! has been opened, so that what counts is how often a cluster was asked for lately, as the writing
//! goes; or, as UCFS is read here, when their mean passes a bound. Where bytes are preferred
//! ([`Prefer::Bytes`]) a reference counts with the bytes of the object that was asked for, and the
//! clusters stay that earn the most bytes of hits; all clusters are of one size.
//!
//! A cluster that is given up is quarantined until the journal has made durable what its records
//! said (see `docs/reference/format.md`, "Nothing comes back"), and then until its last reader is
//! done.
//!
//! The table is a structure of arrays. Of every 512 clusters it keeps the least score, so that
//! choosing a victim among 300,000 clusters takes microseconds. It takes at most 40 bytes per
//! cluster (state 1, pins 4, references 2, score 4, last access 4, incarnation 8, live records 4,
//! dead bytes 4, dead records 4, the young ones' queue 4), and some 12 bytes per dead record in
//! clusters in use.

pub(crate) mod codec;
mod free_map;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::base::limits::ClusterId;
use crate::config::options::Prefer;
use free_map::FreeMap;

/// What a cluster is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// For nothing.
    Free,
    /// Given up; waits for the journal.
    Quarantined,
    /// Given up; the journal is durable, but readers are not done.
    Draining,
    /// Takes records; its filled part may be on the device.
    Open,
    /// Full, and on its way to the device.
    Writing,
    /// On the device.
    OnDisk,
    /// On the device, and all its objects in the memory tier.
    OnDiskAndInMemory,
    /// Not usable: the device could not write it.
    Bad,
}

impl State {
    const ALL: usize = 8;

    /// True when the cluster may hold live records.
    pub(crate) fn in_use(self) -> bool {
        matches!(self, State::Open | State::Writing | State::OnDisk | State::OnDiskAndInMemory)
    }
}

/// How clusters are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// All references are halved each time that so many percent of the clusters were opened; 0:
    /// when their mean is above `mean_references`.
    pub half_life_percent: u8,
    /// All references are halved when their mean is above this.
    pub mean_references: u16,
    /// Percent of the clusters that are spared because they were opened last.
    pub young_percent: u8,
    /// What a reference counts.
    pub prefer: Prefer,
    /// A cluster without an access for so many seconds is a set of one-timers.
    pub one_timer_seconds: Option<u32>,
    /// How many dead records the table keeps; see [`ClusterTable::most_dead`].
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

/// Score of a cluster that is no candidate, and its key.
const SPARED: u32 = u32::MAX;
const SPARED_KEY: u64 = u64::MAX;
/// Clusters whose least key is kept. Few in tests, so that small tables have several blocks.
const BLOCK: usize = if cfg!(test) { 8 } else { 512 };
/// What one reference counts where they fade by openings: so that halving loses little. Where bytes
/// are preferred, what a cluster is given for the reference that it has not had yet.
const FINE: u16 = 16;
/// What all the bytes of a cluster count where bytes are preferred. No record is longer than its
/// cluster, so that the counter ends where all bytes of a cluster were asked for 64 times, less
/// what has faded. Where references fade with each tenth of the clusters that is written, the mean
/// of all clusters is a tenth to a fifth of hit bytes by written bytes: 0.2 times a cluster's bytes
/// where half of the bytes hit, 4 times where 19 of 20 do. Only clusters far above the mean end
/// there, and only the least are told apart to choose a victim. The first of these means is 200
/// units, so that halving and rounding lose little.
const UNITS: u32 = 1 << 10;

/// The cluster table. See the module for what it promises.
pub(crate) struct ClusterTable {
    /// Bytes of a cluster.
    size: u32,
    policy: Policy,
    states: Vec<State>,
    pins: Vec<u32>,
    references: Vec<u16>,
    scores: Vec<u32>,
    /// A lower bound of the keys of every block of clusters; the least key itself unless stale.
    block_keys: Vec<u64>,
    /// Blocks whose least key may have risen. Found out when a victim is chosen, so that an access
    /// costs the same however often its cluster is asked for.
    stale_blocks: Vec<bool>,
    last_access: Vec<u32>,
    incarnations: Vec<u64>,
    live_records: Vec<u32>,
    dead_bytes: Vec<u32>,
    dead_counts: Vec<u32>,
    /// Dead records: cluster and offset in granules.
    dead: BTreeSet<(ClusterId, u32)>,
    /// Journal position after which it is free, and cluster; positions ascend.
    quarantine: VecDeque<(u64, ClusterId)>,
    /// The clusters opened last, with their incarnations, oldest first.
    young: VecDeque<(u64, ClusterId)>,
    free: FreeMap,
    counts: [u32; State::ALL],
    sum_references: u64,
    /// Clusters opened since references were halved last.
    opened: u32,
    /// Nothing was ever kept in the clusters from here on: ageing need not look at them. A large
    /// cache that is nearly empty ages after every few hits.
    used: usize,
    /// No cluster becomes a set of one-timers before this second.
    one_timer_not_before: u32,
    next_incarnation: u64,
    /// The records of clusters with this incarnation or a later one were counted one by one.
    counted_from: u64,
    position: ClusterId,
}

impl ClusterTable {
    /// A table of free clusters of `size` bytes.
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
        // More are young now. The queue has forgotten those that had left it.
        self.rebuild();
    }

    /// Number of clusters.
    pub(crate) fn clusters(&self) -> u32 {
        self.states.len() as u32
    }

    /// Number of clusters in a state.
    pub(crate) fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// What a cluster is used for.
    pub(crate) fn state(&self, cluster: ClusterId) -> State {
        self.states[cluster as usize]
    }

    /// The number that the cluster's records bear since it was opened.
    pub(crate) fn incarnation(&self, cluster: ClusterId) -> u64 {
        self.incarnations[cluster as usize]
    }

    /// The incarnation of a cluster that is in use.
    pub(crate) fn incarnation_in_use(&self, cluster: ClusterId) -> Option<u64> {
        self.state(cluster).in_use().then(|| self.incarnation(cluster))
    }

    /// The number that the next cluster to be opened gets.
    pub(crate) fn next_incarnation(&self) -> u64 {
        self.next_incarnation
    }

    /// The next cluster to be opened gets at least this number, and is the first of this run.
    pub(crate) fn skip_incarnations(&mut self, least: u64) {
        self.next_incarnation = self.next_incarnation.max(least);
        self.counted_from = self.next_incarnation;
        self.rebuild();
    }

    /// Accesses since the cluster was opened, halved from time to time; where bytes are preferred,
    /// 64ths of its bytes that were asked for.
    pub(crate) fn references(&self, cluster: ClusterId) -> u16 {
        self.references[cluster as usize] / self.reference()
    }

    /// Second of the last access.
    pub(crate) fn last_access(&self, cluster: ClusterId) -> u32 {
        self.last_access[cluster as usize]
    }

    #[cfg(test)]
    /// Where the last write went: clusters after it are preferred.
    pub(crate) fn position(&self) -> ClusterId {
        self.position
    }

    /// Bytes of memory of the table.
    pub(crate) fn memory_bytes(&self) -> usize {
        // State, pins, references, score, last access, incarnation, live, dead bytes, dead records.
        let columns = 1 + 4 + 2 + 4 + 4 + 8 + 4 + 4 + 4;
        let queues = (self.young.capacity() + self.quarantine.capacity()) * 16;
        self.states.capacity() * columns + queues + self.free.memory_bytes() + self.dead.len() * 12
    }

    // ---- From free to the device and back

    /// Moves the current disk position to where so many free clusters follow one another, when
    /// fewer do behind it and there is such a place (C8).
    pub(crate) fn seek_run(&mut self, clusters: u32) {
        let here = self.free.run_after(self.position, clusters);
        if here.is_none_or(|run| run.len() as u32 >= clusters) {
            return;
        }
        if let Some(start) = self.free.long_run_after(self.position, clusters) {
            self.position = start;
        }
    }

    /// Opens at most `most` free clusters that follow one another: the first run after the current
    /// disk position, which moves behind them. `None` when no cluster is free.
    pub(crate) fn take_free_run(&mut self, most: u32, now: u32) -> Option<Range<ClusterId>> {
        let run = self.free.run_after(self.position, most)?;
        for cluster in run.clone() {
            self.open(cluster, self.next_incarnation, now);
            self.fade();
        }
        self.position = if run.end == self.clusters() { 0 } else { run.end };
        Some(run)
    }

    /// The open cluster is full and on its way to the device.
    pub(crate) fn start_writing(&mut self, cluster: ClusterId) {
        self.change(cluster, &[State::Open], State::Writing);
    }

    /// All of the cluster is on the device.
    pub(crate) fn written(&mut self, cluster: ClusterId) {
        self.change(cluster, &[State::Open, State::Writing], State::OnDisk);
    }

    /// All live objects of the cluster are in the memory tier (or no longer all of them).
    pub(crate) fn set_in_memory(&mut self, cluster: ClusterId, in_memory: bool) {
        let on_disk = [State::OnDisk, State::OnDiskAndInMemory];
        self.change(cluster, &on_disk, on_disk[usize::from(in_memory)]);
    }

    /// Gives the cluster up: its records are dead from now on. It becomes free when the journal is
    /// durable up to `after` (positions never fall) and the last reader is done.
    pub(crate) fn give_up(&mut self, cluster: ClusterId, after: u64) {
        assert!(self.state(cluster).in_use(), "only a cluster in use can be given up");
        let last = self.quarantine.back().map_or(0, |(after, _)| *after);
        assert!(after >= last, "journal positions never fall");
        self.forget(cluster);
        self.set_state(cluster, State::Quarantined);
        self.quarantine.push_back((after, cluster));
    }

    /// Frees what waited for the journal to be durable up to `position`. Returns how many clusters
    /// became free.
    pub(crate) fn journal_durable(&mut self, position: u64) -> u32 {
        let free = self.free.free();
        while let Some((_, cluster)) = self.quarantine.pop_front_if(|(at, _)| *at <= position) {
            // A cluster may have turned bad meanwhile.
            if self.state(cluster) == State::Quarantined {
                let pinned = self.pins[cluster as usize] > 0;
                self.set_state(cluster, if pinned { State::Draining } else { State::Free });
            }
        }
        self.free.free() - free
    }

    /// The device cannot write the cluster: it is never used again.
    pub(crate) fn mark_bad(&mut self, cluster: ClusterId) {
        self.forget(cluster);
        self.set_state(cluster, State::Bad);
    }

    /// A reader needs the cluster as it is.
    pub(crate) fn pin(&mut self, cluster: ClusterId) {
        let pins = &mut self.pins[cluster as usize];
        *pins = pins.checked_add(1).expect("readers are fewer than 2^32");
        self.score(cluster);
    }

    /// A reader is done. True when that made the cluster free.
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

    /// Readers of the cluster.
    pub(crate) fn pins(&self, cluster: ClusterId) -> u32 {
        self.pins[cluster as usize]
    }

    /// Counts everything anew that is kept along the way.
    ///
    /// # Errors
    /// Which figure is wrong.
    pub(crate) fn recount(&self) -> Result<(), String> {
        let mut counts = [0_u32; State::ALL];
        for (cluster, state) in self.states.iter().enumerate() {
            counts[*state as usize] += 1;
            if self.free.get(cluster as ClusterId) != (*state == State::Free) {
                return Err(format!("cluster {cluster} is {state:?}, the free map differs"));
            }
            let pins = self.pins[cluster];
            if (pins == 0 && *state == State::Draining) || (pins > 0 && *state == State::Free) {
                return Err(format!("cluster {cluster} is {state:?} with {pins} readers"));
            }
        }
        if counts != self.counts {
            return Err(format!("states {counts:?} were counted as {:?}", self.counts));
        }
        let waiting: BTreeSet<ClusterId> = self.quarantine.iter().map(|(_, id)| *id).collect();
        let lost = (0..self.clusters())
            .find(|id| self.state(*id) == State::Quarantined && !waiting.contains(id));
        match lost {
            Some(cluster) => Err(format!("cluster {cluster} is quarantined for ever")),
            None => Ok(()),
        }
    }

    // ---- Records

    /// A record was added to the cluster.
    pub(crate) fn add_record(&mut self, cluster: ClusterId) {
        self.live_records[cluster as usize] += 1;
    }

    /// A record of `bytes` bytes at `offset` granules in the cluster is dead from now on. False
    /// when it was before, or the cluster is not in use.
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

    /// True when the record at `offset` granules is dead, or the cluster is not in use.
    pub(crate) fn is_dead(&self, cluster: ClusterId, offset: u32) -> bool {
        !self.state(cluster).in_use() || self.dead.contains(&(cluster, offset))
    }

    /// Offsets in granules of the cluster's dead records, ascending.
    pub(crate) fn dead_records(&self, cluster: ClusterId) -> impl Iterator<Item = u32> {
        self.dead.range((cluster, 0)..=(cluster, u32::MAX)).map(|(_, offset)| *offset)
    }

    /// Whether it is certain that nothing in the cluster lives. It never is of clusters that were
    /// opened before this run: what recovery finds in them is not counted.
    pub(crate) fn is_all_dead(&self, cluster: ClusterId) -> bool {
        let at = cluster as usize;
        self.is_counted(cluster) && self.live_records[at] == 0
    }

    /// Whether the cluster was opened in this run, so that its records were counted one by one.
    pub(crate) fn is_counted(&self, cluster: ClusterId) -> bool {
        self.incarnations[cluster as usize] >= self.counted_from
    }

    /// The bytes of the cluster that are not known to be dead, for each live record.
    pub(crate) fn mean_live_bytes(&self, cluster: ClusterId) -> u32 {
        let at = cluster as usize;
        (self.size - self.dead_bytes[at]) / self.live_records[at].max(1)
    }

    #[cfg(test)]
    /// Records of the cluster that are not dead.
    pub(crate) fn live_records(&self, cluster: ClusterId) -> u32 {
        self.live_records[cluster as usize]
    }

    #[cfg(test)]
    /// Bytes of the cluster's dead records.
    pub(crate) fn dead_bytes(&self, cluster: ClusterId) -> u32 {
        self.dead_bytes[cluster as usize]
    }

    /// Dead records in all clusters.
    pub(crate) fn total_dead(&self) -> usize {
        self.dead.len()
    }

    /// When more dead records are known than the policy allows: the cluster on the device with the
    /// most of them, which is to be given up.
    pub(crate) fn most_dead(&self) -> Option<ClusterId> {
        if self.dead.len() <= self.policy.max_dead { None } else { self.deadest() }
    }

    /// The cluster on the device with the most dead records, `None` when none has any.
    pub(crate) fn deadest(&self) -> Option<ClusterId> {
        let on_disk = (0..self.clusters()).filter(|cluster| {
            matches!(self.state(*cluster), State::OnDisk | State::OnDiskAndInMemory)
        });
        on_disk
            .max_by_key(|cluster| self.dead_counts[*cluster as usize])
            .filter(|cluster| self.dead_counts[*cluster as usize] > 0)
    }

    // ---- Replacement

    /// An object of `bytes` bytes in the cluster was asked for.
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

    /// What one reference counts, of those that count the same.
    fn reference(&self) -> u16 {
        match self.policy.prefer {
            Prefer::Requests if self.policy.half_life_percent == 0 => 1,
            Prefer::Requests | Prefer::Bytes => FINE,
        }
    }

    /// What a reference to an object of `bytes` bytes counts.
    fn weight(&self, bytes: u32) -> u16 {
        match self.policy.prefer {
            Prefer::Requests => self.reference(),
            Prefer::Bytes => {
                let units = (u64::from(bytes) * u64::from(UNITS)).div_ceil(u64::from(self.size));
                u16::try_from(units.max(1)).unwrap_or(u16::MAX)
            }
        }
    }

    /// A cluster was opened: references fade.
    fn fade(&mut self) {
        self.opened += 1;
        let half_life = u64::from(self.clusters()) * u64::from(self.policy.half_life_percent);
        if half_life > 0 && u64::from(self.opened) * 100 >= half_life {
            self.opened = 0;
            self.age();
        }
    }

    /// The cluster to give up for room, `None` when there is none. Those that `protected` names
    /// are spared. Pinned ones are not candidates; those in memory and the young only when nothing
    /// else is left.
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

    /// The least key of all candidates, `None` when there are none.
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

    /// As [`ClusterTable::victim`], when the best candidates are protected.
    fn victim_among_all(&self, protected: impl Fn(ClusterId) -> bool) -> Option<ClusterId> {
        (0..self.clusters())
            .filter(|cluster| self.scores[*cluster as usize] != SPARED && !protected(*cluster))
            .min_by_key(|cluster| (self.key(*cluster as usize), self.distance(*cluster)))
    }

    /// A cluster on the device without an access for the time that the policy sets, `None` when
    /// there is none. After a `None`, asking again is cheap until one can have come of age.
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
            // Accesses only make clusters younger. A pinned or open one may be older, but is no
            // candidate yet: looking once a second finds it soon enough.
            self.one_timer_not_before = now.saturating_add(1);
        }
        oldest
    }

    // ---- Recovery

    /// The journal says that the cluster was opened with this incarnation.
    pub(crate) fn replay_open(&mut self, cluster: ClusterId, incarnation: u64, now: u32) {
        self.forget(cluster);
        self.open(cluster, incarnation, now);
    }

    /// The journal says that the cluster was given up.
    pub(crate) fn replay_give_up(&mut self, cluster: ClusterId) {
        self.forget(cluster);
        self.set_state(cluster, State::Free);
    }

    /// What was bad may have become better since, as when a full file system has room again: it
    /// is tried once more.
    pub(crate) fn retry_bad(&mut self) {
        for cluster in 0..self.clusters() {
            if self.state(cluster) == State::Bad {
                self.set_state(cluster, State::Free);
            }
        }
    }

    /// Ends recovery: after this, victims may be asked for. What was replayed may have come in any
    /// order.
    pub(crate) fn recovered(&mut self) {
        self.rebuild();
    }

    // ---- Within

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

    /// The least incarnation that is young. Every opening takes one number, so at most the share
    /// of the policy is as young as that.
    fn first_young(&self) -> u64 {
        self.next_incarnation.saturating_sub(self.young_share())
    }

    fn young_share(&self) -> u64 {
        u64::from(self.clusters()) * u64::from(self.policy.young_percent) / 100
    }

    /// Clears what the table knows of a cluster's contents.
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

    /// Brings the score of a cluster up to date.
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

    /// Score and last access as one number: the least is the first to go.
    fn key(&self, at: usize) -> u64 {
        match self.scores[at] {
            SPARED => SPARED_KEY,
            score => u64::from(score) << 32 | u64::from(self.last_access[at]),
        }
    }

    /// Brings the least key of the cluster's block up to date after the cluster's was `old`.
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

    /// Brings the scores of the first clusters, and the least keys of their blocks, up to date.
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

    /// How far the cluster lies after the current disk position, going round.
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

    /// Makes all that follows from the other columns anew.
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
