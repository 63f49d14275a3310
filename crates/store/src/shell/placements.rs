//! Positions of the records of a running store, for drawings, for measurements of locality and for
//! inspecting a layout. Reads the device where the tables in memory are not sufficient (the cluster
//! layout knows its dead records only from its clusters), and changes nothing.
//!
//! Guarantees: positions are those that reads use, at one moment; records being written at the time
//! may be missing.

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

/// The content of a placed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacedKind {
    /// An object, with its body unless that is in pieces.
    Object,
    /// A part of the body of a large object.
    Piece,
    /// Metadata that replace an object's own.
    Metadata,
}

/// A record and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Index of the record's key among the requested keys; `None` for other keys, and for pieces.
    pub key: Option<usize>,
    /// The content of the record.
    pub kind: PlacedKind,
    /// True if the record can be found. Dead records are listed only where they take up space.
    pub live: bool,
    /// Extents of the record's bytes on the device, in order: whole slots, or in a cluster exactly
    /// the record.
    pub runs: Vec<Extent>,
}

/// The space of one device and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placements {
    /// The extent that objects can use, in bytes of the device.
    pub space: Extent,
    /// Size of the unit of reclamation, in bytes: a cluster or a slot.
    pub unit: u32,
    /// The records, in device order.
    pub records: Vec<Placement>,
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Lists the records on this device. `keys` are the keys whose records are to be identified.
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

    /// Reads the records of all clusters in use from the device, including dead ones.
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

/// Returns the records of a space of slots; `None` if the space is not one.
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
