//! The contents of a cluster, read from the device: from its summary, or record by record.

use device::{Clock, Device, Extent};

use crate::base::keyed_checksum::Secret;
use crate::base::labels::reading;
use crate::base::limits::ClusterId;
use crate::base::record::{Found, Place, RecordKind};
use crate::base::summary;
use crate::base::summary::{Decoded, Entry};
use crate::core::SUMMARY_READ;
use crate::format::device_layout::Areas;
use crate::shell::volume::Volume;

pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    /// The labels that its records bear; `None` if they have to be read from all records.
    pub(crate) labels: Option<Vec<u64>>,
}

/// Walks the records of a cluster without a summary. Starts at the beginning; each record begins
/// where the previous one ends. Stops at the first that is damaged or of another incarnation.
pub(crate) fn walk(
    secret: &Secret,
    areas: &Areas,
    cluster: ClusterId,
    incarnation: u64,
    bytes: &[u8],
) -> Vec<Entry> {
    let mut entries = Vec::new();
    let (mut granule, mut before) = (0, None);
    while granule < areas.granules_per_cluster() {
        let position = areas.position(cluster, granule);
        let rest = &bytes[(granule * areas.granule) as usize..];
        let Some(found) = Found::decode(secret, Place { position, incarnation }, rest) else {
            break;
        };
        let header = &found.header;
        let meta = header.kind == RecordKind::Meta;
        entries.push(Entry {
            kind: header.kind,
            digest: header.digest,
            sequence: header.sequence,
            granule,
            len: found.len() as u32,
            target: if meta { header.piece_size } else { 0 },
            target_sequence: if meta { header.object_id } else { 0 },
            joins: header.joins(before.as_ref()),
        });
        before = Some(header.clone());
        granule += (found.len() as u32).div_ceil(areas.granule);
    }
    entries
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Reads the summary of a cluster of this incarnation. Returns `None` if there is no readable
    /// one.
    pub(crate) async fn read_summary(
        &self,
        cluster: u32,
        incarnation: u64,
        extent: Extent,
    ) -> Option<Vec<Entry>> {
        let contents = self.read_tail(cluster, incarnation, extent, None).await?;
        Some(contents.entries)
    }

    /// Reads the same, with the labels of the cluster's records if labels are in use and the
    /// summary has them.
    pub(crate) async fn read_contents(
        &self,
        cluster: u32,
        incarnation: u64,
        extent: Extent,
    ) -> Option<Contents> {
        let version = self.shared.options.labels.as_deref().map(reading);
        self.read_tail(cluster, incarnation, extent, version).await
    }

    async fn read_tail(
        &self,
        cluster: u32,
        incarnation: u64,
        extent: Extent,
        version: Option<u64>,
    ) -> Option<Contents> {
        let secret = &self.shared.secret;
        let mut len = u64::from(SUMMARY_READ).min(extent.len);
        loop {
            let tail = self.read(Extent { offset: extent.end() - len, len }).await?;
            let with_labels = version
                .and_then(|version| summary::len_with_labels(cluster, incarnation, version, &tail))
                .map(|needed| needed as u64)
                .filter(|needed| *needed > len && *needed <= extent.len);
            if let Some(needed) = with_labels {
                len = needed;
                continue;
            }
            match summary::decode(secret, cluster, incarnation, &tail) {
                Decoded::Whole(entries) => {
                    let labels = version.and_then(|version| {
                        summary::decode_labels(secret, cluster, incarnation, version, &tail)
                    });
                    return Some(Contents { entries, labels });
                }
                Decoded::Absent => return None,
                Decoded::Needs(needed) if needed as u64 > extent.len => return None,
                Decoded::Needs(needed) => len = needed as u64,
            }
        }
    }

    /// Collects the labels of the records at these positions and granules of a cluster with content
    /// `bytes`. Returns `None` if a record is damaged or labels are not in use.
    pub(crate) fn labels_in(
        &self,
        incarnation: u64,
        records: impl Iterator<Item = (u32, u32)>,
        bytes: &[u8],
    ) -> Option<Vec<u64>> {
        let labels = self.shared.options.labels.as_deref()?;
        let granule_bytes = u64::from(self.areas().granule);
        let mut all = Vec::new();
        for (position, granule) in records {
            let at = u64::from(granule) * granule_bytes;
            let record = bytes.get(usize::try_from(at).ok()?..)?;
            let found =
                Found::decode(&self.shared.secret, Place { position, incarnation }, record)?;
            let (key, meta) = (&record[found.key.clone()], &record[found.meta.clone()]);
            if found.header.kind != RecordKind::Piece {
                self.shared.digester.labels(labels, key, meta, &mut all);
            }
        }
        all.sort_unstable();
        all.dedup();
        Some(all)
    }
}
