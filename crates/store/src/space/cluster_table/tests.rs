//! Tests of the cluster table against a naive model, of its codec, and of its counts.

use super::codec::BadTable;
use super::*;
use crate::test_seed::seeds;

const SIZE: u32 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    state: State,
    after: u64,
    pins: u32,
    references: u16,
    last_access: u32,
    incarnation: u64,
    live: u32,
    dead_bytes: u32,
    dead: BTreeSet<u32>,
}

struct Model {
    clusters: Vec<Plain>,
    policy: Policy,
    next: u64,
    position: u32,
    opened: u32,
}

impl Policy {
    fn reference(&self) -> u16 {
        if self.half_life_percent > 0 || self.prefer == Prefer::Bytes { 16 } else { 1 }
    }

    /// Returns the weight of a request for an object of this many bytes.
    fn weight(&self, bytes: u32) -> u64 {
        match self.prefer {
            Prefer::Requests => u64::from(self.reference()),
            // Exact for sizes of so few digits.
            Prefer::Bytes => (f64::from(bytes) * 1024.0 / f64::from(SIZE)).ceil().max(1.0) as u64,
        }
    }
}

impl Model {
    fn new(clusters: u32, policy: Policy) -> Model {
        let plain = Plain {
            state: State::Free,
            after: 0,
            pins: 0,
            references: 0,
            last_access: 0,
            incarnation: 0,
            live: 0,
            dead_bytes: 0,
            dead: BTreeSet::new(),
        };
        Model { clusters: vec![plain; clusters as usize], policy, next: 1, position: 0, opened: 0 }
    }

    fn count(&self, state: State) -> u32 {
        self.clusters.iter().filter(|cluster| cluster.state == state).count() as u32
    }

    fn take(&mut self, most: u32, now: u32) -> Option<Range<u32>> {
        let len = self.clusters.len() as u32;
        let free = |at: u32| self.clusters[at as usize].state == State::Free;
        let start = (self.position..len).chain(0..self.position).find(|at| free(*at))?;
        let run = start
            ..(start..len.min(start + most)).find(|at| !free(*at)).unwrap_or(len.min(start + most));
        for at in run.clone() {
            let cluster = &mut self.clusters[at as usize];
            (cluster.state, cluster.last_access) = (State::Open, now);
            cluster.incarnation = self.next;
            self.next += 1;
            self.opened += 1;
            let half_life = f64::from(len) * f64::from(self.policy.half_life_percent) / 100.0;
            if half_life > 0.0 && f64::from(self.opened) >= half_life {
                self.opened = 0;
                self.clusters.iter_mut().for_each(|cluster| cluster.references /= 2);
            }
        }
        self.position = run.end % len;
        Some(run)
    }

    fn touch(&mut self, at: u32, bytes: u32, now: u32) {
        let cluster = &mut self.clusters[at as usize];
        if !cluster.state.in_use() {
            return;
        }
        cluster.last_access = now;
        let references = u64::from(cluster.references) + self.policy.weight(bytes);
        cluster.references = references.min(65_535) as u16;
        if self.policy.half_life_percent > 0 {
            return;
        }
        let in_use = self.clusters.iter().filter(|cluster| cluster.state.in_use());
        let references: Vec<u64> = in_use.map(|cluster| u64::from(cluster.references)).collect();
        let mean = references.iter().sum::<u64>() as f64 / references.len() as f64;
        let bound = f64::from(self.policy.mean_references) * f64::from(self.policy.reference());
        if mean > bound {
            self.clusters.iter_mut().for_each(|cluster| cluster.references /= 2);
        }
    }

    fn forget(&mut self, at: u32, state: State) {
        let cluster = &mut self.clusters[at as usize];
        cluster.state = state;
        (cluster.references, cluster.live, cluster.dead_bytes) = (0, 0, 0);
        cluster.dead.clear();
    }

