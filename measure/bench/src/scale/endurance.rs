//! Full load for a long time: pages with drifting popularity on a cache that evicts, changing
//! documents, range requests; constant purges, and an upgrade in place from time to time. Every
//! byte is verified. Memory must not grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::node::{Control, Node, NodeOptions};
use super::part_report::{PartReport, Watcher};
use super::plan::{Plan, closed, fill};
use crate::load::{LoadOptions, Sizes, Workload};
use crate::measure::PhaseFigures;
use crate::report::{bytes, count, rate, share, time};
use crate::run::{End, Session, Subject};

/// Rows of the table.
const ROWS: u32 = 15;
/// Purges per second.
const PURGES: u32 = 10;
/// Number of upgrades in the whole run.
const UPGRADES: u32 = 12;
/// Maximum time until a purge succeeds.
const PURGE_WAIT: Duration = Duration::from_secs(60);
/// Mean seconds between two versions of a document.
const LIFETIME: u32 = 60;
/// Share of requests for a part of a document.
const RANGES: f64 = 0.02;

/// Runs this part.
///
/// # Errors
/// Fails if Larder cannot be started or does not respond, or if a purge or an upgrade fails.
pub fn run(plan: &Plan, watcher: &mut Watcher) -> Result<PartReport, String> {
    let headings = [
        "minutes",
        "requests/s",
        "hit ratio",
        "CPU us",
        "median",
        "99.9%",
        "longest",
        "errors",
        "upgrades",
        "resident",
    ];
    let mut report = PartReport::new("endurance", headings);
    let (workers, cache, mean_object, existing) = (1, plan.cache, None, None);
    let mut node = Node::new(plan, &NodeOptions { workers, cache, mean_object, existing })?;
    let host = node.listen.to_string();
    let mut session = plan.session(node.addresses(), &host, load(plan), plan.connections)?;
    node.start()?;
    session.run(&fill(End::Filled(2 * plan.cache)), watcher.watch)?;
    let disturbance = Disturbance::start(plan, node.control(), host);
    let each = plan.endurance / ROWS;
    let mut resident = Vec::new();
    for row in 1..=ROWS {
        if plan.is_interrupted() || disturbance.has_failed() {
            break;
        }
        let name = format!("{:.1}", (each * row).as_secs_f64() / 60.0);
        let figures = measure(&mut session, &node, &name, each, watcher)?;
        let now = node.control().resident()?;
        resident.push(now);
        report.row(cells(name, &figures, disturbance.upgrades(), now));
        report.failure_count += missing(&figures);
        report.phases.push(figures);
    }
    let done = disturbance.stop()?;
    report.take_failures(&session);
    report.notes.push(said(&done, &resident, plan));
    Ok(report)
}

fn load(plan: &Plan) -> LoadOptions {
    let workload = Workload::pages_for(plan.cache);
    LoadOptions { lifetime: LIFETIME, ranges: RANGES, ..plan.load(workload, Sizes::WEB) }
}

fn measure(
    session: &mut Session,
    node: &Node,
    name: &str,
    time: Duration,
    watcher: &mut Watcher,
) -> Result<PhaseFigures, String> {
    // After an upgrade the process is another one.
    session.set_subject(Subject::of(node.process().ok()));
    let number = session.run(&closed(name, End::After(time)), watcher.watch)?;
    session.settle()?;
    Ok(session.figures(number))
}

/// Returns the number of failed requests, without those that were cut short: if a document changes
/// between two of its parts, the response has to break off.
fn missing(figures: &PhaseFigures) -> u64 {
    let errors = figures.errors.iter().filter(|(kind, _)| *kind != "cut short");
    errors.map(|(_, count)| count).sum()
}

fn cells(name: String, figures: &PhaseFigures, upgrades: u64, resident: u64) -> [String; 10] {
    let cpu = figures.process.as_ref().map(|used| format!("{:.1}", used.cpu_us()));
    [
        name,
        rate(figures.achieved_rate),
        share(figures.hit_ratio),
        cpu.unwrap_or_default(),
        time(figures.response_time.p50),
        time(figures.response_time.p999),
        time(figures.response_time.max),
        figures.error_count().to_string(),
        upgrades.to_string(),
        bytes(resident as f64),
    ]
}

fn said(done: &Disturbed, resident: &[u64], plan: &Plan) -> String {
    let least = resident.iter().min().copied().unwrap_or(0) as f64;
    let most = resident.iter().max().copied().unwrap_or(0) as f64;
    format!(
        "{} purges, {} upgrades; resident {} to {}, with `memory` at {}",
        count(done.purges.load(Ordering::Relaxed)),
        done.upgrades.load(Ordering::Relaxed),
        bytes(least),
        bytes(most),
        bytes(plan.memory as f64)
    )
}

/// Purges and upgrades on a separate thread.
struct Disturbance {
    done: Arc<Disturbed>,
    thread: thread::JoinHandle<Result<(), String>>,
}

/// The counts of a disturbance.
#[derive(Debug, Default)]
struct Disturbed {
    over: AtomicBool,
    failed: AtomicBool,
    purges: AtomicU64,
    upgrades: AtomicU64,
}

impl Disturbance {
    fn start(plan: &Plan, control: Control, host: String) -> Disturbance {
        let done = Arc::new(Disturbed::default());
        let thread = {
            let (done, seed) = (Arc::clone(&done), plan.seed);
            let upgrade_every = plan.endurance / UPGRADES;
            thread::spawn(move || {
                let result = disturb(control, (&host, seed), upgrade_every, &done);
                done.failed.store(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        Disturbance { done, thread }
    }

    fn has_failed(&self) -> bool {
        self.done.failed.load(Ordering::Relaxed)
    }

    fn upgrades(&self) -> u64 {
        self.done.upgrades.load(Ordering::Relaxed)
    }

    fn stop(self) -> Result<Arc<Disturbed>, String> {
        self.done.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "purges and upgrades have failed".to_owned())??;
        Ok(self.done)
    }
}

/// Purges. While a new process takes over, a purge that cannot be made durable yet is refused with
/// the advice to retry, so this retries.
fn purge(control: Control, query: &str) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match control.purge(query) {
            Err(why) if begun.elapsed() > PURGE_WAIT => return Err(why),
            Err(_) => thread::sleep(Duration::from_millis(100)),
            Ok(()) => return Ok(()),
        }
    }
}

/// Purges documents of this host in the load with this seed, and upgrades at the given interval.
fn disturb(
    control: Control,
    (host, seed): (&str, u64),
    upgrade_every: Duration,
    done: &Disturbed,
) -> Result<(), String> {
    let mut upgraded = Instant::now();
    while !done.over.load(Ordering::Relaxed) {
        let number = done.purges.fetch_add(1, Ordering::Relaxed);
        let page = format!("http://{host}/bench-{seed}/{}/", number % 5_000);
        let soft = if number.is_multiple_of(3) { "&soft=1" } else { "" };
        let query = match number % 4 {
            0 => format!("tag=group-{}", number % 100),
            1 => format!("url={page}"),
            _ => format!("prefix={page}"),
        };
        purge(control, &format!("{query}{soft}"))?;
        if upgraded.elapsed() > upgrade_every {
            control.upgrade()?;
            done.upgrades.fetch_add(1, Ordering::Relaxed);
            upgraded = Instant::now();
        }
        thread::sleep(Duration::from_secs(1) / PURGES);
    }
    Ok(())
}
