//! Objects in memory, as lookups return them and the memory tier keeps them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::base::content::{Checksums, Content};
use crate::base::keyed_checksum::Secret;
use crate::base::record::{Found, Header, Place, Record};
use crate::memory::memory_tier::Weighed;

/// Memory of an object besides its key, metadata and body, in bytes: the structure itself, its
/// reference counts, its entry in the tier, and the data that the caller may attach.
const OVERHEAD: usize = 512;

/// An object (or a piece of one) with its bytes, all verified.
pub(crate) struct Object {
    pub(crate) header: Header,
    pub(crate) key: Bytes,
    pub(crate) meta: Bytes,
    /// The part of the body in the object's record: all of it unless `header.piece_size` > 0.
    pub(crate) body: Content,
    /// Position of the record on the device; `None` while the object lives in memory only. The
    /// incarnation distinguishes this version from a later one at the same position.
    pub(crate) place: Option<Place>,
    /// Bytes of the buffers that the slices keep alive, if that is more than the lengths of the
    /// slices.
    backing: usize,
    /// Checksums of the body, kept while the object may still have to be written.
    checksums: Checksums,
    /// Digests of its labels, if they are kept until it is placed.
    pub(crate) labels: Option<Box<[u64]>>,
    /// Sequence number up to which purges are known not to have removed the object.
    pub(crate) checked: AtomicU64,
    /// Time since which a soft purge made the object outdated, in unix seconds plus one; 0 if it is
    /// not outdated.
    outdated: AtomicU64,
}

/// The buffer that a record was read into.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    /// Size of the buffer in memory, in bytes.
    pub(crate) len: usize,
    /// Number of bytes beyond the record that the object may keep alive.
    pub(crate) spare: usize,
}

impl Object {
    /// Returns the object of a record that has no place yet. Keeps the digests of its labels, if
    /// given. Purges up to the sequence number `checked` do not concern it.
    pub(crate) fn unplaced(record: Record, labels: Option<Box<[u64]>>, checked: u64) -> Object {
        let Record { header, key, meta, body, checksums } = record;
        Object {
            header,
            key,
            meta,
            body,
            place: None,
            backing: 0,
            checksums,
            labels,
            checked: AtomicU64::new(checked),
            outdated: AtomicU64::new(0),
        }
    }

