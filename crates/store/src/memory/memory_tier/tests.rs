//! Tests of the tier against a naive model: one vector per level.

use super::*;
use crate::test_seed::seeds;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Body(u64, usize);

impl Weighed for Body {
    fn weight(&self) -> usize {
        self.1
    }
}

fn digest(number: u64) -> Digest {
    // Few values in the first half, so that the table has collisions.
    Digest::from_halves(number % 7, number)
}

fn resident(number: u64, weight: usize) -> Resident<Body> {
    Resident {
        object: Body(number, weight),
        dirty: false,
        prefetched: None,
        html: false,
        cluster: None,
        accesses: 0,
        group: 0,
        site: 0,
    }
}

/// Returns the band that lies this far behind a record.
fn band(distance: u64) -> DistanceBand {
    DistanceBand::of(distance..distance + 1, 0..1, &(0..u64::MAX))
}

/// Levels as vectors, oldest first.
struct Model {
    levels: [Vec<(Digest, Resident<Body>)>; 3],
    capacity: [usize; 3],
    admission: TierAdmission,
    /// Value of `cold_bytes` when each object entered cold.
    cold_since: std::collections::BTreeMap<Digest, u64>,
    counters: TierCounters,
}

impl Model {
    fn bytes(&self, level: usize) -> usize {
        self.levels[level].iter().map(|(_, resident)| resident.object.1).sum()
    }

    fn find(&self, digest: &Digest) -> Option<(usize, usize)> {
        (0..3).find_map(|level| {
            let place = self.levels[level].iter().position(|(held, _)| held == digest)?;
            Some((level, place))
        })
    }

    fn get(&mut self, digest: &Digest) -> Option<Resident<Body>> {
        let Some((level, place)) = self.find(digest) else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits[level] += 1;
        if level == 2 {
            let behind = self.counters.cold_bytes - self.cold_since[digest];
            self.counters.last_hits += u64::from(behind * 10 > self.capacity[2] as u64 * 7);
        }
        let (_, mut resident) = self.levels[level].remove(place);
        resident.accesses += 1;
        let mut top = 0;
        if let Some(band) = resident.prefetched.take() {
            self.counters.prefetch_hits += 1;
            self.counters.band_hits[band.number()] += 1;
            top = usize::from(self.admission == TierAdmission::SecondUse);
        }
        self.levels[top].push((*digest, resident.clone()));
        self.balance();
        Some(resident)
    }

    fn insert(&mut self, digest: Digest, resident: Resident<Body>) -> Option<Resident<Body>> {
        let old = self.remove(&digest);
        self.counters.prefetched += u64::from(resident.prefetched.is_some());
        self.counters.entered_bytes += resident.object.1 as u64;
        let is_prefetched = resident.prefetched.is_some();
        self.counters.prefetched_bytes += u64::from(is_prefetched) * resident.object.1 as u64;
        match resident.prefetched {
            Some(_) if self.admission == TierAdmission::SecondUse => {
                self.push_cold(digest, resident);
            }
            _ => self.levels[1].push((digest, resident)),
        }
        self.balance();
        old
    }

    fn push_cold(&mut self, digest: Digest, resident: Resident<Body>) {
        self.counters.cold_bytes += resident.object.1 as u64;
        self.cold_since.insert(digest, self.counters.cold_bytes);
        self.levels[2].push((digest, resident));
    }

    fn remove(&mut self, digest: &Digest) -> Option<Resident<Body>> {
        let (level, place) = self.find(digest)?;
        Some(self.levels[level].remove(place).1)
    }

    fn balance(&mut self) {
        while self.bytes(0) > self.capacity[0] {
            let oldest = self.levels[0].remove(0);
            self.levels[1].push(oldest);
        }
        while self.bytes(1) > self.capacity[1] {
            let newest = self.levels[1].last().unwrap();
            if self.bytes(0) + newest.1.object.1 <= self.capacity[0] {
                let newest = self.levels[1].pop().unwrap();
                self.levels[0].insert(0, newest);
            } else {
                let (digest, resident) = self.levels[1].remove(0);
                self.push_cold(digest, resident);
            }
        }
    }

    fn oldest_of_cold(&self, percent: usize) -> Vec<Digest> {
        let mut before = 0;
        let mut oldest = Vec::new();
        for (digest, resident) in &self.levels[2] {
            if before == 0 || before < self.capacity[2] * percent / 100 {
                oldest.push(*digest);
            }
            before += resident.object.1;
        }
        oldest
    }
}