    fn key(&self, at: u32) -> (u32, u32, u32) {
        let cluster = &self.clusters[at as usize];
        let alive = 16 - (cluster.dead_bytes * 16 / SIZE).min(15);
        let len = self.clusters.len() as u32;
        let distance = (at + len - self.position) % len;
        let references = u32::from(cluster.references) + u32::from(self.policy.reference());
        (references * alive, cluster.last_access, distance)
    }

    fn victim(&self, protected: &dyn Fn(u32) -> bool) -> Option<u32> {
        let young = self.clusters.len() as u64 * u64::from(self.policy.young_percent) / 100;
        let candidate = |at: &u32| {
            let cluster = &self.clusters[*at as usize];
            let on_disk = matches!(cluster.state, State::OnDisk | State::OnDiskAndInMemory);
            on_disk && cluster.pins == 0 && !protected(*at)
        };
        let all: Vec<u32> = (0..self.clusters.len() as u32).filter(candidate).collect();
        let settled = |at: &&u32| {
            let cluster = &self.clusters[**at as usize];
            cluster.state == State::OnDisk && cluster.incarnation + young < self.next
        };
        let best = all.iter().filter(settled).min_by_key(|at| self.key(**at));
        let in_memory = |at: u32| self.clusters[at as usize].state == State::OnDiskAndInMemory;
        best.or_else(|| all.iter().min_by_key(|at| (in_memory(**at), self.key(**at)))).copied()
    }
}

/// Performs one random operation on both.
fn step(table: &mut ClusterTable, model: &mut Model, random: &mut fastrand::Rng, now: u32) {
    let at = random.u32(..model.clusters.len() as u32);
    let cluster = model.clusters[at as usize].clone();
    match random.u8(..17) {
        16 => {
            table.read_past(at);
            model.position = (at + 1) % model.clusters.len() as u32;
        }
        0 | 1 => {
            let most = random.u32(1..5);
            assert_eq!(table.take_free_run(most, now), model.take(most, now));
        }
        2 if cluster.state == State::Open => {
            table.start_writing(at);
            model.clusters[at as usize].state = State::Writing;
        }
        3..6 if matches!(cluster.state, State::Open | State::Writing) => {
            table.written(at);
            model.clusters[at as usize].state = State::OnDisk;
        }
        6 if matches!(cluster.state, State::OnDisk | State::OnDiskAndInMemory) => {
            let in_memory = random.bool();
            table.set_in_memory(at, in_memory);
            let states = [State::OnDisk, State::OnDiskAndInMemory];
            model.clusters[at as usize].state = states[usize::from(in_memory)];
        }
        7 if cluster.state.in_use() => {
            table.give_up(at, u64::from(now));
            model.forget(at, State::Quarantined);
            model.clusters[at as usize].after = u64::from(now);
        }
        8 => journal_durable(table, model, u64::from(now.saturating_sub(random.u32(..20)))),
        9 if cluster.pins < 3 => {
            table.pin(at);
            model.clusters[at as usize].pins += 1;
        }
        10 if cluster.pins > 0 => {
            let freed = cluster.pins == 1 && cluster.state == State::Draining;
            assert_eq!(table.unpin(at), freed);
            model.clusters[at as usize].pins -= 1;
            if freed {
                model.clusters[at as usize].state = State::Free;
            }
        }
        11 if cluster.state.in_use() => {
            table.add_record(at);
            model.clusters[at as usize].live += 1;
        }
        12 => {
            let (offset, bytes) = (random.u32(..20), random.u32(..200));
            let new = cluster.state.in_use() && !cluster.dead.contains(&offset);
            assert_eq!(table.mark_dead(at, offset, bytes), new);
            if new {
                let plain = &mut model.clusters[at as usize];
                plain.dead.insert(offset);
                plain.dead_bytes = (plain.dead_bytes + bytes).min(SIZE);
                plain.live = plain.live.saturating_sub(1);
            }
        }
        13 if random.u8(..50) == 0 => {
            table.mark_bad(at);
            model.forget(at, State::Bad);
        }
        _ => {
            let bytes = random.u32(..=SIZE);
            table.touch(at, bytes, now);
            model.touch(at, bytes, now);
        }
    }
}

