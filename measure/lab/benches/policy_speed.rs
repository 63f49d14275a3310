//! Requests per second and memory of every policy in plain simulation.
//!
//! `cargo bench -p lab --bench policy_speed [POLICY…]`: five million requests, Zipf with exponent
//! 0.8 over a million objects, on one thread. The cache starts empty and holds a tenth of the
//! objects that occur (each counts 1). Reports the best and the median of nine runs, in processor
//! time where the system reports it. The policies take turns, so that other load on the machine
//! affects all of them alike. Making the trace and numbering its objects do not count; the cost of
//! numbering, a hash table lookup per request, is reported separately.
//!
//! To compare with another simulator, write the same trace as oracleGeneral with `--write FILE`.
//! Run the simulator on the same machine, alternating with this program, with the same capacity and
//! ignoring sizes. Either exclude its reading, decompression and hash table from its time, or
//! include the numbering in ours (`with_numbering`).

#![allow(clippy::print_stdout)]

use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use lab::advise::missratio::{Numbered, Numbers, Simulation};
use store::policy::{Parameters, PolicyName, Unit};
use workload::trace::Access;

const OBJECTS: u64 = 1_000_000;
const REQUESTS: usize = 5_000_000;
const EXPONENT: f64 = 0.8;
const RUNS: usize = 9;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench").peekable();
    let ranks = zipf();
    if arguments.next_if_eq("--write").is_some() {
        let file = arguments.next().unwrap_or_else(|| panic!("--write needs the name of a file"));
        write(&file, &ranks).unwrap_or_else(|error| panic!("{file}: {error}"));
        return;
    }
    let mut chosen: Vec<PolicyName> =
        arguments.map(|name| name.parse().unwrap_or_else(|error| panic!("{error}"))).collect();
    if chosen.is_empty() {
        chosen = PolicyName::ALL.to_vec();
    }

    let (trace, footprint, numbering) = number(&ranks);
    let capacity = footprint / 10;
    println!(
        "numbering: {:.1} million requests a second, {} bytes per object; {footprint} objects, \
         room for {capacity}",
        speed(numbering),
        Numbers::memory_bytes(&numbers(&ranks)) as u64 / footprint,
    );
    let mut runs = vec![Vec::with_capacity(RUNS); chosen.len()];
    let mut last = Vec::new();
    for _ in 0..RUNS {
        last.clear();
        for (name, runs) in chosen.iter().zip(&mut runs) {
            let mut cache = Simulation::new(*name, &Parameters::new(capacity), Unit::Objects);
            runs.push(timed(|| cache.take(&trace)));
            last.push(cache);
        }
    }
    println!(
        "policy,best_million_requests_per_second,median,best_with_numbering,miss_ratio,\
         bytes_per_object"
    );
    for ((name, mut runs), cache) in chosen.iter().zip(runs).zip(last) {
        runs.sort();
        let (best, median) = (runs[0], runs[RUNS / 2]);
        let (ratio, bytes) = (cache.tally().miss_ratio(), cache.memory_bytes() as u64 / footprint);
        let (best, median, both) = (speed(best), speed(median), speed(best + numbering));
        println!("{name},{best:.1},{median:.1},{both:.1},{ratio:.4},{bytes}");
    }
}

/// Returns million requests per second.
fn speed(time: Duration) -> f64 {
    REQUESTS as f64 / 1e6 / time.as_secs_f64()
}

/// Returns the processor time of `work`; without Linux, the elapsed time.
fn timed(work: impl FnOnce()) -> Duration {
    let busy = || {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(told.split(' ').next()?.parse().ok().filter(|ns| *ns > 0)?))
    };
    let (before, start) = (busy(), Instant::now());
    work();
    let passed = start.elapsed();
    before.zip(busy()).map_or(passed, |(before, after)| after - before)
}

/// Returns the ranks of the requested objects, from 0.
fn zipf() -> Vec<u64> {
    let mut sums = Vec::with_capacity(OBJECTS as usize);
    let mut sum = 0.0;
    for rank in 1..=OBJECTS {
        sum += (rank as f64).powf(-EXPONENT);
        sums.push(sum);
    }
    let mut state = 1_u64;
    let mut random = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) >> 11
    };
    let mut rank = || {
        let point = random() as f64 / (1_u64 << 53) as f64 * sum;
        sums.partition_point(|sum| *sum < point) as u64
    };
    (0..REQUESTS).map(|_| rank()).collect()
}

/// Returns the requests with numbered objects, the number of objects, and the shortest time that
/// numbering took.
fn number(ranks: &[u64]) -> (Vec<Numbered>, u64, Duration) {
    let mut trace = Vec::new();
    let mut footprint = 0;
    let mut least = Duration::MAX;
    for _ in 0..RUNS {
        let mut numbers = Numbers::default();
        trace.clear();
        trace.reserve(ranks.len());
        let time = timed(|| {
            let numbered = ranks.iter().map(|rank| numbers.number(access(*rank)));
            trace.extend(numbered.flatten());
        });
        footprint = numbers.len() as u64;
        least = least.min(time);
    }
    (trace, footprint, least)
}

fn numbers(ranks: &[u64]) -> Numbers {
    let mut numbers = Numbers::default();
    ranks.iter().for_each(|rank| {
        numbers.number(access(*rank));
    });
    numbers
}

fn access(rank: u64) -> Access {
    Access { object: rank, size: 1 }
}

/// Writes oracleGeneral records: time in requests, object, size, and -1 for the next request, which
/// no policy here uses.
fn write(file: &str, ranks: &[u64]) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    for (time, rank) in (0_u32..).zip(ranks) {
        out.write_all(&time.to_le_bytes())?;
        out.write_all(&rank.to_le_bytes())?;
        out.write_all(&1_u32.to_le_bytes())?;
        out.write_all(&(-1_i64).to_le_bytes())?;
    }
    out.flush()
}
