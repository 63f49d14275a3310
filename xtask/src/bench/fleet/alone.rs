//! Cost of being a fleet of one node: a node with `--fleet` and no others, beside one without.

use std::time::Duration;

use super::figures::Alone;
use super::nodes::{Nodes, Setup};
use super::systems::System;
use crate::bench::load::{self, Plan};
use crate::bench::options::Options;
use crate::bench::scenario::{self, Scenario};

/// Size of the cache, MiB: large enough that no measurement evicts.
const CACHE_MIB: u64 = 1 << 10;
/// Memory for the node, including the kernel memory charged to it, MiB.
const LIMIT_MIB: u64 = 1 << 10;
/// Prefixes of the names of the scenarios.
const SCENARIOS: [&str; 2] = ["hit from memory", "miss + store"];

/// Measures both systems in turn in each scenario, round after round.
///
/// # Errors
///
/// When a node does not start or responds wrongly.
pub fn measure(
    options: &Options,
    (without, with): (&System, &System),
    setup: &Setup,
) -> Result<Vec<Alone>, String> {
    let mut all = Vec::new();
    for scenario in
        scenario::ALL.iter().filter(|of| SCENARIOS.iter().any(|s| of.name.starts_with(s)))
    {
        let setup = Setup {
            nodes: 1,
            cache_mib: CACHE_MIB,
            memory_mib: scenario.memory_mib,
            limit_mib: LIMIT_MIB,
            ..*setup
        };
        let nodes = [Nodes::start(without, &setup)?, Nodes::start(with, &setup)?];
        for node in &nodes {
            load::run(node.fronts()[0], &Plan::fill(scenario, options.connections))?;
            node.settle()?;
        }
        let mut fresh = 0;
        for _ in 0..options.rounds {
            let [without, with] = &nodes;
            let without = cpu_us(options, without, scenario, &mut fresh)?;
            let with = cpu_us(options, with, scenario, &mut fresh)?;
            println!("   {}: {without:.1} µs, in a fleet {with:.1} µs", scenario.name);
            all.push(Alone { scenario: scenario.name, without, with });
        }
    }
    Ok(all)
}

/// Returns the node's processor time per request, µs.
fn cpu_us(
    options: &Options,
    node: &Nodes,
    scenario: &Scenario,
    fresh: &mut u64,
) -> Result<f64, String> {
    crate::bench::interruption::check()?;
    let seconds = Duration::from_secs_f64(options.seconds);
    let plan = Plan::rounds(scenario, options.connections, seconds, *fresh);
    let cpu = node.cpu()?;
    let done = load::run(node.fronts()[0], &plan)?;
    *fresh += done;
    Ok((node.cpu()? - cpu) * 1e6 / done.max(1) as f64)
}
