//! The scenarios: the papers' experiments with whole caches, one for each workload.

use super::drives::Model;
use super::scenario::{Role, Scenario};
use crate::experiment::{Context, Parameter, Scale};
use crate::run::whole_cache::Pace;

const MIB: u64 = 1 << 20;
const GB: u64 = 1_000_000_000;
/// Bytes of the Atlas 10K with three times the sectors, in whole MiB.
const ATLAS: u64 = 26_277 * MIB;
/// Bytes of the smallest drive of UNIFIED, in whole MiB.
const ST320414A: u64 = 19_454 * MIB;

/// The parameters that all experiments on scenarios share.
pub(super) const PARAMETERS: [Parameter; 6] = [
    Parameter {
        name: "UCFS",
        value: "the five NLANR traces at their own rate; Atlas 10K with three times the sectors, \
                writes through; 16 GB of disk (PA: 26), 256 MB of memory for objects and a table \
                of 4 million entries, nothing above 256 KB",
        from: "UCFS, sections 2.2, 2.3.2, 4.1, table 1",
    },
    Parameter {
        name: "TFS",
        value: "UCBSep01, WorldCup98 eight times, ClarkNet five times, one request after another; \
                Atlas 10K on 40 MB/s; documents in FFS-async on its outer half; 128 MB for the \
                file system and 128 MB for the objects in front of it",
        from: "TFS, sections 1, 2, 3.1; as in tfs-fig-2",
    },
    Parameter {
        name: "UNIFIED",
        value: "PolyMix-3 and -4, one request after another; a Seagate ST320414A with 100 MB of \
                memory for objects, and five ST39102LW, striped, with 300 MB; 10 GB of disk",
        from: "UNIFIED, section 5; PolyMix-4: ours",
    },
    Parameter {
        name: "memory",
        value: "the same in all: what the paper's system takes with its tables",
        from: "fair conditions",
    },
    Parameter {
        name: "scale",
        value: "memory, disk, tables and working set 1/32 (TFS: 1/8), spread over the drive as at \
                full size (quick: 1/64); clusters as large as on the undivided disk",
        from: "ours: time",
    },
    Parameter {
        name: "requests",
        value: "of each trace 1/32 of the original, of PolyMix and the servers up to 240,000; the \
                first third warms up (quick: 6,000 of three stages)",
        from: "ours: time",
    },
];

/// Returns a scenario of UCFS: its trace, its number of requests and its disk in GB.
fn ucfs(name: &'static str, workload: &'static str, requests: u64, disk: u64) -> Scenario {
    Scenario {
        name,
        workload,
        copies: 1,
        paper: "ucfs",
        role: Role::Proxy,
        drive: Model::Ucfs,
        tier: 256 * MIB,
        disk: disk * GB,
        percent: 100,
        spread: Some(ATLAS),
        largest: 256 << 10,
        pace: Pace::Stated,
        requests: [0, requests / 32],
        scale: 32,
    }
}

fn tfs(name: &'static str, workload: &'static str, copies: u32) -> Scenario {
    Scenario {
        name,
        workload,
        copies,
        paper: "tfs",
        role: Role::Accelerator,
        drive: Model::Tfs,
        tier: 128 * MIB,
        disk: 4_290 * MIB,
        percent: 100,
        spread: None,
        largest: u64::MAX,
        pace: Pace::AtOnce,
        requests: [0, 180_000],
        scale: 8,
    }
}

fn unified(name: &'static str, workload: &'static str, drive: Model, tier: u64) -> Scenario {
    Scenario {
        name,
        workload,
        copies: 1,
        paper: "unified",
        role: Role::Proxy,
        drive,
        tier: tier * MIB,
        disk: 10 * GB,
        percent: 100,
        spread: Some(ST320414A),
        largest: MIB,
        pace: Pace::AtOnce,
        requests: [0, 180_000],
        scale: 32,
    }
}

/// Returns all scenarios; in a quick run, one of each paper.
pub(super) fn all(context: &Context<'_>) -> Vec<Scenario> {
    let all = [
        ucfs("BO1", "nlanr-bo1", 3_928_770, 16),
        ucfs("PA", "nlanr-pa", 4_990_283, 26),
        ucfs("PB", "nlanr-pb", 8_547_397, 16),
        ucfs("SJ", "nlanr-sj", 676_836, 16),
        ucfs("UC", "nlanr-uc", 8_107_179, 16),
        tfs("UCB", "ucb-sep01", 1),
        tfs("World Cup 98", "worldcup98", 8),
        tfs("ClarkNet", "clarknet", 5),
        unified("PolyMix-3, low end", "polymix-3", Model::LowEnd, 100),
        unified("PolyMix-4, low end", "polymix-4", Model::LowEnd, 100),
        unified("PolyMix-4, high end", "polymix-4", Model::HighEnd, 300),
    ];
    all.into_iter().filter_map(|scenario| sized(scenario, context.scale())).collect()
}

/// Returns the scenarios that represent the papers where all would take too long.
pub(super) fn some(context: &Context<'_>) -> Vec<Scenario> {
    const SOME: [&str; 4] = ["SJ", "UC", "ClarkNet", "PolyMix-4, low end"];
    all(context).into_iter().filter(|scenario| SOME.contains(&scenario.name)).collect()
}

fn sized(scenario: Scenario, scale: Scale) -> Option<Scenario> {
    let [_, all] = scenario.requests;
    match scale {
        Scale::Full => Some(Scenario { requests: [all / 3, all - all / 3], ..scenario }),
        Scale::Smoke | Scale::Quick => {
            let chosen = ["UC", "ClarkNet", "PolyMix-4, low end"].contains(&scenario.name);
            chosen.then_some(Scenario { requests: [2_000, 4_000], scale: 64, ..scenario })
        }
    }
}