fn check(tier: &Tier<Body>, model: &Model) {
    for (level, number) in [Level::Hot, Level::Medium, Level::Cold].into_iter().zip(0..) {
        assert_eq!(tier.level_bytes(level), model.bytes(number));
        for (digest, _) in &model.levels[number] {
            assert_eq!(tier.level(digest), Some(level));
        }
    }
    let all: Vec<_> = tier.iter().map(|(digest, resident)| (*digest, resident.clone())).collect();
    assert_eq!(all, [&model.levels[2][..], &model.levels[1], &model.levels[0]].concat());
    assert_eq!((tier.len(), tier.bytes()), (all.len(), (0..3).map(|n| model.bytes(n)).sum()));
    let dirty = all.iter().filter(|(_, resident)| resident.dirty);
    assert_eq!(tier.dirty_bytes(), dirty.map(|(_, resident)| resident.object.1).sum::<usize>());
    for percent in [0, 50, 100] {
        let oldest = tier.oldest_of_cold(percent).map(|(digest, _)| *digest);
        assert_eq!(oldest.collect::<Vec<_>>(), model.oldest_of_cold(percent.into()));
    }
    assert_eq!(*tier.counters(), model.counters);
}

fn evict(tier: &mut Tier<Body>, model: &mut Model) {
    while model.bytes(2) > model.capacity[2] {
        let (oldest, expected) = model.levels[2].remove(0);
        match tier.next_eviction() {
            Some(Eviction::Dropped(digest, resident)) => {
                assert_eq!((digest, &resident), (oldest, &expected));
                assert!(!resident.dirty);
                model.counters.dropped += 1;
            }
            Some(Eviction::Write(digest, resident)) => {
                assert_eq!((digest, resident), (oldest, &expected));
                assert!(resident.dirty);
                assert_eq!(tier.remove(&digest), Some(expected));
            }
            None => panic!("{oldest:?} should leave"),
        }
    }
    assert_eq!(tier.next_eviction(), None);
}

fn step(tier: &mut Tier<Body>, model: &mut Model, random: &mut fastrand::Rng) {
    let number = random.u64(..60);
    let digest = digest(number);
    match random.u8(..10) {
        0..4 => {
            let new = Resident {
                dirty: random.bool(),
                prefetched: random.bool().then(|| band(random.u64(..1 << 20))),
                html: random.bool(),
                ..resident(number, random.usize(..60))
            };
            assert_eq!(tier.insert(digest, new.clone()), model.insert(digest, new));
        }
        4..8 => assert_eq!(tier.get(&digest).cloned(), model.get(&digest)),
        8 => assert_eq!(tier.remove(&digest), model.remove(&digest)),
        _ => {
            let dirty = random.bool();
            let cluster = Some(random.u32(..9));
            let place = model.find(&digest);
            assert_eq!(tier.set_dirty(&digest, dirty), place.is_some());
            assert_eq!(tier.set_cluster(&digest, cluster), place.is_some());
            if let Some((level, place)) = place {
                let resident = &mut model.levels[level][place].1;
                (resident.dirty, resident.cluster) = (dirty, cluster);
                assert_eq!(tier.peek(&digest), Some(&*resident));
            }
        }
    }
}

#[test]
fn any_sequence_of_operations_equals_the_model() {
    for seed in seeds("tier::any_sequence_of_operations_equals_the_model", 60) {
        let mut random = fastrand::Rng::with_seed(seed);
        let shares = TierShares { hot: random.u8(..50), medium: random.u8(1..50) };
        let admission = [TierAdmission::All, TierAdmission::SecondUse][random.usize(..2)];
        let mut tier = Tier::new(0, shares, admission);
        let mut model = Model {
            levels: Default::default(),
            capacity: [0; 3],
            admission,
            cold_since: Default::default(),
            counters: TierCounters::default(),
        };
        for round in 0..600 {
            if round % 200 == 0 {
                let capacity = random.usize(..2_000);
                let hot = capacity * usize::from(shares.hot) / 100;
                let medium = capacity * usize::from(shares.medium) / 100;
                model.capacity = [hot, medium, capacity - hot - medium];
                model.balance();
                tier.set_capacity(capacity);
            }
            step(&mut tier, &mut model, &mut random);
            if random.bool() {
                evict(&mut tier, &mut model);
                assert!(tier.bytes() <= model.capacity.iter().sum());
            }
            check(&tier, &model);
        }
    }
}

#[test]
fn objects_asked_for_once_do_not_displace_hot_ones() {
    let mut tier = Tier::new(1_000, TierShares::default(), TierAdmission::All);
    for number in 0..3 {
        tier.insert(digest(number), resident(number, 100));
        tier.get(&digest(number));
    }
    for number in 10..1_000 {
        tier.insert(digest(number), resident(number, 100));
        while let Some(eviction) = tier.next_eviction() {
            assert!(matches!(eviction, Eviction::Dropped(_, gone) if gone.object.0 >= 10));
        }
    }
    assert!((0..3).all(|number| tier.level(&digest(number)) == Some(Level::Hot)));
    assert_eq!(tier.bytes(), 1_000);
}

