//! A cache filled long ago, as a formula. The contents of each cluster of the layout `cluster` are
//! computed from its number, including headers, checksums and summary, so that 100 million objects
//! need neither a device of a terabyte nor the time to store them. For benchmarks; not part of the
//! interface.
//!
//! Guarantees: the bytes are those that the engine would have written if these objects had been
//! stored one after another since the cache was first opened, at [`STORED_AT`].

mod device;

use std::ops::Range;

use ::device::{Device, Extent};
use bytes::Bytes;

use crate::base::digest::Digester;
use crate::base::key::{Key, Locality};
use crate::base::keyed_checksum::Secret;
use crate::base::record::{HEADER_LEN, Header, Place, Record, RecordKind};
use crate::base::summary;
use crate::base::summary::Entry;
use crate::config::options::Options;
use crate::core::cluster_policy;
use crate::format::checkpoint::Checkpoint;
use crate::format::device_layout::Areas;
use crate::shell::create::{FormatError, write_raw};
use crate::shell::superblocks::read_superblocks;
use crate::space::restored_tables::SpaceTables;

pub use self::device::ComputedDevice;

/// Size of every record in bytes: body, metadata, key and the engine's overhead.
pub const RECORD_LEN: usize = 12 << 10;
/// The metadata of every object.
pub const META: &[u8] = &[0x6d; 200];
/// Time at which the objects were stored, in unix seconds.
pub const STORED_AT: u32 = 1_700_000_000;

/// The computed clusters of a cache. See the module documentation.
pub struct ComputedClusters {
    areas: Areas,
    secret: Secret,
    digester: Digester,
    objects: u64,
}

impl ComputedClusters {
    /// Turns the empty cache on `device`, just created by [`crate::format`] with the layout
    /// `cluster`, into one that holds `objects` objects and whose process was killed. Writes only
    /// the superblocks and the checkpoint.
    ///
    /// # Errors
    /// If the device cannot be written, or is too small for that many objects.
    pub async fn fill<D: Device>(
        device: &D,
        objects: u64,
    ) -> Result<ComputedClusters, FormatError> {
        let unusable = |error: &dyn std::fmt::Display| FormatError::Unwritable(error.to_string());
        let chosen = read_superblocks(device).await;
        let mut superblock = chosen.map_err(|error| unusable(&error))?.superblock;
        let areas = superblock.areas.clone();
        let computed = ComputedClusters {
            digester: Digester::new(&superblock.secret.digest_key()),
            secret: superblock.secret.clone(),
            areas,
            objects,
        };
        let areas = &computed.areas;
        let clusters = objects.div_ceil(computed.per_cluster());
        // As in a running cache, some clusters are free.
        if clusters + 16 > u64::from(areas.clusters) {
            let needs = (clusters + 16) * u64::from(areas.cluster_size);
            return Err(unusable(&format!("{objects} objects need {needs} bytes of clusters")));
        }
        let policy = cluster_policy(&Options::default(), areas.clusters);
        let mut tables = SpaceTables::empty(areas, None, policy);
        if let SpaceTables::Clusters(table) = &mut tables {
            for cluster in 0..clusters as u32 {
                table.replay_open(cluster, incarnation(cluster), 0);
                computed.numbers(cluster).for_each(|_| table.add_record(cluster));
                table.written(cluster);
            }
        }
        let mut space = Vec::new();
        tables.encode(&mut space);
        let full = Checkpoint::of_space(4, 1, space);
        let at = areas.checkpoints[full.slot()].offset;
        write_raw(device, at, &full.encode(&computed.secret)).await?;
        superblock.generation = 2;
        for offset in superblock.places() {
            write_raw(device, offset, &superblock.encode()).await?;
        }
        Ok(computed)
    }

    /// Returns the number of records in a full cluster.
    fn per_cluster(&self) -> u64 {
        let entry = summary::summary_len(1) - summary::summary_len(0);
        let room = self.areas.cluster_size as usize - summary::summary_len(0);
        (room / (RECORD_LEN + entry)) as u64
    }

    /// Returns the numbers of the objects in a cluster.
    fn numbers(&self, cluster: u32) -> Range<u64> {
        let first = u64::from(cluster) * self.per_cluster();
        first.min(self.objects)..(first + self.per_cluster()).min(self.objects)
    }

    /// Returns the key of an object.
    pub fn key(&self, number: u64) -> Key {
        let locality = Locality { site: number / 1000, group: number / 100 };
        let bytes = format!("f http://site.example/{number:016}");
        Key::new(bytes.into(), locality).expect("a short key")
    }