fn journal_durable(table: &mut ClusterTable, model: &mut Model, position: u64) {
    let mut freed = 0;
    for cluster in &mut model.clusters {
        if cluster.state == State::Quarantined && cluster.after <= position {
            freed += u32::from(cluster.pins == 0);
            cluster.state = if cluster.pins == 0 { State::Free } else { State::Draining };
        }
    }
    assert_eq!(table.journal_durable(position), freed);
}

fn check(table: &mut ClusterTable, model: &Model, random: &mut fastrand::Rng, now: u32) {
    for (plain, at) in model.clusters.iter().zip(0..) {
        assert_eq!(table.state(at), plain.state);
        let references = plain.references / model.policy.reference();
        assert_eq!((table.pins(at), table.references(at)), (plain.pins, references));
        assert_eq!(table.last_access(at), plain.last_access);
        assert_eq!(table.incarnation(at), plain.incarnation);
        assert_eq!((table.live_records(at), table.dead_bytes(at)), (plain.live, plain.dead_bytes));
        assert!(table.dead_records(at).eq(plain.dead.iter().copied()));
        let offset = random.u32(..20);
        let dead = !plain.state.in_use() || plain.dead.contains(&offset);
        assert_eq!(table.is_dead(at, offset), dead);
    }
    for state in [State::Free, State::Open, State::OnDisk, State::Draining, State::Bad] {
        assert_eq!(table.count(state), model.count(state));
    }
    assert_eq!((table.next_incarnation(), table.position()), (model.next, model.position));
    let mask = random.u32(..) | random.u32(..);
    let protected = |at: u32| mask >> (at % 32) & 1 == 0;
    assert_eq!(table.victim(protected), model.victim(&protected));
    assert_eq!(table.victim(|_| false), model.victim(&|_| false));
    let limit = model.policy.one_timer_seconds;
    let old = |plain: &Plain| limit.is_some_and(|limit| now - plain.last_access >= limit);
    let expected = (0..)
        .zip(&model.clusters)
        .filter(|(_, plain)| plain.state == State::OnDisk && plain.pins == 0 && old(plain))
        .min_by_key(|(at, plain)| (plain.last_access, *at));
    assert_eq!(table.one_timer(now), expected.map(|(at, _)| at));
    let most = model.clusters.iter().zip(0..).filter(|(plain, _)| {
        matches!(plain.state, State::OnDisk | State::OnDiskAndInMemory) && !plain.dead.is_empty()
    });
    let most = most.map(|(plain, _)| plain.dead.len()).max();
    let most = most.filter(|_| table.total_dead() > model.policy.max_dead);
    let named = table.most_dead().map(|at| model.clusters[at as usize].dead.len());
    assert_eq!(named, most);
}

#[test]
fn any_sequence_of_operations_equals_the_model() {
    for seed in seeds("cluster_table::any_sequence_of_operations_equals_the_model", 40) {
        let mut random = fastrand::Rng::with_seed(seed);
        let policy = Policy {
            half_life_percent: if random.bool() { 0 } else { random.u8(1..60) },
            mean_references: random.u16(1..4),
            young_percent: random.u8(..60),
            prefer: [Prefer::Requests, Prefer::Bytes][random.usize(..2)],
            one_timer_seconds: random.bool().then_some(random.u32(1..300)),
            max_dead: random.usize(..60),
        };
        let clusters = random.u32(1..40);
        let mut table = ClusterTable::new(clusters, SIZE, policy);
        let mut model = Model::new(clusters, policy);
        for now in 0..1_500 {
            step(&mut table, &mut model, &mut random, now);
            check(&mut table, &model, &mut random, now);
            if now == 1_000 {
                table.grow(clusters + 7);
                let more = Model::new(7, policy).clusters;
                model.clusters.extend(more);
            }
            if now % 100 == 99 {
                decode_equals(&table, &model, &mut random, now);
            }
        }
    }
}

