//! A record: the bytes on the device of an object, of a piece of one, or of new metadata.
//!
//! ```text
//! header (112 B) | key | metadata | checksums of the body's chunks | body
//! ```
//!
//! The first checksum covers everything up to the body and is bound to the record's place and its
//! cluster's incarnation; each 64 KiB chunk of the body has its own. A record is accepted only at
//! its own place, with the incarnation that is expected there, and under the expected key. Bodies
//! are never searched for records.
//!
//! In a simulation the body may be elided ([`Content`]): its ids then take the place of the
//! checksums, and the body's bytes are not written.

use std::ops::Range;

use bytes::Bytes;

use crate::base::content;
use crate::base::content::{Checksums, Content};
use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::wire::{Decoder, Encoder};

/// Bytes of the fixed header.
pub(crate) const HEADER_LEN: usize = 112;
/// Bytes of body under one checksum.
pub(crate) const CHUNK: usize = 64 * 1024;
const MAGIC: u32 = u32::from_le_bytes(*b"LREC");
/// Flags of a record: the object is a page; its body is elided.
const HTML: u8 = 1;
const ELIDED: u8 = 2;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Key and metadata of an object and, when it is small, its whole body.
    Object,
    /// A part of the body of a large object.
    Piece,
    /// Metadata that replace those of an object's record.
    Meta,
}

impl RecordKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            RecordKind::Object => 1,
            RecordKind::Piece => 2,
            RecordKind::Meta => 3,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<RecordKind> {
        [RecordKind::Object, RecordKind::Piece, RecordKind::Meta]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// The fixed-size fields of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: RecordKind,
    /// True if the object is a page that refers to others.
    pub(crate) html: bool,
    /// Digest of the key (for metadata too); for a piece, of the object's id and the piece's
    /// number.
    pub(crate) digest: Digest,
    /// Orders all records of a cache.
    pub(crate) sequence: u64,
    /// Identifies this version of a large object; its pieces carry the same id. For metadata: the
    /// sequence number of the object record that they belong to.
    pub(crate) object_id: u64,
    /// Bytes of the whole object's body.
    pub(crate) object_len: u64,
    /// Bytes of every piece but the last; 0 when the body is in this record. For metadata: the
    /// position of the object record that they belong to.
    pub(crate) piece_size: u32,
    /// Time of storing, in unix seconds.
    pub(crate) stored_at: u32,
    /// Locality hashes, so that the object can be grouped again.
    pub(crate) site: u64,
    pub(crate) group: u64,
    /// Number of requests for the object when the record was written (the reference number of
    /// section 2.4.1 of the UCFS paper).
    pub(crate) references: u32,
    /// The caller's [`crate::Hint::stamp`].
    pub(crate) stamp: u32,
}

impl Header {
    /// Returns whether this is an object of the same site and group as the record `before` it.
    pub(crate) fn joins(&self, before: Option<&Header>) -> bool {
        let object = |header: &Header| header.kind == RecordKind::Object;
        object(self)
            && before.is_some_and(|before| {
                object(before) && (before.site, before.group) == (self.site, self.group)
            })
    }
}

/// A record that is ready to be written, except for its place.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) header: Header,
    pub(crate) key: Bytes,
    pub(crate) meta: Bytes,
    /// The part of the body in this record.
    pub(crate) body: Content,
    /// One per chunk of `body`.
    pub(crate) checksums: Checksums,
}

/// Where a record that lies in several runs of slots continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Slots of the first run; 0 when there is no other.
    pub(crate) slots: u16,
    /// The first slot of the second run. Not covered by the checksum: the run found there says
    /// which record it belongs to.
    pub(crate) next: u32,
}

/// The size and continuation of a record according to its head, unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The incarnation of its place that the record states.
    pub(crate) incarnation: u64,
    pub(crate) chain: Chain,
    /// Bytes before the body.
    pub(crate) head_len: usize,
    /// Bytes of the whole record.
    pub(crate) len: usize,
}

