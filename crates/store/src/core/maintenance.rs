//! Decides the next step of the background: writes, evictions, flushes, checkpoints.

use device::{Extent, Nanos};

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::now::Now;
use crate::base::summary::Entry;
use crate::config::options::WritePolicy;
use crate::core::state::Core;
use crate::core::task::{Completed, EvictPlan, Task};
use crate::format::checkpoint::Checkpoint;
use crate::format::journal::{Fact, FlushMark, JournalWrite};
use crate::memory::locality_staging::LocalityStaging;
use crate::space::Space;
use crate::space::appender::{Appender, Lost, Requests, WriteJob};
use crate::space::cluster_table::State as ClusterState;

/// Number of index buckets that are swept under one lock.
const SWEEP_STEP: usize = 4096;

impl Core {
    pub(crate) fn next_task(&mut self, now: Now) -> Task {
        self.background.begin_task();
        if !self.online() {
            return Task::Stop;
        }
        self.end_overdue(now.monotonic);
        if let Some(revoked) = self.holds.report(now.monotonic) {
            return Task::Report(revoked);
        }
        if let Some(run) = self.schedule.run_wanted(self.superblock.get().run) {
            return Task::NameRun(run);
        }
        if self.journal.checkpoint_due() {
            return Task::Checkpoint;
        }
        // Tasks that wait for the journal come first, but not repeatedly before everything else.
        let logged = self.purge_log.durable();
        if let Some(sync) = self.schedule.next_wanted_sync(&self.journal, logged) {
            return sync;
        }
        // Before the writes, which may never end while clients store objects.
        let in_slots = !self.placement.space.has_clusters();
        let more = in_slots && self.evict_overfull();
        // Opening a cluster makes the journal be written, so with clusters it is never far behind.
        if in_slots
            && let Some(sync) = self.schedule.overdue_sync(&self.journal, true, now.monotonic)
        {
            self.schedule.begin_overdue_sync();
            return sync;
        }
        if let Some(task) = self.next_write(now) {
            return task;
        }
        if self.placement.space.has_clusters()
            && let Some(task) = self.next_eviction(now)
        {
            return task;
        }
        if let Some(sync) = self.schedule.wanted_sync(&self.journal, logged) {
            return sync;
        }
        if self.placement.waits_for_journal(&self.reclaim) {
            return Task::Sync { durable: true };
        }
        if self.schedule.wants_checkpoint() {
            return Task::Checkpoint;
        }
        if let Some(learn) = self.next_to_learn() {
            return learn;
        }
        if more {
            return Task::Idle(Some(now.monotonic));
        }
        match self.next_sync(now.monotonic) {
            Task::Idle(deadline) => self.next_labels().unwrap_or(Task::Idle(deadline)),
            task => task,
        }
    }

    /// Applies the result of a step of the background.
    pub(crate) fn complete(&mut self, completed: Completed) {
        match completed {
            Completed::Write(job, Some(requests)) => self.written(&job, requests),
            Completed::Write(job, None) => self.write_failed(&job),
            Completed::WritePages(job, done) => self.pages_written(job, done),
            Completed::Flush(mark, now) => self.flushed(mark, now),
            Completed::Evict(plan, entries) => self.evict(&plan, entries.as_deref()),
            Completed::Learn { cluster, incarnation, entries } => {
                self.runs_learnt(cluster, incarnation, &entries);
            }
            Completed::ReadLabels(plan, labels) => self.labels_read(&plan, labels.as_deref()),
            Completed::Checkpoint(checkpoint) => self.checkpoint_done(&checkpoint),
            Completed::NameRun(run) => self.run_named(run),
            Completed::Background => {
                self.background.stop();
                self.wake_waiters();
            }
        }
    }

    fn next_write(&mut self, now: Now) -> Option<Task> {
        let due = self.schedule.writes_due(now.monotonic);
        if self.send_staged(due, now) {
            return Some(Task::Again);
        }
        let written = self.journal.written();
        match &mut self.placement.space {
            Space::Clusters(space) => {
                if written < space.appender.ready(due)? {
                    return Some(Task::Sync { durable: false });
                }
                let job = space.appender.begin_write(&self.placement.areas, &self.secret, written);
                job.map(Task::Write)
            }
            Space::Slots(space) => {
                let ready = space.batches().ready(due);
                ready.then(|| space.begin_write()).flatten().map(Task::WritePages)
            }
        }
    }

    fn next_sync(&mut self, now: Nanos) -> Task {
        let staged = self.memory.staging.as_ref().and_then(LocalityStaging::deadline);
        let write_due = self.schedule.write_due([self.placement.space.deadline(), staged]);
        let in_slots = !self.placement.space.has_clusters();
        let report_due = self.holds.report_due();
        self.schedule.next_sync(&self.journal, in_slots, write_due, report_due, now)
    }

