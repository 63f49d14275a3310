//! Tests of the allocator against its rule, applied to a plain vector.

use super::*;
use crate::layout::reference_model::Naive;
use crate::test_seed::seeds;

/// The rule on a plain vector: which slots are in use, and which class each region has.
struct Rule {
    naive: Naive,
    classes: Vec<Option<u32>>,
    /// Slots of extents, including the unused slots of their last units.
    extents: Vec<bool>,
    threshold: u32,
    region: u32,
}

impl Rule {
    fn new(slots: u32, threshold: u32, region: u32) -> Rule {
        let naive = Naive::new(slots);
        let classes = vec![None; (slots / region) as usize];
        Rule { naive, classes, extents: vec![false; slots as usize], threshold, region }
    }

    fn slots(&self) -> u32 {
        self.naive.used.len() as u32
    }

    /// Returns the places of a class in a region.
    fn places(&self, region: u32, class: u32) -> impl Iterator<Item = Run> + use<> {
        let start = region * self.region;
        (0..self.region / class).map(move |place| Run { first: start + place * class, len: class })
    }

    /// Returns whether the slot belongs to neither a class nor an extent.
    fn in_pool(&self, slot: u32) -> bool {
        let class = self.classes.get((slot / self.region) as usize).copied().flatten();
        slot < self.slots() / UNIT * UNIT && class.is_none() && !self.extents[slot as usize]
    }

    fn region_is_free(&self, region: u32) -> bool {
        (region * self.region..(region + 1) * self.region).all(|slot| self.in_pool(slot))
    }

    fn place(&self, slots: u32) -> Option<Run> {
        let count = self.classes.len() as u32;
        if slots > self.threshold {
            let len = slots.next_multiple_of(UNIT);
            let mut firsts = (0..self.slots()).step_by(UNIT as usize).rev();
            let fits = |first: &u32| {
                first + len <= self.slots() && (*first..first + len).all(|at| self.in_pool(at))
            };
            return firsts.find(fits).map(|first| Run { first, len: slots });
        }
        let own = (0..count).filter(|region| self.classes[*region as usize] == Some(slots));
        let mut places = own.flat_map(|region| self.places(region, slots));
        places.find(|run| self.naive.is_free(*run)).or_else(|| {
            let region = (0..count).find(|region| self.region_is_free(*region))?;
            self.places(region, slots).next()
        })
    }

    /// Returns whether recovery may occupy the run.
    fn may_occupy(&self, run: Run) -> bool {
        if run.len == 0 || !self.naive.is_free(run) {
            return false;
        }
        if run.len > self.threshold {
            let end = run.first + run.len.next_multiple_of(UNIT);
            let aligned = run.first.is_multiple_of(UNIT) && end <= self.slots();
            return aligned && (run.first..end).all(|slot| self.in_pool(slot));
        }
        let region = run.first / self.region;
        let Some(class) = self.classes.get(region as usize) else { return false };
        let fits = *class == Some(run.len) || self.region_is_free(region);
        fits && self.places(region, run.len).any(|place| place == run)
    }

    fn set(&mut self, run: Run, used: bool) {
        self.naive.set(run, used);
        if run.len > self.threshold {
            let end = run.first + run.len.next_multiple_of(UNIT);
            self.extents[run.first as usize..end as usize].fill(used);
            return;
        }
        let region = run.first / self.region;
        let empty = self.places(region, run.len).all(|place| self.naive.is_free(place));
        self.classes[region as usize] = (!empty).then_some(run.len);
    }

    fn grow(&mut self, slots: u32) {
        self.naive.used.resize(slots as usize, false);
        self.extents.resize(slots as usize, false);
        self.classes.resize((slots / self.region) as usize, None);
    }

    /// Returns the number of slots that nothing can take: behind the places of a region, behind an
    /// extent and behind the last unit.
    fn lost(&self) -> u32 {
        let regions = self.classes.iter().flatten().map(|class| self.region % class);
        let extents = self.extents.iter().zip(&self.naive.used);
        let behind = extents.filter(|(extent, used)| **extent && !**used).count() as u32;
        regions.sum::<u32>() + behind + self.slots() % UNIT
    }

