//! Which eviction policy misses least: each of the engine's policies on a web trace, by the size of
//! the cache.
//!
//! Nothing but the policy: no disk, no clusters, no admission. The papers' systems evict by LRU or
//! by LFU with aging, so that their curves are where all others start from.

use store::policy::{Parameters, PolicyName, Unit};

use crate::contents::mix;
use crate::experiment::{
    Arm, Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use crate::missratio::{Numbered, Simulation, Tally};
use crate::workload::{self, Workload};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-policies",
    paper: Paper::Beyond,
    place: "eviction policies",
    title: "Miss ratio of every eviction policy, by the size of the cache",
    parameters: &[
        Parameter {
            name: "trace",
            value: "the lab's seeded proxy workload, 2 million requests (quick: 100,000)",
            from: "ours; the mix of section 5 of Secondary Storage Management, not calibrated",
        },
        Parameter { name: "cache", value: "0.1% to 30% of the bytes of all objects", from: "ours" },
        Parameter { name: "warm-up", value: "the first fifth of the requests", from: "ours" },
    ],
    seconds: [2, 30],
    run,
};

/// Of a thousand bytes of all objects, how many the cache holds.
const SIZES: [u64; 6] = [1, 3, 10, 30, 100, 300];

/// The size that the tables are of, as an index.
const TABLES: usize = 2;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let requests = context.pick(100_000, 2_000_000);
    let trace = trace(context.seed(), requests);
    let objects: std::collections::BTreeMap<u32, u64> =
        trace.iter().map(|request| (request.id, request.bytes)).collect();
    let bytes: u64 = objects.values().sum();
    let arms = PolicyName::ALL.map(|policy| (policy, policy));
    let tallies = context.arms(arms, |arm, policy| Ok(sweep(arm, &trace, policy, bytes)))?;

    let x = || Axis::log("cache (% of the bytes of all objects)");
    let lines = |id, title, y, ratio: fn(&Tally) -> f64| {
        let plot = Plot::lines(id, title, x(), Axis::linear(y));
        PolicyName::ALL.iter().zip(&tallies).fold(plot, |plot, (policy, tallies)| {
            let points = SIZES.iter().zip(tallies);
            let points = points.map(|(size, tally)| (*size as f64 / 10.0, 100.0 * ratio(tally)));
            plot.ours(policy.as_str(), points)
        })
    };
    let objects = lines("objects", "Requests that miss", "miss ratio (%)", Tally::miss_ratio);
    let bytes = lines("bytes", "Bytes that miss", "byte miss ratio (%)", Tally::byte_miss_ratio);
    let table = |id: &str, title: &str, ratio: fn(&Tally) -> f64| {
        let mut table = Table::new(id, title);
        for (policy, tallies) in PolicyName::ALL.iter().zip(&tallies) {
            table.row(policy.as_str(), "%", Stated::Nothing, 100.0 * ratio(&tallies[TABLES]));
        }
        table
    };
    let misses = table("misses", "Requests that miss, cache of 1%", Tally::miss_ratio);
    let byte_misses = table("byte-misses", "Bytes that miss, cache of 1%", Tally::byte_miss_ratio);
    Ok(Outcome::new(why(&misses, &byte_misses))
        .table(misses)
        .table(byte_misses)
        .plot(objects)
        .plot(bytes))
}

fn trace(seed: u64, requests: usize) -> Vec<Numbered> {
    let parameters = workload::Parameters::new(seed, requests as u64);
    let requests = Workload::new(parameters).take(requests);
    let numbered = |request: crate::request::Request| Numbered {
        id: request.object,
        hash: mix(u64::from(request.object)),
        bytes: request.size,
    };
    requests.map(numbered).collect()
}

/// What comes of the trace behind its warm-up, for each size of the cache.
fn sweep(arm: &Arm, trace: &[Numbered], policy: PolicyName, all: u64) -> Vec<Tally> {
    let (warm, counted) = trace.split_at(trace.len() / 5);
    arm.total(SIZES.len() as u64);
    let one = |size: u64| {
        let parameters = Parameters::new((all * size / 1_000).max(1));
        let mut cache = Simulation::new(policy, &parameters, Unit::Bytes);
        cache.take(warm);
        let before = cache.tally();
        cache.take(counted);
        arm.advance(1);
        let after = cache.tally();
        Tally {
            requests: after.requests - before.requests,
            misses: after.misses - before.misses,
            bytes: after.bytes - before.bytes,
            missed_bytes: after.missed_bytes - before.missed_bytes,
        }
    };
    SIZES.map(one).into()
}

fn why(misses: &Table, bytes: &Table) -> String {
    let by_size = |table: &Table| {
        let mut rows: Vec<_> = table.rows.iter().map(|row| (row.ours, row.what.clone())).collect();
        rows.sort_by(|one, other| one.0.total_cmp(&other.0));
        rows
    };
    let (misses, bytes) = (by_size(misses), by_size(bytes));
    let of = |rows: &[(f64, String)], name: &str| {
        rows.iter().find(|(_, what)| what == name).map_or(f64::NAN, |(ratio, _)| *ratio)
    };
    let best = |rows: &[(f64, String)]| rows.first().cloned().unwrap_or_default();
    let ((fewest, first), (fewest_bytes, first_bytes)) = (best(&misses), best(&bytes));
    format!(
        "No paper to compare with: these policies are younger, or were not the papers' question. \
         With a cache of 1% of all bytes {first} misses least, {fewest:.1}% of the requests where \
         lru misses {:.1}% and lfu-aging {:.1}%. By bytes it is {first_bytes}, {fewest_bytes:.1}% \
         where lru misses {:.1}%: policies that prefer small objects save requests and pay with \
         bytes. The workload has more objects asked for once than anything else, as a proxy's \
         has, which favours policies that give newcomers little room; its popularity does not \
         drift, which favours frequency over recency.",
        of(&misses, "lru"),
        of(&misses, "lfu-aging"),
        of(&bytes, "lru"),
    )
}
