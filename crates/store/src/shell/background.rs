//! The background of a volume: one task that carries out the core's maintenance, one device
//! operation after another. Only this task writes clusters, journal and checkpoints, so a caller
//! that is dropped cannot leave a write half done.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use device::{Clock, Device, Extent, Nanos, Operation};

use crate::base::event::Event;
use crate::base::join::yield_now;
use crate::base::limits::STEP;
use crate::base::record::RecordKind;
use crate::base::summary;
use crate::base::summary::{Decoded, Entry};
use crate::core::{Completed, EvictPlan, HoldsRevoked, LabelsPlan, Task};
use crate::format::purge_log::PurgeLogWrite;
use crate::format::superblock::{Condition, Superblock};
use crate::shell::volume::{Shared, Volume};
use crate::space::appender::WriteJob;
use crate::space::slots::page_write::{PageDone, PageJob, PageWrite};

/// Attempts at a write of the journal or of a checkpoint before the device is given up.
const WRITE_ATTEMPTS: u32 = 3;

/// Marks the background as running until dropped.
struct Maintained<'a>(&'a Shared);

impl Drop for Maintained<'_> {
    fn drop(&mut self) {
        self.0.lock().complete(Completed::Background);
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Runs the background until the volume goes offline.
    pub(crate) async fn maintain(&self) {
        self.shared.lock().background().start();
        let _maintained = Maintained(&self.shared);
        loop {
            let now = self.now();
            let task = self.shared.lock().next_task(now);
            match task {
                Task::Stop => return,
                Task::Idle(deadline) => self.idle(deadline).await,
                Task::Sync { durable } => self.sync(durable).await,
                Task::Write(job) => self.write_records(job).await,
                Task::WritePages(job) => self.write_pages(job).await,
                Task::Evict(plan) => self.evict(plan).await,
                Task::Learn { cluster, incarnation, extent } => {
                    let entries = self.read_summary(cluster, incarnation, extent).await;
                    let entries = entries.unwrap_or_default();
                    self.complete(Completed::Learn { cluster, incarnation, entries });
                }
                Task::ReadLabels(plan) => self.read_labels(plan).await,
                Task::Again => yield_now().await,
                Task::Report(HoldsRevoked { objects, transfers }) => {
                    let device = self.shared.number;
                    self.shared.emit(Event::HoldsRevoked { device, objects, transfers });
                }
                Task::Checkpoint => _ = self.checkpoint().await,
                Task::NameRun(run) => self.name_run(run).await,
            }
        }
    }

    fn complete(&self, completed: Completed) {
        self.shared.lock().complete(completed);
    }

    /// Sleeps until the deadline or until the core wakes it.
    async fn idle(&self, deadline: Option<Nanos>) {
        // Nothing waits to be written; the next operation will show whether the device has
        // recovered.
        self.shared.close_write_breaker(self.clock.now());
        let mut sleep = pin!(deadline.map(|deadline| self.clock.sleep_until(deadline)));
        let mut registered = false;
        poll_fn(|context| {
            if registered {
                // Polled again: the core woke the task, the sleep ended, or the wake-up was
                // spurious. In any case, ask the core what to do next.
                return Poll::Ready(());
            }
            registered = true;
            // The task was chosen under an earlier lock. The next choice of a task takes changes
            // since then into account.
            if !self.shared.lock().background().idle(context.waker()) {
                return Poll::Ready(());
            }
            match sleep.as_mut().as_pin_mut() {
                Some(sleep) => sleep.poll(context),
                None => Poll::Pending,
            }
        })
        .await;
    }

    /// Writes the pending journal blocks. With `durable`, also writes the purge log and flushes.
    pub(crate) async fn sync(&self, durable: bool) {
        if durable && !self.write_purge_log().await {
            return;
        }
        let mut last = None;
        loop {
            let write = self.shared.lock().next_journal_write(last.as_ref());
            let Some(write) = write else { break };
            let mut written = None;
            for _ in 0..WRITE_ATTEMPTS {
                written = self.write(write.offset, &write.bytes).await;
                if written.is_some() {
                    break;
                }
            }
            if written.is_none() {
                self.condemn("the journal cannot be written").await;
                return;
            }
            last = Some(write);
        }
        if durable {
            self.flush_all().await;
        }
    }

    /// Writes the pending entries of the purge log; a flush must follow. Returns false if that
    /// failed and the device was given up: the log may then lack a purge, and must not be trusted.
    pub(crate) async fn write_purge_log(&self) -> bool {
        if !self.shared.options.purge_log {
            return true;
        }
        let secret = &self.shared.secret;
        let write = self.shared.lock().purge_log().get().and_then(|log| log.begin_write(secret));
        let Some(PurgeLogWrite { writes, until }) = write else { return true };
        for (offset, bytes) in &writes {
            let mut written = None;
            for _ in 0..WRITE_ATTEMPTS {
                written = self.write(*offset, bytes).await;
                if written.is_some() {
                    break;
                }
            }
            if written.is_none() {
                self.condemn("the log of purges cannot be written").await;
                return false;
            }
        }
        if let Some(log) = self.shared.lock().purge_log().get() {
            log.end_write(until);
        }
        true
    }

    /// Flushes the device: earlier writes are durable, and quarantined clusters become free.
    pub(crate) async fn flush_all(&self) {
        let mark = self.shared.lock().begin_flush();
        if self.flush().await.is_none() {
            self.condemn("the device cannot be flushed").await;
            return;
        }
        self.complete(Completed::Flush(mark, self.clock.now()));
    }

    async fn write_records(&self, job: WriteJob) {
        let requests = job.build(self.areas(), &self.shared.secret);
        let mut whole = true;
        for (offset, buf) in &requests.writes {
            let result =
                self.watched(Operation::Write, self.device.write(*offset, buf.clone())).await;
            whole &= self.shared.record_result("write", *offset, result).is_some();
        }
        self.complete(Completed::Write(job, whole.then_some(requests)));
    }

    /// Writes pages concurrently. No page is part of two requests.
    async fn write_pages(&self, job: PageJob) {
        let base = self.areas().clusters_at;
        let writes = job.writes.iter().map(|write| self.write_page_run(base, write));
        let done = crate::base::join::values(writes.collect()).await;
        self.complete(Completed::WritePages(job, done));
    }

    async fn write_page_run(&self, base: u64, write: &PageWrite) -> PageDone {
        let mut done = PageDone { whole: false, last_page: Vec::new(), reads: 0 };
        let mut pages = [None, None];
        for (page, wanted) in pages.iter_mut().zip(write.wanted()) {
            let Some(at) = wanted else { continue };
            done.reads += 1;
            *page = self.read(Extent { offset: base + at, len: write.page }).await;
            if page.is_none() {
                return done;
            }
        }
        let pages = pages.each_ref().map(Option::as_deref);
        let buf = write.build(&self.shared.secret, pages);
        done.last_page = buf[buf.len() - write.page as usize..].to_vec();
        let offset = base + write.from;
        let result = self.watched(Operation::Write, self.device.write(offset, buf.freeze())).await;
        done.whole = self.shared.record_result("write", offset, result).is_some();
        done
    }

    async fn evict(&self, plan: EvictPlan) {
        let entries = match plan.all_dead {
            true => Some(Vec::new()),
            false => self.read_summary(plan.cluster, plan.incarnation, plan.extent).await,
        };
        self.complete(Completed::Evict(plan, entries));
    }

    /// Reads the labels of the live records in a cluster from its summary or, if the summary lacks
    /// them, from the whole cluster. A cluster that cannot be read or contains damage is given up,
    /// because the content of a later read cannot be predicted.
    async fn read_labels(&self, plan: LabelsPlan) {
        let EvictPlan { cluster, incarnation, extent, .. } = plan.evict;
        let told = self.read_contents(cluster, incarnation, extent).await;
        let labels = match told.and_then(|contents| contents.labels) {
            Some(labels) => Some(labels),
            None => match self.read_with_retries(extent).await {
                Some(bytes) => self.labels_of_living(&plan, &bytes),
                None => None,
            },
        };
        self.complete(Completed::ReadLabels(plan, labels));
        yield_now().await;
    }

    fn labels_of_living(&self, plan: &LabelsPlan, bytes: &[u8]) -> Option<Vec<u64>> {
        let (cluster, incarnation) = (plan.evict.cluster, plan.evict.incarnation);
        let secret = &self.shared.secret;
        let Decoded::Whole(entries) = summary::decode(secret, cluster, incarnation, bytes) else {
            return None;
        };
        let areas = self.areas();
        let lives =
            |entry: &&Entry| entry.kind != RecordKind::Piece && !plan.dead.contains(&entry.granule);
        let place = |entry: &Entry| (areas.position(cluster, entry.granule), entry.granule);
        self.labels_in(incarnation, entries.iter().filter(lives).map(place), bytes)
    }

    /// Writes a checkpoint and discards the journal before it. Returns false if the write failed.
    pub(crate) async fn checkpoint(&self) -> bool {
        if !self.shared.in_clusters {
            // Flushed records need not be listed in full.
            self.flush_all().await;
        }
        let (checkpoint, slot) = self.shared.lock().make_checkpoint();
        let bytes = checkpoint.encode(&self.shared.secret);
        if bytes.len() as u64 > slot.len {
            self.condemn("the cluster table has outgrown its checkpoint").await;
            return false;
        }
        let mut written = None;
        for _ in 0..WRITE_ATTEMPTS {
            written = self.write_steps(slot.offset, &bytes).await;
            if written.is_some() {
                break;
            }
        }
        if written.is_none() || self.flush().await.is_none() {
            self.condemn("a checkpoint cannot be written").await;
            return false;
        }
        self.complete(Completed::Checkpoint(checkpoint));
        true
    }

    /// Writes superblocks with a higher run number, so that devices that are missing can be
    /// recognised as outdated.
    async fn name_run(&self, run: u64) {
        let superblock = Superblock { run, ..self.shared.lock().superblock().clone() };
        if self.write_superblocks(&superblock, superblock.places()).await.is_none() {
            self.condemn("the superblocks cannot be written").await;
            return;
        }
        self.complete(Completed::NameRun(run));
    }

    /// Writes a large structure in steps.
    pub(crate) async fn write_steps(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        for (number, step) in bytes.chunks(STEP).enumerate() {
            self.write(offset + (number * STEP) as u64, step).await?;
        }
        Some(())
    }

    /// Gives up the device and marks it as condemned on the device itself. Deaths of records can no
    /// longer be recorded, so its contents must not be trusted again.
    async fn condemn(&self, reason: &str) {
        let mut superblock = self.shared.lock().superblock().clone();
        superblock.condition = Condition::Condemned;
        let bytes = superblock.encode();
        for offset in superblock.places() {
            self.write(offset, &bytes).await;
        }
        self.flush().await;
        self.shared.take_offline(reason.to_owned());
    }
}
