//! Fuzzes the decoders of every structure on the device with arbitrary and mutated bytes. Decoding
//! never panics, never claims more than the bytes can hold, and returns the encoded structure when
//! nothing was changed.
//!
//! Half of the mutated structures get a correct checksum again, because the code behind the
//! checksum must be as robust as the check itself.
//!
//! Runs for two seconds, or for `LARDER_FUZZ_SECONDS`; `LARDER_FUZZ_SEED` or `LARDER_SEED` sets the
//! seed, which is printed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use device::Extent;

use crate::base::digest::{Digest, Digester};
use crate::base::keyed_checksum::Secret;
use crate::base::labels::{Label, Mode, Target};
use crate::base::record::{Found, Header, Place, Record, RecordKind};
use crate::base::summary;
use crate::base::summary::{Decoded, Entry};
use crate::base::wire::{Decoder, Encoder};
use crate::format::checkpoint::Checkpoint;
use crate::format::device_layout::BLOCK;
use crate::format::journal::{Fact, Journal, Replay};
use crate::format::superblock::Superblock;
use crate::format::superblock::tests::sample;
use crate::format::{index_dump, journal};
use crate::index::{Index, IndexKind};
use crate::purge::patterns::PatternPart;
use crate::purge::purges::{Purge, Purges, Scope};
use crate::shell::cluster_contents::walk;
use crate::space::cluster_table::{ClusterTable, Policy};
use crate::space::restored_tables::{SpaceTables, restore_tables};

const PLACE: Place = Place { position: 40, incarnation: 6 };
const CLUSTER: u32 = 5;

/// A structure to decode.
struct Subject {
    /// The intact encoding.
    bytes: Vec<u8>,
    /// Corrects the checksum, as far as the bytes allow.
    seal: fn(&mut [u8]),
    /// Decodes the bytes; the last argument says whether they are unchanged.
    decode: fn(&[u8], bool),
}

fn secret() -> Secret {
    Secret::new([9; 32])
}

