//! Compares web servers over a tree of small files.
//!
//! Each server in turn gets the same tree on an ext4 of its own loop device, one core, and limited
//! memory, which includes the kernel memory charged to it (page cache, inodes, directory entries).
//! Larder gets a second loop device, raw, for its cache. Clients visit pages by popularity (Zipf)
//! and request the objects that the page embeds, which lie in the page's directory.
//!
//! The parts are the same for each server (`parts`): the first seconds with empty memory and
//! cache; every page once, so that a cache has a copy of every file; a warm-up by popularity; the
//! measured time; then the first seconds after a restart with an empty kernel cache. With
//! `--operations` each device is limited to that many reads and as many writes a second, but only
//! during the first seconds and the measured time. Larder thus has two such devices.

mod parts;
mod scenario;
mod tree;

pub use scenario::{Scenario, TREES};

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::file_system::{FileSystem, Purpose};
use testkit::loop_device::{Blocks, LoopDevice};

use self::parts::{Devices, measure};
use crate::compare::{Comparison, Rounds};
use crate::measure::TimerAccuracy;
use crate::run::Live;
use crate::systems::System;

/// The parameters of the comparison.
pub struct Plan {
    /// The servers.
    pub systems: Vec<System>,
    /// Tree and memory.
    pub scenario: Scenario,
    /// Ends of the first parts after a start.
    pub first: Vec<Duration>,
    /// The measured time.
    pub time: Duration,
    /// Rounds of each server.
    pub rounds: u32,
    /// Connections of the client.
    pub connections: usize,
    /// Reads, and as many writes, that each device may do a second.
    pub operations: Option<u32>,
    /// The directory for the devices' files.
    pub base: PathBuf,
    /// The core of the server.
    pub core: usize,
    /// Number of cores of the generator.
    pub generator_cores: usize,
    /// How accurately the generator is woken.
    pub timer: TimerAccuracy,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Runs the comparison, whose scenarios are the parts. `say` logs progress; `watch` receives the
/// load.
///
/// # Errors
/// Fails if a device or the tree cannot be created. A server that fails is left out, and named.
pub fn run(
    plan: &Plan,
    interrupted: &Arc<AtomicBool>,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<Comparison, String> {
    let mut comparison = comparison(plan);
    let file = |name: &str| plan.base.join(format!("bench-{}.{name}", std::process::id()));
    let tree = LoopDevice::over(&file("tree"), tree::device_len(&plan.scenario), Blocks::Sparse)?;
    let files = FileSystem::new(tree.path(), Purpose::Tree, plan.operations.is_some())?;
    let begin = Instant::now();
    tree::make(files.path(), plan.scenario.pages, plan.seed, interrupted)?;
    files.settle()?;
    say(&format!("== the tree is made, in {:.0} s", begin.elapsed().as_secs_f64()));
    let cache = LoopDevice::over(&file("cache"), plan.scenario.cache, Blocks::Written)?;
    let devices = Devices { files: &files, tree: &tree, cache: &cache };
    let mut all = Rounds::default();
    for round in 1..=plan.rounds {
        for system in &plan.systems {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            say(&format!("== {}, round {round} of {}", system.name, plan.rounds));
            match measure(plan, system, &devices, interrupted, &mut comparison, say, watch) {
                Ok(parts) => {
                    parts.into_iter().for_each(|(part, round)| all.add(&part, &system.name, round));
                }
                Err(why) => {
                    let note = format!("SKIPPED: {} in round {round}: {why}", system.name);
                    say(&note);
                    comparison.notes.push(note);
                }
            }
        }
    }
    comparison.rows = all.rows();
    comparison.interrupted = interrupted.load(Ordering::Relaxed);
    Ok(comparison)
}

fn comparison(plan: &Plan) -> Comparison {
    let Plan { scenario, rounds, connections, operations, seed, .. } = plan;
    let held = operations
        .map_or_else(String::new, |most| format!(", devices held to {most} operations a second"));
    let title = format!(
        "{scenario}; medians of {rounds} rounds with {connections} connections{held}; seed {seed}"
    );
    let conditions = json!({
        "files": scenario.files,
        "bytes": scenario.bytes,
        "directories": scenario.pages,
        "warm_up": scenario.warm_up,
        "limit": scenario.limit,
        "memory": scenario.memory,
        "cache": scenario.cache,
        "seconds": plan.time.as_secs_f64(),
        "connections": connections,
        "operations": operations,
    });
    Comparison::new(title, conditions, *seed, *rounds)
}
