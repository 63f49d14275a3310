//! The summary at the end of a sealed cluster. It lists the cluster's records in 48 bytes each, so
//! that recovery and eviction read a few KiB of a cluster instead of all of it.
//!
//! ```text
//! | records … | (gap) | labels | entry n-1 | … | entry 1 | entry 0 | trailer (64 B) |
//! ```
//!
//! Entries grow downwards from the trailer, so that a reader that has the last 4 KiB has the
//! trailer and the first entries, and knows how much more to read.
//!
//! The digests of all labels of the records precede the entries, so that a start after a crash
//! knows them without reading the records. They have a checksum of their own. They are missing when
//! there was no space for them, or when no labels are read.

use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::record::RecordKind;
use crate::base::wire::{Decoder, Encoder};

/// Length of an entry in bytes.
pub(crate) const ENTRY_LEN: usize = 48;
/// Length of the trailer in bytes.
pub(crate) const TRAILER_LEN: usize = 64;
/// Length of a label's digest in bytes.
pub(crate) const LABEL_LEN: usize = 8;
const MAGIC: u32 = u32::from_le_bytes(*b"LSUM");

/// The labels that the records of a cluster bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SummaryLabels<'a> {
    /// The way the labels were read: [`crate::Labels::version`].
    pub(crate) version: u64,
    /// Their digests.
    pub(crate) labels: &'a [u64],
}

/// One record of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: RecordKind,
    /// Digest of the object's key (for metadata too) or of the piece.
    pub(crate) digest: Digest,
    pub(crate) sequence: u64,
    /// Granules from the start of the cluster.
    pub(crate) granule: u32,
    /// Bytes of the record.
    pub(crate) len: u32,
    /// For metadata: the position of the object record that they belong to.
    pub(crate) target: u32,
    /// For metadata: the sequence number of that object record.
    pub(crate) target_sequence: u64,
    /// True if it is an object of the same site and group as the record before it.
    pub(crate) joins: bool,
}

/// Returns the length in bytes of a summary of `count` records.
pub(crate) fn summary_len(count: usize) -> usize {
    TRAILER_LEN + count * ENTRY_LEN
}

/// Encodes the summary: the last [`summary_len`] bytes of a cluster, and the labels before them.
/// `place` is the number of the cluster.
pub(crate) fn encode(
    secret: &Secret,
    place: u32,
    incarnation: u64,
    entries: &[Entry],
    borne: Option<SummaryLabels<'_>>,
) -> Vec<u8> {
    let labels_len = borne.map_or(0, |borne| borne.labels.len() * LABEL_LEN);
    let mut bytes = Vec::with_capacity(labels_len + summary_len(entries.len()));
    for label in borne.iter().flat_map(|borne| borne.labels) {
        Encoder(&mut bytes).u64(*label);
    }
    let proof = borne.map_or(0, |borne| proof(secret, place, incarnation, borne.version, &bytes));
    let (version, count) = borne.map_or((0, 0), |borne| (borne.version, borne.labels.len() + 1));
    for entry in entries.iter().rev() {
        let mut out = Encoder(&mut bytes);
        out.bytes(&entry.digest.0).u64(entry.sequence).u32(entry.granule).u32(entry.len);
        out.u32(entry.target).u8(entry.kind.code()).u8(u8::from(entry.joins)).zeros(2);
        out.u64(entry.target_sequence);
    }
    let entries_end = bytes.len();
    let mut out = Encoder(&mut bytes);
    out.u64(incarnation).u32(place).u32(entries.len() as u32);
    out.u64(version).u64(proof).u32(count as u32).zeros(TRAILER_LEN - 52);
    let checksum = secret.checksum_at(u64::from(place), &bytes[labels_len..]);
    debug_assert_eq!(bytes.len(), entries_end + TRAILER_LEN - 16);
    Encoder(&mut bytes).u64(checksum).u32(0).u32(MAGIC);
    bytes
}