fn put(bytes: &mut [u8], at: usize, sum: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

fn superblock(_: &mut fastrand::Rng) -> Subject {
    Subject {
        bytes: sample().encode(),
        seal: |bytes| {
            let sum = xxhash_rust::xxh3::xxh3_64(bytes.get(20..).unwrap_or_default());
            put(bytes, 12, sum);
        },
        decode: |bytes, whole| {
            let decoded = Superblock::decode(bytes);
            assert!(!whole || decoded.is_ok());
            let Ok(superblock) = decoded else { return };
            let areas = superblock.areas;
            let last = areas.position(areas.clusters - 1, areas.granules_per_cluster() - 1);
            assert_eq!(areas.locate(last).0, areas.clusters - 1);
            _ = (areas.cluster(areas.clusters - 1).end(), areas.end(), areas.removed_max());
            _ = areas.grown(1 << 40, 1 << 20);
        },
    }
}

fn entry(random: &mut fastrand::Rng, granule: u32) -> Entry {
    let kinds = [RecordKind::Object, RecordKind::Piece, RecordKind::Meta];
    Entry {
        kind: kinds[random.usize(..3)],
        digest: Digest([random.u8(..); 16]),
        sequence: random.u64(..),
        granule,
        len: random.u32(112..9_000),
        target: random.u32(..),
        target_sequence: random.u64(..),
        joins: random.bool(),
    }
}

fn summaries(random: &mut fastrand::Rng) -> Subject {
    let entries: Vec<Entry> = (0..random.u32(..90)).map(|n| entry(random, n)).collect();
    let labels: Vec<u64> = (0..random.u32(..90)).map(|_| random.u64(..)).collect();
    let borne = random.bool().then_some(summary::SummaryLabels { version: 3, labels: &labels });
    Subject {
        bytes: summary::encode(&secret(), CLUSTER, 7, &entries, borne),
        seal: |bytes| {
            let end = bytes.len().saturating_sub(16);
            let count = bytes.len().checked_sub(52).map_or(0, |at| number(bytes, at) as u32);
            let start = bytes.len().saturating_sub(summary::summary_len(count as usize % 4_096));
            let sum = secret().checksum_at(u64::from(CLUSTER), &bytes[start.min(end)..end]);
            put(bytes, end, sum);
        },
        decode: |bytes, whole| {
            match summary::decode(&secret(), CLUSTER, 7, bytes) {
                Decoded::Whole(entries) => {
                    assert!(summary::summary_len(entries.len()) <= bytes.len());
                }
                Decoded::Needs(len) => assert!(len > bytes.len() && len < 64 << 20),
                Decoded::Absent => assert!(!whole),
            }
            let labels = summary::decode_labels(&secret(), CLUSTER, 7, 3, bytes);
            assert!(labels.is_none_or(|labels| labels.len() * summary::LABEL_LEN <= bytes.len()));
        },
    }
}

fn records(random: &mut fastrand::Rng) -> Subject {
    let mut bytes = |most: usize| Bytes::from(vec![7; random.usize(..most)]);
    let (key, meta, body) = (bytes(300), bytes(900), bytes(140_000));
    let header = Header {
        kind: RecordKind::Object,
        html: random.bool(),
        digest: Digest([random.u8(..); 16]),
        sequence: random.u64(..),
        object_id: random.u64(..),
        object_len: body.len() as u64,
        piece_size: 0,
        stored_at: 1,
        site: random.u64(..),
        group: random.u64(..),
        references: random.u32(..),
        stamp: random.u32(..),
    };
    let record = Record::new(&secret(), header, key, meta, body);
    let mut bytes = vec![0; record.len()];
    record.write_to(&secret(), PLACE, &mut bytes);
    Subject {
        bytes,
        seal: |bytes| {
            let lens = [88, 92, 96].map(|at| number(bytes, at) as u32 as usize);
            let end = 112 + lens[0] + lens[1] + 8 * lens[2].div_ceil(64 << 10);
            let sum = bytes.get(16..end).map(|part| secret().checksum_at(PLACE.bound(), part));
            put(bytes, 8, sum.unwrap_or(0));
        },
        decode: |bytes, whole| {
            let found = Found::decode(&secret(), PLACE, bytes);
            assert!(!whole || found.is_some());
            let Some(found) = found else { return };
            let sound = found.verify_body(&secret(), bytes);
            assert!(sound || !whole);
            assert!(found.key.end <= bytes.len() && found.meta.end <= bytes.len());
            // The bytes of an elided body are not stored.
            assert!(!sound || found.meaningful() <= bytes.len());
        },
    }
}

fn clusters(random: &mut fastrand::Rng) -> Subject {
    let mut cluster = Vec::new();
    let areas = sample().areas;
    for _ in 0..random.u32(1..8) {
        let next = records(random).bytes;
        cluster.extend_from_slice(&next);
        cluster.resize(cluster.len().next_multiple_of(areas.granule as usize), 0);
    }
    cluster.resize(areas.cluster_size as usize, 0);
    Subject {
        bytes: cluster,
        seal: |_| {},
        decode: |bytes, _| {
            let areas = sample().areas;
            let mut cluster = bytes.to_vec();
            cluster.resize(areas.cluster_size as usize, 0);
            let (number, _) = areas.locate(PLACE.position);
            let entries = walk(&secret(), &areas, number, PLACE.incarnation, &cluster);
            assert!(entries.iter().all(|entry| entry.granule < areas.granules_per_cluster()));
        },
    }
}

fn fact(random: &mut fastrand::Rng) -> Fact {
    let (cluster, incarnation) = (random.u32(..1_100), random.u64(1..9));
    match random.u8(..6) {
        5 => Fact::Pattern(pattern(random)),
        4 => Fact::Purged(purge(random)),
        0 => Fact::Opened { cluster, incarnation },
        1 => Fact::Dropped { cluster, incarnation },
        2 => Fact::Dead { cluster, incarnation, granule: random.u32(..1_100) },
        _ => Fact::Removed { digest: Digest([random.u8(..); 16]), sequence: random.u64(..) },
    }
}

fn pattern(random: &mut fastrand::Rng) -> PatternPart {
    let text = vec![b'a'; random.usize(1..60)];
    let parts = PatternPart::all(Digester::new(&secret().digest_key()).pattern(&text), &text);
    parts[random.usize(..parts.len())]
}

fn purge(random: &mut fastrand::Rng) -> Purge {
    let digester = Digester::new(&secret().digest_key());
    let name: Vec<u8> = (0..random.u8(..5)).map(|_| random.u8(b'a'..b'd')).collect();
    let target = match random.u8(..8) {
        0 => Target::Everything,
        1..4 => Target::Prefix(&name),
        4 => Target::Pattern(&name),
        _ => Target::Label(Label { kind: 1, name: &name }),
    };
    let mode = if random.bool() { Mode::Hard } else { Mode::Soft };
    let scope = Scope::of(target, &digester);
    Purge { scope, mode, sequence: random.u64(..), boundary: random.u64(..), at: random.u32(..) }
}

/// Returns a whole journal, as long as its area.
fn journals(random: &mut fastrand::Rng) -> Subject {
    let area = Extent { offset: 0, len: 16 * BLOCK };
    let mut image = vec![0; area.len as usize];
    let mut journal = Journal::new(area, 1);
    for _ in 0..random.u32(..14) {
        (0..random.u32(1..250)).for_each(|_| journal.note(fact(random)));
        while let Some(write) = journal.begin_write(&secret()) {
            let at = write.offset as usize;
            image[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
            journal.end_write(&write);
        }
        if random.bool() {
            let mark = journal.begin_flush();
            journal.end_flush(mark);
        }
    }
    Subject {
        bytes: image,
        seal: |bytes| {
            for block in bytes.chunks_exact_mut(BLOCK as usize) {
                let sum = secret().checksum_at(number(block, 16), &block[16..]);
                put(block, 8, sum);
            }
        },
        decode: |bytes, whole| {
            let replayed = journal::replay(&secret(), bytes, 1, 0);
            assert!(!whole || matches!(replayed, Replay::Facts { .. }));
            restore(bytes);
        },
    }
}

/// Restores the tables from an empty checkpoint and this journal.
fn restore(journal: &[u8]) {
    let areas = sample().areas;
    let mut clusters = Vec::new();
    ClusterTable::new(areas.clusters, areas.cluster_size, Policy::default()).encode(&mut clusters);
    let checkpoint = Checkpoint::of_space(2, 1, clusters);
    let checkpoints = [Some(checkpoint), None];
    let superblock = Superblock { secret: secret(), ..sample() };
    let tables = restore_tables(&superblock, Policy::default(), checkpoints, journal, 5);
    if let Ok(SpaceTables::Clusters(mut table)) = tables.map(|tables| tables.space) {
        _ = table.victim(|_| false);
        _ = table.take_free_run(3, 9);
    }
}

fn checkpoints(random: &mut fastrand::Rng) -> Subject {
    let areas = sample().areas;
    let mut table = ClusterTable::new(areas.clusters, areas.cluster_size, Policy::default());
    let run = table.take_free_run(random.u32(1..50), 7).unwrap();
    for cluster in run {
        (0..random.u32(..9)).for_each(|_| _ = table.mark_dead(cluster, random.u32(..1_000), 600));
    }
    let mut clusters = Vec::new();
    table.encode(&mut clusters);
    let removed = (0..random.u8(..40)).map(|n| (Digest([n; 16]), u64::from(n))).collect();
    let mut table = Purges::new(usize::MAX);
    (0..random.u8(..20)).for_each(|_| table.take_in(&purge(random)));
    let text = vec![b'a'; random.usize(..200)];
    let scope = Scope::of(Target::Pattern(&text), &Digester::new(&secret().digest_key()));
    table.take_in_pattern(scope, &text);
    table.take_in(&Purge { scope, ..purge(random) });
    let mut purges = Vec::new();
    table.encode(&mut Encoder(&mut purges));
    let purges = (purges, table.len() as u32);
    let checkpoint = Checkpoint { removed, purges, ..Checkpoint::of_space(4, 3, clusters) };
    Subject {
        bytes: checkpoint.encode(&secret()),
        seal: |bytes| {
            let (table, removed) = (number(bytes, 32), number(bytes, 40));
            let purges = number(bytes, 4) as u32;
            let end = removed.saturating_mul(24).saturating_add(table).saturating_add(48);
            let end = end.saturating_add(u64::from(purges) * Purges::ENTRY_LEN as u64);
            let end = end.min(bytes.len() as u64) as usize;
            let sum = secret().checksum_at(number(bytes, 16), bytes.get(16..end).unwrap_or(&[]));
            put(bytes, 8, sum);
        },
        decode: |bytes, whole| {
            let len = Checkpoint::encoded_len(bytes);
            let decoded = Checkpoint::decode(&secret(), bytes);
            assert!(!whole || decoded.is_some() && len == Some(bytes.len() as u64));
            let Some(checkpoint) = decoded else { return };
            assert!(checkpoint.space.len() + 24 * checkpoint.removed.len() <= bytes.len());
            let purges =
                Purges::decode(&mut Decoder(&checkpoint.purges.0), checkpoint.purges.1 as usize);
            assert!(!whole || purges.is_some());
            let areas = sample().areas;
            let (count, size) = (areas.clusters, areas.cluster_size);
            let table = ClusterTable::decode(&checkpoint.space, count, size, Policy::default());
            assert!(!whole || table.is_ok());
            let Ok(mut table) = table else { return };
            _ = (table.victim(|_| false), table.one_timer(u32::MAX), table.most_dead());
            _ = table.take_free_run(3, 9);
        },
    }
}

fn index_dumps(random: &mut fastrand::Rng) -> Subject {
    let kind = *random.choice(&IndexKind::ALL).unwrap();
    let mut header = index_dump::Header::new(kind, random.usize(2..400_000)).unwrap();
    header.checksums.iter_mut().for_each(|sum| *sum = random.u64(..));
    Subject {
        bytes: header.encode(&secret()),
        seal: |bytes| {
            let sum = secret().checksum(bytes.get(16..).unwrap_or_default());
            put(bytes, 8, sum);
        },
        decode: |bytes, whole| {
            let header = index_dump::Header::decode(&secret(), bytes);
            assert!(!whole || header.is_some());
            let Some(header) = header else { return };
            assert!(header.checksums.len() * 8 < bytes.len());
            (0..header.checksums.len()).for_each(|step| assert!(header.step(step).len <= 4 << 20));
        },
    }
}

fn buckets(random: &mut fastrand::Rng) -> Subject {
    let kind = *random.choice(&IndexKind::ALL).unwrap();
    let mut bytes = vec![0; random.usize(..40) * Index::bucket_bytes(kind)];
    random.fill(&mut bytes);
    Subject {
        bytes,
        seal: |_| {},
        decode: |bytes, _| {
            for kind in IndexKind::ALL {
                let mut index = Index::with_capacity(kind, 200);
                if index.restore(3, bytes, 1 << 20).is_ok() {
                    assert!(index.len() * 8 <= bytes.len());
                }
            }
        },
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.u32(1..5) {
        // Most fields are at the ends.
        let len = bytes.len().max(1);
        let near = random.usize(..len.min(160));
        let at = [near, len - 1 - near, random.usize(..len)][random.usize(..3)];
        let Some(byte) = bytes.get_mut(at) else { return };
        match random.u8(..6) {
            0 => *byte ^= 1 << random.u8(..8),
            1 => *byte = random.u8(..),
            2 => *byte = 0xFF,
            3 => {
                let edges = [0, 1, 0x7FFF_FFFF, u64::from(u32::MAX), u64::MAX, u64::MAX / 8 + 1];
                put(bytes, at / 4 * 4, edges[random.usize(..edges.len())]);
            }
            4 => bytes.truncate(at),
            _ => bytes.extend((0..random.usize(..100)).map(|_| random.u8(..))),
        }
    }
}

fn one_round(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let makers =
        [superblock, summaries, records, clusters, journals, checkpoints, index_dumps, buckets];
    let subject = makers[random.usize(..makers.len())](&mut random);
    (subject.decode)(&subject.bytes, true);
    for _ in 0..4 {
        let mut bytes = subject.bytes.clone();
        mutate(&mut bytes, &mut random);
        if random.bool() {
            (subject.seal)(&mut bytes);
        }
        let changed = bytes != subject.bytes;
        (subject.decode)(&bytes, !changed);
    }
    let mut noise = vec![0; random.usize(..200)];
    random.fill(&mut noise);
    (subject.decode)(&noise, false);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it says how long to go on, nothing else")]
fn fuzz_every_decoder() {
    let variable = |name| std::env::var(name).ok().map(|value: String| value.parse().unwrap());
    let seconds: u64 = variable("LARDER_FUZZ_SECONDS").unwrap_or(2);
    let fixed = variable("LARDER_FUZZ_SEED").or_else(|| variable("LARDER_SEED"));
    let first = fixed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("decoder_fuzz::fuzz_every_decoder: LARDER_FUZZ_SEED={first}");
    let started = Instant::now();
    let mut rounds = 0;
    while rounds < 50 || started.elapsed() < Duration::from_secs(seconds) {
        let seed = first.wrapping_add(rounds);
        let result = std::panic::catch_unwind(|| one_round(seed));
        assert!(result.is_ok(), "replay with LARDER_FUZZ_SEED={seed}");
        rounds += 1;
    }
}