    /// Returns whether there is space without evicting anything.
    pub(super) fn has_unused_space(&self) -> bool {
        let staged = self.memory.staging.as_ref();
        self.placement.has_unused_space(&self.reclaim, staged, &self.index)
    }

    fn next_eviction(&mut self, now: Now) -> Option<Task> {
        if self.reclaim.sweep().is_some() {
            self.step_sweep();
            return Some(Task::Again);
        }
        if let Some((cluster, incarnation)) = self.reclaim.next_summarized() {
            return Some(Task::Evict(self.eviction_of(cluster, incarnation)));
        }
        if let Some(cluster) = self.expendable_cluster(now) {
            self.placement.space.table_mut().pin(cluster);
            let incarnation = self.placement.space.table().incarnation(cluster);
            return Some(Task::Evict(self.eviction_of(cluster, incarnation)));
        }
        let free = self.placement.space.nearly_free();
        let wanted = self.reclaim.clusters_wanted(free, self.index.load());
        // Until recovery has ended, the index does not know all records of a cluster.
        let sweeps = !self.recovery.is_running()
            && self.options.write_policy == WritePolicy::OnInsert
            && self.index.can_sweep();
        let victims = self.placement.victims(if sweeps { wanted } else { wanted.min(1) });
        if victims.is_empty() {
            return None;
        }
        let (plain, others): (Vec<ClusterId>, Vec<ClusterId>) = victims
            .into_iter()
            .partition(|victim| sweeps && self.placement.space.is_plain(*victim));
        let table = self.placement.space.table();
        let others = others.into_iter().map(|cluster| (cluster, table.incarnation(cluster)));
        self.reclaim.set_summarized(others.collect());
        self.begin_sweep(plain);
        Some(Task::Again)
    }

    /// Drops `victims`, which are pinned, and begins the sweep of their index entries.
    fn begin_sweep(&mut self, victims: Vec<ClusterId>) {
        if victims.is_empty() {
            return;
        }
        for victim in &victims {
            // First of all: an object that is removed or superseded from now on may have had a
            // record there that no index entry leads to any more.
            self.counters.evicted_clusters += 1;
            self.drop_cluster(*victim);
        }
        self.index.begin_sweep();
        self.reclaim.begin_sweep(victims);
    }

    /// Notes that an object in `cluster` was requested whose run is not known. The cluster's
    /// summary will be read, unless many others wait.
    pub(super) fn want_runs(&mut self, cluster: ClusterId) {
        if self.reclaim.want_runs(cluster) {
            self.wake_background();
        }
    }

    fn next_to_learn(&mut self) -> Option<Task> {
        let cluster = self.reclaim.next_unlearned()?;
        if self.placement.space.table().state(cluster) != ClusterState::OnDisk {
            return Some(Task::Again);
        }
        self.placement.space.table_mut().pin(cluster);
        let incarnation = self.placement.space.table().incarnation(cluster);
        Some(Task::Learn { cluster, incarnation, extent: self.placement.areas.cluster(cluster) })
    }

    /// Applies the summary of a cluster, if it has one.
    fn runs_learnt(&mut self, cluster: ClusterId, incarnation: u64, entries: &[Entry]) {
        if self.placement.space.table_mut().unpin(cluster) {
            self.wake_waiters();
        }
        if self.placement.is_current(cluster, incarnation) {
            self.placement.learn_runs(cluster, entries);
        }
    }

    fn eviction_of(&self, cluster: ClusterId, incarnation: u64) -> EvictPlan {
        EvictPlan {
            cluster,
            incarnation,
            extent: self.placement.areas.cluster(cluster),
            // A record that recovery has not found yet may be one that a dead record superseded.
            all_dead: !self.recovery.is_running()
                && self.placement.space.table().is_all_dead(cluster),
        }
    }

    /// Returns a cluster to evict whether or not space is needed.
    fn expendable_cluster(&mut self, now: Now) -> Option<ClusterId> {
        if let Some(cluster) = self.placement.space.table().most_dead() {
            return Some(cluster);
        }
        let cluster = self.placement.space.table_mut().one_timer(now.unix)?;
        self.counters.one_timer_clusters += 1;
        Some(cluster)
    }

    /// Removes some of the index entries that lead into the dropped clusters. After the last, the
    /// clusters are unpinned and become free once the journal allows it. Returns true while there
    /// is more to do.
    pub(super) fn step_sweep(&mut self) -> bool {
        let Some(sweep) = self.reclaim.sweep() else { return false };
        // Granules per cluster are a power of two; this is evaluated for every index entry.
        let shift = self.placement.areas.granules_per_cluster().trailing_zeros();
        let (forgotten, ended) =
            self.index.step_sweep(SWEEP_STEP, |slot| !sweep.evicts(slot.position >> shift));
        self.counters.evicted_records += forgotten as u64;
        if ended {
            for victim in self.reclaim.end_sweep() {
                if self.placement.space.table_mut().unpin(victim) {
                    self.wake_waiters();
                }
            }
        }
        !ended
    }

