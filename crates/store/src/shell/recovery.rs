//! Recovery: from what is on the device back to an index.
//!
//! The cluster table comes from the newest whole checkpoint and the journal behind it. The index
//! comes from the dump of an orderly stop, or else from the summaries of all clusters in use, the
//! newest cluster first, so that of several records of a key the newest is met first and the
//! others are dead. A cluster that was open when the process died has no summary: its records are
//! walked one by one.
//!
//! Recovery may go on while the cache serves. What happened since the start wins over anything
//! that is found.

use device::{Clock, Device, Extent, Nanos};

use crate::base::event::Event;
use crate::base::labels::reading;
use crate::base::limits::ClusterId;
use crate::base::summary;
use crate::base::summary::{Entry, SummaryLabels};
use crate::core::{ClusterScan, NextClusters};
use crate::format::device_layout::BLOCK;
use crate::shell::cluster_contents::{Contents, walk};
use crate::shell::slot_recovery::SlotScan;
use crate::shell::volume::Volume;

/// Clusters whose summaries are read side by side.
const BATCH: usize = 32;
/// How far recovery has come is reported once in this time.
const REPORT_INTERVAL: Nanos = 2_000_000_000;

/// A scan of either kind of space.
pub(crate) enum Scanning {
    Clusters(Scan),
    Slots(SlotScan),
}

/// What is left to be read of a space of clusters.
pub(crate) struct Scan {
    clusters: ClusterScan,
    reported_at: Nanos,
}

impl Scan {
    /// Begins a scan that has read nothing yet.
    pub(crate) fn new(now: Nanos) -> Scan {
        Scan { clusters: ClusterScan::new(), reported_at: now }
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Reads what `scan` has left until everything is read, the volume goes offline or `deadline`
    /// passes; returns what is left then.
    pub(crate) async fn recover(
        &self,
        scan: Option<Scanning>,
        deadline: Option<Nanos>,
    ) -> Option<Scanning> {
        match scan? {
            Scanning::Clusters(scan) => {
                self.recover_clusters(scan, deadline).await.map(Scanning::Clusters)
            }
            Scanning::Slots(scan) => self.recover_slots(scan, deadline).await.map(Scanning::Slots),
        }
    }

    /// Does as [`Volume::recover`]; returns what is left when the deadline passed.
    async fn recover_clusters(&self, mut scan: Scan, deadline: Option<Nanos>) -> Option<Scan> {
        let areas = self.areas();
        loop {
            let next = scan.clusters.next(&mut self.shared.lock(), BATCH);
            let batch = match next {
                NextClusters::Read(batch) => batch,
                NextClusters::Complete { records } => {
                    self.shared.emit(Event::Recovered { device: self.shared.number, records });
                    return None;
                }
                NextClusters::Offline => return None,
            };
            // Read side by side, taken in one after the other: the newest first.
            let reads = batch.iter().map(|(cluster, incarnation)| {
                let extent = areas.cluster(*cluster);
                self.cluster_entries(*cluster, *incarnation, extent)
            });
            let found = crate::base::join::values(reads.collect()).await;
            self.take_in(&mut scan.clusters, &batch, &found);
            self.report_progress(&mut scan.reported_at);
            let late = deadline.is_some_and(|deadline| self.clock.now() >= deadline);
            if late && !ClusterScan::is_complete(&self.shared.lock()) {
                return Some(scan);
            }
        }
    }

    fn take_in(
        &self,
        scan: &mut ClusterScan,
        batch: &[(ClusterId, u64)],
        found: &[Option<Contents>],
    ) {
        for (cluster, contents) in batch.iter().zip(found) {
            let contents = contents.as_ref();
            let contents = contents.map(|found| (&found.entries[..], found.labels.as_deref()));
            scan.take_in(&mut self.shared.lock(), *cluster, contents);
        }
    }

    /// Tells how far recovery has come, once in a while.
    pub(crate) fn report_progress(&self, reported_at: &mut Nanos) {
        let now = self.clock.now();
        if now.saturating_sub(*reported_at) >= REPORT_INTERVAL {
            *reported_at = now;
            let (done, of) = self.shared.lock().status().recovered;
            self.shared.emit(Event::Recovering { device: self.shared.number, done, of });
        }
    }

    /// Reads what a cluster holds: its summary, or its records one by one when it has none. `None`
    /// when that cannot be settled for good: the cluster must be given up.
    async fn cluster_entries(
        &self,
        cluster: ClusterId,
        incarnation: u64,
        extent: Extent,
    ) -> Option<Contents> {
        if let Some(contents) = self.read_contents(cluster, incarnation, extent).await {
            return Some(contents);
        }
        let bytes = self.read_with_retries(extent).await?;
        let areas = self.areas();
        let secret = &self.shared.secret;
        let entries = walk(secret, areas, cluster, incarnation, &bytes);
        let place = |entry: &Entry| (areas.position(cluster, entry.granule), entry.granule);
        let labels = self.labels_in(incarnation, entries.iter().map(place), &bytes);
        let version = self.shared.options.labels.as_deref().map(reading);
        let borne = version.zip(labels.as_deref());
        let borne = borne.map(|(version, labels)| SummaryLabels { version, labels });
        let end =
            entries.last().map_or(0, |last| (last.granule * areas.granule + last.len) as usize);
        let room = bytes.len().saturating_sub(end + summary::summary_len(entries.len()));
        let borne = borne.filter(|borne| borne.labels.len() * summary::LABEL_LEN <= room);
        // From now on the cluster holds just these: a record that was overlooked today (a bad
        // read) must not be found tomorrow, when it may have been purged.
        let summary = summary::encode(secret, cluster, incarnation, &entries, borne);
        let start = (bytes.len() - summary.len()) / BLOCK as usize * BLOCK as usize;
        let mut tail = bytes[start..].to_vec();
        let at = tail.len() - summary.len();
        tail[at..].copy_from_slice(&summary);
        self.write(extent.offset + start as u64, &tail).await?;
        Some(Contents { entries, labels })
    }
}
