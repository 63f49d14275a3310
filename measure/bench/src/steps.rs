//! Cost of a request, step by step, in microseconds.
//!
//! Larder's release build runs on the last core with one worker, under a closed loop from the other
//! cores, while `perf` samples its stacks. Each sample belongs to a step (`stack`); the processor
//! time of a request, as the kernel counts it, is divided among the steps by their samples. `perf`
//! must be installed and permitted.

mod stack;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::load::LoadOptions;
use crate::run::{End, Subject};
use crate::scale::{Node, NodeOptions, Plan, Watcher, closed, fill};

/// A kind of request.
struct Route {
    name: &'static str,
    load: LoadOptions,
    /// Number of requests that fill the cache first.
    fill: u64,
}

/// Samples per second: a number that avoids resonance with periodic work.
const FREQUENCY: &str = "1499";
/// Time after which stored objects are on the device.
const SETTLE: Duration = Duration::from_secs(2);
/// Time of load before and after the samples.
const MARGIN: Duration = Duration::from_secs(1);
/// Steps below this share are combined.
const SMALL: f64 = 0.01;

fn routes(plan: &Plan) -> [Route; 4] {
    let passed = LoadOptions { uncacheable: 1.0, ..plan.objects_of(1_000, 3_000) };
    [
        Route { name: "hit from memory, 3 KB", load: plan.objects_of(1_000, 3_000), fill: 1_000 },
        Route { name: "hit from disk, 4 KB", load: plan.objects_of(60_000, 4_000), fill: 60_000 },
        Route { name: "passed, not stored, 3 KB", load: passed, fill: 0 },
        Route { name: "miss and store, 3 KB", load: plan.unique(3_000), fill: 200_000 },
    ]
}

/// Measures the routes whose names contain `only`, and passes each line of the result to `print`.
///
/// # Errors
///
/// When perf is absent or not permitted, or larder cannot be started or responds wrongly.
pub fn run(
    plan: &Plan,
    only: &str,
    watcher: &mut Watcher,
    print: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let perf = Command::new("perf").arg("--version").stdout(Stdio::null()).status();
    if !perf.is_ok_and(|status| status.success()) {
        return Err("perf takes the samples and is not installed: on Debian and Ubuntu \
                    `apt-get install linux-perf`"
            .into());
    }
    for route in routes(plan).into_iter().filter(|route| route.name.contains(only)) {
        (watcher.say)(&format!("== {}", route.name));
        measure(plan, route, watcher, print)?;
        if plan.is_interrupted() {
            return Err("interrupted".into());
        }
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    route: Route,
    watcher: &mut Watcher,
    print: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let (mean_object, existing) = (None, None);
    let options = NodeOptions { workers: 1, cache: plan.cache, mean_object, existing };
    let mut node = Node::new(plan, &options)?;
    let host = node.listen.to_string();
    let mut session = plan.session(node.addresses(), &host, route.load, plan.connections)?;
    node.start()?;
    let process = node.process()?;
    session.set_subject(Subject::of(Some(process)));
    if route.fill > 0 {
        session.run(&fill(End::Requests(route.fill)), watcher.watch)?;
        session.settle()?;
    }
    std::thread::sleep(SETTLE);
    let data = node.file("perf.data");
    let mut recording = Samples::record(process, plan.time, &data)?;
    let time = plan.time + 2 * MARGIN;
    let number = session.run(&closed(route.name, End::After(time)), watcher.watch)?;
    session.settle()?;
    recording.end(plan.is_interrupted())?;
    let (failures, wrong) = session.failures();
    if let Some(failure) = failures.first() {
        return Err(format!("{wrong} wrong responses: {failure}"));
    }
    let figures = session.figures(number);
    let used = figures.process.ok_or("the processor time of larder is unknown")?;
    let counts = by_step(&read(&data)?);
    let all: u64 = counts.values().sum();
    print(&format!(
        "{}: {:.1} us a request ({:.1} + {:.1}), {:.0} requests/s, {all} samples",
        route.name,
        used.cpu_us(),
        used.user_us_per_request,
        used.system_us_per_request,
        figures.achieved_rate,
    ));
    table(&counts, used.cpu_us()).iter().for_each(|line| print(line));
    Ok(())
}

/// A recording of samples. Ends when dropped.
struct Samples(Child);

impl Samples {
    /// Starts to sample a process for `time` after the first second of load.
    fn record(process: u32, time: Duration, data: &Path) -> Result<Samples, String> {
        let mut command = Command::new("perf");
        command.args(["record", "--quiet", "-F", FREQUENCY, "--call-graph", "fp"]);
        command.args(["--delay", &MARGIN.as_millis().to_string(), "-o"]).arg(data);
        let length = (MARGIN + time).as_secs_f64().to_string();
        command.args(["-p", &process.to_string(), "--", "sleep", &length]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Samples).map_err(|e| format!("perf record: {e}"))
    }

    /// Waits for the end; `at_once` does not wait for the whole time.
    fn end(&mut self, at_once: bool) -> Result<(), String> {
        if at_once {
            return Ok(());
        }
        let status = self.0.wait().map_err(|e| format!("perf record: {e}"))?;
        if status.success() { Ok(()) } else { Err(format!("perf record failed ({status})")) }
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        // Both fail after its end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns recorded samples as `perf script` prints them.
fn read(data: &Path) -> Result<String, String> {
    let mut command = Command::new("perf");
    command.args(["script", "-F", "ip,sym,dso", "-i"]).arg(data).stderr(Stdio::null());
    let output = command.output().map_err(|e| format!("perf script: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn by_step(samples: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for sample in stack::samples(samples) {
        *counts.entry(stack::step(&sample)).or_insert(0) += 1;
    }
    counts
}

/// Formats the steps, the most expensive first, each with its time and its share of `us`
/// microseconds.
fn table(counts: &BTreeMap<String, u64>, us: f64) -> Vec<String> {
    let all = counts.values().sum::<u64>().max(1) as f64;
    let (mut large, small): (Vec<_>, Vec<_>) =
        counts.iter().partition(|&(_, &count)| count as f64 / all >= SMALL);
    large.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
    let rest: u64 = small.iter().map(|&(_, &count)| count).sum();
    let rows = large.into_iter().map(|(step, &count)| (step.as_str(), count));
    let rows = rows.chain((rest > 0).then_some(("all else", rest)));
    rows.map(|(step, count)| {
        let share = count as f64 / all;
        format!("  {:>6.2} us  {:>5.1}%  {step}", us * share, 100.0 * share)
    })
    .collect()
}

#[test]
fn times_are_shared_by_samples() {
    let counts = [("a".to_owned(), 600), ("b".to_owned(), 395), ("c".to_owned(), 5)];
    let lines = table(&counts.into_iter().collect(), 10.0);
    assert_eq!(lines[0], "    6.00 us   60.0%  a");
    assert_eq!(lines[2], "    0.05 us    0.5%  all else");
}