    /// Evicts the plan's cluster. `entries` is its summary; without one, the whole index is
    /// searched for entries that lead into the cluster.
    pub(super) fn evict(&mut self, plan: &EvictPlan, entries: Option<&[Entry]>) {
        let cluster = plan.cluster;
        if self.placement.space.table_mut().unpin(cluster) {
            self.wake_waiters();
        }
        let unchanged = self.placement.space.table().incarnation(cluster) == plan.incarnation
            && matches!(
                self.placement.space.table().state(cluster),
                ClusterState::OnDisk | ClusterState::OnDiskAndInMemory
            );
        // Once offline no facts are noted any more, so nothing may change.
        if !unchanged || !self.online() {
            return;
        }
        match entries {
            Some(entries) => entries.iter().for_each(|entry| self.evict_record(cluster, entry)),
            // The records that it supersedes are unknown: recovery must read it first, record by
            // record.
            None if self.recovery.is_unread(cluster) => return,
            None => self.sweep(cluster),
        }
        self.counters.evicted_clusters += 1;
        self.dissolve_virtual(cluster);
        // It may have been a virtual cluster that was dropped with one of its members.
        if self.placement.space.table().state(cluster).in_use() {
            self.drop_cluster(cluster);
        }
    }

    /// Drops a cluster; it becomes free when the journal is durable up to here.
    pub(super) fn drop_cluster(&mut self, cluster: ClusterId) {
        let incarnation = self.placement.space.table().incarnation(cluster);
        self.journal.note(Fact::Dropped { cluster, incarnation });
        self.placement.space.table_mut().give_up(cluster, self.journal.now());
        self.wake_background();
    }

    fn evict_record(&mut self, cluster: ClusterId, entry: &Entry) {
        let position = self.placement.areas.position(cluster, entry.granule);
        self.forget_record(entry.kind, &entry.digest, position);
    }

    /// Evicts the record at `position`, if the index leads to it.
    pub(super) fn evict_object(&mut self, digest: &Digest, position: u32) {
        let Some(slot) = self.index.get(digest).filter(|slot| slot.position == position) else {
            return;
        };
        self.index.remove(digest);
        if slot.refreshed
            && let Some(meta) = self.index.remove(&digest.derive_meta())
        {
            self.mark_dead(meta);
        }
        self.memory.tier.set_cluster(digest, None);
        self.counters.evicted_records += 1;
    }

    /// Evicts current metadata, and with them the object, which would fall back to older ones.
    pub(super) fn evict_meta(&mut self, digest: &Digest, position: u32) {
        if !self.index.remove_at(&digest.derive_meta(), position) {
            return;
        }
        if let Some(slot) = self.index.get(digest).filter(|slot| slot.refreshed) {
            self.index.remove(digest);
            self.mark_dead(slot);
            self.memory.tier.set_cluster(digest, None);
            self.counters.evicted_records += 1;
            self.counters.evicted_by_metadata += 1;
        }
    }

    /// Removes every index entry that leads into `cluster`, whose summary cannot be read. Its
    /// metadata records may belong to any object with replaced metadata, so all of those are
    /// removed too.
    fn sweep(&mut self, cluster: ClusterId) {
        let granules = self.placement.areas.granules_per_cluster();
        let first = self.placement.areas.position(cluster, 0);
        let inside = |position: u32| position.wrapping_sub(first) < granules;
        let buckets = self.index.bucket_count();
        let mut refreshed = Vec::new();
        let removed = self.index.sweep(0..buckets, |slot| {
            if slot.refreshed && !inside(slot.position) {
                refreshed.push(slot);
            }
            !slot.refreshed && !inside(slot.position)
        });
        refreshed.into_iter().for_each(|slot| self.mark_dead(slot));
        self.counters.evicted_records += removed as u64;
    }

    /// Records that the job reached the device.
    fn written(&mut self, job: &WriteJob, requests: Requests) {
        for cluster in Appender::completes(job) {
            self.placement.space.table_mut().written(cluster);
        }
        self.counters.record_bytes_written += job.record_bytes() as u64;
        self.release_written(job);
        self.placement.space.appender_mut().end_write(&self.placement.areas, job, requests);
        self.schedule.note_written();
        self.wake_waiters();
    }