#[test]
fn a_prefetched_object_counts_once() {
    let mut tier = Tier::new(1_000, TierShares::default(), TierAdmission::All);
    tier.insert(digest(1), Resident { prefetched: Some(band(0)), ..resident(1, 10) });
    tier.insert(digest(2), Resident { prefetched: Some(band(0)), ..resident(2, 10) });
    for _ in 0..3 {
        assert!(tier.get(&digest(1)).is_some());
    }
    assert!(tier.get(&digest(3)).is_none());
    let counters = tier.counters();
    assert_eq!((counters.prefetched, counters.prefetch_hits), (2, 1));
    assert_eq!((counters.hits.iter().sum::<u64>(), counters.misses), (3, 1));
}

#[test]
fn prefetched_objects_displace_prefetched_objects() {
    let mut tier = Tier::new(1_000, TierShares::default(), TierAdmission::SecondUse);
    for number in 0..7 {
        tier.insert(digest(number), resident(number, 100));
    }
    for number in 10..1_000 {
        let new = Resident { prefetched: Some(band(0)), ..resident(number, 100) };
        tier.insert(digest(number), new);
        while let Some(eviction) = tier.next_eviction() {
            assert!(matches!(eviction, Eviction::Dropped(_, gone) if gone.object.0 >= 10));
        }
    }
    assert!((0..7).all(|number| tier.level(&digest(number)) != Some(Level::Cold)));
    // The first use makes it equal to a new object, the second makes it hot.
    for level in [Level::Cold, Level::Medium, Level::Hot] {
        assert_eq!(tier.level(&digest(999)), Some(level));
        tier.get(&digest(999));
    }
}

#[test]
fn memory_costs_the_hits_that_would_be_lost() {
    let mut tier = Tier::new(10_000, TierShares::default(), TierAdmission::SecondUse);
    let mut hits = 0;
    for number in 0..200 {
        let new = Resident { prefetched: Some(band(0)), ..resident(number, 100) };
        tier.insert(digest(number), new);
        while tier.next_eviction().is_some() {}
        // Cold has space for 30 objects. The one behind 25 others is in the last part; the one
        // behind 5 is not.
        for (behind, digit) in [(5, 0), (25, 1)] {
            let asked = number >= 100 && (number - behind) % 10 == digit;
            hits += u64::from(asked && behind == 25);
            assert!(!asked || tier.get(&digest(number - behind)).is_some());
        }
    }
    let price = tier.space_price();
    assert_eq!((price.capacity, price.cold_percent), (3_000, 30));
    assert_eq!(price.cold_hits, hits);
    assert!(price.entered_bytes >= 200 * 100, "{}", price.entered_bytes);
}

#[test]
fn what_fits_each_level_fits() {
    let tier = Tier::<Body>::new(1_000, TierShares::default(), TierAdmission::All);
    assert!(tier.fits(300));
    assert!(!tier.fits(301));
}

#[test]
fn t4_without_a_hot_share_it_is_one_lru_list() {
    for seed in seeds("tier::t4_without_a_hot_share_it_is_one_lru_list", 20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tier = Tier::new(10_000, TierShares { hot: 0, medium: 90 }, TierAdmission::All);
        let mut list: Vec<Digest> = Vec::new();
        for _ in 0..1_000 {
            let wanted = digest(random.u64(..200));
            let held = list.iter().position(|held| *held == wanted);
            assert_eq!(tier.get(&wanted).is_some(), held.is_some());
            match held {
                Some(at) => _ = list.remove(at),
                None => _ = tier.insert(wanted, resident(wanted.halves().1, random.usize(1..300))),
            }
            list.push(wanted);
            while let Some(Eviction::Dropped(gone, _)) = tier.next_eviction() {
                assert_eq!(list.remove(0), gone, "the least recently used goes");
            }
            let order: Vec<Digest> = tier.iter().map(|(digest, _)| *digest).collect();
            assert_eq!(order, list);
            assert!(tier.level_bytes(Level::Cold) <= 1_000 && tier.level_bytes(Level::Hot) == 0);
        }
    }
}

#[test]
fn a_new_version_keeps_its_place_beside_its_neighbours() {
    let mut tier = Tier::new(1_000, TierShares::default(), TierAdmission::All);
    for number in 0..5 {
        tier.insert(digest(number), Resident { site: number % 2, ..resident(number, 10) });
    }
    let beside = |tier: &Tier<Body>, number| -> Vec<u64> {
        tier.beside(&digest(number), 9).map(|(_, resident)| resident.object.0).collect()
    };
    assert_eq!(beside(&tier, 2), [0, 4]);
    tier.insert(digest(0), resident(0, 20));
    tier.get(&digest(0));
    assert_eq!(beside(&tier, 4), [2, 0]);
    tier.remove(&digest(2));
    assert_eq!((beside(&tier, 4), beside(&tier, 2)), (vec![0], vec![]));
    // The digest moves to another site, and leaves no trace in the list of the old one.
    tier.insert(digest(4), Resident { site: 1, ..resident(4, 10) });
    assert_eq!((beside(&tier, 0), beside(&tier, 4)), (vec![], vec![3, 1]));
}