    fn check(&self, buddy: &Buddy) {
        self.naive.check(buddy);
        assert_eq!(buddy.lost_slots(), self.lost());
        let used = self.naive.used.iter().filter(|used| **used).count();
        assert_eq!(buddy.used_slots() as usize, used);
        let classes: Vec<Option<u32>> = buddy
            .regions
            .iter()
            .map(|region| (region.class > 0).then_some(u32::from(region.class)))
            .collect();
        assert_eq!(classes, self.classes, "an empty region goes back");
        let pool = (0..self.slots()).filter(|slot| self.in_pool(*slot)).count();
        assert_eq!((buddy.pool.free() * UNIT) as usize, pool);
    }
}

fn random_space(random: &mut fastrand::Rng) -> (Space, u32, u32) {
    let region = random.u32(1..6) * UNIT;
    let slots = random.u32(1..40 * region);
    let space = Space { slots, slot_bytes: 512, run_header: 0 };
    (space, random.u32(1..=region), region)
}

#[test]
fn places_are_those_of_the_rule() {
    for seed in seeds("buddy::places_are_those_of_the_rule", 150) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (space, threshold, region) = random_space(&mut random);
        let mut buddy = Buddy::new(space, threshold, region);
        let mut rule = Rule::new(space.slots, threshold, region);
        let mut objects: Vec<Run> = Vec::new();
        let largest = threshold * random.u32(1..4) + random.u32(..9);
        for _ in 0..300 {
            if random.u8(..5) < 3 {
                let bytes = random.u64(1..=u64::from(largest) * 512);
                let expected = rule.place(bytes.div_ceil(512) as u32);
                let mut runs = Vec::new();
                assert_eq!(buddy.place(bytes, &mut runs), expected.is_some());
                assert_eq!(runs, Vec::from_iter(expected));
                if let Some(run) = expected {
                    rule.set(run, true);
                    objects.push(run);
                }
            } else if !objects.is_empty() {
                let run = objects.swap_remove(random.usize(..objects.len()));
                buddy.release(run);
                rule.set(run, false);
            }
            if random.u8(..50) == 0 {
                let more = rule.slots() + random.u32(..50);
                buddy.grow(more);
                rule.grow(more);
            }
            rule.check(&buddy);
        }
    }
}

#[test]
fn recovery_takes_what_the_rule_can_have_given() {
    for seed in seeds("buddy::recovery_takes_what_the_rule_can_have_given", 100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (space, threshold, region) = random_space(&mut random);
        let mut buddy = Buddy::new(space, threshold, region);
        let mut rule = Rule::new(space.slots, threshold, region);
        for _ in 0..100 {
            let first = random.u32(..space.slots + 10);
            let first = if random.bool() { first / UNIT * UNIT } else { first };
            let run = Run { first, len: random.u32(..threshold * 2 + 10) };
            let may = rule.may_occupy(run);
            assert_eq!(buddy.occupy(run), may, "{run:?}");
            if may {
                rule.set(run, true);
            }
            rule.check(&buddy);
        }
    }
}

/// A space recovered in any order places the next object as if nothing had happened.
#[test]
fn a_recovered_space_is_the_one_before() {
    for seed in seeds("buddy::a_recovered_space_is_the_one_before", 50) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (space, threshold, region) = random_space(&mut random);
        let mut before = Buddy::new(space, threshold, region);
        let mut runs = Vec::new();
        for _ in 0..100 {
            if before.place(random.u64(1..=u64::from(threshold) * 700), &mut runs) && random.bool()
            {
                before.release(runs.swap_remove(random.usize(..runs.len())));
            }
        }
        random.shuffle(&mut runs);
        let mut after = Buddy::new(space, threshold, region);
        for run in runs {
            assert!(after.occupy(run), "{run:?}");
        }
        for _ in 0..50 {
            let bytes = random.u64(1..=u64::from(threshold) * 700);
            let (mut left, mut right) = (Vec::new(), Vec::new());
            assert_eq!(before.place(bytes, &mut left), after.place(bytes, &mut right));
            assert_eq!(left, right);
        }
    }
}

#[test]
fn regions_suit_their_space() {
    assert_eq!(region_for(1 << 31, 256), 2048);
    assert_eq!(region_for(131_072, 256), 256, "64 MiB");
    assert_eq!(region_for(131_072, 20), 128);
    assert_eq!(region_for(10, 3), UNIT);
    for class in 1..=256 {
        assert!(2048 % class < 2048 / 8, "class {class}");
    }
}
