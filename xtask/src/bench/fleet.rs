//! Benchmark of several nodes that share their caches: `cargo xtask bench --fleet`.
//!
//! Several nodes of a system run on this machine, all on one core. Each has a loop device and
//! limited memory, which includes the kernel memory charged to it (a control group). The clients,
//! which have the other cores, send requests to the nodes in turn, like a load balancer without
//! knowledge of documents. The requested documents exceed one node's cache, but fit all caches
//! together; their popularity (Zipf) drifts ([`documents`]). Every body is checked. The origin
//! takes 2 ms for a response.
//!
//! There are five parts, which `--only` can select; all but the last are the default:
//!
//! * *sharing*: after a warm-up, where documents are found and at what cost ([`sharing`]);
//! * *recovery*: then one node is killed, and requests go to the others;
//! * *remote*: everything is in memory; requests go to the node that has the document, or to
//!   another one ([`remote`]);
//! * *alone*: larder as a fleet of one node, beside larder without a fleet ([`alone`]);
//! * *mechanisms*: like *sharing*, adding one mechanism for copies in memory after another.
//!
//! The systems are larder as a fleet, with its default and with other classes; larder without a
//! fleet; nginx, whose nodes forward requests to the cache selected by a consistent hash; and
//! Varnish with its shard director. Nodes trust each other on loopback, as those of the peers do;
//! the part *remote* measures the cost of TLS between them.
//!
//! nginx's cache may exceed its size for ten seconds; the largest one is reported.

mod alone;
mod documents;
mod figures;
mod load;
mod nginx;
mod nodes;
mod remote;
mod sharing;
#[cfg(test)]
mod smoke;
mod systems;
mod varnish;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use self::documents::Documents;
use self::figures::All;
use self::nodes::Setup;
use self::systems::{INCLUSIVE, MECHANISMS, OWNER, System};
use super::cores::Cores;
use super::options::Options;
use super::origin::{self, Origin};
use super::system::larder_program;
use testkit::mounts;

use super::interruption;
use crate::workspace;

/// Time that the origin takes for a response.
const DELAY: Duration = Duration::from_millis(2);

/// Measures and prints.
///
/// # Errors
///
/// When a system that is installed cannot be measured.
pub fn run(options: &Options) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("--fleet makes loop devices and groups: it wants the rights of root".into());
    }
    check(options)?;
    mounts::make_private()?;
    interruption::watch()?;
    let base = options.dir.clone().unwrap_or_else(|| workspace::root().join("target"));
    let systems = Systems::of(&larder_program()?);
    let all = systems.measure(options, &base)?;
    println!("\n{}", words(options));
    all.print();
    options.json.as_ref().map_or(Ok(()), |path| all.write(path, scenario(options)))
}

/// Rejects options that cannot be measured.
fn check(options: &Options) -> Result<(), String> {
    let of = &options.fleet;
    if of.node_memory_mib >= of.node_limit_mib {
        let (memory, limit) = (of.node_memory_mib, of.node_limit_mib);
        return Err(format!(
            "--node-memory-mib {memory} is not less than --node-limit-mib {limit}"
        ));
    }
    if !(0.0..10.0).contains(&of.exponent) {
        return Err(format!("--exponent {} is not from 0 to 10", of.exponent));
    }
    if !(1.0..=3_600.0).contains(&of.recovery_seconds) {
        return Err(format!("--recovery-seconds {} is not from 1 to 3600", of.recovery_seconds));
    }
    let (all, cache) = (working_set(options), of.node_cache_mib << 20);
    if all < cache || all > cache * u64::from(of.nodes) {
        println!(
            "NOTE: the documents have {} MB, which is not between what one node and what all hold",
            all / 1_000_000
        );
    }
    Ok(())
}

/// Returns the bytes of the documents that are popular at a time.
fn working_set(options: &Options) -> u64 {
    let of = &options.fleet;
    Documents::new(of.documents, of.exponent, of.drift, 7).bytes()
}

fn words(options: &Options) -> String {
    let of = &options.fleet;
    format!(
        "{} nodes, each with a cache of {} MiB and {} MiB of memory, of which `memory` of larder \
         is {} MiB; {} documents of {} MB at a time, one exchanged in {} requests; {} requests \
         after {}; {} rounds",
        of.nodes,
        of.node_cache_mib,
        of.node_limit_mib,
        of.node_memory_mib,
        of.documents,
        working_set(options) / 1_000_000,
        of.drift,
        of.fleet_requests,
        of.fleet_warm_up,
        options.rounds,
    )
}

