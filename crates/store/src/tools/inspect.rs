//! Inspects a cache from outside, also while it is in use: writes nothing and takes no lock.
//!
//! A cache in use changes while it is read. The report is then slightly outdated, and a record that
//! is being overwritten may appear damaged.

mod slots;

use bytes::Bytes;
use device::{Device, Extent};

use crate::base::digest::Digester;
use crate::base::record::{Found, Place, RecordKind};
use crate::base::summary;
use crate::base::summary::{Decoded, Entry};
use crate::config::layout_name::LayoutName;
use crate::config::options::Options;
use crate::core::cluster_policy;
use crate::format::device_layout::Areas;
use crate::format::superblock::{Condition, SUPERBLOCK_LEN, Superblock};
use crate::layout::LayoutKind;
use crate::shell::cluster_contents::walk;
use crate::shell::reader::Reader;
use crate::shell::superblocks::{Chosen, OpenError, read_superblocks};
use crate::space::cluster_table::{ClusterTable, State};
use crate::space::restored_tables::{SpaceTables, Tables, restore_tables};

/// The reason why a cache cannot be inspected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// The journal cannot be read.
    #[error("the journal cannot be read")]
    Unreadable,
    /// The checkpoints or the journal are damaged, in this way.
    #[error("{0}")]
    Damaged(String),
    /// This layout has slots, no clusters.
    #[error("the layout {0} has slots, no clusters")]
    NoClusters(LayoutName),
}

/// The contents of the superblocks.
#[derive(Clone, Debug)]
pub struct SuperblockReport {
    /// Identity of the cache.
    pub uuid: [u8; 16],
    /// Number of times the cache was opened.
    pub generation: u64,
    /// The condition in which it was left.
    pub condition: Condition,
    /// Time of creation, in unix seconds.
    pub created_at: u64,
    /// Expected mean size of an object, in bytes.
    pub mean_object: u32,
    /// True for each copy that is intact.
    pub copies: [bool; 2],
    /// Size of a cluster, in bytes.
    pub cluster_size: u32,
    /// Number of clusters.
    pub clusters: u32,
    /// Size of a granule, in bytes: records start at multiples of it.
    pub granule: u32,
    /// The layout of the cache.
    pub layout: LayoutName,
    /// The layout's own parameters and their values, in slots or runs.
    pub layout_parameters: Vec<(&'static str, u32)>,
    /// Number of slots in the layouts that have them, else 0. A slot is a granule.
    pub slots: u32,
    /// Name and extent of each area, in device order.
    pub areas: Vec<(&'static str, Extent)>,
}

/// The state of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// Number of the cluster.
    pub number: u32,
    /// "free", "in use" or "bad".
    pub state: &'static str,
    /// Incarnation, which counts the openings of clusters.
    pub incarnation: u64,
    /// References, halved from time to time. In a cache that prefers bytes, the number of 64ths of
    /// the cluster's bytes that were requested.
    pub references: u16,
    /// Time of the last access as of the last checkpoint, in unix seconds.
    pub last_access: u32,
    /// Number of dead records.
    pub dead_records: u32,
}

/// A stored object.
#[derive(Clone, Debug)]
pub struct ObjectReport {
    /// Key of the object.
    pub key: Bytes,
    /// Metadata of the object; the newest ones if they were replaced.
    pub meta: Bytes,
    /// Size of the body, in bytes.
    pub len: u64,
    /// Number of pieces of the body; 0 if it is in the record itself.
    pub pieces: u32,
    /// Byte offset of the object's record on the device.
    pub offset: u64,
    /// Size of the record, in bytes.
    pub record_len: u64,
    /// Number of the object's cluster, in the layout `cluster`.
    pub cluster: Option<u32>,
    /// Number of runs that the record lies in.
    pub runs: usize,
    /// Sequence number of the record.
    pub sequence: u64,
    /// The group that the object was stored with.
    pub group: u64,
    /// Time at which the object was stored, in unix seconds.
    pub stored_at: u64,
    /// True if the record and its body are intact.
    pub whole: bool,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Clusters in use.
    pub clusters: u32,
    /// Clusters that could not be read.
    pub unreadable_clusters: u32,
    /// Bytes of slots that could not be read.
    pub unreadable_bytes: u64,
    /// Live, intact records.
    pub records: u64,
    /// Size of those records, in bytes.
    pub bytes: u64,
    /// Dead records; in slots, those not overwritten yet.
    pub dead: u64,
    /// Records in several runs.
    pub split: u64,
    /// Damaged records: byte offset on the device, and the problem.
    pub damaged: Vec<(u64, &'static str)>,
}

/// The occupancy of a space of slots at its orderly stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Number of records, including pieces of large objects and replaced metadata.
    pub records: u64,
    /// Number of slots that they take.
    pub used: u64,
}

/// A cache opened for inspection only.
pub struct Inspector<'a, D: Device> {
    reader: Reader<'a, D>,
    superblock: Superblock,
    copies: [bool; 2],
}