/// Returns the checksum of labels, bound to their cluster and to the way they were read.
fn proof(secret: &Secret, place: u32, incarnation: u64, version: u64, labels: &[u8]) -> u64 {
    let mut bound = Vec::with_capacity(28);
    let out = &mut Encoder(&mut bound);
    out.u32(place).u64(incarnation).u64(version).u64(secret.checksum(labels));
    secret.checksum(&bound)
}

/// The result of decoding the end of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The summary, in the order in which the records were placed.
    Whole(Vec<Entry>),
    /// This many bytes from the end of the cluster are needed.
    Needs(usize),
    /// No summary of this incarnation: the cluster was not sealed, or is damaged.
    Absent,
}

/// Decodes a summary from `tail`, the last bytes of cluster `place`.
pub(crate) fn decode(secret: &Secret, place: u32, incarnation: u64, tail: &[u8]) -> Decoded {
    let Some(trailer) = tail.len().checked_sub(TRAILER_LEN).and_then(|at| tail.get(at..)) else {
        return Decoded::Needs(TRAILER_LEN);
    };
    let Some(Trailer { count, checksum, .. }) = decode_trailer(trailer, place, incarnation) else {
        return Decoded::Absent;
    };
    let needed = summary_len(count);
    let Some(summary) = tail.len().checked_sub(needed).and_then(|at| tail.get(at..)) else {
        return Decoded::Needs(needed);
    };
    if secret.checksum_at(u64::from(place), &summary[..needed - 16]) != checksum {
        return Decoded::Absent;
    }
    let entries = summary[..count * ENTRY_LEN].rchunks_exact(ENTRY_LEN).map(decode_entry);
    entries.collect::<Option<Vec<Entry>>>().map_or(Decoded::Absent, Decoded::Whole)
}

/// Returns how many bytes at the end of cluster `place` hold its summary and labels, according to
/// the trailer at the end of `tail`. Returns `None` when there is no summary, or it has no labels
/// of this `version`.
pub(crate) fn len_with_labels(
    place: u32,
    incarnation: u64,
    version: u64,
    tail: &[u8],
) -> Option<usize> {
    let trailer = tail.len().checked_sub(TRAILER_LEN).and_then(|at| tail.get(at..))?;
    let trailer = decode_trailer(trailer, place, incarnation)?;
    let labels = trailer.labels.filter(|_| trailer.version == version)?;
    Some(summary_len(trailer.count) + labels * LABEL_LEN)
}

/// Returns the labels in `tail`, the last bytes of cluster `place`, if they are complete and were
/// read the way of `version`.
pub(crate) fn decode_labels(
    secret: &Secret,
    place: u32,
    incarnation: u64,
    version: u64,
    tail: &[u8],
) -> Option<Vec<u64>> {
    let len = len_with_labels(place, incarnation, version, tail)?;
    let trailer = decode_trailer(&tail[tail.len() - TRAILER_LEN..], place, incarnation)?;
    let start = tail.len().checked_sub(len)?;
    let labels = &tail[start..tail.len() - summary_len(trailer.count)];
    if proof(secret, place, incarnation, version, labels) != trailer.proof {
        return None;
    }
    let mut from = Decoder(labels);
    (0..labels.len() / LABEL_LEN).map(|_| from.u64()).collect()
}

struct Trailer {
    /// Number of entries.
    count: usize,
    /// The way the labels were read, their number, and their checksum.
    version: u64,
    labels: Option<usize>,
    proof: u64,
    checksum: u64,
}

fn decode_trailer(trailer: &[u8], place: u32, incarnation: u64) -> Option<Trailer> {
    let mut from = Decoder(trailer);
    let ours = from.u64()? == incarnation && from.u32()? == place;
    let count = from.u32()? as usize;
    let (version, proof) = (from.u64()?, from.u64()?);
    // Versions of the program without labels wrote a zero.
    let labels = (from.u32()? as usize).checked_sub(1);
    from.bytes(TRAILER_LEN - 52)?;
    let checksum = from.u64()?;
    from.u32()?;
    let plausible = count < 1 << 20 && labels.is_none_or(|labels| labels < 1 << 20);
    (ours && from.u32()? == MAGIC && plausible).then_some(Trailer {
        count,
        version,
        labels,
        proof,
        checksum,
    })
}

