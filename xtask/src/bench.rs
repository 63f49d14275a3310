//! The cost of a request to the server: `cargo xtask bench`.
//!
//! The figure that counts is server CPU per request, user and system time of the server's
//! processes divided by the requests answered, because it moves least from machine to machine; and
//! its ratio to nginx's `proxy_cache`, measured in the same run. Servers run as processes of their
//! own; the load generator ([`load`]) and the origin ([`origin`]) are threads of this one, so
//! their time is not counted. Rounds of the systems are interleaved and medians reported. Every
//! answer's status, length and bytes are checked.
//!
//! `cargo xtask bench --pages` measures pages such as those of the web instead, on caches that
//! evict all the time, beside Traffic Server as well: see [`pages`].
//!
//! `cargo xtask bench --files` measures web servers over a tree of small files: see [`files`].
//!
//! `cargo xtask bench --fleet` measures several nodes that share their caches: see [`fleet`].
//!
//! `cargo xtask instructions` counts instructions instead of time: see [`instructions`].
//!
//! Not counted is time that the kernel spends in threads of its own on a server's behalf
//! (write-back of the page cache for nginx, completion work of the disk driver for both).

mod apache;
mod caddy;
mod cores;
mod exchange;
mod files;
mod fleet;
pub mod instructions;
mod interruption;
mod load;
mod nginx;
mod options;
mod origin;
mod pages;
mod process;
mod report;
mod scenario;
mod system;
mod traffic_server;

use std::os::unix::process::CommandExt;
use std::time::Duration;

pub use self::options::Options;
use self::report::{Measured, Row};
use self::scenario::Scenario;
use self::system::{Running, Setup, Source, System, larders};
use crate::workspace;

/// Size of the caches that single objects are measured with, GiB.
const CACHE_GIB: u32 = 2;

/// Measures and prints.
///
/// # Errors
///
/// When larder cannot be built or started, or answers wrongly. A peer that is absent is skipped.
pub fn run(options: &Options) -> Result<(), String> {
    if cfg!(debug_assertions) {
        return again_optimised();
    }
    workspace::succeed(workspace::cargo(&["build", "--release", "--package", "larder"]))?;
    if options.pages.pages {
        return pages::run(options);
    }
    if options.files.files {
        return files::run(options);
    }
    if options.fleet.fleet {
        return fleet::run(options);
    }
    let origin = origin::start(Duration::ZERO)?;
    let mut systems = larders(options)?;
    match System::nginx() {
        Some(nginx) => systems.push(nginx),
        None => println!("SKIPPED: nginx is not installed, there is nothing to compare with"),
    }
    systems.retain(|s| options.wants(&s.name));
    let mut rows = Vec::new();
    for scenario in scenario::ALL.iter().filter(|s| s.name.contains(&options.only)) {
        println!("== {}", scenario.name);
        rows.extend(measure(options, scenario, &systems, &origin)?);
    }
    report::print(&rows);
    if let Some(path) = &options.json {
        report::write(path, &rows, options)?;
    }
    Ok(())
}

/// Runs the same chore in a release build: an unoptimised load generator would measure itself.
fn again_optimised() -> Result<(), String> {
    let mut command =
        workspace::cargo(&["run", "--release", "--quiet", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1));
    // In the place of this process: a signal to it is one to the measurement.
    Err(format!("cannot start {command:?}: {}", command.exec()))
}

/// Measures all systems in one scenario: started together, filled, then measured in turn.
fn measure(
    options: &Options,
    scenario: &Scenario,
    systems: &[System],
    origin: &origin::Origin,
) -> Result<Vec<Row>, String> {
    let mut running = Vec::new();
    for system in systems {
        let base = options.dir.clone().unwrap_or_else(|| workspace::root().join("target"));
        let server = system.start(&Setup {
            base: &base,
            cache: None,
            cache_gib: CACHE_GIB,
            memory_mib: scenario.memory_mib,
            source: Source::Origin(origin.address()),
            groups: Vec::new(),
            core: None,
        })?;
        if scenario.fill > 0 {
            println!("   filling {}", system.name);
            let plan = load::Plan::fill(scenario, options.connections);
            load::run(server.address(), &plan)?;
            // Past the durability bound: what is measured is the steady state.
            std::thread::sleep(Duration::from_secs(3));
        }
        running.push(server);
    }
    let mut measured: Vec<Vec<Measured>> = systems.iter().map(|_| Vec::new()).collect();
    let mut fresh = 0;
    for round in 0..options.rounds {
        for (server, results) in running.iter().zip(&mut measured) {
            let seconds = Duration::from_secs_f64(options.seconds);
            let plan = load::Plan::rounds(scenario, options.connections, seconds, fresh);
            let result = one_round(server, &plan, origin)?;
            fresh += result.requests;
            println!("   round {} {}: {:.1} µs", round + 1, server.name(), result.cpu_us());
            results.push(result);
        }
    }
    let mut rows = Vec::new();
    for (server, results) in running.iter().zip(measured) {
        let plan = load::Plan::rounds(scenario, options.connections, Duration::from_secs(1), fresh);
        let calls = process::count_system_calls(&server.pids(), || {
            load::run(server.address(), &plan).map(|done| done.requests())
        })?;
        fresh += 10_000_000;
        rows.push(Row::new(scenario.name, server.name(), results, calls));
    }
    Ok(rows)
}

fn one_round(
    server: &Running,
    plan: &load::Plan,
    origin: &origin::Origin,
) -> Result<Measured, String> {
    let (cpu, fetched, device) = (server.cpu()?, origin.served(), server.device());
    let done = load::run(server.address(), plan)?;
    let cpu = server.cpu()? - cpu;
    // What was stored last is on its way to the device for at most the durability bound.
    if device.is_some() && plan.stores() {
        std::thread::sleep(Duration::from_millis(1500));
    }
    let device = device.zip(server.device()).map(|(before, after)| after.since(&before));
    Ok(Measured {
        requests: done.requests(),
        seconds: done.seconds,
        cpu_seconds: cpu,
        p50_us: done.percentile(50.0),
        p99_us: done.percentile(99.0),
        origin_share: (origin.served() - fetched) as f64 / done.requests().max(1) as f64,
        device,
    })
}
