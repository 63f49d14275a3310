//! Tests of the eras against a plain list of the labels that each place bears.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::*;
use crate::test_seed::seeds;

/// Returns a label digest as a keyed hash would produce it.
fn label(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number << 13)
}

fn places(label_filters: &LabelFilters, clusters: &BTreeMap<u32, BTreeSet<u64>>) -> [u32; ERAS] {
    let mut places = [0; ERAS];
    for era in clusters.keys().filter_map(|cluster| label_filters.era_of_cluster(*cluster)) {
        places[era] += 1;
    }
    places
}

#[test]
fn borne_labels_are_never_denied_while_clusters_change() {
    seeds("what_is_borne_is_never_denied", 20).for_each(come_and_go);
}

fn come_and_go(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut label_filters = LabelFilters::new(4096, 64, 1);
    let mut clusters: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let mut memory: BTreeSet<u64> = BTreeSet::new();
    // Some clusters existed before.
    for cluster in 0..random.u32(..20) {
        clusters.insert(cluster, (0..10).map(|_| label(random.u64(..2_000))).collect());
    }
    label_filters.recount_clusters(|cluster| clusters.contains_key(&cluster));
    let (mut turned, mut denied) = (0, 0);
    for step in 0..6_000 {
        let cluster = random.u32(..64);
        match random.u8(..20) {
            0..6 if !clusters.contains_key(&cluster) => {
                if label_filters.rotation_due() {
                    let places = places(&label_filters, &clusters);
                    if label_filters.turn(&places, step) {
                        turned += 1;
                        memory.iter().for_each(|label| label_filters.add(*label));
                    }
                }
                label_filters.opened(cluster);
                clusters.insert(cluster, BTreeSet::new());
            }
            0..14 => {
                if let Some(labels) = clusters.get_mut(&cluster) {
                    let label = label(random.u64(..20_000));
                    label_filters.add_at(Some(cluster), label);
                    labels.insert(label);
                }
            }
            14..16 => {
                let label = label(random.u64(..20_000));
                label_filters.add(label);
                memory.insert(label);
                if memory.len() > 30 {
                    memory.pop_first();
                }
            }
            16..18 => _ = clusters.remove(&cluster),
            18 => {
                label_filters.recount_clusters(|cluster| clusters.contains_key(&cluster));
                label_filters.read_unknown();
            }
            _ => {
                let next = label_filters.next_to_read(|cluster| clusters.contains_key(&cluster));
                if let Some(cluster) = next {
                    let labels: Vec<u64> = clusters[&cluster].iter().copied().collect();
                    label_filters.learnt(cluster, &labels);
                }
            }
        }
        if step % 11 == 0 {
            let mut borne = clusters.values().flatten().chain(&memory);
            assert!(
                borne.all(|label| label_filters.may_be_borne(*label)),
                "step {step}, seed {seed}"
            );
        }
        denied += u32::from(!label_filters.may_be_borne(label(1 << 40 | step)));
    }
    assert!(turned > 2, "{turned} turns, seed {seed}");
    assert!(denied > 1_000, "{denied} of 6,000 denied, seed {seed}");
}

#[test]
fn no_label_is_denied_while_any_are_unknown() {
    let mut label_filters = LabelFilters::new(1 << 16, 4, 1);
    assert!(label_filters.may_be_borne(label(7)));
    label_filters.recount_clusters(|cluster| cluster < 2);
    assert_eq!(label_filters.unknown(), 2);
    label_filters.opened(3);
    assert_eq!(label_filters.unknown(), 2, "it was empty");
    label_filters.read_unknown();
    for expected in [0, 1] {
        assert!(label_filters.may_be_borne(label(7)));
        assert_eq!(label_filters.next_to_read(|_| true), Some(expected));
        label_filters.learnt(expected, &[label(u64::from(expected))]);
    }
    assert_eq!(label_filters.next_to_read(|_| true), None);
    assert!(!label_filters.reading() && !label_filters.may_be_borne(label(7)));
    assert!(label_filters.may_be_borne(label(0)) && label_filters.may_be_borne(label(1)));
}

#[test]
fn records_in_slots_are_of_the_era_in_which_they_were_placed() {
    let mut label_filters = LabelFilters::new(4096, 0, 100);
    label_filters.recount_slots(None);
    assert_eq!(label_filters.unknown(), 1, "recovery goes on");
    label_filters.recount_slots(Some(99));
    assert_eq!(label_filters.unknown(), 1, "one from before");
    label_filters.recount_slots(Some(u64::MAX));
    assert_eq!(label_filters.unknown(), 0);
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut turned = 0;
    for sequence in 100..40_000 {
        if label_filters.rotation_due() {
            let mut places = [0; ERAS];
            for sequence in live.keys() {
                label_filters.eras_of_record(*sequence).for_each(|era| places[era] += 1);
            }
            turned += u32::from(label_filters.turn(&places, sequence));
        }
        label_filters.add_at(None, label(sequence));
        live.insert(sequence, label(sequence));
        if live.len() > 500 {
            live.pop_first();
        }
        if sequence % 97 == 0 {
            assert!(live.values().all(|label| label_filters.may_be_borne(*label)), "{sequence}");
        }
    }
    assert!(turned > 20, "{turned}");
    assert!(!label_filters.reading(), "there is nothing to read by clusters");
    assert!(
        (0..1_000).filter(|number| label_filters.may_be_borne(label(1 << 40 | number))).count()
            < 100
    );
}

#[test]
fn a_full_era_takes_few_labels_for_others() {
    let mut label_filters = LabelFilters::new(1 << 20, 1, 1);
    label_filters.recount_clusters(|_| false);
    let mut number = 0;
    while !label_filters.rotation_due() {
        label_filters.add(label(number));
        number += 1;
    }
    assert!(number > 80_000, "{number} labels in an era of 128 KiB");
    let wrong =
        (0..10_000).filter(|other| label_filters.may_be_borne(label(1 << 40 | other))).count();
    assert!(wrong < 200, "{wrong} of 10,000");
}