/// Checks that a decoded table continues like the original after a crash at this moment.
fn decode_equals(table: &ClusterTable, model: &Model, random: &mut fastrand::Rng, now: u32) {
    let mut bytes = Vec::new();
    table.encode(&mut bytes);
    let most = crate::format::table_size::cluster_table_max(table.clusters(), table.total_dead());
    assert!(bytes.len() <= most);
    let mut decoded = ClusterTable::decode(&bytes, table.clusters(), SIZE, model.policy).unwrap();
    let mut after = Model::new(table.clusters(), model.policy);
    (after.next, after.position) = (model.next, model.position);
    for (to, from) in after.clusters.iter_mut().zip(&model.clusters) {
        let state = match from.state {
            State::Quarantined | State::Draining => State::Free,
            State::Writing => State::Open,
            State::OnDiskAndInMemory => State::OnDisk,
            state => state,
        };
        if state.in_use() {
            *to = Plain { pins: 0, after: 0, ..from.clone() };
        }
        to.state = state;
    }
    check(&mut decoded, &after, random, now);
    for _ in 0..20 {
        let mut damaged = bytes.clone();
        let at = random.usize(..damaged.len());
        damaged[at] ^= 1 << random.u8(..8);
        damaged.truncate(random.usize(..=damaged.len() * 2));
        // Any result but a panic is fine; a table that is accepted must work.
        if let Ok(mut table) = ClusterTable::decode(&damaged, table.clusters(), SIZE, model.policy)
        {
            let _ = table.victim(|_| false);
        }
    }
    bytes.push(0);
    let longer = ClusterTable::decode(&bytes, table.clusters(), SIZE, model.policy);
    assert_eq!(longer.err(), Some(BadTable::Length));
}

#[test]
fn bytes_that_are_no_table_are_refused() {
    let mut table = ClusterTable::new(2, SIZE, Policy::default());
    table.take_free_run(1, 5);
    table.mark_dead(0, 3, 10);
    table.mark_dead(0, 7, 10);
    let mut bytes = Vec::new();
    table.encode(&mut bytes);
    let decode = |bytes: &[u8], clusters| {
        ClusterTable::decode(bytes, clusters, SIZE, Policy::default()).err()
    };
    assert_eq!(decode(&bytes, 2), None);
    assert_eq!(decode(&bytes, 3), Some(BadTable::Clusters));
    for end in 0..bytes.len() {
        assert_eq!(decode(&bytes[..end], 2), Some(BadTable::Length), "cut to {end}");
    }
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        decode(&bytes, 2)
    };
    assert_eq!(with(12, 2), Some(BadTable::Header), "position");
    assert_eq!(with(4, 0), Some(BadTable::Header), "incarnation of none");
    assert_eq!(with(11, 255), Some(BadTable::Header), "incarnation beyond all");
    assert_eq!(with(16, 4), Some(BadTable::Entry(0)), "state");
    assert_eq!(with(17, 2), Some(BadTable::Entry(0)), "incarnation not given yet");
    assert_eq!(with(17, 0), Some(BadTable::Entry(0)), "no incarnation");
    assert_eq!(with(36, 255), Some(BadTable::Entry(0)), "more dead than bytes");
    assert_eq!(with(43, 8), Some(BadTable::Entry(0)), "dead records out of order");
    assert_eq!(with(43, 7), Some(BadTable::Entry(0)), "a dead record twice");
    assert_eq!(with(51, 9), Some(BadTable::Entry(1)), "state of the second");
}

