//! Prefetching: a cluster that was read whole brings all its objects into memory (C4).

use std::sync::Arc;

use bytes::Bytes;

use super::{Core, Now};
use crate::digest::Digest;
use crate::object::Object;
use crate::record::{Found, Place, RecordKind};
use crate::summary::{self, Decoded, Entry};

/// What became of one record of the cluster.
enum Taken {
    /// Nothing leads to it: it is dead or superseded.
    Gone,
    /// It is in memory.
    InMemory(Digest),
    /// It is alive but not in memory.
    Left,
}

impl Core {
    /// Takes the objects of the cluster that `position` lies in into memory; `bytes` is the whole
    /// cluster as read. When all that lives there is in memory then, it is a virtual cluster.
    pub(crate) fn prefetch(&mut self, position: u32, bytes: &Bytes, now: Now) {
        let (cluster, _) = self.areas.locate(position);
        let incarnation = self.space.table().incarnation(cluster);
        let summary = summary::decode(&self.secret, cluster, incarnation, bytes);
        let Decoded::Whole(entries) = summary else { return };
        let mut members = Vec::with_capacity(entries.len());
        let mut whole = true;
        for entry in &entries {
            match self.prefetch_record(cluster, incarnation, entry, bytes) {
                Taken::Gone => {}
                Taken::InMemory(digest) => members.push(digest),
                Taken::Left => whole = false,
            }
        }
        if whole {
            self.join_memory(cluster, members);
        }
        self.shrink_tier(now);
    }

    fn prefetch_record(
        &mut self,
        cluster: u32,
        incarnation: u64,
        entry: &Entry,
        bytes: &Bytes,
    ) -> Taken {
        let position = self.areas.position(cluster, entry.granule);
        let digest = match entry.kind {
            RecordKind::Meta => entry.digest.derive_meta(),
            RecordKind::Object | RecordKind::Piece => entry.digest,
        };
        let Some(slot) = self.index.get(&digest).filter(|slot| slot.position == position) else {
            return Taken::Gone;
        };
        if entry.kind == RecordKind::Meta || slot.refreshed {
            return Taken::Left;
        }
        if self.tier.peek(&digest).is_none() {
            let start = (entry.granule * self.areas.granule) as usize;
            let record = bytes.get(start..).unwrap_or_default();
            let place = Place { position, incarnation };
            let found = Found::decode(&self.secret, place, record);
            let found = found.filter(|found| {
                found.header.digest == digest && found.verify_body(&self.secret, record)
            });
            let Some(found) = found else { return Taken::Left };
            let own = Bytes::copy_from_slice(&record[..found.len()]);
            let object = Arc::new(Object::from_found(&found, place, &own, own.len()));
            self.keep(digest, &object, None, true);
        }
        match self.tier.peek(&digest) {
            Some(resident) if resident.cluster == Some(cluster) => Taken::InMemory(digest),
            _ => Taken::Left,
        }
    }
}
