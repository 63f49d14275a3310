//! More workers: requests per second and CPU time for each number of workers, and the use of the
//! cache's lock, which all workers share. The time for which a request holds the lock limits what
//! any number of workers can do.

use super::node::{Metrics, Node, NodeOptions};
use super::part_report::{PartReport, Watcher};
use super::plan::{Plan, closed, fill};
use crate::load::LoadOptions;
use crate::measure::PhaseFigures;
use crate::report::rate;
use crate::run::{End, Subject};

/// A load that is measured with each number of workers.
struct Load {
    name: &'static str,
    options: LoadOptions,
    fill: Option<End>,
}

/// The cost of the cache's lock.
struct Lock {
    taken: f64,
    waits: f64,
    waited: f64,
    timed: f64,
    held: f64,
}

impl Lock {
    fn of(metrics: &Metrics) -> Lock {
        Lock {
            taken: metrics.sum("larder_store_lock_taken_total"),
            waits: metrics.sum("larder_store_lock_waits_total"),
            waited: metrics.sum("larder_store_lock_waited_seconds_total"),
            timed: metrics.sum("larder_store_lock_held_seconds_count"),
            held: metrics.sum("larder_store_lock_held_seconds_sum"),
        }
    }

    fn since(&self, before: &Lock) -> Lock {
        Lock {
            taken: self.taken - before.taken,
            waits: self.waits - before.waits,
            waited: self.waited - before.waited,
            timed: self.timed - before.timed,
            held: self.held - before.held,
        }
    }

    /// Returns the mean time in seconds for which the lock was held.
    fn held_mean(&self) -> f64 {
        self.held / self.timed.max(1.0)
    }
}

/// Runs this part.
///
/// # Errors
/// Fails if Larder cannot be started, or does not respond.
pub fn run(plan: &Plan, watcher: &mut Watcher) -> Result<PartReport, String> {
    let mut report = PartReport::new(
        "workers",
        [
            "load",
            "workers",
            "requests/s",
            "CPU us",
            "locks a request",
            "held ns",
            "held us a request",
            "waits in 1,000",
            "waited us a request",
            "bound by the lock",
        ],
    );
    for workers in &plan.workers {
        for load in loads(plan) {
            if plan.is_interrupted() {
                return Ok(report);
            }
            (watcher.say)(&format!("{}, {workers} workers", load.name));
            measure(plan, &load, *workers, &mut report, watcher)?;
        }
    }
    let most = plan.workers.iter().max().copied().unwrap_or(1);
    if most >= plan.cores.len() {
        report.notes.push(format!(
            "with {most} workers on {} cores the generator takes its share of them: compare the \
             processor time of a request, not requests a second",
            plan.cores.len()
        ));
    }
    let about = "\"bound by the lock\": requests a second at which one lock would be held all the \
                 time, however many workers there are; a second device has a lock of its own";
    report.notes.push(about.to_owned());
    Ok(report)
}

fn loads(plan: &Plan) -> [Load; 3] {
    let on_disk = plan.cache * 9 / 20 / 4_096;
    [
        Load {
            name: "hit from memory, 3 KB",
            options: plan.objects_of(1_000, 3_000),
            fill: Some(End::Requests(1_000)),
        },
        Load {
            name: "hit from disk, 4 KB",
            options: plan.objects_of(on_disk, 4_000),
            fill: Some(End::Requests(on_disk)),
        },
        Load { name: "miss and store, 3 KB", options: plan.unique(3_000), fill: None },
    ]
}

fn measure(
    plan: &Plan,
    load: &Load,
    workers: usize,
    report: &mut PartReport,
    watcher: &mut Watcher,
) -> Result<(), String> {
    let (cache, mean_object, existing) = (plan.cache, None, None);
    let mut node = Node::new(plan, &NodeOptions { workers, cache, mean_object, existing })?;
    let host = node.listen.to_string();
    let mut session =
        plan.session(node.addresses(), &host, load.options.clone(), plan.connections)?;
    node.start()?;
    let process = Some(node.process()?);
    session.set_subject(Subject::of(process));
    if let Some(end) = load.fill {
        session.run(&fill(end), watcher.watch)?;
        session.settle()?;
    }
    let before = Lock::of(&node.control().metrics()?);
    let number = session.run(&closed(load.name, End::After(plan.time)), watcher.watch)?;
    session.settle()?;
    let lock = Lock::of(&node.control().metrics()?).since(&before);
    let figures = session.figures(number);
    report.row(row(load.name, workers, &figures, &lock));
    report.take_failures(&session);
    report.phases.push(figures);
    Ok(())
}

fn row(name: &str, workers: usize, figures: &PhaseFigures, lock: &Lock) -> [String; 10] {
    let requests = (figures.answered as f64).max(1.0);
    let cpu =
        figures.process.as_ref().map_or_else(|| "?".into(), |used| format!("{:.1}", used.cpu_us()));
    let held = lock.held_mean() * lock.taken / requests;
    [
        name.to_owned(),
        workers.to_string(),
        rate(figures.achieved_rate),
        cpu,
        format!("{:.2}", lock.taken / requests),
        format!("{:.0}", lock.held_mean() * 1e9),
        format!("{:.2}", held * 1e6),
        format!("{:.2}", 1e3 * lock.waits / lock.taken.max(1.0)),
        format!("{:.3}", 1e6 * lock.waited / requests),
        rate(1.0 / held.max(1e-12)),
    ]
}

#[test]
fn a_lock_is_reckoned_by_the_request() {
    let lock = Lock { taken: 200.0, waits: 2.0, waited: 1e-5, timed: 4.0, held: 4e-6 };
    let figures = PhaseFigures { answered: 100, ..PhaseFigures::default() };
    let row = row("x", 2, &figures, &lock);
    assert_eq!(row[4..], ["2.00", "1000", "2.00", "10.00", "0.100", "500,000"]);
}
