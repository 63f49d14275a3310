//! An object in memory: what a lookup hands out, and what the memory tier keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::base::content::Content;
use crate::base::keyed_checksum::Secret;
use crate::base::record::{Found, Header, Place, Record};
use crate::memory::memory_tier::Weighed;

/// Bytes that an object costs in memory besides its key, metadata and body: the structure itself,
/// its reference counts, its place in the tier, and what the caller may attach to it.
const OVERHEAD: usize = 512;

/// An object (or a piece of one) with its bytes, all verified.
pub(crate) struct Object {
    pub(crate) header: Header,
    pub(crate) key: Bytes,
    pub(crate) meta: Bytes,
    /// The part of the body that is in its record: all of it unless `header.piece_size` > 0.
    pub(crate) body: Content,
    /// Where its record is; `None` while it lives in memory only. The incarnation tells this
    /// version from a later one at the same position.
    pub(crate) place: Option<Place>,
    /// Bytes of the buffers that these slices keep alive, when that is more than their lengths.
    backing: usize,
    /// The checksums of its body, of an object that may still have to be written.
    checksums: Vec<u64>,
    /// The purges up to this sequence number are known not to have made it dead.
    pub(crate) checked: AtomicU64,
    /// Since when it is outdated, by a soft purge: unix seconds plus one; 0: it is not.
    outdated: AtomicU64,
}

/// The buffer that a record was read into.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    /// Its bytes in memory.
    pub(crate) len: usize,
    /// So many more than the record has may be kept alive by it.
    pub(crate) spare: usize,
}

impl Object {
    /// The object that `record` describes.
    pub(crate) fn from_record(record: &Record, place: Option<Place>) -> Object {
        Object {
            header: record.header.clone(),
            key: record.key.clone(),
            meta: record.meta.clone(),
            body: record.body.clone(),
            place,
            backing: 0,
            checksums: if place.is_none() { record.checksums().to_vec() } else { Vec::new() },
            checked: AtomicU64::new(record.header.sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// The object that was found in `bytes`. It keeps the buffer alive that they are a part of, or
    /// copies out of it when that has more to spare than it may.
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
            checksums: Vec::new(),
            checked: AtomicU64::new(found.header.sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// The same version with other metadata, which were placed with this sequence number, or in
    /// memory when it was the last.
    pub(crate) fn with_meta(&self, meta: Bytes, sequence: u64) -> Object {
        Object {
            header: self.header.clone(),
            key: self.key.clone(),
            meta,
            body: self.body.clone(),
            place: self.place,
            backing: self.backing,
            checksums: self.checksums.clone(),
            checked: AtomicU64::new(sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// Its record with this header, which is to be placed.
    pub(crate) fn to_record(&self, secret: &Secret, header: Header) -> Record {
        let (key, meta, body) = (self.key.clone(), self.meta.clone(), self.body.clone());
        Record::with_checksums(secret, header, key, meta, body, &self.checksums)
    }

    /// The same version, in memory as it was, now that it has the place of `placed`.
    pub(crate) fn placed_as(&self, placed: &Object) -> Object {
        Object {
            header: placed.header.clone(),
            key: self.key.clone(),
            meta: self.meta.clone(),
            body: self.body.clone(),
            place: placed.place,
            backing: self.backing,
            checksums: Vec::new(),
            checked: AtomicU64::new(placed.header.sequence),
            outdated: AtomicU64::new(0),
        }
    }

    /// Since when it is outdated, in unix seconds; `None`: it is not.
    pub(crate) fn outdated_since(&self) -> Option<u32> {
        let since = self.outdated.load(Ordering::Relaxed).checked_sub(1)?;
        Some(since as u32)
    }

    /// It is outdated since `at`, in unix seconds, or earlier.
    pub(crate) fn outdate(&self, at: u32) {
        if self.outdated_since().is_none_or(|since| at < since) {
            self.outdated.store(u64::from(at) + 1, Ordering::Relaxed);
        }
    }

    /// Bytes of its record on a device.
    pub(crate) fn record_len(&self) -> usize {
        crate::base::record::record_len(self.key.len(), self.meta.len(), self.body.len())
    }

    /// True when the body lies in pieces of its own.
    pub(crate) fn in_pieces(&self) -> bool {
        self.header.piece_size > 0
    }

    /// Number of pieces of the body.
    pub(crate) fn pieces(&self) -> u32 {
        if self.header.piece_size == 0 {
            return 0;
        }
        let pieces = self.header.object_len.div_ceil(u64::from(self.header.piece_size));
        u32::try_from(pieces).unwrap_or(u32::MAX)
    }
}

impl Weighed for Arc<Object> {
    fn weight(&self) -> usize {
        let parts = self.key.len() + self.meta.len() + self.body.len();
        OVERHEAD + self.meta.len() + parts.max(self.backing)
    }
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
            // The record is the end of a larger buffer.
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
