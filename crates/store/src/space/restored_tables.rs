//! Restores the tables of a space from the checkpoint and the journal. Recovery begins with them.

use std::collections::BTreeMap;

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::wire::Decoder;
use crate::format::checkpoint::Checkpoint;
use crate::format::device_layout::Areas;
use crate::format::journal;
use crate::format::journal::{Fact, Replay};
use crate::format::superblock::Superblock;
use crate::layout::LayoutKind;
use crate::purge::purges::Purges;
use crate::space::cluster_table::{ClusterTable, Policy, State};
use crate::space::slots::image::SlotImage;

/// The tables of either kind of space, from the checkpoint and the journal.
#[expect(clippy::large_enum_variant, reason = "there is one, while a cache is opened")]
pub(crate) enum SpaceTables {
    Clusters(ClusterTable),
    Slots(SlotImage),
}

/// The state restored from the checkpoint and the journal.
pub(crate) struct Tables {
    pub(crate) space: SpaceTables,
    /// Digests removed before an earlier recovery ended, with the sequence number of the removal.
    pub(crate) removed: BTreeMap<Digest, u64>,
    pub(crate) purges: Purges,
    pub(crate) checkpoint: u64,
    pub(crate) next_block: u64,
}

/// Applies the newest intact checkpoint of `checkpoints`, and the journal, of the cache that
/// `superblock` describes. Returns an error with the reason if the device cannot be trusted.
/// Clusters opened since the checkpoint count as used at `now`, in unix seconds.
pub(crate) fn restore_tables(
    superblock: &Superblock,
    policy: Policy,
    checkpoints: [Option<Checkpoint>; 2],
    journal: &[u8],
    now: u32,
) -> Result<Tables, String> {
    let Superblock { secret, areas, layout, journal_contained, .. } = superblock;
    let newest = checkpoints.into_iter().flatten().max_by_key(|checkpoint| checkpoint.number);
    let Some(checkpoint) = newest else {
        return Err("both checkpoints are damaged".to_owned());
    };
    let mut space = SpaceTables::decode(&checkpoint.space, areas, *layout, policy)?;
    let mut removed: BTreeMap<Digest, u64> = checkpoint.removed.into_iter().collect();
    let (entries, count) = checkpoint.purges;
    let mut purges = Purges::decode(&mut Decoder(&entries), count as usize)
        .ok_or_else(|| "the checkpoint's purges are wrong".to_owned())?;
    let replayed = journal::replay(secret, journal, checkpoint.journal_block, *journal_contained);
    let next_block = match replayed {
        Replay::Damaged { block } => return Err(format!("journal block {block} is damaged")),
        Replay::Facts { facts, next_block } => {
            for fact in facts {
                match fact {
                    Fact::Purged(purge) => purges.take_in(&purge),
                    Fact::Pattern(part) => purges.take_in_pattern_part(&part),
                    fact => space.apply(fact, areas, &mut removed, now)?,
                }
            }
            next_block
        }
    };
    purges.forget_unused_patterns();
    if let SpaceTables::Clusters(clusters) = &mut space {
        clusters.recovered();
    }
    Ok(Tables { space, removed, purges, checkpoint: checkpoint.number, next_block })
}

impl SpaceTables {
    /// Returns the tables of an empty space.
    pub(crate) fn empty(areas: &Areas, layout: Option<LayoutKind>, policy: Policy) -> SpaceTables {
        match layout {
            None => {
                let table = ClusterTable::new(areas.clusters, areas.cluster_size, policy);
                SpaceTables::Clusters(table)
            }
            Some(_) => SpaceTables::Slots(SlotImage::empty(areas.slots())),
        }
    }

    fn decode(
        bytes: &[u8],
        areas: &Areas,
        layout: Option<LayoutKind>,
        policy: Policy,
    ) -> Result<SpaceTables, String> {
        match layout {
            None => ClusterTable::decode(bytes, areas.clusters, areas.cluster_size, policy)
                .map(SpaceTables::Clusters)
                .map_err(|problem| format!("the checkpoint's cluster table is wrong: {problem:?}")),
            Some(_) => SlotImage::decode(bytes, areas.slots())
                .map(SpaceTables::Slots)
                .ok_or_else(|| "the checkpoint's image of the slots is wrong".to_owned()),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SpaceTables::Clusters(table) => table.encode(out),
            SpaceTables::Slots(image) => image.encode(out),
        }
    }

    fn apply(
        &mut self,
        fact: Fact,
        areas: &Areas,
        removed: &mut BTreeMap<Digest, u64>,
        now: u32,
    ) -> Result<(), String> {
        match (self, fact) {
            (_, Fact::Removed { digest, sequence }) => {
                let latest = removed.entry(digest).or_default();
                *latest = (*latest).max(sequence);
                Ok(())
            }
            (SpaceTables::Slots(image), fact) => apply_to_slots(fact, areas, image),
            (SpaceTables::Clusters(table), fact) => apply_to_clusters(fact, areas, table, now),
        }
    }
}

fn apply_to_slots(fact: Fact, areas: &Areas, image: &mut SlotImage) -> Result<(), String> {
    match fact {
        Fact::Released { position, .. } | Fact::Refreshed { position, .. }
            if position >= areas.slots() =>
        {
            return Err(format!("the journal names slot {position}"));
        }
        Fact::Released { position, sequence } => image.apply_death(position, sequence),
        Fact::Refreshed { position, sequence } => image.apply_refresh(position, sequence),
        _ => return Err("the journal speaks of clusters, there are slots".to_owned()),
    }
    Ok(())
}

fn apply_to_clusters(
    fact: Fact,
    areas: &Areas,
    clusters: &mut ClusterTable,
    now: u32,
) -> Result<(), String> {
    let known = |cluster: ClusterId| {
        let found = cluster < areas.clusters;
        found.then_some(()).ok_or_else(|| format!("the journal names cluster {cluster}"))
    };
    match fact {
        Fact::Opened { cluster, incarnation } => {
            known(cluster)?;
            clusters.replay_open(cluster, incarnation, now);
        }
        Fact::Dropped { cluster, incarnation } => {
            known(cluster)?;
            let same = clusters.incarnation(cluster) == incarnation;
            if same && clusters.state(cluster).in_use() {
                clusters.replay_give_up(cluster);
            }
        }
        Fact::Dead { cluster, incarnation, granule } => {
            known(cluster)?;
            if clusters.incarnation(cluster) == incarnation && clusters.state(cluster).in_use() {
                clusters.mark_dead(cluster, granule, 0);
            }
        }
        _ => return Err("the journal speaks of slots, there are clusters".to_owned()),
    }
    Ok(())
}

/// Marks clusters that were being filled when the process died as written; they receive no more
/// records.
pub(crate) fn close_open_clusters(clusters: &mut ClusterTable) {
    for cluster in 0..clusters.clusters() {
        if clusters.state(cluster) == State::Open {
            clusters.written(cluster);
        }
    }
}
