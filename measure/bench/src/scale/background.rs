//! The slowest hits during other work. Hits arrive at a constant rate that is too low to build a
//! queue; beside them there is nothing, or stores that evict, or purges, in turn. Checkpoints are
//! written as the stores require.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::node::{BACKGROUND, Control, Node, NodeOptions};
use super::part_report::{PartReport, Watcher};
use super::plan::{Plan, fill, open};
use super::stores::Stores;
use crate::measure::PhaseFigures;
use crate::report::{count, rate, share, time};
use crate::run::{End, Session, Subject};

/// The objects of the hits: too many for memory, a fifth of the cache.
const SHARE_OF_CACHE: u64 = 5;
const OBJECT_BYTES: u64 = 4_000;
/// Stores and purges per second beside the hits.
const STORES: f64 = 500.0;
const PURGES: u64 = 100;

/// The work beside the hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Stores,
    Purges,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Stores, Beside::Purges];

    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "nothing",
            Beside::Stores => "stores and evictions",
            Beside::Purges => "purges",
        }
    }
}

/// A round with some other work.
struct Round {
    beside: Beside,
    figures: PhaseFigures,
    evicted: f64,
    checkpoints: f64,
    purges: f64,
}

/// Runs this part.
///
/// # Errors
/// Fails if Larder cannot be started, or does not respond.
pub fn run(plan: &Plan, watcher: &mut Watcher) -> Result<PartReport, String> {
    let (workers, cache, mean_object, existing) = (1, plan.cache, None, None);
    let mut node = Node::new(plan, &NodeOptions { workers, cache, mean_object, existing })?;
    let host = node.listen.to_string();
    let objects = plan.cache / SHARE_OF_CACHE / OBJECT_BYTES;
    let load = plan.objects_of(objects, OBJECT_BYTES);
    let mut hits = plan.session(node.addresses(), &host, load, 1_000)?;
    node.start()?;
    let process = Some(node.process()?);
    hits.set_subject(Subject::of(process));
    let stores = Stores::start(plan, [node.origins[1], node.listen], OBJECT_BYTES)?;
    (watcher.say)("storing twice the cache");
    stores.run(fill(End::Filled(2 * plan.cache)))?;
    hits.run(&fill(End::Requests(2 * objects)), watcher.watch)?;
    hits.settle()?;
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        for beside in Beside::ALL {
            if plan.is_interrupted() {
                break;
            }
            (watcher.say)(&format!("hits beside {}", beside.name()));
            rounds.push(round(plan, &node, &mut hits, &stores, beside, watcher)?);
        }
    }
    let mut report = table(plan, &rounds);
    report.take_failures(&hits);
    let (failures, count) = stores.stop()?;
    report.failures.extend(failures);
    report.failure_count += count;
    report.phases = rounds.into_iter().map(|round| round.figures).collect();
    Ok(report)
}

fn round(
    plan: &Plan,
    node: &Node,
    hits: &mut Session,
    stores: &Stores,
    beside: Beside,
    watcher: &mut Watcher,
) -> Result<Round, String> {
    let control = node.control();
    let before = control.metrics()?;
    let phase = open(beside.name(), plan.rate, plan.time);
    let number = match beside {
        Beside::Nothing => hits.run(&phase, watcher.watch)?,
        Beside::Stores => {
            stores.beside(open("stores", STORES, plan.time), || hits.run(&phase, watcher.watch))?
        }
        Beside::Purges => with_purges(plan, control, || hits.run(&phase, watcher.watch))?,
    };
    hits.settle()?;
    let after = control.metrics()?;
    let since = |name: &str| after.sum(name) - before.sum(name);
    Ok(Round {
        beside,
        figures: hits.figures(number),
        evicted: since("larder_store_evictions_total"),
        checkpoints: since("larder_store_checkpoints_total"),
        purges: since("larder_store_purges_total") + since("larder_store_purges_unborne_total"),
    })
}

/// Purges background pages, by URL and by prefix, while `hits` runs.
fn with_purges<T>(
    plan: &Plan,
    control: Control,
    hits: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let over = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicU64::new(0));
    let thread = {
        let (over, refused, seed) = (Arc::clone(&over), Arc::clone(&refused), plan.seed);
        thread::spawn(move || {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                number += 1;
                let what = if number % 2 == 0 { "prefix" } else { "url" };
                let query = format!("{what}=http://{BACKGROUND}/bench-{seed}/{number}/");
                if control.purge(&query).is_err() {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_micros(1_000_000 / PURGES));
            }
        })
    };
    let done = hits();
    over.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| "the purges have failed".to_owned())?;
    match refused.load(Ordering::Relaxed) {
        0 => done,
        refused => Err(format!("{refused} purges were refused")),
    }
}

fn table(plan: &Plan, rounds: &[Round]) -> PartReport {
    let headings = [
        "beside",
        "hits/s",
        "hit ratio",
        "median",
        "99%",
        "99.9%",
        "99.9% to quiet",
        "longest",
        "evicted",
        "checkpoints",
        "purges",
    ];
    let mut report = PartReport::new("background", headings);
    let quiet = median_of(rounds, Beside::Nothing, |round| round.figures.hit_time.p999);
    for beside in Beside::ALL {
        let of = |figure: fn(&Round) -> f64| median_of(rounds, beside, figure);
        let p999 = of(|round| round.figures.hit_time.p999);
        let longest = rounds.iter().filter(|round| round.beside == beside);
        let longest = longest.map(|round| round.figures.hit_time.max).fold(0.0, f64::max);
        report.row([
            beside.name().to_owned(),
            rate(of(|round| round.figures.achieved_rate)),
            share(of(|round| round.figures.hit_ratio)),
            time(of(|round| round.figures.hit_time.p50)),
            time(of(|round| round.figures.hit_time.p99)),
            time(p999),
            format!("{:.2}", p999 / quiet.max(1e-9)),
            time(longest),
            count(of(|round| round.evicted) as u64),
            count(of(|round| round.checkpoints) as u64),
            count(of(|round| round.purges) as u64),
        ]);
    }
    report.notes.push(format!(
        "medians of {} rounds; \"longest\" is of all; {STORES} stores or {PURGES} purges a second",
        plan.rounds
    ));
    report
}

/// Returns the median of a figure over the rounds with this other work; 0 if there are none.
fn median_of(rounds: &[Round], beside: Beside, figure: impl Fn(&Round) -> f64) -> f64 {
    let mut all: Vec<f64> =
        rounds.iter().filter(|round| round.beside == beside).map(figure).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