    /// Returns the object of a record that has a place.
    pub(crate) fn from_record(record: &Record, place: Option<Place>) -> Object {
        Object {
            header: record.header.clone(),
            key: record.key.clone(),
            meta: record.meta.clone(),
            body: record.body.clone(),
            place,
            backing: 0,
            checksums: Checksums::default(),
            labels: None,
            checked: AtomicU64::new(record.header.sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// Returns the object found in `bytes`. It keeps the buffer that contains them alive, or copies
    /// the bytes if the buffer exceeds the record by more than its `spare`.
    pub(crate) fn from_found(found: &Found, place: Place, bytes: &Bytes, buffer: Buffer) -> Object {
        let wasteful = buffer.len > found.len() + buffer.spare;
        let own;
        let bytes = if wasteful || found.elided() {
            own = Bytes::copy_from_slice(&bytes[..found.meaningful()]);
            &own
        } else {
            bytes
        };
        let part = |range: &std::ops::Range<usize>| bytes.slice(range.clone());
        Object {
            header: found.header.clone(),
            key: part(&found.key),
            meta: part(&found.meta),
            body: found.content(bytes),
            place: Some(place),
            backing: if wasteful { found.len() } else { buffer.len },
            checksums: Checksums::default(),
            labels: None,
            checked: AtomicU64::new(found.header.sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// Returns the same version with other metadata, which were placed with this sequence number
    /// or, if they are in memory only, when it was the latest one.
    pub(crate) fn with_meta(&self, meta: Bytes, sequence: u64) -> Object {
        Object {
            header: self.header.clone(),
            key: self.key.clone(),
            meta,
            body: self.body.clone(),
            place: self.place,
            backing: self.backing,
            checksums: self.checksums.clone(),
            labels: None,
            checked: AtomicU64::new(sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// Returns the object's record with this header, for placement.
    pub(crate) fn to_record(&self, secret: &Secret, header: Header) -> Record {
        let (key, meta, body) = (self.key.clone(), self.meta.clone(), self.body.clone());
        Record::with_checksums(secret, header, key, meta, body, self.checksums.clone())
    }

    /// Records that the object was placed at `place`, under this header.
    pub(crate) fn set_placed(&mut self, header: &Header, place: Option<Place>) {
        self.header = header.clone();
        self.place = place;
        self.checksums = Checksums::default();
        self.labels = None;
        self.checked = AtomicU64::new(header.sequence);
        self.outdated = AtomicU64::new(0);
    }

    /// Returns the time since which the object is outdated, in unix seconds; `None` if it is not.
    pub(crate) fn outdated_since(&self) -> Option<u32> {
        let since = self.outdated.load(Ordering::Relaxed).checked_sub(1)?;
        Some(since as u32)
    }

    /// Marks the object as outdated since `at`, in unix seconds, unless it already is since an
    /// earlier time.
    pub(crate) fn outdate(&self, at: u32) {
        if self.outdated_since().is_none_or(|since| at < since) {
            self.outdated.store(u64::from(at) + 1, Ordering::Relaxed);
        }
    }

    /// Returns the size of the object's record on a device, in bytes.
    pub(crate) fn record_len(&self) -> usize {
        crate::base::record::record_len(self.key.len(), self.meta.len(), self.body.len())
    }

    /// Returns whether the body is stored in separate pieces.
    pub(crate) fn in_pieces(&self) -> bool {
        self.header.piece_size > 0
    }

    /// Returns the number of pieces of the body.
    pub(crate) fn pieces(&self) -> u32 {
        if self.header.piece_size == 0 {
            return 0;
        }
        let pieces = self.header.object_len.div_ceil(u64::from(self.header.piece_size));
        u32::try_from(pieces).unwrap_or(u32::MAX)
    }
}

impl Clone for Object {
    fn clone(&self) -> Object {
        Object {
            header: self.header.clone(),
            key: self.key.clone(),
            meta: self.meta.clone(),
            body: self.body.clone(),
            place: self.place,
            backing: self.backing,
            checksums: self.checksums.clone(),
            labels: self.labels.clone(),
            checked: AtomicU64::new(self.checked.load(Ordering::Relaxed)),
            outdated: AtomicU64::new(self.outdated.load(Ordering::Relaxed)),
        }
    }
}

impl Weighed for Arc<Object> {
    fn weight(&self) -> usize {
        let parts = self.key.len() + self.meta.len() + self.body.len();
        OVERHEAD + self.meta.len() + parts.max(self.backing)
    }
}

/// Returns the weight of the object that [`Object::unplaced`] makes of `record`.
pub(crate) fn weight_of(record: &Record) -> usize {
    OVERHEAD + 2 * record.meta.len() + record.key.len() + record.body.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digest;
    use crate::base::keyed_checksum::Secret;
    use crate::base::record::RecordKind;

    #[test]
    fn the_weight_is_no_less_than_the_memory_that_is_kept() {
        let secret = Secret::new([1; 32]);
        let place = Place { position: 0, incarnation: 1 };
        let header = Header {
            kind: RecordKind::Object,
            html: false,
            digest: Digest([1; 16]),
            sequence: 1,
            object_id: 1,
            object_len: 0,
            piece_size: 0,
            stored_at: 0,
            site: 0,
            group: 0,
            references: 0,
            stamp: 0,
        };
        for (len, buffer) in [(100, 8192), (3_000, 4096), (100_000, 106_496), (3_000, 1 << 20)] {
            let body = Bytes::from(vec![7; len]);
            let record = Record::new(&secret, header.clone(), Bytes::new(), Bytes::new(), body);
            // The record is at the end of a larger buffer.
            let mut bytes = vec![0; buffer];
            let start = buffer - record.len();
            record.write_to(&secret, place, &mut bytes[start..]);
            let bytes = Bytes::from(bytes);
            let found = Found::decode(&secret, place, &bytes[start..]).unwrap();
            let spare = found.len() / 4;
            let read = Buffer { len: buffer, spare };
            let object = Object::from_found(&found, place, &bytes.slice(start..), read);
            let whole = bytes.as_ptr_range();
            let body = object.body.bytes();
            let kept = if whole.contains(&body.as_ptr()) { buffer } else { len };
            assert!(Arc::new(object).weight() >= kept, "{len} of {buffer}");
        }
    }
}
