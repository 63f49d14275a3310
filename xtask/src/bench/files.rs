//! Benchmark of web servers over a tree of files: `cargo xtask bench --files`.
//!
//! Each server in turn gets the same tree on an ext4 of its own loop device, one core, and limited
//! memory, which includes the kernel memory charged to it (page cache, inodes, directory entries):
//! a control group. Larder gets a second loop device, raw, for its cache. Sessions visit pages by
//! popularity (Zipf) and request the objects that the page embeds, which lie in the page's
//! directory. The load generator has the other cores. Every body is checked.
//!
//! The program is the same for each system ([`program`]): the first seconds with empty memory and
//! cache; every page once, so that a cache has a copy of every file; a warm-up by popularity; the
//! counted requests, in parts; then the first seconds after a restart with an empty kernel cache.
//! It is repeated in rounds with all servers in each; medians are reported. The variables are the
//! tree and the memory ([`scenario`]), and with `--operations` the devices: each is limited to that
//! many reads and as many writes a second, but only during the first seconds and the counted
//! requests. Larder thus has two such devices.
//!
//! Device reads are those of both devices.

mod figures;
mod load;
mod program;
mod scenario;
#[cfg(test)]
mod smoke;
mod tree;

use std::path::Path;
use std::time::Instant;

use testkit::loop_device::{Blocks, LoopDevice};

use self::figures::Figures;
use self::program::{Devices, Pace, Program};
use self::scenario::Scenario;
use super::cores::Cores;
use super::options::Options;
use super::system::{System, larders};
use testkit::file_system::{FileSystem, Purpose};
use testkit::mounts;

use super::interruption;
use crate::workspace;

/// Measures and prints.
///
/// # Errors
///
/// When a system that is installed cannot be measured.
pub fn run(options: &Options) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("--files makes loop devices and groups: it wants the rights of root".into());
    }
    let scenario = Scenario::of(&options.files)?;
    mounts::make_private()?;
    interruption::watch()?;
    let systems = systems(options)?;
    if systems.is_empty() {
        return Err(format!("no system is named like {:?}", options.systems));
    }
    let base = options.dir.clone().unwrap_or_else(|| workspace::root().join("target"));
    let all = measure(options, &scenario, &Pace::FULL, &systems, &base)?;
    let rows = figures::medians(&all);
    println!("\n{scenario}, {} rounds", options.rounds);
    figures::print(&rows);
    options.json.as_ref().map_or(Ok(()), |path| figures::write(path, &rows, &all, &scenario))
}

/// Returns the systems of a measurement: larder in the variants that the options name, or in three;
/// and its peers.
fn systems(options: &Options) -> Result<Vec<System>, String> {
    let mut systems = match options.layout.is_empty() && options.preset.is_empty() {
        true => ways(&System::larder(1)?),
        false => larders(options)?,
    };
    systems.extend(peers());
    systems.retain(|system| options.wants(&system.name));
    Ok(systems)
}

/// Returns larder with its defaults, with the preset of a paper, and with first copies that stay in
/// the kernel's page cache.
fn ways(larder: &System) -> Vec<System> {
    let (mut tfs, mut page_cache) = (larder.clone(), larder.clone());
    tfs.set("preset", "tfs");
    page_cache.configure("files", "page-cache-max = \"1G\"");
    vec![larder.clone(), tfs, page_cache]
}

/// Returns the installed peers, and prints the missing ones.
fn peers() -> Vec<System> {
    let all = [
        ("nginx", System::nginx()),
        ("nginx", System::nginx_without_threads()),
        ("Apache httpd", System::apache()),
        ("Caddy", System::caddy()),
    ];
    let mut peers = Vec::new();
    for (name, peer) in all {
        match peer {
            Some(peer) => peers.push(peer),
            None => println!("SKIPPED: {name} is not installed"),
        }
    }
    peers
}

/// Creates devices and tree, and measures the systems in turn, round after round.
fn measure(
    options: &Options,
    scenario: &Scenario,
    pace: &Pace,
    systems: &[System],
    base: &Path,
) -> Result<Vec<Figures>, String> {
    std::fs::create_dir_all(base).map_err(|e| format!("{}: {e}", base.display()))?;
    let file = |name: &str| base.join(format!("bench-{}.{name}", std::process::id()));
    // Written once, and only read during measurements: blocks are allocated as it is written.
    let len = tree::device_len(scenario.pages);
    let tree = LoopDevice::over(&file("tree"), len, Blocks::Sparse)?;
    let files = FileSystem::new(tree.path(), Purpose::Tree, options.operations.is_some())?;
    let begin = Instant::now();
    let made = tree::make(files.path(), scenario.pages)?;
    files.settle()?;
    println!("== {made}, made in {:.0} s", begin.elapsed().as_secs_f64());
    let cache =
        LoopDevice::over(&file("cache"), u64::from(scenario.cache_gib) << 30, pace.cache_blocks)?;
    let cores = Cores::divide()?;
    cores.leave_server_alone()?;
    let devices = Devices { files: &files, tree: &tree, cache: &cache };
    let mut all = Vec::new();
    for round in 1..=options.rounds {
        for system in systems {
            println!("== {}, round {round} of {}", system.name, options.rounds);
            let core = cores.server;
            let program = Program { options, scenario, pace, system, base, devices, core };
            all.extend(program.run()?);
        }
    }
    Ok(all)
}