fn decode_entry(bytes: &[u8]) -> Option<Entry> {
    let mut from = Decoder(bytes);
    let digest = Digest(from.array()?);
    let sequence = from.u64()?;
    let (granule, len, target) = (from.u32()?, from.u32()?, from.u32()?);
    let kind = RecordKind::from_code(from.u8()?)?;
    // Versions of the program without runs wrote a zero.
    let joins = from.u8()? == 1;
    from.bytes(2)?;
    let target_sequence = from.u64()?;
    Some(Entry { kind, digest, sequence, granule, len, target, target_sequence, joins })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u8) -> Entry {
        Entry {
            kind: RecordKind::Object,
            digest: Digest([number; 16]),
            sequence: u64::from(number),
            granule: u32::from(number) * 10,
            len: 600,
            target: 0,
            target_sequence: 0,
            joins: !number.is_multiple_of(3),
        }
    }

    #[test]
    fn a_summary_is_read_from_the_end_of_its_cluster() {
        let secret = Secret::new([1; 32]);
        let entries: Vec<Entry> = (0..100).map(entry).collect();
        let bytes = encode(&secret, 5, 77, &entries, None);
        assert_eq!(bytes.len(), summary_len(100));
        let mut cluster = vec![0xEE; 8192];
        cluster.extend_from_slice(&bytes);
        let short = &cluster[cluster.len() - 4096..];
        assert_eq!(decode(&secret, 5, 77, short), Decoded::Needs(summary_len(100)));
        assert_eq!(decode(&secret, 5, 77, &cluster), Decoded::Whole(entries));
    }

    #[test]
    fn other_incarnations_places_and_damage_are_absent() {
        let secret = Secret::new([1; 32]);
        let mut bytes = encode(&secret, 5, 77, &[entry(1)], None);
        assert_eq!(decode(&secret, 5, 78, &bytes), Decoded::Absent);
        assert_eq!(decode(&secret, 6, 77, &bytes), Decoded::Absent);
        bytes[3] ^= 1;
        assert_eq!(decode(&secret, 5, 77, &bytes), Decoded::Absent);
    }

    #[test]
    fn an_empty_summary_is_whole() {
        let secret = Secret::new([1; 32]);
        let bytes = encode(&secret, 0, 1, &[], None);
        assert_eq!(decode(&secret, 0, 1, &bytes), Decoded::Whole(Vec::new()));
    }

    #[test]
    fn labels_stand_before_the_entries_and_prove_themselves() {
        let secret = Secret::new([1; 32]);
        let entries: Vec<Entry> = (0..100).map(entry).collect();
        let labels: Vec<u64> = (0..300).map(|number| number << 40 | 7).collect();
        for labels in [&labels[..], &labels[..1], &[]] {
            let borne = Some(SummaryLabels { version: 9, labels });
            let bytes = encode(&secret, 5, 77, &entries, borne);
            let plain = summary_len(100);
            assert_eq!(bytes.len(), plain + labels.len() * LABEL_LEN);
            // A reader that ignores labels finds the entries in the same position.
            let short = &bytes[bytes.len() - plain..];
            assert_eq!(decode(&secret, 5, 77, short), Decoded::Whole(entries.clone()));
            assert_eq!(len_with_labels(5, 77, 9, short), Some(bytes.len()));
            let found = decode_labels(&secret, 5, 77, 9, &bytes);
            assert_eq!(found.as_deref(), Some(labels));
            let cut = decode_labels(&secret, 5, 77, 9, short);
            assert_eq!(cut.is_some(), labels.is_empty());
            // Labels of another cluster, another incarnation or another reading are rejected.
            for (place, incarnation, version) in [(6, 77, 9), (5, 78, 9), (5, 77, 8)] {
                assert_eq!(decode_labels(&secret, place, incarnation, version, &bytes), None);
            }
            for at in 0..labels.len() * LABEL_LEN {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1;
                assert_eq!(decode_labels(&secret, 5, 77, 9, &bytes), None);
            }
        }
        let bytes = encode(&secret, 5, 77, &entries, None);
        assert_eq!(len_with_labels(5, 77, 0, &bytes), None);
    }
}