impl Outline {
    /// Reads the outline of a possible record at the front of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Outline> {
        let mut from = Decoder(bytes.get(..HEADER_LEN)?);
        if from.u32()? != MAGIC {
            return None;
        }
        let next = from.u32()?;
        from.bytes(8)?;
        let incarnation = from.u64()?;
        from.bytes(64)?;
        let [key, meta, body] = [from.u32()? as usize, from.u32()? as usize, from.u32()? as usize];
        from.bytes(2)?;
        let chain = Chain { slots: u16::from_le_bytes(from.array()?), next };
        let len = record_len(key, meta, body);
        Some(Outline { incarnation, chain, head_len: len - body, len })
    }
}

/// The place that a record's checksum is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Granule number on the device.
    pub(crate) position: u32,
    /// Incarnation of the cluster; in a space of slots, the record's own sequence number.
    pub(crate) incarnation: u64,
}

impl Place {
    /// Returns the place as a number to bind a checksum to.
    pub(crate) fn bound(self) -> u64 {
        // Incarnations count up from one start to the next. Multiplying spreads them, so that sums
        // with positions are unlikely to coincide.
        self.incarnation.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(self.position))
    }
}

impl Record {
    /// Creates a record and computes the checksums of its body.
    pub(crate) fn new(
        secret: &Secret,
        header: Header,
        key: Bytes,
        meta: Bytes,
        body: impl Into<Content>,
    ) -> Record {
        let body = body.into();
        let checksums = body.checksums(secret);
        Record { header, key, meta, body, checksums }
    }

    /// Creates a record like [`Record::new`], with known checksums of its body. Computes them if
    /// `checksums` has another number than the body has chunks (for instance none).
    pub(crate) fn with_checksums(
        secret: &Secret,
        header: Header,
        key: Bytes,
        meta: Bytes,
        body: Content,
        checksums: Checksums,
    ) -> Record {
        if checksums.len() != body.len().div_ceil(CHUNK) {
            return Record::new(secret, header, key, meta, body);
        }
        Record { header, key, meta, body, checksums }
    }

    /// Returns its length on the device in bytes, before rounding up to granules.
    pub(crate) fn len(&self) -> usize {
        record_len(self.key.len(), self.meta.len(), self.body.len())
    }

    /// Writes the record to the front of `out`, which must have at least [`Record::len`] bytes.
    pub(crate) fn write_to(&self, secret: &Secret, place: Place, out: &mut [u8]) {
        self.write_chained(secret, place, Chain::default(), out);
    }

    /// Writes the record like [`Record::write_to`], with the continuation in another run.
    pub(crate) fn write_chained(
        &self,
        secret: &Secret,
        place: Place,
        chain: Chain,
        out: &mut [u8],
    ) {
        let mut head = Vec::with_capacity(self.len() - self.body.len());
        self.encode_head(secret, place, chain, &mut head);
        let (front, rest) = out.split_at_mut(head.len());
        front.copy_from_slice(&head);
        self.body.write_to(rest);
    }

