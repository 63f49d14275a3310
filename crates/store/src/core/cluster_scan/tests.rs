//! Recovery concurrent with eviction, step by step on a core alone.

use std::sync::Arc;

use super::*;
use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::record::RecordKind;
use crate::base::size_class::SizeClass;
use crate::base::summary::Entry;
use crate::config::options::Options;
use crate::core::state::Core;
use crate::core::{EvictPlan, Parts, Recovering, cluster_policy};
use crate::format::journal::Journal;
use crate::format::superblock::tests::sample;
use crate::index::{Index, IndexKind, Slot};
use crate::purge::purges::Purges;
use crate::space::Space;
use crate::space::cluster_table::{ClusterTable, State};
use crate::space::clusters::ClusterSpace;

/// Returns a core with `used` clusters on the device that recovery has not read.
fn core_with(used: u32) -> Core {
    let superblock = sample();
    let options = Arc::new(Options::default());
    let areas = &superblock.areas;
    let policy = cluster_policy(&options, areas.clusters);
    let mut clusters = ClusterTable::new(areas.clusters, areas.cluster_size, policy);
    for cluster in clusters.take_free_run(used, 1).unwrap() {
        clusters.written(cluster);
    }
    Core::new(Parts {
        journal: Journal::new(areas.journal, 1),
        recovering: Some(Recovering::new(BTreeMap::new(), &clusters)),
        superblock,
        options,
        space: Space::Clusters(ClusterSpace::new(clusters, None)),
        index: Index::with_capacity(IndexKind::Compact, 1_000),
        memory: 16 << 20,
        checkpoint: 2,
        purges: Purges::new(1),
        purge_log: None,
        label_filters: None,
    })
}

const DIGEST: Digest = Digest([0x3C; 16]);

fn object(sequence: u64) -> Entry {
    Entry {
        kind: RecordKind::Object,
        digest: DIGEST,
        sequence,
        granule: 0,
        len: 600,
        target: 0,
        target_sequence: 0,
        joins: false,
    }
}

fn evict(core: &mut Core, cluster: ClusterId, entries: &[Entry]) {
    let incarnation = core.placement.space.table().incarnation(cluster);
    let extent = core.placement.areas.cluster(cluster);
    core.placement.space.table_mut().pin(cluster);
    let plan = EvictPlan { cluster, incarnation, extent, all_dead: false };
    core.evict(&plan, Some(entries));
}

fn apply(core: &mut Core, scan: &mut ClusterScan, cluster: ClusterId, entries: &[Entry]) {
    let incarnation = core.placement.space.table().incarnation(cluster);
    scan.apply(core, cluster, incarnation, entries);
}

#[test]
fn an_object_whose_metadata_were_evicted_before_it_was_found_is_dead() {
    let (mut core, mut scan) = (core_with(2), ClusterScan::new());
    let target = core.placement.areas.position(0, 0);
    let meta = Entry { kind: RecordKind::Meta, target, target_sequence: 5, ..object(9) };
    apply(&mut core, &mut scan, 1, &[meta]);
    evict(&mut core, 1, &[meta]);
    apply(&mut core, &mut scan, 0, &[object(5)]);
    assert_eq!(core.index.get(&DIGEST), None);
    assert!(core.placement.space.table().is_dead(0, 0));
}

#[test]
fn an_older_version_found_after_the_newer_was_evicted_is_dead() {
    let (mut core, mut scan) = (core_with(2), ClusterScan::new());
    apply(&mut core, &mut scan, 1, &[object(9)]);
    assert!(core.index.get(&DIGEST).is_some());
    evict(&mut core, 1, &[object(9)]);
    apply(&mut core, &mut scan, 0, &[object(5)]);
    assert_eq!(core.index.get(&DIGEST), None);
    assert!(core.placement.space.table().is_dead(0, 0));
}

#[test]
fn superseded_records_stay_dead_if_their_successor_is_evicted_unread() {
    let meta = Entry { kind: RecordKind::Meta, target: 0, target_sequence: 5, ..object(9) };
    for newer in [object(9), meta] {
        let (mut core, mut scan) = (core_with(2), ClusterScan::new());
        evict(&mut core, 1, &[newer]);
        apply(&mut core, &mut scan, 0, &[object(5)]);
        assert_eq!(core.index.get(&DIGEST), None);
        assert!(core.placement.space.table().is_dead(0, 0));
    }
}

#[test]
fn records_in_the_index_already_are_not_dead() {
    let (mut core, mut scan) = (core_with(1), ClusterScan::new());
    apply(&mut core, &mut scan, 0, &[object(5)]);
    apply(&mut core, &mut scan, 0, &[object(5)]);
    assert!(core.index.get(&DIGEST).is_some() && !core.placement.space.table().is_dead(0, 0));
}

#[test]
fn a_checkpoint_fits_its_slot_however_much_is_dead() {
    let mut core = core_with(500);
    core.recovery.end();
    let room = core.placement.areas.checkpoints[0].len as usize;
    let class = SizeClass::for_len(600);
    for cluster in 0..500 {
        for granule in 0..200 {
            let position = core.placement.areas.position(cluster, granule);
            core.mark_dead(Slot { position, class, refreshed: false });
        }
    }
    assert!(core.placement.space.table().total_dead() * 4 > room, "more than a checkpoint takes");
    let secret = Arc::clone(&core.secret);
    let (checkpoint, _) = core.make_checkpoint();
    assert!(checkpoint.encode(&secret).len() <= room);
    assert!(core.placement.space.table().count(State::OnDisk) > 100, "no more went than had to");
}