impl<'a, D: Device> Inspector<'a, D> {
    /// Reads the superblocks.
    ///
    /// # Errors
    /// If the device holds no cache of ours, one of another version, or one with both copies
    /// damaged.
    pub async fn open(device: &'a D) -> Result<Inspector<'a, D>, OpenError> {
        let reader = Reader { device };
        let Chosen { superblock, whole: copies, .. } = read_superblocks(device).await?;
        Ok(Inspector { reader, superblock, copies })
    }

    /// Returns the contents of the superblocks.
    pub fn superblock(&self) -> SuperblockReport {
        let areas = &self.superblock.areas;
        let layout = self.superblock.layout;
        let slots = layout.map_or(0, |_| areas.slots());
        let clusters = Extent {
            offset: areas.clusters_at,
            len: u64::from(areas.clusters) * u64::from(areas.cluster_size),
        };
        let [first, second] = self.superblock.places();
        let superblock = |offset| Extent { offset, len: SUPERBLOCK_LEN as u64 };
        let mut named = vec![
            ("superblock A", superblock(first)),
            ("superblock B", superblock(second)),
            ("journal", areas.journal),
            ("checkpoint A", areas.checkpoints[0]),
            ("checkpoint B", areas.checkpoints[1]),
            ("index dump", areas.index_dump),
            ("purge log", areas.purge_log),
            (if slots > 0 { "slots" } else { "clusters" }, clusters),
        ];
        named.sort_by_key(|(_, extent)| extent.offset);
        SuperblockReport {
            uuid: self.superblock.uuid,
            generation: self.superblock.generation,
            condition: self.superblock.condition,
            created_at: self.superblock.created_at,
            mean_object: self.superblock.mean_object,
            copies: self.copies,
            cluster_size: areas.cluster_size,
            clusters: areas.clusters,
            granule: areas.granule,
            layout: LayoutName::of(layout),
            layout_parameters: match layout {
                Some(LayoutKind::Stream { runs_max }) => vec![("runs_max", runs_max)],
                Some(LayoutKind::Buddy { threshold, region }) => {
                    vec![("threshold", threshold), ("region", region)]
                }
                None | Some(LayoutKind::Unified) => Vec::new(),
            },
            slots,
            areas: named,
        }
    }

    fn areas(&self) -> &Areas {
        &self.superblock.areas
    }

    async fn tables(&self) -> Result<Tables, InspectError> {
        let secret = &self.superblock.secret;
        let areas = self.areas();
        let checkpoints = [
            self.reader.read_checkpoint(secret, areas.checkpoints[0]).await,
            self.reader.read_checkpoint(secret, areas.checkpoints[1]).await,
        ];
        let journal = self.reader.read_steps(areas.journal).await;
        let journal = journal.ok_or(InspectError::Unreadable)?;
        let policy = cluster_policy(&Options::default(), areas.clusters);
        restore_tables(&self.superblock, policy, checkpoints, &journal, 0)
            .map_err(InspectError::Damaged)
    }

    async fn table(&self) -> Result<ClusterTable, InspectError> {
        match self.tables().await?.space {
            SpaceTables::Clusters(table) => Ok(table),
            SpaceTables::Slots(_) => {
                Err(InspectError::NoClusters(LayoutName::of(self.superblock.layout)))
            }
        }
    }

    /// Returns the state of every cluster.
    ///
    /// # Errors
    /// If the checkpoints or the journal are damaged, or the layout has no clusters.
    pub async fn clusters(&self) -> Result<Vec<ClusterReport>, InspectError> {
        let table = self.table().await?;
        let report = |number| ClusterReport {
            number,
            state: match table.state(number) {
                State::Bad => "bad",
                state if state.in_use() => "in use",
                _ => "free",
            },
            incarnation: table.incarnation(number),
            references: table.references(number),
            last_access: table.last_access(number),
            dead_records: table.dead_records(number).count() as u32,
        };
        Ok((0..table.clusters()).map(report).collect())
    }

    /// Returns the object stored under exactly `key`. Reads clusters until it is found, or all
    /// slots.
    ///
    /// # Errors
    /// If the checkpoints or the journal are damaged.
    pub async fn find(&self, key: &[u8]) -> Result<Option<ObjectReport>, InspectError> {
        let table = match self.tables().await?.space {
            SpaceTables::Clusters(table) => table,
            SpaceTables::Slots(_) => return self.find_in_slots(key).await,
        };
        let digest = Digester::new(&self.superblock.secret.digest_key()).key(key);
        let mut meta: Option<(u64, Bytes)> = None;
        for cluster in newest_first(&table) {
            for entry in self.entries(&table, cluster).await.unwrap_or_default().iter().rev() {
                if entry.digest != digest || table.is_dead(cluster, entry.granule) {
                    continue;
                }
                let Some((found, bytes)) = self.record(&table, cluster, entry).await else {
                    continue;
                };
                match entry.kind {
                    RecordKind::Meta if meta.is_none() => {
                        meta = Some((found.header.object_id, bytes.slice(found.meta)));
                    }
                    RecordKind::Object if bytes[found.key.clone()] == *key => {
                        let position = self.areas().position(cluster, entry.granule);
                        let (cluster, runs) = (Some(cluster), 1);
                        let at = RecordExtents { position, cluster, runs };
                        return Ok(Some(self.object(&at, &found, &bytes, meta)));
                    }
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    fn object(
        &self,
        at: &RecordExtents,
        found: &Found,
        bytes: &Bytes,
        meta: Option<(u64, Bytes)>,
    ) -> ObjectReport {
        let header = &found.header;
        let replaced = meta.filter(|(target, _)| *target == header.sequence);
        let pieces = match header.piece_size {
            0 => 0,
            size => header.object_len.div_ceil(u64::from(size)) as u32,
        };
        ObjectReport {
            key: bytes.slice(found.key.clone()),
            meta: replaced.map_or_else(|| bytes.slice(found.meta.clone()), |(_, meta)| meta),
            len: header.object_len,
            pieces,
            offset: self.areas().offset(at.position),
            record_len: found.len() as u64,
            cluster: at.cluster,
            runs: at.runs,
            sequence: header.sequence,
            group: header.group,
            stored_at: u64::from(header.stored_at),
            whole: found.verify_body(&self.superblock.secret, bytes),
        }
    }

    /// Reads every record and checks every byte. Calls `progress` with the number of clusters, or
    /// MiB of slots, done and in all.
    ///
    /// # Errors
    /// If the checkpoints or the journal are damaged.
    pub async fn verify(
        &self,
        mut progress: impl FnMut(u32, u32),
    ) -> Result<VerifyReport, InspectError> {
        let table = match self.tables().await?.space {
            SpaceTables::Clusters(table) => table,
            SpaceTables::Slots(_) => return self.verify_slots(progress).await,
        };
        let mut report = VerifyReport::default();
        let clusters = newest_first(&table);
        let of = clusters.len() as u32;
        for (done, cluster) in clusters.into_iter().enumerate() {
            progress(done as u32, of);
            report.clusters += 1;
            self.verify_cluster(&table, cluster, &mut report).await;
        }
        progress(of, of);
        Ok(report)
    }

    async fn verify_cluster(&self, table: &ClusterTable, cluster: u32, report: &mut VerifyReport) {
        let extent = self.areas().cluster(cluster);
        let Some(bytes) = self.reader.read(extent).await else {
            report.unreadable_clusters += 1;
            return;
        };
        let secret = &self.superblock.secret;
        let incarnation = table.incarnation(cluster);
        for entry in self.entries_in(table, cluster, &bytes) {
            if table.is_dead(cluster, entry.granule) {
                report.dead += 1;
                continue;
            }
            let start = (entry.granule * self.areas().granule) as usize;
            let rest = bytes.get(start..).unwrap_or_default();
            let place =
                Place { position: self.areas().position(cluster, entry.granule), incarnation };
            let problem = match Found::decode(secret, place, rest) {
                None => Some("the record's head"),
                Some(found) if found.header.digest != entry.digest => Some("the record's digest"),
                Some(found) if !found.verify_body(secret, rest) => Some("the body"),
                Some(_) => None,
            };
            match problem {
                Some(problem) => report.damaged.push((extent.offset + start as u64, problem)),
                None => {
                    report.records += 1;
                    report.bytes += u64::from(entry.len);
                }
            }
        }
    }

    async fn record(
        &self,
        table: &ClusterTable,
        cluster: u32,
        entry: &Entry,
    ) -> Option<(Found, Bytes)> {
        let position = self.areas().position(cluster, entry.granule);
        let extent = Extent { offset: self.areas().offset(position), len: u64::from(entry.len) };
        let bytes = self.reader.read(extent).await?;
        let place = Place { position, incarnation: table.incarnation(cluster) };
        let found = Found::decode(&self.superblock.secret, place, &bytes)?;
        Some((found, bytes))
    }

    async fn entries(&self, table: &ClusterTable, cluster: u32) -> Option<Vec<Entry>> {
        let bytes = self.reader.read(self.areas().cluster(cluster)).await?;
        Some(self.entries_in(table, cluster, &bytes))
    }

    fn entries_in(&self, table: &ClusterTable, cluster: u32, bytes: &Bytes) -> Vec<Entry> {
        let (secret, incarnation) = (&self.superblock.secret, table.incarnation(cluster));
        match summary::decode(secret, cluster, incarnation, bytes) {
            Decoded::Whole(entries) => entries,
            _ => walk(secret, self.areas(), cluster, incarnation, bytes),
        }
    }
}

struct RecordExtents {
    position: u32,
    cluster: Option<u32>,
    runs: usize,
}

/// Returns the clusters in use, the last opened first.
fn newest_first(table: &ClusterTable) -> Vec<u32> {
    let mut clusters: Vec<u32> =
        (0..table.clusters()).filter(|cluster| table.state(*cluster).in_use()).collect();
    clusters.sort_by_key(|cluster| std::cmp::Reverse(table.incarnation(*cluster)));
    clusters
}