    /// Replaces the content of `head` by everything before the body.
    pub(crate) fn encode_head(
        &self,
        secret: &Secret,
        place: Place,
        chain: Chain,
        head: &mut Vec<u8>,
    ) {
        head.clear();
        let header = &self.header;
        let mut fields = Encoder(head);
        fields.u32(MAGIC).u32(chain.next).u64(0);
        fields.u64(place.incarnation).u64(header.sequence).u64(header.object_id);
        fields.bytes(&header.digest.0).u64(header.object_len).u32(header.piece_size);
        fields.u32(header.stored_at).u64(header.site).u64(header.group);
        fields.u32(self.key.len() as u32).u32(self.meta.len() as u32);
        fields.u32(self.body.len() as u32).u8(header.kind.code());
        let html = if header.html { HTML } else { 0 };
        let elided = if self.body.is_elided() { ELIDED } else { 0 };
        fields.u8(html | elided).bytes(&chain.slots.to_le_bytes());
        fields.u32(header.references).u32(header.stamp);
        fields.bytes(&self.key).bytes(&self.meta);
        for checksum in self.checksums.iter() {
            fields.u64(*checksum);
        }
        let checksum = secret.checksum_at(place.bound(), &head[16..]);
        head[8..16].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Returns the length in bytes of a record whose key, metadata and body have these lengths.
pub(crate) fn record_len(key: usize, meta: usize, body: usize) -> usize {
    HEADER_LEN + key + meta + 8 * body.div_ceil(CHUNK) + body
}

/// A record as found on the device. Ranges are within the bytes it was decoded from.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) header: Header,
    pub(crate) key: Range<usize>,
    pub(crate) meta: Range<usize>,
    pub(crate) body: Range<usize>,
    checksums: Range<usize>,
    elided: bool,
}

impl Found {
    /// Decodes the record at the front of `bytes` and verifies everything before the body. Returns
    /// `None` unless it is a record that was written to exactly this place.
    pub(crate) fn decode(secret: &Secret, place: Place, bytes: &[u8]) -> Option<Found> {
        let mut from = Decoder(bytes);
        if from.u32()? != MAGIC {
            return None;
        }
        from.u32()?;
        let checksum = from.u64()?;
        let incarnation = from.u64()?;
        let (sequence, object_id) = (from.u64()?, from.u64()?);
        let digest = Digest(from.array()?);
        let (object_len, piece_size, stored_at) = (from.u64()?, from.u32()?, from.u32()?);
        let (site, group) = (from.u64()?, from.u64()?);
        let lens = [from.u32()? as usize, from.u32()? as usize, from.u32()? as usize];
        let kind = RecordKind::from_code(from.u8()?)?;
        let flags = from.u8()?;
        let html = flags & HTML > 0;
        let elided = flags & ELIDED > 0;
        from.bytes(2)?;
        let (references, stamp) = (from.u32()?, from.u32()?);
        let key = HEADER_LEN..HEADER_LEN.checked_add(lens[0])?;
        let meta = key.end..key.end.checked_add(lens[1])?;
        let checksums = meta.end..meta.end.checked_add(8 * lens[2].div_ceil(CHUNK))?;
        let body = checksums.end..checksums.end.checked_add(lens[2])?;
        let covered = bytes.get(16..checksums.end)?;
        if incarnation != place.incarnation
            || secret.checksum_at(place.bound(), covered) != checksum
        {
            return None;
        }
        let header = Header {
            kind,
            html,
            digest,
            sequence,
            object_id,
            object_len,
            piece_size,
            stored_at,
            site,
            group,
            references,
            stamp,
        };
        Some(Found { header, key, meta, body, checksums, elided })
    }

    /// Returns the incarnation that the record at the front of `bytes` states, if there is a
    /// record. Verifies nothing.
    pub(crate) fn claimed_incarnation(bytes: &[u8]) -> Option<u64> {
        let mut from = Decoder(bytes);
        (from.u32()? == MAGIC).then_some(())?;
        from.bytes(12)?;
        from.u64()
    }

    /// Returns the length of the record on the device in bytes.
    pub(crate) fn len(&self) -> usize {
        self.body.end
    }

    /// Returns the length in bytes of the part with content: the whole record, or only up to an
    /// elided body.
    pub(crate) fn meaningful(&self) -> usize {
        if self.elided { self.body.start } else { self.body.end }
    }

    pub(crate) fn elided(&self) -> bool {
        self.elided
    }

    /// Returns the body in `bytes`, which must be the bytes that the record was decoded from.
    pub(crate) fn content(&self, bytes: &Bytes) -> Content {
        if !self.elided {
            return Content::Bytes(bytes.slice(self.body.clone()));
        }
        let id = Decoder(&bytes[self.checksums.clone()]).u64().unwrap_or(0);
        Content::Elided { id, len: self.body.len() }
    }