fn scenario(options: &Options) -> Value {
    let of = &options.fleet;
    json!({
        "nodes": of.nodes,
        "node_cache_mib": of.node_cache_mib,
        "node_limit_mib": of.node_limit_mib,
        "node_memory_mib": of.node_memory_mib,
        "documents": of.documents,
        "documents_bytes": working_set(options),
        "exponent": of.exponent,
        "drift": of.drift,
        "warm_up": of.fleet_warm_up,
        "requests": of.fleet_requests,
        "recovery_seconds": of.recovery_seconds,
        "connections": options.connections,
        "seconds": options.seconds,
    })
}

/// The systems measured in each part.
struct Systems {
    sharing: Vec<System>,
    mechanisms: Vec<System>,
    remote: Vec<System>,
    remote_documents: u64,
    alone: (System, System),
}

impl Systems {
    /// Returns all systems; those of larder use this program.
    fn of(larder: &Path) -> Systems {
        let fleet = |words, classes| System::fleet(larder, words, classes);
        let (default, owner) = (fleet("", None), fleet(", kept by the owner", Some(OWNER)));
        let inclusive = fleet(", inclusive", Some(INCLUSIVE));
        let (apart, peers) = (System::apart(larder), systems::peers());
        let mechanisms = MECHANISMS.map(|(words, classes)| fleet(words, Some(classes))).to_vec();
        let mut sharing = vec![default.clone(), owner.clone(), inclusive, apart.clone()];
        sharing.extend(peers.iter().cloned());
        let mut remote = vec![owner.clone(), owner.with_key()];
        remote.extend(peers);
        let remote_documents = remote::DOCUMENTS;
        Systems { sharing, mechanisms, remote, remote_documents, alone: (apart, default) }
    }

    /// Measures the parts and the systems that the options select.
    fn measure(&self, options: &Options, base: &Path) -> Result<All, String> {
        std::fs::create_dir_all(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let cores = Cores::divide()?;
        cores.leave_server_alone()?;
        let origin = origin::start(DELAY)?;
        let of = &options.fleet;
        let setup = Setup {
            nodes: of.nodes as usize,
            base,
            origin: origin.address(),
            core: cores.server,
            cache_mib: of.node_cache_mib,
            memory_mib: of.node_memory_mib,
            limit_mib: of.node_limit_mib,
        };
        let is_part = |part: &str| part.contains(&options.only);
        let mut all = All::default();
        if is_part("sharing") || is_part("recovery") {
            share(options, &self.sharing, &setup, &origin, is_part("recovery"), &mut all)?;
        }
        if options.only == "mechanisms" {
            share(options, &self.mechanisms, &setup, &origin, false, &mut all)?;
        }
        if is_part("remote") {
            for system in self.remote.iter().filter(|system| options.wants(&system.name)) {
                println!("== {}: what another node's answer costs", system.name);
                let rounds = remote::measure(options, system, &setup, self.remote_documents)?;
                all.remote.extend(rounds.into_iter().map(|round| (system.name.clone(), round)));
            }
        }
        if is_part("alone") && options.wants(&self.alone.0.name) {
            println!("== larder: one node");
            all.alone = alone::measure(options, (&self.alone.0, &self.alone.1), &setup)?;
        }
        Ok(all)
    }
}

/// Measures the parts *sharing*, *recovery* and *mechanisms*, round after round.
fn share(
    options: &Options,
    systems: &[System],
    setup: &Setup,
    origin: &Origin,
    recovers: bool,
    all: &mut All,
) -> Result<(), String> {
    for round in 1..=options.rounds {
        for system in systems.iter().filter(|system| options.wants(&system.name)) {
            println!("== {}, round {round} of {}", system.name, options.rounds);
            let (sharing, recovery) = sharing::measure(options, system, setup, origin, recovers)?;
            all.sharing.push((system.name.clone(), sharing));
            all.recovery.extend(recovery.map(|recovery| (system.name.clone(), recovery)));
        }
    }
    Ok(())
}
