//! Tests of the allocator against the paper's rule, applied to a plain vector, and of the
//! guarantees of front-rear hashing and the heap.

use super::*;
use crate::layout::reference_model::Naive;
use crate::test_seed::seeds;

const SPACE: Space = Space { slots: 100, slot_bytes: 512, run_header: 0 };

/// The rule on a plain vector. Accepts any place that it allows.
struct Rule {
    naive: Naive,
    /// A slot of the open piece.
    open: Option<u32>,
}

impl Rule {
    fn piece_at(&self, slot: u32) -> Option<Run> {
        let runs = self.naive.free_runs(0, self.naive.used.len() as u32);
        runs.into_iter().find(|run| (run.first..run.end()).contains(&slot))
    }

    /// Checks a place (or a refusal) and applies it to the model.
    fn placed(&mut self, needed: u32, place: Option<Run>) {
        let open = self.open.and_then(|slot| self.piece_at(slot));
        let all = self.naive.free_runs(0, self.naive.used.len() as u32);
        let largest = all.iter().map(|run| run.len).max().unwrap_or(0);
        let Some(run) = place else {
            assert!(largest < needed, "a piece of {largest} is there");
            return;
        };
        assert_eq!(run.len, needed);
        match open.filter(|open| open.len >= needed) {
            Some(open) => assert_eq!(run.first, open.first, "the open piece goes first"),
            None => {
                let chosen = self.piece_at(run.first).unwrap();
                assert_eq!((chosen.first, chosen.len), (run.first, largest), "worst fit");
            }
        }
        let piece = self.piece_at(run.first).unwrap();
        self.naive.set(run, true);
        self.open = (piece.len > needed).then_some(run.end());
    }
}

/// Checks the heap order, the positions, and that each piece is found by both ends.
fn check_pieces(pieces: &Pieces, expected: &[Run]) {
    let all = pieces.all();
    assert_eq!(all, expected);
    assert_eq!(pieces.largest(), expected.iter().map(|run| run.len).max());
}

#[test]
fn places_are_those_of_worst_fit_with_an_open_piece() {
    for seed in seeds("unified::places_are_those_of_worst_fit_with_an_open_piece", 150) {
        let mut random = fastrand::Rng::with_seed(seed);
        let slots = random.u32(1..400);
        let mut unified = Unified::new(Space { slots, ..SPACE });
        let mut rule = Rule { naive: Naive::new(slots), open: None };
        let mut objects: Vec<Run> = Vec::new();
        let largest = random.u32(1..=slots.div_ceil(4));
        for _ in 0..400 {
            match random.u8(..50) {
                0..=27 => {
                    let bytes = random.u64(1..=u64::from(largest) * 512);
                    let mut runs = Vec::new();
                    let placed = unified.place(bytes, &mut runs);
                    assert_eq!(runs.len(), usize::from(placed));
                    rule.placed(bytes.div_ceil(512) as u32, runs.first().copied());
                    objects.extend(runs);
                }
                28..=47 if !objects.is_empty() => {
                    let run = objects.swap_remove(random.usize(..objects.len()));
                    unified.release(run);
                    rule.naive.set(run, false);
                }
                48 => {
                    let more = rule.naive.used.len() as u32 + random.u32(..20);
                    unified.grow(more);
                    rule.naive.used.resize(more as usize, false);
                }
                _ => {
                    let slot = random.u32(..rule.naive.used.len() as u32 + 5);
                    unified.resume_at(slot);
                    rule.open = rule.piece_at(slot).map(|piece| piece.first).or(rule.open);
                }
            }
            rule.naive.check(&unified);
            let open = rule.open.and_then(|slot| rule.piece_at(slot));
            assert_eq!(unified.open, open);
            let mut rest = rule.naive.free_runs(0, unified.space.slots);
            rest.retain(|piece| Some(*piece) != open);
            check_pieces(&unified.pieces, &rest);
        }
    }
}

