//! Recovery: rebuilds the index from the device.
//!
//! The cluster table comes from the newest intact checkpoint and the journal after it. The index
//! comes from the dump of an orderly stop, or else from the summaries of all clusters in use. The
//! newest cluster is read first, so that of several records of a key the newest is met first and
//! the others are dead. A cluster that was open when the process died has no summary; its records
//! are walked one by one.
//!
//! Recovery may continue while the cache serves requests. Changes since the start take precedence
//! over anything found.

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

/// Number of clusters whose summaries are read concurrently.
const BATCH: usize = 32;
/// Interval between progress reports, in nanoseconds.
const REPORT_INTERVAL: Nanos = 2_000_000_000;

/// A scan of either kind of space.
pub(crate) enum Scanning {
    Clusters(Scan),
    Slots(SlotScan),
}

/// The remaining work of a scan of clusters.
pub(crate) struct Scan {
    clusters: ClusterScan,
    reported_at: Nanos,
}

impl Scan {
    /// Returns a scan that has read nothing yet.
    pub(crate) fn new(now: Nanos) -> Scan {
        Scan { clusters: ClusterScan::new(), reported_at: now }
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Continues `scan` until everything is read, the volume goes offline or `deadline` passes.
    /// Returns the remaining scan in the last case.
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

    /// Continues a scan of clusters like [`Volume::recover`].
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
            // Reads run concurrently; results are processed in order, newest first.
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

    /// Reports the progress of recovery at intervals.
    pub(crate) fn report_progress(&self, reported_at: &mut Nanos) {
        let now = self.clock.now();
        if now.saturating_sub(*reported_at) >= REPORT_INTERVAL {
            *reported_at = now;
            let (done, of) = self.shared.lock().status().recovered;
            self.shared.emit(Event::Recovering { device: self.shared.number, done, of });
        }
    }

    /// Reads the contents of a cluster: its summary, or its records one by one if it has none.
    /// Returns `None` if the result could change later: the cluster must be given up.
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
        // From now on the cluster holds exactly these records. A record that was missed now (a bad
        // read) must not be found later, when it may have been purged.
        let summary = summary::encode(secret, cluster, incarnation, &entries, borne);
        let start = (bytes.len() - summary.len()) / BLOCK as usize * BLOCK as usize;
        let mut tail = bytes[start..].to_vec();
        let at = tail.len() - summary.len();
        tail[at..].copy_from_slice(&summary);
        self.write(extent.offset + start as u64, &tail).await?;
        Some(Contents { entries, labels })
    }
}
