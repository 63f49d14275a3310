//! The effect of another memory and another disk: hits and disk time by both sizes from one pass
//! over the trace, beside exact replays.
//!
//! LRU is a stack algorithm, so one pass gives the hits of caches of all sizes. With a memory of M
//! bytes in front of a disk of D bytes, both LRU, the memory hits what the curve says for M, and
//! the disk hits the difference to the curve at D. The drive's time follows from a cost for each
//! positioning and each byte, measured before any cache runs. Two kinds of caches are replayed: LRU
//! caches of single sizes, where the curve must be exact, and the product, which is not an LRU
//! cache, so the curve is an estimate for it.

use store::policy::{PolicyName, Unit};

use super::drives::Prices;
use super::scenario::{BESIDE, Role, Run, Scenario};
use super::scenarios;
use crate::advise::curve::{Curve, LruCurve, Sample};
use crate::advise::missratio;
use crate::advise::missratio::{Sampling, Sweep, Tally};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table, Variant,
};
use workload::request::Request;
use workload::trace::Access;

/// The experiment `beyond-what-if`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-what-if",
    paper: Paper::Beyond,
    place: "what-if plots",
    title: "Hits and disk time by the size of memory and disk, from one pass",
    parameters: &[
        Parameter {
            name: "workloads",
            value: "UC of UCFS and PolyMix-4 of UNIFIED on their drives, from an empty cache on",
            from: "as in beyond-default",
        },
        Parameter {
            name: "sizes",
            value: "1/4 to 4 times the paper's memory with its disk, 1/4 to 4 times its disk with \
                    its memory",
            from: "ours",
        },
        Parameter {
            name: "samples",
            value: "SHARDS with a tenth of the objects, and with at most 4,096 of them",
            from: "Waldspurger and others, FAST 2015",
        },
        scenarios::PARAMETERS[4],
        Parameter { name: "requests", value: "120,000 of each (quick: 6,000)", from: "ours: time" },
    ],
    seconds: [1, 15],
    run,
};

/// Sizes, as multiples of a quarter of the paper's.
const QUARTERS: [u64; 5] = [1, 2, 4, 8, 16];
/// The paper's own size, in quarters.
const OWN: u64 = 4;
/// Smallest size in bytes that curves are drawn for.
const LEAST: u64 = 1 << 20;

struct Curves {
    exact: Curve,
    tenth: Curve,
    bounded: Curve,
    /// Mean size of a request in bytes.
    mean: f64,
}

#[derive(Clone, Copy)]
struct Point {
    scenario: Scenario,
    /// Memory and disk, in quarters of the paper's.
    memory: u64,
    disk: u64,
}

impl Point {
    /// Returns the bytes of objects in memory, and of the disk.
    fn sizes(&self) -> [u64; 2] {
        let part = 4 * u64::from(self.scenario.scale);
        let whole = |bytes: u64| bytes.next_multiple_of(LEAST);
        [self.scenario.tier / part * self.memory, whole(self.scenario.disk / part * self.disk)]
    }

    fn name(&self) -> String {
        let [memory, disk] = self.sizes().map(|bytes| bytes >> 20);
        format!("{}, {memory} MB of memory, {disk} MB of disk", self.scenario.name)
    }

    fn run(&self, variant: &Variant) -> Result<Run, Failed> {
        let [tier, _] = self.sizes();
        // The disk in quarters of the paper's; the scale is the same for all.
        let scenario = Scenario { disk: self.scenario.disk / 4 * self.disk, ..self.scenario };
        let mut options = scenario.options("larder")?;
        options.tier = Some(tier);
        // A first guess; the tables depend on the disk.
        options.options.memory = 2 * tier + scenario.region().len / 64;
        scenario.run_with(variant, &options)
    }

    /// Returns the curve's estimates: memory hits and all hits in percent, and milliseconds of
    /// drive time per request.
    fn estimate(&self, curves: &Curves, prices: &Prices) -> [f64; 3] {
        let [memory, disk] = self.sizes().map(|size| curves.exact.at(size));
        let requests = disk.requests as f64;
        let hit = |tally: &Tally| 100.0 * (1.0 - tally.miss_ratio());
        let reads = (memory.misses - disk.misses.min(memory.misses)) as f64;
        let read = (memory.missed_bytes - disk.missed_bytes.min(memory.missed_bytes)) as f64;
        let beside = BESIDE as f64;
        let written = disk.missed_bytes as f64 + disk.misses as f64 * beside;
        let ms = prices.ms(reads, read + reads * beside, written) / requests;
        [hit(&memory), hit(&disk), ms]
    }
}

