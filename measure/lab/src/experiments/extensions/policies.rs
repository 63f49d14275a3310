//! Miss ratios of each of the engine's eviction policies on web traces, by cache size.
//!
//! Only the policy is simulated: no disk, no clusters, no admission. The papers' systems evict by
//! LRU or by LFU with aging, so these curves are the baseline for all others.

use store::policy::{Parameters, PolicyName, Unit};

use super::traces;
use crate::advise::missratio::{Numbered, Numbers, Simulation, Tally};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table, Variant,
};

/// The experiment `beyond-policies`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-policies",
    paper: Paper::Beyond,
    place: "eviction policies",
    title: "Miss ratio of every eviction policy, by trace and by the size of the cache",
    parameters: &[
        Parameter {
            name: "traces",
            value: "the generator's dec-1996, nlanr-bo1 to -uc, ucb-sep01, worldcup98, clarknet; \
                    up to 1 million requests of each (quick: three of them, 60,000 of each)",
            from: "the papers' logs are gone; their published figures are met, see lab trace",
        },
        Parameter { name: "cache", value: "0.1% to 30% of the bytes of all objects", from: "ours" },
        Parameter { name: "warm-up", value: "the first fifth of the requests", from: "ours" },
    ],
    seconds: [1, 20],
    run,
};

/// Cache sizes, in thousandths of the bytes of all objects.
const SIZES: [u64; 6] = [1, 3, 10, 30, 100, 300];

/// Index of the size that the tables show.
const TABLES: usize = 4;

/// The traces of a quick run.
const QUICK: [&str; 3] = ["dec-1996", "nlanr-sj", "clarknet"];

/// The requests of a trace, and the bytes of all its objects.
struct Trace {
    requests: Vec<Numbered>,
    bytes: u64,
}

/// The results of one trace: by policy, then by size.
type Tallies = Vec<Vec<Tally>>;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let all = traces::names();
    let names: &[&str] = context.pick(&QUICK, &all);
    let (seed, requests) = (context.seed(), context.size(2_000, 60_000, 1_000_000));
    let making = names.iter().map(|name| (format!("{name}, requests"), *name));
    let traces = context.variants(making, |_, name| trace(name, seed, requests))?;
    let variants = names.iter().zip(&traces).flat_map(|(name, trace)| {
        PolicyName::ALL.map(|policy| (format!("{name}, {policy}"), (trace, policy)))
    });
    let tallies =
        context.variants(variants, |variant, (trace, policy)| Ok(sweep(variant, trace, policy)))?;
    let tallies: Vec<Tallies> =
        tallies.chunks(PolicyName::ALL.len()).map(<[Vec<Tally>]>::to_vec).collect();

    let misses =
        table("misses", "Requests that miss, cache of 10%", names, &tallies, Tally::miss_ratio);
    let byte_misses = table(
        "byte-misses",
        "Bytes that miss, cache of 10%",
        names,
        &tallies,
        Tally::byte_miss_ratio,
    );
    let mut outcome = Outcome::new(why(names, &tallies))
        .plot(bars(
            "objects",
            "Requests that miss, cache of 10%",
            names,
            &tallies,
            Tally::miss_ratio,
        ))
        .plot(bars(
            "bytes",
            "Bytes that miss, cache of 10%",
            names,
            &tallies,
            Tally::byte_miss_ratio,
        ));
    for (name, tallies) in names.iter().zip(&tallies) {
        outcome = outcome.plot(lines(name, tallies));
    }
    Ok(outcome.table(misses).table(byte_misses))
}

fn table(
    id: &str,
    title: &str,
    names: &[&str],
    tallies: &[Tallies],
    ratio: fn(&Tally) -> f64,
) -> Table {
    let mut table = Table::new(id, title);
    for (name, tallies) in names.iter().zip(tallies) {
        for (policy, tallies) in PolicyName::ALL.iter().zip(tallies) {
            let what = format!("{name}, {policy}");
            table.row(what, "%", Stated::Nothing, 100.0 * ratio(&tallies[TABLES]));
        }
    }
    table
}