    /// Records that the job failed: the records of its clusters are lost, and the clusters are not
    /// used again.
    fn write_failed(&mut self, job: &WriteJob) {
        for (cluster, lost) in
            self.placement.space.appender_mut().fail_write(&self.placement.areas, job)
        {
            for record in &lost {
                self.record_lost(cluster, record);
            }
            let incarnation = self.placement.space.table().incarnation(cluster);
            self.journal.note(Fact::Dropped { cluster, incarnation });
            self.placement.space.table_mut().mark_bad(cluster);
        }
        self.wake_waiters();
    }

    fn record_lost(&mut self, cluster: ClusterId, lost: &Lost) {
        self.counters.lost_records += 1;
        // A newer version may be staged.
        let slot = self.index.get(&lost.entry.digest);
        if slot.is_some_and(|slot| slot.position == lost.position) {
            self.release_kept(&lost.entry.digest);
        }
        self.evict_record(cluster, &lost.entry);
        debug_assert_eq!(lost.position, self.placement.areas.position(cluster, lost.entry.granule));
    }

    /// Returns the next journal write, after `written` ended; `None` when there is none.
    pub(crate) fn next_journal_write(
        &mut self,
        written: Option<&JournalWrite>,
    ) -> Option<JournalWrite> {
        if let Some(written) = written {
            self.journal.end_write(written);
            self.schedule.note_written();
            self.wake_waiters();
        }
        self.journal.begin_write(&self.secret)
    }

    /// Begins a flush of the device: everything written before is durable when it ends.
    pub(crate) fn begin_flush(&mut self) -> FlushMark {
        self.schedule.begin_flush();
        self.placement.space.begin_flush();
        self.purge_log.begin_flush();
        self.journal.begin_flush()
    }

    /// Ends the flush: the journal is durable up to the mark, and quarantined clusters may become
    /// free.
    fn flushed(&mut self, mark: FlushMark, now: Nanos) {
        self.journal.end_flush(mark);
        self.purge_log.end_flush();
        match &mut self.placement.space {
            Space::Clusters(space) => {
                space.table.journal_durable(self.journal.durable());
            }
            Space::Slots(_) => self.slots_flushed(),
        }
        self.schedule.end_flush(now);
        self.wake_waiters();
        self.wake_background();
    }

    /// Records that the superblocks name this run of the store.
    fn run_named(&mut self, run: u64) {
        self.superblock.set_run(run);
        self.wake_waiters();
    }

    /// Does one step of an orderly stop. Returns whether everything is written; `None` when it is
    /// not yet.
    pub(super) fn drain(&mut self, now: Now) -> Option<bool> {
        if !self.online() {
            return Some(false);
        }
        self.schedule.drain();
        // Entries that lead into a dropped cluster must not be in the dump.
        while self.step_sweep() {}
        let placed = self.write_out_dirty(now);
        self.placement.seal();
        self.wake_background();
        let written = self.journal.written() == self.journal.now();
        (placed
            && self.placement.space.unwritten_bytes() == 0
            && written
            && !self.placement.space.busy())
        .then_some(true)
    }

    /// Makes a checkpoint of the current state; also returns the extent to write it to. If dead
    /// records have come faster than the background could drop clusters, those with the most dead
    /// records are dropped now, so that the checkpoint fits its slot.
    pub(crate) fn make_checkpoint(&mut self) -> (Checkpoint, Extent) {
        let number = self.superblock.next_checkpoint();
        self.schedule.begin_checkpoint();
        self.prune_purges();
        let room = self.placement.areas.checkpoints[0].len as usize;
        let mut clusters = Vec::new();
        loop {
            self.placement.space.encode(self.sequence.last(), &mut clusters);
            let removed = self.recovery.removed_len();
            if Checkpoint::len(clusters.len(), removed, self.purges.tables.len()) <= room {
                break;
            }
            let Space::Clusters(space) = &self.placement.space else { break };
            let Some(deadest) = space.table.deadest() else { break };
            if self.recovery.is_unread(deadest) {
                self.abandon_recovery();
            } else {
                self.sweep(deadest);
                self.dissolve_virtual(deadest);
                self.drop_cluster(deadest);
            }
            clusters.clear();
        }
        let checkpoint = Checkpoint {
            number,
            journal_block: self.journal.next_block(),
            space: clusters,
            removed: self.recovery.removed(),
            purges: self.purges.tables.encode(),
        };
        let slot = self.placement.areas.checkpoints[checkpoint.slot()];
        (checkpoint, slot)
    }

    /// Records that the checkpoint is durable.
    fn checkpoint_done(&mut self, checkpoint: &Checkpoint) {
        self.journal.forget_before(checkpoint.journal_block);
        self.superblock.set_checkpoint(checkpoint);
        self.counters.checkpoints += 1;
        self.wake_waiters();
        self.wake_background();
    }
}