#[test]
fn what_is_occupied_at_recovery_splits_its_piece() {
    for seed in seeds("unified::what_is_occupied_at_recovery_splits_its_piece", 50) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut unified = Unified::new(SPACE);
        let mut rule = Rule { naive: Naive::new(SPACE.slots), open: None };
        for _ in 0..60 {
            let run = Run { first: random.u32(..110), len: random.u32(..9) };
            if random.u8(..4) == 0 {
                // Recovery continues while objects are already being placed.
                let mut runs = Vec::new();
                let _ = unified.place(512, &mut runs);
                rule.placed(1, runs.first().copied());
                continue;
            }
            let piece = rule.piece_at(run.first);
            let free = rule.naive.is_free(run);
            assert_eq!(unified.occupy(run), free);
            if free {
                let open = rule.open.and_then(|slot| rule.piece_at(slot));
                rule.naive.set(run, true);
                rule.open = rule.open.filter(|_| open != piece);
            }
            rule.naive.check(&unified);
            let open = rule.open.and_then(|slot| rule.piece_at(slot));
            assert_eq!(unified.open, open);
        }
        let free = rule.naive.free_runs(0, SPACE.slots);
        assert_eq!(unified.largest(), free.iter().map(|run| run.len).max().unwrap_or(0));
    }
}

/// Figure 5 of the paper: object x lies in 8 to 11, between the free pieces 5 to 7 and 12 to 15.
#[test]
fn a_removed_object_merges_to_the_left_and_to_the_right() {
    let mut unified = Unified::new(Space { slots: 16, ..SPACE });
    let x = Run { first: 8, len: 4 };
    assert!(unified.occupy(Run { first: 0, len: 5 }) && unified.occupy(x));
    check_pieces(&unified.pieces, &[Run { first: 5, len: 3 }, Run { first: 12, len: 4 }]);
    unified.release(x);
    check_pieces(&unified.pieces, &[Run { first: 5, len: 11 }]);
}

#[test]
fn objects_are_appended_until_the_largest_piece_is_exhausted() {
    let mut unified = Unified::new(SPACE);
    // Free: 0 to 19, 30 to 69, 80 to 99.
    assert!(
        unified.occupy(Run { first: 20, len: 10 }) && unified.occupy(Run { first: 70, len: 10 })
    );
    let mut runs = Vec::new();
    for slots in [10, 20, 9, 5, 5] {
        assert!(unified.place(slots * 512, &mut runs));
    }
    let firsts: Vec<u32> = runs.iter().map(|run| run.first).collect();
    assert_eq!(firsts[..3], [30, 40, 60], "one after another in the largest");
    assert_eq!(firsts[4], firsts[3] + 5, "and then in another one");
    assert!([0, 80].contains(&firsts[3]));
    assert_eq!(unified.largest(), 20);
    assert!(!unified.place(21 * 512, &mut runs), "41 slots are free, but not in one piece");
    assert_eq!(unified.free_pieces(), 3);
}

#[test]
fn what_is_to_lie_side_by_side_goes_to_the_largest_piece_when_the_open_one_is_too_small() {
    let mut unified = Unified::new(SPACE);
    // Free: 0 to 19, 30 to 69, 80 to 99.
    assert!(
        unified.occupy(Run { first: 20, len: 10 }) && unified.occupy(Run { first: 70, len: 10 })
    );
    let mut runs = Vec::new();
    for (seek, slots) in [(0, 35), (20, 8), (20, 12), (20, 8), (13, 8)] {
        unified.seek(seek);
        assert!(unified.place(slots * 512, &mut runs));
    }
    let firsts: Vec<u32> = runs.iter().map(|run| run.first).collect();
    assert_eq!(firsts[0], 30);
    // The open piece has five slots left, then the next one twelve, and no piece holds twenty.
    assert!([0, 80].contains(&firsts[1]));
    assert_eq!(firsts[2], 80 - firsts[1], "twelve would not hold twenty");
    assert_eq!(firsts[3], firsts[2] + 12, "nowhere are twenty: as without");
    assert_eq!(firsts[4], firsts[1] + 8, "only twelve are left of the other piece");
    assert_eq!(unified.free_pieces(), 2);
}