/// Returns the sizes to replay: each memory with the paper's disk, and each disk with the paper's
/// memory.
fn points(scenario: Scenario, quarters: &[u64]) -> Vec<Point> {
    let by_memory = quarters.iter().map(|memory| Point { scenario, memory: *memory, disk: OWN });
    let by_disk = quarters.iter().filter(|quarters| **quarters != OWN);
    by_memory.chain(by_disk.map(|disk| Point { scenario, memory: OWN, disk: *disk })).collect()
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let quarters = context.pick(&QUARTERS[1..4], &QUARTERS);
    let requests = context.size(1_000, 6_000, 120_000);
    let some: Vec<Scenario> = scenarios::some(context)
        .into_iter()
        .filter(|scenario| scenario.role == Role::Proxy && scenario.name != "SJ")
        .map(|scenario| Scenario { requests: [0, requests], ..scenario })
        .collect();
    let making = some.iter().map(|scenario| (format!("{}, curves", scenario.name), *scenario));
    let curves = context.variants(making, |variant, scenario| pass(variant, &scenario))?;
    let replays = some.iter().map(|scenario| (format!("{}, LRU", scenario.name), *scenario));
    let replays =
        context.variants(replays, |variant, scenario| replay(variant, &scenario, quarters))?;
    let all: Vec<Point> = some.iter().flat_map(|scenario| points(*scenario, quarters)).collect();
    let variants = all.iter().map(|point| (point.name(), *point));
    let runs = context.variants(variants, |variant, point| point.run(variant))?;

    let mut lru = Table::new("lru", "Requests that hit in an LRU cache: curve, and replay");
    let mut differences = [0.0_f64; 3];
    for ((scenario, curves), replays) in some.iter().zip(&curves).zip(&replays) {
        let worst = exactly(&mut lru, scenario, curves, replays);
        for (all, one) in differences.iter_mut().zip(worst) {
            *all = all.max(one);
        }
    }
    let mut outcome = Outcome::default();
    let mut product = Table::new("product", "The product: the curve's estimate, and replay");
    let mut off = [0.0_f64; 2];
    let mut rest = all.iter().zip(&runs);
    for (scenario, curves) in some.iter().zip(&curves) {
        let prices = scenario.prices()?;
        let count = points(*scenario, quarters).len();
        let pairs: Vec<(&Point, &Run)> = rest.by_ref().take(count).collect();
        let worst = estimated(&mut product, curves, &prices, &pairs);
        off = [off[0].max(worst[0]), off[1].max(worst[1])];
        for plot in plots(scenario, curves, &prices, &pairs) {
            outcome = outcome.plot(plot);
        }
    }
    Ok(Outcome { why: why(differences, off), ..outcome }.table(lru).table(product))
}

/// Makes the curves in one pass over the requests of a scenario.
fn pass(variant: &Variant, scenario: &Scenario) -> Result<Curves, Failed> {
    let tenth = Sampling::new(0.1).map_err(|why| Failed(why.to_string()))?;
    let curve = |sample| LruCurve::new(Unit::Bytes, sample).with_largest(scenario.largest);
    let mut all = [
        curve(Sample::Share(Sampling::ALL)),
        curve(Sample::Share(tenth)),
        curve(Sample::Objects(4_096)),
    ];
    let (mut requests, mut bytes) = (0_u64, 0_u64);
    for request in variant.watch(scenario.len(), scenario.requests()?) {
        requests += 1;
        bytes += request.size;
        for curve in &mut all {
            if !curve.take(access(&request)) {
                return Err(Failed::from("too many objects"));
            }
        }
    }
    let [exact, tenth, bounded] = all.map(LruCurve::finish);
    Ok(Curves { exact, tenth, bounded, mean: bytes as f64 / requests.max(1) as f64 })
}

