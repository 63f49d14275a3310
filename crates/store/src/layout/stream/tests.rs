//! Tests of the allocator against its rule, applied to a plain vector.

use super::*;
use crate::layout::reference_model::{Naive, fill};
use crate::test_seed::seeds;

const SPACE: Space = Space { slots: 100, slot_bytes: 512, run_header: 32 };

/// Returns the place by the rule: the first `runs_max` successive free runs that hold the bytes,
/// from the position once around to the position, else among all free runs from slot 0.
fn place(naive: &Naive, stream: &Stream, bytes: u64) -> Option<Vec<Run>> {
    let (position, slots) = (stream.position(), naive.used.len() as u32);
    let mut round = naive.free_runs(position, slots);
    round.extend(naive.free_runs(0, position));
    let all = naive.free_runs(0, slots);
    let straight = (0..round.len())
        .map(|start| round[start..].iter().copied().take(stream.runs_max).collect::<Vec<_>>());
    let circular = (0..all.len()).map(|start| {
        let turned = all[start..].iter().chain(&all[..start]);
        turned.copied().take(stream.runs_max).collect::<Vec<_>>()
    });
    straight.chain(circular).find_map(|window| fill(stream.space, &window, bytes))
}

#[test]
fn what_is_to_lie_side_by_side_goes_to_the_next_run_that_holds_it() {
    let mut stream = Stream::new(SPACE, u32::MAX);
    let run = |first, len| Run { first, len };
    // Free: 2..6, 20..35 and 60..100.
    for used in [run(0, 2), run(6, 14), run(35, 25)] {
        assert!(stream.occupy(used));
    }
    let placed = |stream: &mut Stream, at: u32, slots: u32| {
        let mut runs = Vec::new();
        stream.resume_at(at);
        stream.seek(slots);
        assert!(stream.place(512, &mut runs));
        runs.iter().for_each(|run| stream.release(*run));
        runs[0].first
    };
    assert_eq!(placed(&mut stream, 0, 4), 2);
    assert_eq!(placed(&mut stream, 0, 5), 20);
    assert_eq!(placed(&mut stream, 25, 11), 60, "ten are left of it from there on");
    assert_eq!(placed(&mut stream, 90, 11), 20, "round again");
    assert_eq!(placed(&mut stream, 90, 41), 90, "there is none: as without");
    assert_eq!(placed(&mut stream, 4, 40), 60);
}

#[test]
fn places_are_those_of_the_rule() {
    for seed in seeds("stream::places_are_those_of_the_rule", 150) {
        let mut random = fastrand::Rng::with_seed(seed);
        let slots = random.u32(1..400);
        let space = Space {
            slots,
            slot_bytes: random.u32(40..700),
            run_header: *random.choice(&[0, 1, 32]).unwrap(),
        };
        let runs_max = *random.choice(&[1, 2, 3, 8, u32::MAX]).unwrap();
        let mut stream = Stream::new(space, runs_max);
        let mut naive = Naive::new(slots);
        let mut objects: Vec<Vec<Run>> = Vec::new();
        let largest = u64::from(slots) * u64::from(space.slot_bytes) / random.u64(1..20) + 1;
        for _ in 0..400 {
            if random.u8(..5) < 3 {
                let bytes = random.u64(1..=largest);
                let expected = place(&naive, &stream, bytes);
                let mut runs = Vec::new();
                assert_eq!(stream.place(bytes, &mut runs), expected.is_some());
                assert_eq!(runs, expected.unwrap_or_default());
                if let Some(last) = runs.last() {
                    assert_eq!(stream.position(), last.end() % stream.space.slots);
                    runs.iter().for_each(|run| naive.set(*run, true));
                    objects.push(runs);
                }
            } else if !objects.is_empty() {
                for run in objects.swap_remove(random.usize(..objects.len())) {
                    stream.release(run);
                    naive.set(run, false);
                }
            }
            if random.u8(..50) == 0 {
                let more = stream.space.slots + random.u32(..30);
                stream.grow(more);
                naive.used.resize(more as usize, false);
            }
            naive.check(&stream);
        }
    }
}

#[test]
fn what_is_occupied_at_recovery_is_not_given_out() {
    for seed in seeds("stream::what_is_occupied_at_recovery_is_not_given_out", 50) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut stream = Stream::new(SPACE, 3);
        let mut naive = Naive::new(SPACE.slots);
        for _ in 0..40 {
            let run = Run { first: random.u32(..110), len: random.u32(..9) };
            let free = naive.is_free(run);
            assert_eq!(stream.occupy(run), free);
            if free {
                naive.set(run, true);
            }
            naive.check(&stream);
        }
        stream.resume_at(random.u32(..=SPACE.slots));
        let expected = place(&naive, &stream, 3000);
        let mut runs = Vec::new();
        assert_eq!(stream.place(3000, &mut runs), expected.is_some());
        assert_eq!(runs, expected.unwrap_or_default());
    }
}

#[test]
fn writes_append_to_the_end_and_go_round_over_what_is_free() {
    let mut stream = Stream::new(SPACE, 4);
    let mut runs = Vec::new();
    assert!(stream.place(40 * 512, &mut runs));
    assert!(stream.place(50 * 512, &mut runs));
    assert_eq!(runs, [Run { first: 0, len: 40 }, Run { first: 40, len: 50 }]);
    stream.release(Run { first: 0, len: 40 });
    // Ten slots are left at the end, and they are used before the position wraps.
    runs.clear();
    assert!(stream.place(5 * 512, &mut runs));
    assert!(stream.place(6 * 512, &mut runs));
    let split = [Run { first: 95, len: 5 }, Run { first: 0, len: 2 }];
    assert_eq!(runs[0], Run { first: 90, len: 5 });
    assert_eq!(runs[1..], split, "a further run loses its header");
    assert_eq!(stream.position(), 2);
}

#[test]
fn a_search_in_small_pieces_is_bounded_and_the_next_one_goes_on() {
    let slots = 4 * SEARCH_MAX;
    let mut stream = Stream::new(Space { slots, ..SPACE }, 1);
    // Single free slots everywhere except at the end.
    for first in (0..slots - 2).step_by(2) {
        assert!(stream.occupy(Run { first, len: 1 }));
    }
    let mut runs = Vec::new();
    assert!(!stream.place(1024, &mut runs));
    assert!(stream.position() > SEARCH_MAX, "the position has moved on");
    assert!(stream.place(1024, &mut runs));
    assert_eq!(runs, [Run { first: slots - 3, len: 2 }]);
}
