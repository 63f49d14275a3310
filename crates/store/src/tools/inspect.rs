//! Looking at a cache from outside, also while it is in use: nothing is written, no lock is taken.
//!
//! A cache in use goes on changing while it is read; what is reported is then a little old, and a
//! record that is being overwritten may show as damaged.

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

/// What the superblocks say.
#[derive(Clone, Debug)]
pub struct SuperblockReport {
    /// Identity of the cache.
    pub uuid: [u8; 16],
    /// How often the cache was opened.
    pub generation: u64,
    /// How it was left.
    pub condition: Condition,
    /// Unix seconds of creation.
    pub created_at: u64,
    /// Expected mean object in bytes.
    pub mean_object: u32,
    /// Whether each copy is whole.
    pub copies: [bool; 2],
    /// Bytes of a cluster.
    pub cluster_size: u32,
    /// Number of clusters.
    pub clusters: u32,
    /// Bytes of a granule: records start on multiples of it.
    pub granule: u32,
    /// How objects are laid out.
    pub layout: LayoutName,
    /// The layout's own parameters and their values, in slots or runs.
    pub layout_parameters: Vec<(&'static str, u32)>,
    /// Slots, in the layouts that have them; else 0. A slot is a granule.
    pub slots: u32,
    /// Name and place of each area, in the order of the device.
    pub areas: Vec<(&'static str, Extent)>,
}

/// What a cluster holds.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// Number of the cluster.
    pub number: u32,
    /// "free", "in use" or "bad".
    pub state: &'static str,
    /// Counts the openings of clusters.
    pub incarnation: u64,
    /// References, halved from time to time; of a cache that prefers bytes, 64ths of the cluster's
    /// bytes that were asked for.
    pub references: u16,
    /// Unix seconds of the last access, as of the last checkpoint.
    pub last_access: u32,
    /// Dead records.
    pub dead_records: u32,
}

/// A stored object.
#[derive(Clone, Debug)]
pub struct ObjectReport {
    /// Its key.
    pub key: Bytes,
    /// Its metadata, the replaced ones if there are any.
    pub meta: Bytes,
    /// Bytes of its body.
    pub len: u64,
    /// Pieces that the body is in; 0: in the record itself.
    pub pieces: u32,
    /// Byte offset of its record on the device.
    pub offset: u64,
    /// Bytes of its record.
    pub record_len: u64,
    /// Number of its cluster, in the layout `cluster`.
    pub cluster: Option<u32>,
    /// Runs that its record lies in.
    pub runs: usize,
    /// Its sequence number.
    pub sequence: u64,
    /// The group that it was stored with.
    pub group: u64,
    /// Unix seconds.
    pub stored_at: u64,
    /// The record and its body are whole.
    pub whole: bool,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Clusters in use.
    pub clusters: u32,
    /// Clusters that could not be read.
    pub unreadable_clusters: u32,
    /// Bytes of slots that could not be read.
    pub unreadable_bytes: u64,
    /// Records that are alive and whole.
    pub records: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Dead records; of slots, those that nothing has been written over yet.
    pub dead: u64,
    /// Records in several runs.
    pub split: u64,
    /// Damaged records: byte offset on the device, and what is wrong.
    pub damaged: Vec<(u64, &'static str)>,
}

/// How full a space of slots was at its orderly stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Records, pieces of large objects and replaced metadata included.
    pub records: u64,
    /// Slots that they take.
    pub used: u64,
}

/// A cache, opened for looking only.
pub struct Inspector<'a, D: Device> {
    reader: Reader<'a, D>,
    superblock: Superblock,
    copies: [bool; 2],
}

impl<'a, D: Device> Inspector<'a, D> {
    /// Reads the superblocks.
    ///
    /// # Errors
    /// It is no cache of ours, of another version, or both copies are damaged.
    pub async fn open(device: &'a D) -> Result<Inspector<'a, D>, OpenError> {
        let reader = Reader { device };
        let Chosen { superblock, whole: copies, .. } = read_superblocks(device).await?;
        Ok(Inspector { reader, superblock, copies })
    }

    /// What the superblocks say.
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

    async fn tables(&self) -> Result<Tables, String> {
        let secret = &self.superblock.secret;
        let areas = self.areas();
        let checkpoints = [
            self.reader.read_checkpoint(secret, areas.checkpoints[0]).await,
            self.reader.read_checkpoint(secret, areas.checkpoints[1]).await,
        ];
        let journal = self.reader.read_steps(areas.journal).await;
        let journal = journal.ok_or_else(|| "the journal cannot be read".to_owned())?;
        let policy = cluster_policy(&Options::default(), areas.clusters);
        restore_tables(&self.superblock, policy, checkpoints, &journal, 0)
    }

    async fn table(&self) -> Result<ClusterTable, String> {
        match self.tables().await?.space {
            SpaceTables::Clusters(table) => Ok(table),
            SpaceTables::Slots(_) => {
                let layout = LayoutName::of(self.superblock.layout);
                Err(format!("the layout {layout} has slots, no clusters"))
            }
        }
    }

    /// What every cluster holds.
    ///
    /// # Errors
    /// Checkpoints or journal are damaged, or the layout has no clusters: says so.
    pub async fn clusters(&self) -> Result<Vec<ClusterReport>, String> {
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

    /// The object that is stored under exactly `key`; reads clusters until it is found, or all
    /// slots.
    ///
    /// # Errors
    /// Checkpoints or journal are damaged: says how.
    pub async fn find(&self, key: &[u8]) -> Result<Option<ObjectReport>, String> {
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
                        let at = Lies { position, cluster, runs };
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
        at: &Lies,
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

    /// Reads every record and checks every byte. `progress` is called with clusters, or MiB of
    /// slots, done and in all.
    ///
    /// # Errors
    /// Checkpoints or journal are damaged: says how.
    pub async fn verify(&self, mut progress: impl FnMut(u32, u32)) -> Result<VerifyReport, String> {
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

/// Where an object's record lies.
struct Lies {
    position: u32,
    cluster: Option<u32>,
    runs: usize,
}

/// The clusters in use, the last opened first.
fn newest_first(table: &ClusterTable) -> Vec<u32> {
    let mut clusters: Vec<u32> =
        (0..table.clusters()).filter(|cluster| table.state(*cluster).in_use()).collect();
    clusters.sort_by_key(|cluster| std::cmp::Reverse(table.incarnation(*cluster)));
    clusters
}