    /// Verifies the body in `bytes`, which must be the bytes that the record was decoded from.
    pub(crate) fn verify_body(&self, secret: &Secret, bytes: &[u8]) -> bool {
        let Some(sums) = bytes.get(self.checksums.clone()) else { return false };
        if self.elided {
            let id = Decoder(sums).u64().unwrap_or(0);
            let ids = content::chunk_ids(id, self.body.len());
            return ids.zip(sums.chunks_exact(8)).all(|(id, sum)| id.to_le_bytes() == sum);
        }
        let Some(body) = bytes.get(self.body.clone()) else { return false };
        body.chunks(CHUNK)
            .zip(sums.chunks_exact(8))
            .all(|(chunk, sum)| secret.checksum(chunk).to_le_bytes() == sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(body: Bytes) -> (Secret, Record) {
        let secret = Secret::new([5; 32]);
        let header = Header {
            kind: RecordKind::Object,
            html: true,
            digest: Digest([3; 16]),
            sequence: 9,
            object_id: 11,
            object_len: body.len() as u64,
            piece_size: 0,
            stored_at: 1_700_000_000,
            site: 1,
            group: 2,
            references: 3,
            stamp: 1_600_000_000,
        };
        let record = Record::new(
            &secret,
            header,
            Bytes::from_static(b"key"),
            Bytes::from_static(b"metadata"),
            body,
        );
        (secret, record)
    }

    const PLACE: Place = Place { position: 40, incarnation: 6 };

    #[test]
    fn a_record_round_trips_where_it_was_written() {
        let body = Bytes::from(vec![0xAB; CHUNK + 10]);
        let (secret, record) = sample(body.clone());
        let mut bytes = vec![0; record.len() + 5];
        record.write_to(&secret, PLACE, &mut bytes);
        let found = Found::decode(&secret, PLACE, &bytes).expect("whole");
        assert_eq!(found.header, record.header);
        assert_eq!(&bytes[found.key.clone()], b"key");
        assert_eq!(&bytes[found.meta.clone()], b"metadata");
        assert_eq!(&bytes[found.body.clone()], &body[..]);
        assert_eq!(found.len(), record.len());
        assert!(found.verify_body(&secret, &bytes));
    }

    #[test]
    fn an_elided_body_comes_back_by_its_ids() {
        let body = Content::Elided { id: 1 << 40, len: CHUNK + 10 };
        let (secret, bytes_of) = sample(body.bytes());
        let Record { header, key, meta, .. } = bytes_of.clone();
        let record = Record::new(&secret, header, key, meta, body.clone());
        assert_eq!(record.len(), bytes_of.len());
        let mut bytes = vec![0; record.len()];
        record.write_to(&secret, PLACE, &mut bytes);
        let found = Found::decode(&secret, PLACE, &bytes).expect("whole");
        assert_eq!(found.len(), record.len());
        assert!(bytes[found.meaningful()..].iter().all(|byte| *byte == 0));
        let head = Bytes::copy_from_slice(&bytes[..found.meaningful()]);
        assert!(found.verify_body(&secret, &head));
        assert_eq!(found.content(&head), body);
    }

    #[test]
    fn another_place_or_incarnation_is_not_believed() {
        let (secret, record) = sample(Bytes::from_static(b"body"));
        let mut bytes = vec![0; record.len()];
        record.write_to(&secret, PLACE, &mut bytes);
        for place in [Place { position: 41, ..PLACE }, Place { incarnation: 7, ..PLACE }] {
            assert!(Found::decode(&secret, place, &bytes).is_none());
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (secret, record) = sample(Bytes::from_static(b"body"));
        let mut bytes = vec![0; record.len()];
        record.write_to(&secret, PLACE, &mut bytes);
        for at in 0..bytes.len() {
            // The four bytes behind the magic (the next slot of a chain) are outside of all
            // checksums.
            if (4..8).contains(&at) {
                continue;
            }
            bytes[at] ^= 0x10;
            let believed = Found::decode(&secret, PLACE, &bytes)
                .is_some_and(|found| found.verify_body(&secret, &bytes));
            assert!(!believed, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }

    #[test]
    fn cut_records_are_refused() {
        let (secret, record) = sample(Bytes::from_static(b"body"));
        let mut bytes = vec![0; record.len()];
        record.write_to(&secret, PLACE, &mut bytes);
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            let whole = Found::decode(&secret, PLACE, cut)
                .is_some_and(|found| found.verify_body(&secret, cut));
            assert!(!whole, "{len} bytes");
        }
    }
}