/// Returns the access for a version: a changed object counts as another one, and the old one stays
/// until it is evicted.
fn access(request: &Request) -> Access {
    let object = u64::from(request.object) << 32 | u64::from(request.version);
    Access { object, size: request.size }
}

/// Returns the sizes at which LRU caches are replayed.
fn sizes(scenario: &Scenario, quarters: &[u64]) -> Vec<u64> {
    let sizes = points(*scenario, quarters).into_iter().flat_map(|point| point.sizes());
    let mut sizes: Vec<u64> = sizes.map(|size| size.max(scenario.largest.min(LEAST))).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn replay(
    variant: &Variant,
    scenario: &Scenario,
    quarters: &[u64],
) -> Result<Vec<(u64, Tally)>, Failed> {
    let sizes = sizes(scenario, quarters);
    let variants = sizes.iter().map(|size| missratio::CacheConfig {
        policy: PolicyName::Lru,
        unit: Unit::Bytes,
        size: *size,
    });
    let variants: Vec<missratio::CacheConfig> = variants.collect();
    let mut sweep = Sweep::with_threads(&variants, Sampling::ALL, 1);
    let (mut requests, mut bytes) = (0, 0);
    for request in variant.watch(scenario.len(), scenario.requests()?) {
        requests += 1;
        bytes += request.size;
        // Requests for objects above the scenario's limit are misses and bypass the caches.
        if request.size <= scenario.largest && !sweep.take(access(&request)) {
            return Err(Failed::from("too many objects"));
        }
    }
    let all = |tally: Tally| Tally {
        requests,
        misses: requests - (tally.requests - tally.misses),
        bytes,
        missed_bytes: bytes - (tally.bytes - tally.missed_bytes),
    };
    Ok(sizes.into_iter().zip(sweep.finish().tallies.into_iter().map(all)).collect())
}

/// Adds the rows of a scenario. Returns the maximum errors of the exact curve and the samples, in
/// percentage points.
fn exactly(
    table: &mut Table,
    scenario: &Scenario,
    curves: &Curves,
    replays: &[(u64, Tally)],
) -> [f64; 3] {
    let mut worst = [0.0_f64; 3];
    for (size, replayed) in replays {
        let name = format!("{}, {:.1} MB", scenario.name, *size as f64 / LEAST as f64);
        let replayed = 100.0 * (1.0 - replayed.miss_ratio());
        let made = [("curve", &curves.exact), ("tenth", &curves.tenth), ("4,096", &curves.bounded)];
        table.row(format!("{name}, replay"), "%", Stated::Nothing, replayed);
        for ((what, curve), worst) in made.iter().zip(&mut worst) {
            let estimate = 100.0 * (1.0 - curve.at(*size).miss_ratio());
            table.row(format!("{name}, {what}"), "%", Stated::Nothing, estimate);
            let off = difference(estimate, replayed);
            table.row(format!("{name}, {what} − replay"), "points", Stated::Nothing, off);
            *worst = worst.max(off.abs());
        }
    }
    worst
}

/// Adds the rows of a scenario. Returns the maximum errors of the estimates: percentage points of
/// hits, and percent of the time.
fn estimated(
    table: &mut Table,
    curves: &Curves,
    prices: &Prices,
    pairs: &[(&Point, &Run)],
) -> [f64; 2] {
    let mut worst = [0.0_f64; 2];
    for (point, run) in pairs {
        let name = point.name();
        let [memory, all, ms] = point.estimate(curves, prices);
        let figures = &run.figures;
        let in_memory = figures.memory_hit_rate() * figures.document_hit_rate() / 100.0;
        let ours = [in_memory, figures.document_hit_rate(), figures.disk_ms()];
        let what = [("memory hits", "%"), ("hits", "%"), ("disk time", "ms")];
        for (((what, unit), estimate), replayed) in what.iter().zip([memory, all, ms]).zip(ours) {
            table.row(format!("{name}: {what}, curve"), unit, Stated::Nothing, estimate);
            table.row(format!("{name}: {what}, replay"), unit, Stated::Nothing, replayed);
            let off = difference(estimate, replayed);
            table.row(format!("{name}: {what}, difference"), unit, Stated::Nothing, off);
            match *unit {
                "ms" => worst[1] = worst[1].max(100.0 * (off / replayed).abs()),
                _ => worst[0] = worst[0].max(off.abs()),
            }
        }
    }
    worst
}

fn plots(
    scenario: &Scenario,
    curves: &Curves,
    prices: &Prices,
    pairs: &[(&Point, &Run)],
) -> Vec<Plot> {
    let name = scenario.name;
    let id = |what: &str| format!("{what}-{}", scenario.workload);
    let most = scenario.disk / u64::from(scenario.scale) * 4;
    let doubled = std::iter::successors(Some(LEAST / 2), |size| Some(size * 2));
    let sizes: Vec<u64> = doubled.take_while(|size| *size <= most).collect();
    let mb = |size: u64| size as f64 / LEAST as f64;
    let line = |curve: &Curve| {
        let hit = |size: &u64| (mb(*size), 100.0 * (1.0 - curve.at(*size).miss_ratio()));
        sizes.iter().map(hit).collect::<Vec<_>>()
    };
    let title = format!("Requests that hit, by the size of the cache: {name}");
    let x = || Axis::log("cache (MB)");
    let in_all = pairs.iter().filter(|(point, _)| point.memory == OWN);
    let in_all = in_all.map(|(point, run)| (mb(point.sizes()[1]), run.figures.document_hit_rate()));
    let in_memory = pairs.iter().filter(|(point, _)| point.disk == OWN).map(|(point, run)| {
        let rate = run.figures.memory_hit_rate() * run.figures.document_hit_rate() / 100.0;
        (mb(point.sizes()[0]), rate)
    });
    let hits = Plot::lines(&id("hits"), &title, x(), Axis::linear("hits (%)").range(0.0, 100.0))
        .ours("LRU, one pass", line(&curves.exact))
        .ours("a tenth of the objects", line(&curves.tenth))
        .ours("4,096 objects", line(&curves.bounded))
        .ours("the product, all hits", sorted(in_all.collect()))
        .ours("the product, memory", sorted(in_memory.collect()))
        .note(format!("Objects of {:.1} KB on the mean.", curves.mean / 1e3));
    let title = format!("Time of the drive for a request, by memory and by disk: {name}");
    let y = Axis::linear("ms for a request");
    let both = |by_disk: bool| {
        let of = pairs.iter().filter(
            move |(point, _)| {
                if by_disk { point.memory == OWN } else { point.disk == OWN }
            },
        );
        let at = move |point: &Point| mb(point.sizes()[usize::from(by_disk)]);
        let replayed = of.clone().map(|(point, run)| (at(point), run.figures.disk_ms()));
        let curve = of.map(|(point, _)| (at(point), point.estimate(curves, prices)[2]));
        [sorted(curve.collect()), sorted(replayed.collect())]
    };
    let ([memory, memory_replayed], [disk, disk_replayed]) = (both(false), both(true));
    let times = Plot::lines(&id("disk-time"), &title, Axis::log("memory or disk (MB)"), y)
        .ours("by memory, one pass", memory)
        .ours("by memory, the product", memory_replayed)
        .ours("by disk, one pass", disk)
        .ours("by disk, the product", disk_replayed);
    vec![hits, times]
}

/// Rounds the difference to suppress floating-point noise.
fn difference(estimate: f64, replayed: f64) -> f64 {
    ((estimate - replayed) * 1e6).round() / 1e6
}

fn sorted(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn why(lru: [f64; 3], product: [f64; 2]) -> String {
    format!(
        "One pass over the requests gives the hits of LRU caches of all sizes. Beside LRU caches \
         of one size each the exact curve is off by {:.4} points at the most; with a tenth of the \
         objects by {:.1}, with 4,096 of them by {:.1}. The product is no LRU cache: it gives up \
         whole clusters, keeps what is hot in memory, and needs room for what is beside the \
         objects; its hits are up to {:.1} points from the curve's, and the time of the drive up \
         to {:.0}% from the estimate, which has one positioning for each hit on the disk and knows \
         neither objects that come along with a read nor arms that move between writes. Whoever \
         chooses sizes by the curve should replay the one that was chosen.",
        lru[0], lru[1], lru[2], product[0], product[1],
    )
}
