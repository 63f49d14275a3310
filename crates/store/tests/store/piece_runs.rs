//! Bodies in pieces: a fast reader gets several pieces with each read of the device, a slow one
//! gets one, and both get the same bytes.

use std::time::Duration;

use device::{Extent, ManualClock};
use larder_store::{Body, LayoutName};
use store_oracle::State;

use crate::probe::Probe;
use crate::rig::{Rig, TestEntry, formatted, product, use_layout};

const MIB: u64 = 1 << 20;
const LEN: u64 = 3_000_000;

/// Reads and verifies the next chunk of a body; returns false at its end.
fn next(rig: &mut Rig, body: &mut Body<Probe, ManualClock>, state: State, at: &mut usize) -> bool {
    let Some(chunk) = rig.run(body.next()) else { return false };
    let chunk = chunk.expect("the piece is there");
    assert_eq!(chunk, state.body().slice(*at..*at + chunk.len()), "at {at}");
    *at += chunk.len();
    true
}

/// Reads the whole body, with a pause before each chunk. Returns the number of chunks, and of reads
/// of the device.
fn read(rig: &mut Rig, entry: &TestEntry, pause: Duration) -> (u64, u64) {
    let (state, mut at, mut chunks) = (State::from_meta(entry.meta()).unwrap(), 0, 0);
    let before = reads(rig);
    let mut body = entry.body(0..entry.len());
    while next(rig, &mut body, state, &mut at) {
        chunks += 1;
        rig.pass(pause);
    }
    assert_eq!(at as u64, entry.len());
    (chunks, reads(rig) - before)
}

fn reads(rig: &Rig) -> u64 {
    let reads = rig.store.stats()[0].reads;
    reads.exact + reads.windows + reads.clusters
}

/// Returns a store with one object that is on the device only: too large to enter memory.
fn stored(layout: LayoutName, cluster_size: u32) -> (Rig, TestEntry) {
    use_layout(layout, 0);
    let mut rig = Rig::open(formatted(24 * MIB, cluster_size), product());
    rig.insert(1, LEN).unwrap();
    let mut rig = rig.reopen();
    let entry = rig.entry(1).expect("it was stored");
    (rig, entry)
}

#[test]
fn fast_readers_take_several_pieces_at_once_and_slow_ones_one() {
    for cluster_size in [32 << 10, 256 << 10, 1 << 20] {
        let (mut rig, entry) = stored(LayoutName::Cluster, cluster_size);
        let (chunks, fast) = read(&mut rig, &entry, Duration::from_millis(10));
        assert!(fast <= chunks.div_ceil(3), "{fast} reads for {chunks} chunks of {cluster_size}");
        let (chunks, slow) = read(&mut rig, &entry, Duration::from_secs(1));
        // The first piece was already read.
        assert_eq!(slow, chunks - 1, "clusters of {cluster_size}");
    }
}

#[test]
fn what_comes_is_the_same_in_every_layout_and_for_every_part() {
    for layout in [LayoutName::Cluster, LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy]
    {
        let (mut rig, entry) = stored(layout, 128 << 10);
        read(&mut rig, &entry, Duration::ZERO);
        let state = State::from_meta(entry.meta()).unwrap();
        for (start, end) in [(0, 1), (1, LEN), (200_000, 900_001), (2_999_999, LEN)] {
            let mut body = entry.body(start..end);
            let mut at = start as usize;
            while next(&mut rig, &mut body, state, &mut at) {}
            assert_eq!(at as u64, end, "{layout:?}");
        }
    }
}

#[test]
fn a_second_reader_has_what_the_first_one_holds() {
    let (mut rig, entry) = stored(LayoutName::Cluster, 1 << 20);
    let state = State::from_meta(entry.meta()).unwrap();
    let (mut first, mut second) = (entry.body(0..LEN), entry.body(0..LEN));
    let (mut at, mut behind) = (0, 0);
    let before = reads(&rig);
    // The piece already read, and the first of a run: the first body keeps the other three.
    (0..2).for_each(|_| assert!(next(&mut rig, &mut first, state, &mut at)));
    assert_eq!(reads(&rig) - before, 1);
    // The first piece of the run was returned and is no longer kept.
    (0..5).for_each(|_| assert!(next(&mut rig, &mut second, state, &mut behind)));
    assert_eq!(reads(&rig) - before, 2);
    while next(&mut rig, &mut first, state, &mut at) {}
    while next(&mut rig, &mut second, state, &mut behind) {}
    assert_eq!((at as u64, behind as u64), (LEN, LEN));
}

#[test]
fn a_damaged_piece_ends_the_body_and_those_before_it_come() {
    let (mut rig, entry) = stored(LayoutName::Cluster, 1 << 20);
    let state = State::from_meta(entry.meta()).unwrap();
    let body = state.body();
    let memory = rig.probe.memory.clone();
    // The extent of a piece in the middle of the body.
    let wanted = &body[1_000_000..1_000_064];
    let image = memory.peek(Extent { offset: 0, len: 24 * MIB });
    let offset = image.windows(64).position(|window| window == wanted).expect("it is there");
    memory.poke(offset as u64, &[wanted[0] ^ 1]);
    let (mut reader, mut at) = (entry.body(0..LEN), 0);
    let end = loop {
        match rig.run(reader.next()) {
            Some(Ok(chunk)) => {
                assert_eq!(chunk, body.slice(at..at + chunk.len()));
                at += chunk.len();
            }
            other => break other,
        }
    };
    assert!(matches!(end, Some(Err(_))), "a silent end at {at}");
    assert!(at <= 1_000_000 && at + 140_000 > 1_000_000, "{at} bytes came");
}
