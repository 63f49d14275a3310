//! One object a second: the durability bound forces a write for each, which must take neither a
//! cluster of its own nor many times its bytes.

use std::time::Duration;

use crate::rig::{LookupResult, Rig, formatted, product};

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_write_forced_by_the_bound_does_not_cost_a_cluster() {
    // About 110 clusters of 64 KiB hold 500 objects of 10 KB, 80% of their space, only if clusters
    // that were written half full are filled further.
    let mut rig = Rig::open(formatted(8 * MIB, 64 << 10), product());
    let mut stored = Vec::new();
    for number in 0..500 {
        stored.push(rig.insert(number, 9_000).unwrap());
        rig.pass(SECOND + SECOND / 10);
    }
    rig = Rig::open(rig.probe.memory.crash_process(), product());
    for state in &stored[..499] {
        assert_eq!(rig.look(state.key), LookupResult::Whole(*state));
    }
}

#[test]
fn a_trickle_is_written_less_than_twice() {
    let mut rig = Rig::open(formatted(32 * MIB, 64 << 10), product());
    let before = rig.probe.memory.counts();
    let (objects, len) = (3_600, 9_000);
    for number in 0..objects {
        rig.insert(number, len).unwrap();
        rig.pass(SECOND);
    }
    let after = rig.probe.memory.counts();
    let written = after.bytes_written - before.bytes_written;
    let stored = u64::from(objects) * (len + 300);
    assert!(written < 2 * stored, "{written} bytes written for {stored}");
    let writes = after.writes - before.writes;
    assert!(writes < 3 * u64::from(objects), "{writes} writes for {objects} objects");
}

#[test]
fn an_idle_store_writes_nothing() {
    let mut rig = Rig::open(formatted(32 * MIB, 64 << 10), product());
    rig.insert(1, 9_000).unwrap();
    rig.pass(60 * SECOND);
    let before = rig.probe.memory.counts();
    rig.pass(3_600 * SECOND);
    for _ in 0..100 {
        assert_ne!(rig.look(1), LookupResult::Nothing);
    }
    rig.pass(60 * SECOND);
    assert_eq!(rig.probe.memory.counts(), before);
}

#[test]
fn packed_writes_are_few_and_hardly_longer_than_what_is_stored() {
    let mut rig = Rig::open(formatted(64 * MIB, 256 << 10), product());
    let before = rig.probe.memory.counts();
    let (objects, len) = (4_000, 9_000);
    for number in 0..objects {
        rig.insert(number, len).unwrap();
        rig.pass(SECOND / 500);
    }
    rig.settle();
    let after = rig.probe.memory.counts();
    let stored = u64::from(objects) * (len + 300);
    let written = after.bytes_written - before.bytes_written;
    assert!(written * 100 <= stored * 108, "{written} bytes written for {stored}");
    let requests = after.writes - before.writes;
    assert!(requests * 10 <= u64::from(objects), "{requests} requests for {objects} objects");
}