    /// Returns the body of an object.
    pub fn body(&self, number: u64) -> Bytes {
        let len = RECORD_LEN - HEADER_LEN - self.key(number).as_bytes().len() - META.len() - 8;
        let mut body = vec![0; len];
        for (at, word) in (0..).zip(body.chunks_mut(8)) {
            let bytes = (number << 20 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        body.into()
    }

    /// Returns the number and the extent of the filled cluster at `offset`.
    pub fn cluster_at(&self, offset: u64) -> Option<(u32, Extent)> {
        let within = offset.checked_sub(self.areas.clusters_at)?;
        let cluster = u32::try_from(within / u64::from(self.areas.cluster_size)).ok()?;
        let filled = cluster < self.areas.clusters && !self.numbers(cluster).is_empty();
        filled.then(|| (cluster, self.areas.cluster(cluster)))
    }

    /// Fills `into` with the contents of a cluster from byte `from` on.
    pub fn read(&self, cluster: u32, from: usize, into: &mut [u8]) {
        into.fill(0);
        let numbers = self.numbers(cluster);
        let wanted = from..from + into.len();
        let first = (wanted.start / RECORD_LEN) as u64;
        let end = wanted.end.div_ceil(RECORD_LEN) as u64;
        let mut bytes = vec![0; RECORD_LEN];
        for at in first..end.min(numbers.end - numbers.start) {
            let place = Place {
                position: self.areas.position(cluster, self.granule(at)),
                incarnation: incarnation(cluster),
            };
            self.record(numbers.start + at).write_to(&self.secret, place, &mut bytes);
            copy(&bytes, at as usize * RECORD_LEN, &wanted, into);
        }
        let summary_at = self.areas.cluster_size as usize - summary::summary_len(numbers.count());
        if wanted.end > summary_at {
            copy(&self.summary(cluster), summary_at, &wanted, into);
        }
    }

    /// Returns the offset of record number `at` of a cluster from its start, in granules.
    fn granule(&self, at: u64) -> u32 {
        (at * RECORD_LEN as u64 / u64::from(self.areas.granule)) as u32
    }

    fn record(&self, number: u64) -> Record {
        let (key, body) = (self.key(number), self.body(number));
        let header = Header {
            kind: RecordKind::Object,
            html: false,
            digest: self.digester.key(key.as_bytes()),
            sequence: sequence(number),
            object_id: sequence(number) - 1,
            object_len: body.len() as u64,
            piece_size: 0,
            stored_at: STORED_AT,
            site: key.locality().site,
            group: key.locality().group,
            references: 1,
            stamp: 0,
        };
        Record::new(&self.secret, header, key.as_bytes().clone(), Bytes::from_static(META), body)
    }

    fn summary(&self, cluster: u32) -> Vec<u8> {
        let entries: Vec<Entry> = (0..)
            .zip(self.numbers(cluster))
            .map(|(at, number)| Entry {
                kind: RecordKind::Object,
                digest: self.digester.key(self.key(number).as_bytes()),
                sequence: sequence(number),
                granule: self.granule(at),
                len: RECORD_LEN as u32,
                target: 0,
                target_sequence: 0,
                joins: at > 0 && !number.is_multiple_of(100),
            })
            .collect();
        summary::encode(&self.secret, cluster, incarnation(cluster), &entries, None)
    }
}

/// Copies the part of `bytes`, which lie at `at`, that is `wanted` to its position in `into`.
fn copy(bytes: &[u8], at: usize, wanted: &Range<usize>, into: &mut [u8]) {
    let (from, to) = (wanted.start.max(at), wanted.end.min(at + bytes.len()));
    if from < to {
        into[from - wanted.start..to - wanted.start].copy_from_slice(&bytes[from - at..to - at]);
    }
}

/// Returns the sequence number of an object. Numbers are those of the second generation, because
/// formatting is the first (docs/reference/format.md). Each object takes two: the first names its
/// version.
fn sequence(number: u64) -> u64 {
    (2 << 40) + 2 * (number + 1)
}

fn incarnation(cluster: u32) -> u64 {
    (2 << 32) + u64::from(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::base::record::Found;

    #[test]
    fn what_is_computed_is_what_the_engine_reads() {
        let areas = Areas::new(64 << 20, 256 << 10, 1 << 20, None).unwrap();
        let secret = Secret::new([5; 32]);
        let digester = Digester::new(&secret.digest_key());
        let computed = ComputedClusters { areas, secret, digester, objects: 50 };
        for cluster in 0..3 {
            let mut bytes = vec![1; 256 << 10];
            computed.read(cluster, 0, &mut bytes);
            let decoded = summary::decode(&computed.secret, cluster, incarnation(cluster), &bytes);
            let summary::Decoded::Whole(entries) = decoded else { panic!("{decoded:?}") };
            let numbers = computed.numbers(cluster);
            assert_eq!(entries.len() as u64, numbers.end - numbers.start);
            for (number, entry) in numbers.zip(entries) {
                let position = computed.areas.position(cluster, entry.granule);
                let place = Place { position, incarnation: incarnation(cluster) };
                let record = &bytes[entry.granule as usize * computed.areas.granule as usize..];
                let found = Found::decode(&computed.secret, place, record).unwrap();
                assert_eq!(record[found.key.clone()], computed.key(number).as_bytes()[..]);
                assert_eq!(record[found.body.clone()], computed.body(number)[..]);
                assert!(found.verify_body(&computed.secret, record));
            }
            // A partial read equals the same part of the whole.
            let mut part = vec![1; 20_000];
            computed.read(cluster, 9_000, &mut part);
            assert_eq!(part, bytes[9_000..29_000]);
        }
        let last = computed.numbers(2);
        assert_eq!((last.end, computed.numbers(3).count()), (50, 0));
    }
}
