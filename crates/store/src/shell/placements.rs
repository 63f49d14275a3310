//! Where the records of a running store lie: for drawings, for measurements of locality and for
//! whoever wants to see what a layout does. It reads the device where the tables in memory do not
//! say (the cluster layout knows its dead records from its clusters only), and changes nothing.
//!
//! It promises: places are those that reads use, at one moment; what is being written meanwhile may
//! be missing.

use std::collections::BTreeMap;

use device::{Clock, Device, Extent};

use crate::base::digest::Digest;
use crate::base::key::Key;
use crate::base::record::RecordKind;
use crate::format::device_layout::Areas;
use crate::layout::Run;
use crate::shell::cluster_contents::walk;
use crate::shell::volume::Volume;
use crate::space::slots::SlotSpace;

/// What a placed record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacedKind {
    /// An object, with its body when that is not in pieces.
    Object,
    /// A part of the body of a larger object.
    Piece,
    /// Metadata that replace an object's own.
    Metadata,
}

/// A record, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Number among the keys that were asked for of the one whose object or metadata this is;
    /// `None` for other keys, and for pieces.
    pub key: Option<usize>,
    /// What it holds.
    pub kind: PlacedKind,
    /// It can be found. Dead records are only told of where they cost room.
    pub live: bool,
    /// Where its bytes lie, in their order, in bytes of the device: whole slots, or in a cluster
    /// just the record.
    pub runs: Vec<Extent>,
}

/// The space of one device, and what lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placements {
    /// What objects can take, in bytes of the device.
    pub space: Extent,
    /// Bytes of what is reclaimed at once: a cluster, or a slot.
    pub unit: u32,
    /// In the order of the device.
    pub records: Vec<Placement>,
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Lists what lies on this device now; `keys` are those whose records are to be named.
    pub(crate) async fn placements(&self, keys: &[Key]) -> Placements {
        let digests = keys.iter().map(|key| self.shared.digester.key(key.as_bytes()));
        let names: BTreeMap<Digest, usize> = digests.zip(0..).collect();
        let areas = self.areas();
        let in_slots = slots(self.shared.lock().space().slots(), areas, &names);
        let clustered = in_slots.is_none();
        let mut records = match in_slots {
            Some(records) => records,
            None => self.in_clusters(areas, &names).await,
        };
        records.sort_by_key(|record| record.runs.first().map(|run| run.offset));
        let len = u64::from(areas.clusters) * u64::from(areas.cluster_size);
        Placements {
            space: Extent { offset: areas.clusters_at, len },
            unit: if clustered { areas.cluster_size } else { areas.granule },
            records,
        }
    }

    /// Reads the records of all clusters in use, dead ones included, as they stand on the device.
    async fn in_clusters(&self, areas: &Areas, names: &BTreeMap<Digest, usize>) -> Vec<Placement> {
        let mut placed = Vec::new();
        for cluster in 0..areas.clusters {
            let in_use = self.shared.lock().space().table().incarnation_in_use(cluster);
            let Some(incarnation) = in_use else { continue };
            let Some(bytes) = self.read(areas.cluster(cluster)).await else { continue };
            let core = self.shared.lock();
            for entry in walk(&self.shared.secret, areas, cluster, incarnation, &bytes) {
                let position = areas.position(cluster, entry.granule);
                placed.push(Placement {
                    key: named(names, entry.kind, &entry.digest),
                    kind: kind(entry.kind),
                    live: !core.space().table().is_dead(cluster, entry.granule),
                    runs: vec![Extent {
                        offset: areas.offset(position),
                        len: u64::from(entry.len),
                    }],
                });
            }
        }
        placed
    }
}

/// Returns the records of a space of slots; `None` when it is none.
fn slots(
    space: Option<&SlotSpace>,
    areas: &Areas,
    names: &BTreeMap<Digest, usize>,
) -> Option<Vec<Placement>> {
    let extent = |run: &Run| {
        let len = u64::from(run.len) * u64::from(areas.granule);
        Extent { offset: areas.offset(run.first), len }
    };
    let records = space?.all().map(|(listed, runs)| Placement {
        key: named(names, listed.kind, &listed.digest),
        kind: kind(listed.kind),
        live: true,
        runs: runs.iter().map(extent).collect(),
    });
    Some(records.collect())
}

fn named(names: &BTreeMap<Digest, usize>, kind: RecordKind, digest: &Digest) -> Option<usize> {
    names.get(digest).copied().filter(|_| kind != RecordKind::Piece)
}

fn kind(kind: RecordKind) -> PlacedKind {
    match kind {
        RecordKind::Object => PlacedKind::Object,
        RecordKind::Piece => PlacedKind::Piece,
        RecordKind::Meta => PlacedKind::Metadata,
    }
}
