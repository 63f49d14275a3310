//! Tests of the guarantees of all policies, and brute-force models of the simple ones.

use std::collections::BTreeMap;

use super::*;
use crate::test_seed::seeds;

const IDS: u32 = 40;

fn hash(id: Id) -> u64 {
    (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Performs random insertions, accesses, removals and evictions. `act` is called for each of them.
/// For an eviction it chooses an id that is in the cache and not spared (ids below the number are)
/// and returns it.
fn drive(seed: u64, steps: usize, mut act: impl FnMut(&Step, &BTreeMap<Id, u64>) -> Option<Id>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut inside = BTreeMap::new();
    for _ in 0..steps {
        let id = random.u32(..IDS);
        let size = random.u64(..100);
        let step = match random.u8(..10) {
            0 => Step::Evict { spared: random.u32(..4) },
            1 if inside.contains_key(&id) => Step::Remove(id),
            2..=4 if !inside.contains_key(&id) => Step::Insert(id, size),
            // Also for ids that are not in the cache.
            _ => Step::Touch(id),
        };
        let evicted = act(&step, &inside);
        match step {
            Step::Insert(id, size) => drop(inside.insert(id, size)),
            Step::Remove(id) => drop(inside.remove(&id)),
            Step::Touch(_) => {}
            Step::Evict { spared } => {
                assert_eq!(evicted.is_some(), inside.keys().any(|id| *id >= spared));
                if let Some(id) = evicted {
                    assert!(id >= spared && inside.remove(&id).is_some(), "{id} evicted");
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(Id, u64),
    Touch(Id),
    Remove(Id),
    Evict { spared: Id },
}

fn apply(policy: &mut AnyPolicy, step: &Step) -> Option<Id> {
    match *step {
        Step::Insert(id, size) => policy.insert(id, Entry { hash: hash(id), size }),
        Step::Touch(id) => policy.touch(id),
        Step::Remove(id) => policy.remove(id),
        Step::Evict { spared } => {
            let victim = policy.victim(|id| id < spared)?;
            policy.evict(victim);
            return Some(victim);
        }
    }
    None
}

#[test]
fn every_policy_keeps_what_all_promise() {
    for seed in seeds("policies", 20) {
        for name in PolicyName::ALL {
            for capacity in [0, 3, 1_000] {
                let mut policy = AnyPolicy::new(name, &Parameters::new(capacity));
                let mut twin = AnyPolicy::new(name, &Parameters::new(capacity));
                drive(seed, 1_000, |step, inside| {
                    assert_eq!(policy.len(), inside.len(), "{name}");
                    assert!((0..IDS).all(|id| policy.contains(id) == inside.contains_key(&id)));
                    let evicted = apply(&mut policy, step);
                    assert_eq!(apply(&mut twin, step), evicted, "{name} repeats itself");
                    evicted
                });
                // Everything can be evicted in the end.
                while let Some(victim) = policy.victim(|_| false) {
                    policy.evict(victim);
                }
                assert!(policy.is_empty(), "{name}");
                assert!(policy.memory_bytes() < 100_000, "{name}: {}", policy.memory_bytes());
            }
        }
    }
}

/// A model's data on an object.
#[derive(Clone, Copy, Default)]
struct Known {
    count: u64,
    size: u64,
    /// Turns of the insertion, of the last access, and of the current count.
    entered: u64,
    used: u64,
    counted: u64,
    value: f64,
}

/// Compares a policy with the victim that `least` selects from the complete data.
fn compare(
    name: PolicyName,
    parameters: &Parameters,
    counted: impl Fn(&mut BTreeMap<Id, Known>),
    least: impl Fn(&Known, &Known) -> std::cmp::Ordering,
) {
    for seed in seeds("policy model", 40) {
        let mut policy = AnyPolicy::new(name, parameters);
        let mut model: BTreeMap<Id, Known> = BTreeMap::new();
        let (mut turn, mut floor) = (0, 0.0);
        drive(seed, 3_000, |step, _| {
            turn += 1;
            match *step {
                Step::Insert(id, size) => {
                    let fresh = Known { size, entered: turn, ..Known::default() };
                    ask(model.entry(id).or_insert(fresh), turn, floor);
                }
                Step::Touch(id) => {
                    if let Some(known) = model.get_mut(&id) {
                        ask(known, turn, floor);
                    }
                }
                Step::Remove(id) => drop(model.remove(&id)),
                Step::Evict { spared } => {
                    let candidates = model.iter().filter(|(id, _)| **id >= spared);
                    let victim = candidates.min_by(|a, b| least(a.1, b.1)).map(|(id, _)| *id);
                    if let Some(known) = victim.and_then(|id| model.remove(&id)) {
                        floor = f64::max(floor, known.value);
                        counted(&mut model);
                    }
                    assert_eq!(apply(&mut policy, step), victim, "{name}, turn {turn}");
                    return victim;
                }
            }
            counted(&mut model);
            apply(&mut policy, step)
        });
    }
}

/// An access, including the first one.
fn ask(known: &mut Known, turn: u64, floor: f64) {
    known.count += 1;
    (known.used, known.counted) = (turn, turn);
    // Rounded as in the policy: equal values are distinguished by their turns.
    let worth = 1.0 / known.size.max(1) as f64;
    known.value = floor + known.count as f64 * worth;
}

#[test]
fn lru_and_fifo_are_what_they_are_called() {
    let parameters = Parameters::new(100);
    compare(PolicyName::Lru, &parameters, |_| {}, |a, b| a.used.cmp(&b.used));
    compare(PolicyName::Fifo, &parameters, |_| {}, |a, b| a.entered.cmp(&b.entered));
}

#[test]
fn lfu_with_aging_agrees_with_a_model() {
    for bound in [1, 2, 10, 65_535] {
        let parameters = Parameters { aging_mean: bound, ..Parameters::new(100) };
        let halve_if_due = |model: &mut BTreeMap<Id, Known>| {
            let sum: u64 = model.values().map(|known| known.count).sum();
            if sum <= u64::from(bound) * model.len() as u64 {
                return;
            }
            // The order of all objects does not change.
            let mut order: Vec<_> = model.iter_mut().map(|(_, known)| known).collect();
            order.sort_by_key(|known| (known.count, known.counted));
            for (rank, known) in (0..).zip(order) {
                known.count /= 2;
                known.counted = rank;
            }
        };
        compare(PolicyName::LfuAging, &parameters, halve_if_due, |a, b| {
            (a.count, a.counted).cmp(&(b.count, b.counted))
        });
    }
}

#[test]
fn gdsf_agrees_with_its_formula() {
    compare(
        PolicyName::Gdsf,
        &Parameters::new(100),
        |_| {},
        |a, b| a.value.total_cmp(&b.value).then(a.counted.cmp(&b.counted)),
    );
}

#[test]
fn gdsf_can_weigh_traffic() {
    let victim = |cost| {
        let mut policy = Gdsf::new(&Parameters { cost, ..Parameters::new(1 << 20) });
        policy.insert(0, Entry { hash: 0, size: 100_000 });
        policy.insert(1, Entry { hash: 1, size: 2_000 });
        policy.insert(2, Entry { hash: 2, size: 2_000 });
        [1, 2].iter().for_each(|id| policy.touch(*id));
        policy.victim(|_| false)
    };
    assert_eq!(victim(Cost::One), Some(0), "much room for one hit");
    assert_eq!(victim(Cost::Packets), Some(0), "seldom asked for");
    // Requested equally often, the large object saves more traffic per byte of capacity.
    let value = |cost: Cost, size: u64| cost.of(size) / size as f64;
    assert!(value(Cost::One, 100_000) < 0.03 * value(Cost::One, 2_000));
    assert!(value(Cost::Packets, 100_000) > 0.6 * value(Cost::Packets, 2_000));
    assert_eq!(value(Cost::Root, 10_000), 0.5 * value(Cost::Root, 2_500));
}

/// Requests objects of size 1 in a cache of ten and returns those in the cache at the end.
fn inside(name: PolicyName, requests: &[Id]) -> Vec<Id> {
    let policy = AnyPolicy::new(name, &Parameters::new(10));
    let mut cache = PolicyCache::new(policy, Unit::Objects, 10);
    for id in requests {
        cache.request(*id, hash(*id), 1);
    }
    (0..100).filter(|id| cache.policy().contains(*id)).collect()
}

#[test]
fn one_timers_do_not_displace_what_was_asked_for_twice() {
    // Objects 0 to 4 twice, then 45 objects that are requested once.
    let requests: Vec<Id> = (0..5).chain(0..5).chain(50..95).collect();
    let kept = |name| inside(name, &requests).into_iter().filter(|id| *id < 5).count();
    for name in [PolicyName::LfuAging, PolicyName::WTinyLfu] {
        assert_eq!(kept(name), 5, "{name}");
    }
    assert_eq!([PolicyName::Lru, PolicyName::Fifo, PolicyName::Clock].map(kept), [0; 3]);
}

#[test]
fn s3_fifo_remembers_what_it_gave_up() {
    let mut policy = S3Fifo::new(&Parameters::new(10));
    let entry = |id| Entry { hash: hash(id), size: 1 };
    policy.insert(0, entry(0));
    policy.evict(0);
    policy.insert(1, entry(1));
    policy.insert(0, entry(0));
    assert_eq!(policy.victim(|_| false), Some(1), "what came back is in the main queue");
    // A removed object is not remembered.
    policy.remove(1);
    policy.insert(1, entry(1));
    assert_eq!(policy.victim(|_| false), Some(1));
    assert!(policy.takes(1) && !policy.takes(2));
}
