//! Compares systems whose nodes share their caches.
//!
//! Several nodes of a system run on this machine, all on one core. Each has a loop device and
//! limited memory, which includes the kernel memory charged to it. The clients, which have the
//! other cores, send requests to the nodes in turn, like a load balancer without knowledge of
//! documents. The requested documents exceed one node's cache, but fit all caches together; their
//! popularity (Zipf) drifts. The origin takes 2 ms for a response.
//!
//! There are five parts; the first three are the default:
//!
//! * *sharing*: after a warm-up, where documents are found and at what cost;
//! * *recovery*: then one node is killed, and requests go to the others;
//! * *remote*: everything is in memory; requests go to the node that has the document, or to
//!   another one (`remote`);
//! * *mechanisms*: like *sharing*, adding one mechanism for copies in memory after another;
//! * *presets*: each preset of Olaru and Tichy in the paper's topology, and whether disks are read
//!   in the order of the paper's figures.
//!
//! The systems are Larder as a fleet, with its default and with other classes; Larder without a
//! fleet; nginx, whose nodes forward requests to the cache selected by a consistent hash; and
//! Varnish with its shard director. Nodes trust each other on loopback, as those of the others do;
//! *remote* measures the cost of TLS between them.

mod nodes;
mod plan;
mod presets;
mod remote;
mod sharing;
mod variants;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

pub use self::plan::Plan;
use self::plan::Surroundings;
use self::variants::Variant;
use crate::compare::{Comparison, Rounds};
use crate::report::bytes;
use crate::run::Live;

/// The names of the parts.
pub const PARTS: [&str; 5] = ["sharing", "recovery", "remote", "mechanisms", presets::PART];

type Measure = fn(&Plan, &Variant, &mut Surroundings) -> Result<(), String>;

/// Runs the comparison, whose scenarios are the parts. `say` logs progress; `watch` receives the
/// load.
///
/// # Errors
/// Fails if a device cannot be created. A system that fails is left out, and named.
pub fn run(
    plan: &Plan,
    interrupted: &Arc<AtomicBool>,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<Comparison, String> {
    let (rounds, comparison) = (Rounds::default(), comparison(plan));
    let mut around = Surroundings { interrupted, say, watch, rounds, comparison };
    let wants = |part: &str| plan.parts.iter().any(|name| name == part);
    let presets = variants::presets(&plan.systems, presets::PRESETS.into_iter());
    let parts: [(bool, Vec<Variant>, Measure); 4] = [
        (wants("sharing") || wants("recovery"), variants::sharing(&plan.systems), sharing::measure),
        (wants("mechanisms"), variants::mechanisms(&plan.systems), sharing::measure),
        (wants("remote"), variants::remote(&plan.systems), remote::measure),
        (wants(presets::PART), presets, presets::measure),
    ];
    for (_, variants, measure) in parts.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
        let is_wanted = |variant: &&Variant| {
            plan.only.is_empty() || plan.only.iter().any(|name| variant.name.contains(name))
        };
        for round in 1..=plan.rounds {
            for variant in variants.iter().filter(is_wanted) {
                if interrupted.load(Ordering::Relaxed) {
                    break;
                }
                (around.say)(&format!("== {}, round {round} of {}", variant.name, plan.rounds));
                if let Err(why) = measure(plan, variant, &mut around) {
                    let note = format!("SKIPPED: {} in round {round}: {why}", variant.name);
                    (around.say)(&note);
                    around.comparison.notes.push(note);
                }
            }
        }
    }
    let Surroundings { rounds, mut comparison, .. } = around;
    comparison.rows = rounds.rows();
    if wants(presets::PART) {
        comparison.notes.push(presets::NOTE.to_owned());
        let is_wanted = |name: &str| {
            plan.only.is_empty() || plan.only.iter().any(|part| name.contains(part.as_str()))
        };
        let (lines, wrong) = presets::verdicts(&comparison.rows, is_wanted);
        comparison.notes.extend(lines);
        comparison.deviations = wrong;
    }
    comparison.interrupted = interrupted.load(Ordering::Relaxed);
    Ok(comparison)
}

fn comparison(plan: &Plan) -> Comparison {
    let Plan { nodes, grant, documents, drift, requests, warm_up, rounds, seed, .. } = plan;
    let title = format!(
        "{nodes} nodes, each with a cache of {} and {} of memory, of which `memory` of Larder is \
         {}; {documents} documents at a time, one exchanged in {drift} requests; {requests} \
         requests after {warm_up}; medians of {rounds} rounds; seed {seed}",
        bytes(grant.cache as f64),
        bytes(grant.memory as f64),
        bytes(plan.larder_memory as f64),
    );
    let conditions = json!({
        "nodes": nodes,
        "cache": grant.cache,
        "limit": grant.memory,
        "memory": plan.larder_memory,
        "documents": documents,
        "alpha": plan.alpha,
        "drift": drift,
        "warm_up": warm_up,
        "requests": requests,
        "recovery_seconds": plan.recovery.as_secs_f64(),
        "seconds": plan.time.as_secs_f64(),
        "connections": plan.connections,
    });
    Comparison::new(title, conditions, *seed, *rounds)
}
