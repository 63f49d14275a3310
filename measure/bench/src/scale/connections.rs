//! Many connections: the memory that idle ones use, and the cost of requests over busy ones beside
//! the idle ones.

use std::time::Duration;

use super::node::{Node, NodeOptions};
use super::part_report::{PartReport, Watcher};
use super::plan::{Plan, closed, fill};
use crate::measure::{PhaseFigures, Times};
use crate::report::{bytes, count, rate, time};
use crate::run::{End, Session, Subject};

/// Time after which an idle connection has released its resources; the allocator keeps some of them
/// for another ten seconds.
const PARKED: Duration = Duration::from_secs(5);
/// Number of requested objects, and their size in bytes: they stay in memory.
const OBJECTS: u64 = 1_000;
const OBJECT_BYTES: u64 = 3_000;

/// Runs this part.
///
/// # Errors
/// Fails if Larder cannot be started, or does not respond.
pub fn run(plan: &Plan, watcher: &mut Watcher) -> Result<PartReport, String> {
    let headings = [
        "connections",
        "requests/s",
        "CPU us",
        "median",
        "99.9%",
        "errors",
        "resident",
        "a connection",
    ];
    let mut report = PartReport::new("connections", headings);
    let (workers, cache, mean_object, existing) = (1, plan.cache, None, None);
    let mut node = Node::new(plan, &NodeOptions { workers, cache, mean_object, existing })?;
    let [origin, listen] = node.addresses();
    let host = listen.to_string();
    let load = || plan.objects_of(OBJECTS, OBJECT_BYTES);
    let mut few = plan.session([origin, listen], &host, load(), plan.connections)?;
    node.start()?;
    let process = Some(node.process()?);
    let control = node.control();
    few.set_subject(Subject::of(process));
    few.run(&fill(End::Requests(OBJECTS)), watcher.watch)?;
    measure(plan, &mut few, format!("{} busy", plan.connections), &mut report, watcher)?;
    drop(few);
    let rest = plan.time.max(PARKED);
    std::thread::sleep(rest);
    let before = control.resident()?;

    let end = End::Requests(plan.idle as u64);
    (watcher.say)(&format!("opening {} connections", count(plan.idle as u64)));
    // Each connection sends one request and then stays idle.
    let mut idle = plan.session([node.origins[1], listen], &host, load(), plan.idle)?;
    let number = idle.run(&closed("opening", end), watcher.watch)?;
    idle.settle()?;
    std::thread::sleep(rest);
    let resident = control.resident()?;
    let figures = idle.figures(number);
    let each =
        resident.saturating_sub(before) as f64 / figures.generator.connections_busy.max(1) as f64;
    let opened = figures.generator.connections_busy as u64;
    let mut cells = cells(format!("{} idle", count(opened)), &figures);
    cells[6] = bytes(resident as f64);
    cells[7] = bytes(each);
    report.row(cells);
    report.take_failures(&idle);
    report.phases.push(figures);

    let mut many = plan.session([origin, listen], &host, load(), plan.busy)?;
    many.set_subject(Subject::of(process));
    let name = format!("{} busy beside them", count(plan.busy as u64));
    measure(plan, &mut many, name, &mut report, watcher)?;
    let last = report.rows.len() - 1;
    report.rows[last][6] = bytes(control.resident()? as f64);
    let wrong = report.phases.iter().map(PhaseFigures::error_count).sum::<u64>();
    report.failure_count += wrong;
    Ok(report)
}

fn measure(
    plan: &Plan,
    session: &mut Session,
    name: String,
    report: &mut PartReport,
    watcher: &mut Watcher,
) -> Result<(), String> {
    let number = session.run(&closed(&name, End::After(plan.time)), watcher.watch)?;
    session.settle()?;
    let figures = session.figures(number);
    report.row(cells(name, &figures));
    report.take_failures(session);
    report.phases.push(figures);
    Ok(())
}

fn cells(name: String, figures: &PhaseFigures) -> Vec<String> {
    let cpu = figures.process.as_ref().map(|used| format!("{:.1}", used.cpu_us()));
    let Times { p50, p999, .. } = figures.response_time;
    vec![
        name,
        rate(figures.achieved_rate),
        cpu.unwrap_or_default(),
        time(p50),
        time(p999),
        figures.error_count().to_string(),
        String::new(),
        String::new(),
    ]
}
