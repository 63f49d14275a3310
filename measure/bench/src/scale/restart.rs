//! Starts with many objects: the time from program start to the first response from the cache,
//! after an orderly stop and after `kill -9`, and how much of what was stored is still there.

use std::fs;
use std::time::{Duration, Instant};

use super::node::{Node, NodeOptions};
use super::part_report::{PartReport, Watcher};
use super::plan::{Plan, closed};
use crate::report::{bytes, count, share, time};
use crate::run::{End, Live};

/// Small object size in bytes, so that many objects fit.
const OBJECT_BYTES: u64 = 300;
/// Approximate bytes that an object occupies on the device.
const RECORD_BYTES: u64 = 1_024;
/// Requests for the first stored objects that are sent after each start.
const ASKED_AGAIN: u64 = 20_000;
/// Time after which stored objects are on the device.
const WRITTEN: Duration = Duration::from_secs(2);
/// Maximum number of requests until one must be a hit.
const MISSES_MOST: u32 = 1_000;
/// Maximum time until the index is complete.
const LONG: Duration = Duration::from_secs(120);

/// How Larder ends before a start.
const ENDS: [&str; 2] = ["an orderly stop", "kill -9"];

/// Runs this part.
///
/// # Errors
/// Fails if Larder cannot be started, or nothing is a hit.
pub fn run(plan: &Plan, watcher: &mut Watcher) -> Result<PartReport, String> {
    let headings = [
        "start after",
        "objects",
        "listens",
        "first hit",
        "index whole",
        "hits",
        "it took to end",
        "resident",
    ];
    let mut report = PartReport::new("restart", headings);
    let existing = plan.filled.clone();
    let length = |path: &std::path::PathBuf| {
        fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let cache = match &existing {
        Some(path) => length(path)?.len(),
        None => plan.objects * RECORD_BYTES * 3 / 2 + (64 << 20),
    };
    let mean_object = Some(RECORD_BYTES);
    let is_filled = existing.is_some();
    let mut node = Node::new(plan, &NodeOptions { workers: 1, cache, mean_object, existing })?;
    let begun = node.spawn()?;
    node.await_listener(begun)?;
    if !is_filled {
        store_all(plan, &node, watcher)?;
    }
    // Stopping earlier would leave no index to start with.
    await_index(&node, Instant::now())?;
    for round in 0..plan.rounds {
        for end in ENDS {
            if plan.is_interrupted() {
                return Ok(report);
            }
            let took = if end == ENDS[0] { node.stop()? } else { node.kill()? };
            (watcher.say)(&format!("round {}: start after {end}", round + 1));
            start(plan, &mut node, (end, took), &mut report, watcher)?;
        }
    }
    Ok(report)
}

fn store_all(plan: &Plan, node: &Node, watcher: &mut Watcher) -> Result<(), String> {
    let load = plan.unique(OBJECT_BYTES);
    let mut session = plan.session(node.addresses(), &plan.host, load, plan.connections)?;
    session.run(&closed("store", End::Requests(plan.objects)), watcher.watch)?;
    session.settle()?;
    std::thread::sleep(WRITTEN);
    Ok(())
}

/// Starts the node, and requests stored objects, oldest first, until one is a hit.
fn start(
    plan: &Plan,
    node: &mut Node,
    (end, took): (&str, Duration),
    report: &mut PartReport,
    watcher: &mut Watcher,
) -> Result<(), String> {
    let load = plan.unique(OBJECT_BYTES);
    let mut session = plan.session(node.addresses(), &plan.host, load, 1)?;
    let begun = node.start()?;
    let listens = begun.elapsed();
    let first = first_hit(&mut session, begun, watcher.watch)?;
    let whole = await_index(node, begun)?;
    let number = session.run(&closed(end, End::Requests(ASKED_AGAIN)), watcher.watch)?;
    session.settle()?;
    let figures = session.figures(number);
    let metrics = node.control().metrics()?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    report.row([
        end.to_owned(),
        count(metrics.sum("larder_index_entries") as u64),
        time(ms(listens)),
        time(ms(first)),
        time(ms(whole)),
        share(figures.hit_ratio),
        time(ms(took)),
        bytes(node.control().resident()? as f64),
    ]);
    report.take_failures(&session);
    report.phases.push(figures);
    std::thread::sleep(WRITTEN);
    Ok(())
}

fn first_hit(
    session: &mut crate::run::Session,
    begun: Instant,
    watch: &mut dyn FnMut(&Live),
) -> Result<Duration, String> {
    for _ in 0..MISSES_MOST {
        let number = session.run(&closed("first hit", End::Requests(1)), watch)?;
        let since = begun.elapsed();
        session.settle()?;
        if session.figures(number).hit_ratio > 0.0 {
            return Ok(since);
        }
    }
    Err("no hit after the start: were the objects stored with this --seed and --host?".to_owned())
}

/// Waits until the whole index is available again.
fn await_index(node: &Node, begun: Instant) -> Result<Duration, String> {
    while begun.elapsed() < LONG {
        if node.control().metrics()?.sum("larder_store_recovering") == 0.0 {
            return Ok(begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("the index is not whole".to_owned())
}
