//! Cost of a request, step by step, in microseconds: `cargo xtask steps`.
//!
//! Larder's release build runs on the last core with one worker. `larder-bench` loads it from the
//! first one in a closed loop, while `perf` samples larder's stacks. Each sample belongs to a step
//! ([`stack`]); the processor time of a request, as counted by the kernel, is divided among the
//! steps by their samples. `perf` must be installed and permitted.

mod stack;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;
use testkit::address;

use super::process::cores;
use super::system::{Running, confined, larder_program};
use crate::workspace;

/// What is taken apart.
#[derive(Args)]
pub struct Options {
    /// Only the paths whose names contain this.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Seconds of samples.
    #[arg(long, default_value_t = 6)]
    pub seconds: u64,
    /// Takes the release build that is there, without building.
    #[arg(long)]
    pub as_built: bool,
}

/// A kind of request.
struct Route {
    name: &'static str,
    /// Arguments of the load generator.
    load: &'static [&'static str],
    /// Number of requests that fill the cache first.
    fill: u64,
}

const ROUTES: [Route; 4] = [
    Route {
        name: "hit from memory, 3 KB",
        load: &["zipf", "--alpha", "0", "--objects", "1000", "--sizes", "fixed:3000"],
        fill: 1_000,
    },
    Route {
        name: "hit from disk, 4 KB",
        load: &["zipf", "--alpha", "0", "--objects", "60000", "--sizes", "fixed:4000"],
        fill: 60_000,
    },
    Route {
        name: "passed, not stored, 3 KB",
        load: &[
            "zipf",
            "--alpha",
            "0",
            "--objects",
            "1000",
            "--sizes",
            "fixed:3000",
            "--uncacheable",
            "1",
        ],
        fill: 0,
    },
    Route {
        name: "miss and store, 3 KB",
        load: &["unique", "--sizes", "fixed:3000"],
        fill: 200_000,
    },
];

/// Samples per second: a number that avoids resonance with periodic work.
const FREQUENCY: &str = "1499";
/// Time after which stored objects are on the device and the load has started.
const SETTLE: Duration = Duration::from_secs(2);
/// Steps below this share are combined.
const SMALL: f64 = 0.01;

/// Measures and prints.
///
/// # Errors
///
/// When perf is absent or not permitted, or larder cannot be built or started.
pub fn run(options: &Options) -> Result<(), String> {
    let perf = Command::new("perf").arg("--version").stdout(Stdio::null()).status();
    if !perf.is_ok_and(|status| status.success()) {
        return Err("perf takes the samples and is not installed: on Debian and Ubuntu \
                    `apt-get install linux-perf`"
            .into());
    }
    if !options.as_built {
        let words = ["build", "--release", "--package", "larder", "--package", "bench"];
        workspace::succeed(workspace::cargo(&words))?;
    }
    for route in ROUTES.iter().filter(|route| route.name.contains(&options.only)) {
        measure(route, options.seconds)?;
    }
    Ok(())
}

fn measure(route: &Route, seconds: u64) -> Result<(), String> {
    let base = workspace::root().join("target");
    let directory = TempDir::new_in(&base).map_err(|e| format!("{}: {e}", base.display()))?;
    let files = directory.path().to_path_buf();
    let (listen, admin, origin) = (address::free(), address::free(), address::free());
    let program = larder_program()?;
    let mut command = confined(&program, &[], Some(cores() - 1));
    command.args(["serve", "--workers", "1", "--cache-size", "512M", "--memory", "64M"]);
    command.args(["--listen", &listen.to_string(), "--admin", &admin.to_string()]);
    command.args(["--reverse", &format!("http://{origin}")]);
    command.arg("--cache").arg(files.join("cache"));
    let server = Running::launch("larder", command, directory, (listen, Some(admin)))?;
    let load = |more: &[String]| {
        let mut command = confined(&program.with_file_name("larder-bench"), &[], Some(0));
        command.args(["--target", &format!("http://{listen}"), "--seed", "1", "--ramp", "0s"]);
        command.args(["--origin", &origin.to_string(), "--quiet", "--workload"]);
        command.args(route.load).args(more).stdout(Stdio::null());
        command
    };
    if route.fill > 0 {
        workspace::succeed(load(&["--requests".into(), route.fill.to_string()]))?;
    }
    std::thread::sleep(SETTLE);
    let figures = files.join("figures.json");
    let plateau = format!("{}s", seconds + 2 * SETTLE.as_secs());
    let arguments = ["--plateau".into(), plateau, "--json".into(), figures.display().to_string()];
    let mut running = load(&arguments).spawn().map_err(|e| format!("larder-bench: {e}"))?;
    std::thread::sleep(SETTLE);
    let pid = *server.pids().first().ok_or("larder has ended")?;
    let samples = record(pid, seconds, &files);
    let ended = running.wait().map_err(|e| format!("larder-bench: {e}"))?;
    if !ended.success() {
        return Err(format!("larder-bench failed ({ended})"));
    }
    let (user, system, rate) = processor(&figures)?;
    let counts = by_step(&samples?);
    let all: u64 = counts.values().sum();
    println!(
        "{}: {:.1} us a request ({user:.1} + {system:.1}), {rate:.0} requests/s, {all} samples",
        route.name,
        user + system
    );
    table(&counts, user + system).iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Samples a process, and returns the samples as `perf script` prints them.
fn record(pid: u32, seconds: u64, files: &Path) -> Result<String, String> {
    let data: PathBuf = files.join("perf.data");
    let mut command = Command::new("perf");
    command.args(["record", "--quiet", "-F", FREQUENCY, "--call-graph", "fp", "-o"]).arg(&data);
    command.args(["-p", &pid.to_string(), "--", "sleep", &seconds.to_string()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    workspace::succeed(command)?;
    let mut command = Command::new("perf");
    command.args(["script", "-F", "ip,sym,dso", "-i"]).arg(&data).stderr(Stdio::null());
    let output = command.output().map_err(|e| format!("perf script: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the microseconds per request in the program and in the kernel, and the requests per
/// second.
fn processor(figures: &Path) -> Result<(f64, f64, f64), String> {
    let text = fs::read_to_string(figures).map_err(|e| format!("{}: {e}", figures.display()))?;
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", figures.display()))?;
    let phase = report["phases"].as_array().and_then(|phases| phases.last()).cloned();
    let phase = phase.unwrap_or_default();
    let number = |value: &serde_json::Value| {
        value.as_f64().ok_or_else(|| format!("{}: a figure is missing", figures.display()))
    };
    let process = &phase["process"];
    Ok((
        number(&process["user_us_per_request"])?,
        number(&process["system_us_per_request"])?,
        number(&phase["achieved_rate"])?,
    ))
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
