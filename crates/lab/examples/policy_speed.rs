//! Requests a second and memory of every policy in plain simulation.
//!
//! `cargo run --release -p lab --example policy_speed [POLICY…]`: five million requests, Zipf with
//! exponent 0.8 over a million objects, a cache of a tenth of them (each object counts 1), from an
//! empty cache, on one thread; the best of five runs. Making the trace and numbering its objects
//! do not count. To compare with another simulator, give it a trace of the same numbers, and leave
//! its reading and hashing out too.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use lab::missratio::{Numbered, Numbers, Simulation};
use lab::trace::Access;
use store::policy::{Parameters, PolicyName, Unit};

const OBJECTS: u64 = 1_000_000;
const REQUESTS: usize = 5_000_000;
const EXPONENT: f64 = 0.8;
const CAPACITY: u64 = OBJECTS / 10;
const RUNS: usize = 5;

fn main() {
    let chosen: Vec<PolicyName> = std::env::args()
        .skip(1)
        .map(|name| name.parse().unwrap_or_else(|error| panic!("{error}")))
        .collect();
    let trace = zipf();
    println!("policy,million_requests_per_second,miss_ratio,bytes_per_object");
    for name in PolicyName::ALL {
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        let mut best = 0_f64;
        let mut cache = Simulation::new(name, &Parameters::new(CAPACITY), Unit::Objects);
        for _ in 0..RUNS {
            cache = Simulation::new(name, &Parameters::new(CAPACITY), Unit::Objects);
            let start = Instant::now();
            cache.take(&trace);
            best = best.max(REQUESTS as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
        let (ratio, bytes) = (cache.tally().miss_ratio(), cache.memory_bytes() as u64 / OBJECTS);
        println!("{name},{best:.1},{ratio:.4},{bytes}");
    }
}

/// The trace, its objects numbered as in every simulation. Popularity has nothing to do with the
/// numbers of the objects.
fn zipf() -> Vec<Numbered> {
    let mut sums = Vec::with_capacity(OBJECTS as usize);
    let mut sum = 0.0;
    for rank in 1..=OBJECTS {
        sum += (rank as f64).powf(-EXPONENT);
        sums.push(sum);
    }
    let mut numbers = Numbers::default();
    let mut state = 1_u64;
    let mut random = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) >> 11
    };
    let mut access = || {
        let point = random() as f64 / (1_u64 << 53) as f64 * sum;
        let rank = sums.partition_point(|sum| *sum < point) as u64;
        numbers.number(Access { object: rank, size: 1 }).expect("a million objects have numbers")
    };
    (0..REQUESTS).map(|_| access()).collect()
}
