//! Every insertion into a full cache ends soon, whatever decides when objects are written, and
//! where. The device takes no time, so an insertion that waits for the clock waits for itself.

use std::time::Duration;

use device::Clock;
use fastrand::Rng;
use larder_store::{LayoutName, LocalityOptions, Options, ReadUnit, WritePolicy};

use crate::rig::{Rig, formatted, use_layout};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;

/// Longest time that an insertion may wait, less than [`Options::stall_bound`].
const BOUND: Duration = Duration::from_secs(1);

/// Stores, reads and refreshes objects until a cache of 16 MiB was filled several times. One in
/// four is stored in pieces, and is still small enough to be kept in memory.
fn fill(options: &Options, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut rig = Rig::open(formatted(16 * MIB, 64 << 10), options.clone());
    for number in 0..900 {
        let largest = if random.u8(..4) == 0 { 200_000 } else { 20_000 };
        let (len, began) = (random.u64(..largest), rig.clock.now());
        let stored = rig.insert(number, len);
        let waited = Duration::from_nanos(rig.clock.now() - began);
        assert!(stored.is_ok() && waited <= BOUND, "{number}: {stored:?} after {waited:?}");
        rig.look(number - random.u32(..=number.min(200)));
        if random.u8(..8) == 0 {
            let refreshed = rig.refresh(number - random.u32(..=number.min(50)));
            assert!(refreshed.is_ok(), "{number}: {refreshed:?}");
        }
    }
}

#[test]
fn every_insertion_ends_soon() {
    for seed in seeds("insertions::every_insertion_ends_soon", 1) {
        for (layout, buffers) in LayoutName::ALL.iter().flat_map(|one| [(one, 0), (one, 8)]) {
            use_layout(*layout, 8 << 10);
            for write_policy in [WritePolicy::OnInsert, WritePolicy::OnEvict] {
                for batch in [0, Options::default().batch] {
                    let locality =
                        (buffers > 0).then_some(LocalityOptions { buffers, bytes: 16 << 10 });
                    let read_unit = [ReadUnit::Auto, ReadUnit::Cluster][usize::from(batch > 0)];
                    let memory = 8 * MIB;
                    let rest = Options { packet: 8 << 10, ..Options::default() };
                    let options =
                        Options { memory, write_policy, batch, locality, read_unit, ..rest };
                    eprintln!("{layout}, {write_policy:?}, {buffers} buffers, batch {batch}");
                    fill(&options, seed);
                }
            }
        }
    }
}