#[test]
fn replay_in_any_order_ends_in_the_same_table() {
    let mut forward = ClusterTable::new(8, SIZE, Policy::default());
    let mut backward = ClusterTable::new(8, SIZE, Policy::default());
    for (cluster, incarnation) in (0..8).zip(11..) {
        forward.replay_open(cluster, incarnation, 1);
        backward.replay_open(7 - cluster, 18 - u64::from(cluster), 1);
    }
    for table in [&mut forward, &mut backward] {
        (0..8).for_each(|cluster| table.written(cluster));
        table.replay_give_up(3);
        table.recovered();
        assert_eq!((table.victim(|_| false), table.next_incarnation()), (Some(0), 19));
        let spared = |cluster: u32| cluster < 6;
        assert_eq!(table.victim(spared), Some(6), "only the young are left");
        assert_eq!(table.take_free_run(9, 2), Some(3..4));
    }
}

#[test]
fn the_table_takes_at_most_forty_bytes_per_cluster() {
    let mut table = ClusterTable::new(100_000, SIZE, Policy::default());
    while table.take_free_run(1_000, 0).is_some() {}
    assert!(table.memory_bytes() <= 4_000_000, "{}", table.memory_bytes());
}

#[test]
fn a_cluster_in_which_nothing_lives_goes_first_and_what_was_there_before_is_not_known() {
    let policy = Policy { young_percent: 0, ..Policy::default() };
    let mut table = ClusterTable::new(4, SIZE, policy);
    table.take_free_run(1, 1);
    table.written(0);
    table.skip_incarnations(100);
    table.take_free_run(3, 2);
    for cluster in 1..4 {
        table.add_record(cluster);
        table.add_record(cluster);
        table.written(cluster);
    }
    for _ in 0..9 {
        table.touch(2, 100, 3);
    }
    assert_eq!(table.victim(|_| false), Some(0), "the oldest cluster without requests");
    table.mark_dead(2, 0, 10);
    assert!(!table.is_all_dead(2));
    table.mark_dead(2, 7, 10);
    assert_eq!(table.victim(|_| false), Some(2), "however often it was asked for");
    let all_dead: Vec<u32> = (0..4).filter(|cluster| table.is_all_dead(*cluster)).collect();
    assert_eq!(all_dead, [2], "records of 0 were not counted");
}

#[test]
fn the_cluster_that_earns_the_most_bytes_stays_where_bytes_are_preferred() {
    const MIB: u32 = 1 << 20;
    for (prefer, stays) in [(Prefer::Requests, 0), (Prefer::Bytes, 1)] {
        for half_life_percent in [0, 10] {
            let policy =
                Policy { half_life_percent, young_percent: 0, prefer, ..Policy::default() };
            let mut table = ClusterTable::new(2, MIB, policy);
            table.take_free_run(2, 1);
            (0..2).for_each(|cluster| table.written(cluster));
            (0..9).for_each(|_| table.touch(0, 3_000, 2));
            (0..2).for_each(|_| table.touch(1, 100_000, 2));
            assert_eq!(table.victim(|_| false), Some(1 - stays), "{prefer:?} {half_life_percent}");
        }
    }
}

#[test]
fn a_cluster_whose_bytes_are_asked_for_sixty_times_over_is_told_from_one_that_earns_more() {
    for size in [64 << 10, 1 << 20, 4 << 20] {
        let policy = Policy {
            half_life_percent: 10,
            young_percent: 0,
            prefer: Prefer::Bytes,
            ..Policy::default()
        };
        let mut table = ClusterTable::new(2, size, policy);
        table.take_free_run(2, 1);
        (0..2).for_each(|cluster| table.written(cluster));
        (0..61).for_each(|_| table.touch(0, size, 2));
        (0..62 * 8).for_each(|_| table.touch(1, size / 8, 2));
        assert_eq!(table.victim(|_| false), Some(0), "{size}");
        (0..1_000).for_each(|_| table.touch(0, size, 2));
        assert_eq!(table.victim(|_| false), Some(1), "{size}");
    }
}
