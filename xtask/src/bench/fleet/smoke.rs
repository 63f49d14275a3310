//! The measurement on a small scale: the nodes of each installed system respond correctly, also
//! after one is killed, and nothing is left behind.

use std::path::{Path, PathBuf};

use clap::Parser;
use testkit::loop_device::{Blocks, LoopDevice};

use super::{System, Systems};
use crate::bench::options::Options;

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Result<Options, String> {
    let words = ["bench", "--fleet"].into_iter().chain(words.split_whitespace());
    Words::try_parse_from(words).map(|words| words.options).map_err(|error| error.to_string())
}

#[test]
fn the_whole_program_leaves_figures_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: no root, so no loop devices");
    }
    let base = tempfile::tempdir().unwrap();
    let probe = base.path().join("probe");
    if let Err(why) = LoopDevice::over(&probe, 1 << 20, Blocks::Sparse) {
        return println!("SKIPPED: {why}");
    }
    let words = "--nodes 2 --node-cache-mib 64 --node-memory-mib 16 --node-limit-mib 512 \
                 --documents 300 --fleet-warm-up 600 --fleet-requests 300 --recovery-seconds 1 \
                 --seconds 0.2 --rounds 1 --connections 4 --systems";
    let larder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("larder");
    let mut wanted = vec!["nginx", "varnish"];
    match larder.exists() {
        true => wanted.push("larder"),
        false => println!("SKIPPED: {} is not built", larder.display()),
    }
    let words = format!("{words} {} --only", wanted.join(","));
    let mut systems = Systems::of(&larder);
    // One system of each program, as the others only differ in larder's settings.
    let is_first = |system: &System| system.larder().is_none() || system.name == "larder, fleet";
    systems.sharing.retain(is_first);
    systems.remote.retain(|system| !system.larder().is_some_and(|larder| larder.key));
    systems.remote_documents = 60;
    let shared = systems.measure(&options(&format!("{words} recovery")).unwrap(), base.path());
    let mut all = shared.unwrap();
    let asked = systems.measure(&options(&format!("{words} remote")).unwrap(), base.path());
    all.remote = asked.unwrap().remote;
    all.print();
    let of = |systems: &[System]| {
        let is_wanted = |system: &&System| wanted.iter().any(|name| system.name.contains(name));
        systems.iter().filter(is_wanted).count()
    };
    assert_eq!(
        (all.sharing.len(), all.recovery.len()),
        (of(&systems.sharing), of(&systems.sharing))
    );
    assert_eq!(all.remote.len(), of(&systems.remote));
    for (system, recovery) in &all.recovery {
        assert!(recovery.answers > 0, "{system}");
    }
    for (system, remote) in &all.remote {
        assert!(remote.local.own > 0.9 && remote.remote.peer > 0.9, "{system}: {remote}");
    }
    assert!(left(base.path()).is_empty(), "{:?}", left(base.path()));
}

fn left(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_cannot_be_measured_is_refused() {
    assert!(super::check(&options("").unwrap()).is_ok());
    let refused = super::check(&options("--node-memory-mib 128").unwrap());
    assert!(refused.unwrap_err().contains("not less than"));
    assert!(super::check(&options("--recovery-seconds 0").unwrap()).is_err());
    assert!(super::check(&options("--exponent NaN").unwrap()).is_err());
    assert!(options("--nodes 1").is_err());
    assert!(options("--node-memory-mib 12").is_err(), "larder takes 16 MiB at least");
    assert!(options("--files").is_err());
    assert!(options("--drift 0").is_err());
}
