//! Tests that append records, write them early or with their cluster, and read them again.

use bytes::Bytes;

use super::*;
use crate::base::digest::Digest;
use crate::base::record::{Found, RecordKind};
use crate::base::summary::Decoded;
use crate::test_seed::seeds;

const CLUSTER: u32 = 16 << 10;
const CLUSTERS: u32 = 32;

/// Returns a record of `len` bytes.
fn record(secret: &Secret, number: u64, len: usize) -> Record {
    let header = Header {
        kind: RecordKind::Object,
        html: false,
        digest: Digest::from_halves(number, number),
        sequence: number,
        object_id: number,
        object_len: 0,
        piece_size: 0,
        stored_at: 0,
        site: number / 3,
        group: number / 3,
        references: 0,
        stamp: 0,
    };
    let new = |key: usize| {
        let key = Bytes::from(vec![number as u8; key]);
        Record::new(secret, header.clone(), key, Bytes::new(), Bytes::new())
    };
    new(1 + len - new(1).len())
}

fn entry(record: &Record) -> Entry {
    Entry {
        kind: record.header.kind,
        digest: record.header.digest,
        sequence: record.header.sequence,
        granule: 0,
        len: 0,
        target: 0,
        target_sequence: 0,
        joins: false,
    }
}

/// The clusters of a device, from the first one on.
struct Device {
    at: u64,
    bytes: Vec<u8>,
}

impl Device {
    /// Performs the next write, if one is due.
    fn write(&mut self, appender: &mut Appender, areas: &Areas, secret: &Secret) {
        if appender.ready(Some(Nanos::MAX)).is_none() {
            return;
        }
        let Some(job) = appender.begin_write(areas, secret, JournalPosition::MAX) else { return };
        let requests = job.build(areas, secret);
        for (offset, buf) in &requests.writes {
            assert!(offset.is_multiple_of(u64::from(WRITE_ALIGN)));
            self.bytes[(offset - self.at) as usize..][..buf.len()].copy_from_slice(buf);
        }
        appender.end_write(areas, &job, requests);
    }
}

#[test]
fn pieces_and_heads_of_large_objects_fill_a_cluster() {
    for (cluster, granule) in (14..=22).flat_map(|c| (6..=c - 5).map(move |g| (1 << c, 1 << g))) {
        let areas = Areas {
            cluster_size: cluster,
            granule,
            ..Areas::new(1 << 30, cluster, 1 << 14, None).expect("room")
        };
        let piece = Appender::piece_size(&areas);
        assert!(piece <= PIECE_MAX, "{cluster}, {granule}");
        let record = (record_len(0, 0, piece as usize) as u32).next_multiple_of(granule);
        let count = cluster.div_ceil(PIECE_MAX);
        let taken = count * record + summary_len(count as usize + 2) as u32;
        if granule > 1024 {
            // Unrealistic granules: the space left is less than a granule per piece.
            assert!(taken - count * granule < cluster, "{cluster}, {granule}");
            continue;
        }
        let left = cluster - taken;
        assert!(left >= 2 * 1024, "{cluster}, {granule}: no room for heads");
        assert!(left <= BESIDE_PIECES + count * granule, "{cluster}, {granule}: {left} left");
    }
}

#[test]
fn appended_records_reach_the_device_in_any_order_of_writes() {
    for seed in seeds("appender::what_was_appended", 100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let secret = Secret::new([5; 32]);
        let areas = Areas::new(16 << 20, CLUSTER, 1 << 14, None).expect("room");
        let mut device =
            Device { at: areas.cluster(0).offset, bytes: vec![0; (CLUSTERS * CLUSTER) as usize] };
        let labelled = random.bool();
        let mut appender = Appender::new(labelled.then_some(4));
        let (mut number, mut placed, mut told) = (0, Vec::new(), 0);
        for cluster in 0..CLUSTERS {
            appender.open(cluster, u64::from(cluster) + 1, 0);
            // With about 85 small records the summary begins just before a block.
            let most = if random.bool() { random.usize(128..=136) } else { 5_000 };
            while let Some(room) = appender.room(&areas).filter(|room| *room > 200) {
                number += 1;
                // The last record leaves less than a granule, or nothing.
                let len = match room < 2 * most {
                    true => room - random.usize(..64),
                    false => random.usize(120..=most),
                };
                let record = Arc::new(record(&secret, number, len));
                let count = if labelled { random.u64(..8) } else { 0 };
                let labels: Vec<u64> = (0..count).map(|n| (number / 2) * 8 + n).collect();
                let entry = entry(&record);
                let position = appender.append(&areas, Arc::clone(&record), entry, &labels, 0);
                placed.push((cluster, position, record, labels));
                if random.u8(..3) == 0 {
                    device.write(&mut appender, &areas, &secret);
                }
            }
            appender.seal();
            if random.bool() {
                device.write(&mut appender, &areas, &secret);
            }
        }
        while appender.busy() {
            device.write(&mut appender, &areas, &secret);
        }
        assert_eq!(appender.unwritten_bytes(), 0);
        for cluster in 0..CLUSTERS {
            let bytes = &device.bytes[(cluster * CLUSTER) as usize..][..CLUSTER as usize];
            let incarnation = u64::from(cluster) + 1;
            let Decoded::Whole(entries) = summary::decode(&secret, cluster, incarnation, bytes)
            else {
                panic!("seed {seed}: cluster {cluster} has no summary");
            };
            let records = placed.iter().filter(|(home, ..)| *home == cluster);
            let mut labels: Vec<u64> = records.clone().flat_map(|(.., l)| l).copied().collect();
            labels.sort_unstable();
            labels.dedup();
            let found = summary::decode_labels(&secret, cluster, incarnation, 4, bytes);
            told += u32::from(found.is_some());
            assert!(found.is_none_or(|found| labelled && found == labels), "seed {seed}");
            assert_eq!(entries.len(), records.clone().count(), "seed {seed}");
            for (entry, (_, position, record, _)) in entries.iter().zip(records) {
                assert_eq!(*position, areas.position(cluster, entry.granule), "seed {seed}");
                let place = Place { position: *position, incarnation };
                let found = &bytes[(entry.granule * areas.granule) as usize..];
                let found = Found::decode(&secret, place, found).map(|found| found.header);
                assert_eq!(found.as_ref(), Some(&record.header), "seed {seed}");
            }
        }
        // Few clusters with records of a few hundred bytes have space for labels.
        assert!(!labelled || told > 0, "no cluster has labels, seed {seed}");
    }
}