fn bars(
    id: &str,
    title: &str,
    names: &[&str],
    tallies: &[Tallies],
    ratio: fn(&Tally) -> f64,
) -> Plot {
    let y = Axis::linear("miss ratio (%)").range(0.0, 100.0);
    let plot = Plot::bars(id, title, names.iter().copied(), y);
    PolicyName::ALL.iter().enumerate().fold(plot, |plot, (index, policy)| {
        let each = tallies.iter().map(|tallies| 100.0 * ratio(&tallies[index][TABLES]));
        plot.ours_bars(policy.as_str(), each.collect::<Vec<f64>>())
    })
}

/// Plots miss ratios by cache size for one trace.
fn lines(name: &str, tallies: &Tallies) -> Plot {
    let title = format!("Requests that miss, by the size of the cache: {name}");
    let x = Axis::log("cache (% of the bytes of all objects)");
    let plot = Plot::lines(name, &title, x, Axis::linear("miss ratio (%)"));
    PolicyName::ALL.iter().zip(tallies).fold(plot, |plot, (policy, tallies)| {
        let points = SIZES.iter().zip(tallies);
        plot.ours(
            policy.as_str(),
            points.map(|(size, tally)| (*size as f64 / 10.0, 100.0 * tally.miss_ratio())),
        )
    })
}

fn trace(name: &str, seed: u64, requests: u64) -> Result<Trace, Failed> {
    let mut numbers = Numbers::default();
    let (mut bytes, mut numbered) = (0, Vec::new());
    for request in traces::requests(name, seed, requests)? {
        let known = numbers.len();
        let request = numbers.number(traces::access(&request)).ok_or("too many objects")?;
        bytes += if numbers.len() > known { request.bytes } else { 0 };
        numbered.push(request);
    }
    Ok(Trace { requests: numbered, bytes })
}

/// Returns the results of the trace after its warm-up, for each cache size.
fn sweep(variant: &Variant, trace: &Trace, policy: PolicyName) -> Vec<Tally> {
    let (warm, counted) = trace.requests.split_at(trace.requests.len() / 5);
    variant.total(SIZES.len() as u64);
    let one = |size: u64| {
        let parameters = Parameters::new((trace.bytes * size / 1_000).max(1));
        let mut cache = Simulation::new(policy, &parameters, Unit::Bytes);
        cache.take(warm);
        let before = cache.tally();
        cache.take(counted);
        variant.advance(1);
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

/// Returns the policy with the lowest ratio in a cache of 10%, and that ratio in percent.
fn best(tallies: &Tallies, ratio: fn(&Tally) -> f64) -> (PolicyName, f64) {
    let ratios = tallies.iter().map(|tallies| 100.0 * ratio(&tallies[TABLES]));
    let pairs = PolicyName::ALL.into_iter().zip(ratios);
    pairs.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((PolicyName::Lru, f64::NAN))
}

fn why(names: &[&str], tallies: &[Tallies]) -> String {
    let of = |tallies: &Tallies, policy, ratio: fn(&Tally) -> f64| {
        let at = PolicyName::ALL.iter().position(|known| *known == policy).unwrap_or(0);
        100.0 * ratio(&tallies[at][TABLES])
    };
    let each: Vec<String> = names
        .iter()
        .zip(tallies)
        .map(|(name, tallies)| {
            let (first, fewest) = best(tallies, Tally::miss_ratio);
            let (first_bytes, fewest_bytes) = best(tallies, Tally::byte_miss_ratio);
            let lru = of(tallies, PolicyName::Lru, Tally::miss_ratio);
            let lru_bytes = of(tallies, PolicyName::Lru, Tally::byte_miss_ratio);
            format!(
                "{name}: {first} {fewest:.1}% (lru {lru:.1}%), by bytes {first_bytes} \
                 {fewest_bytes:.1}% (lru {lru_bytes:.1}%)"
            )
        })
        .collect();
    format!(
        "No paper to compare with: these policies are younger, or were not the papers' question. \
         What misses least with a cache of 10% of all bytes, of the requests and of the bytes: {}. \
         Policies that prefer small objects save requests and pay with bytes. Most of a proxy's \
         objects are asked for once, which favours policies that give newcomers little room. The \
         requests are a generator's: how soon things are asked for again is fitted for dec-1996 \
         and assumed for the others, whose popularity does not drift, which favours frequency over \
         recency; on a real log the order may be another.",
        each.join("; "),
    )
}
