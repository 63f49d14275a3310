//! The measurement on a small scale: each installed server serves a tree correctly, and the whole
//! program leaves only its figures behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use testkit::loop_device::Blocks;

use super::load::Load;
use super::program::Pace;
use super::scenario::Scenario;
use super::tree;
use crate::bench::options::Options;
use crate::bench::system::{Setup, System, WebRoot};

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Options {
    let words = ["bench", "--files"].into_iter().chain(words.split_whitespace());
    Words::parse_from(words).options
}

/// Returns the systems whose programs exist; larder is the one built beside this test.
fn systems() -> Vec<System> {
    let program = std::env::current_exe().unwrap();
    let program = program.ancestors().nth(2).unwrap().join("larder");
    let mut systems = super::peers();
    match program.exists() {
        true => systems.extend(super::ways(&System::larder_at(program, 1))),
        false => println!("SKIPPED: {} is not built", program.display()),
    }
    systems
}

#[test]
fn each_server_answers_a_tree() {
    let base = tempfile::tempdir().unwrap();
    // Some servers run under users of their own.
    std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let root = base.path().join("tree");
    println!("{}", tree::make(&root, 30).unwrap());
    for system in systems() {
        let server = start(&system, base.path(), &root);
        let load = Load::new(server.address(), 4, 30);
        for part in 1..=3 {
            load.run(300, None).unwrap_or_else(|why| panic!("{}: {why}", system.name));
            assert!(load.requests() >= part * 300, "{}", system.name);
        }
    }
}

fn start(system: &System, base: &Path, root: &Path) -> crate::bench::system::Running {
    let root = WebRoot { path: root, open_files: 100, limit_mib: 256 };
    let setup = Setup {
        base,
        cache: &base.join("cache"),
        cache_gib: 1,
        memory_mib: 32,
        root,
        groups: Vec::new(),
        core: None,
    };
    system.start(&setup).unwrap_or_else(|why| panic!("{}: {why}", system.name))
}

const PACE: Pace = Pace { seconds: &[0.1, 0.2], cache_blocks: Blocks::Sparse };

#[test]
fn the_whole_program_leaves_figures_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: no root, so no loop devices");
    }
    let base = tempfile::tempdir().unwrap();
    if let Err(why) =
        testkit::loop_device::LoopDevice::over(&base.path().join("probe"), 1 << 20, Blocks::Sparse)
    {
        return println!("SKIPPED: {why}");
    }
    let words = "--tree-pages 30 --tree-warm-up 300 --tree-requests 400 --tree-part-seconds 1 \
                 --limit-mib 128 --memory-mib 32 --cache-gib 1 --operations 400 --rounds 1";
    let options = options(words);
    let scenario = Scenario::of(&options.files).unwrap();
    let mut systems = systems();
    systems.retain(|system| system.name == "larder, 1 worker" || system.name == "nginx, 1 worker");
    let all = super::measure(&options, &scenario, &PACE, &systems, base.path()).unwrap();
    let rows = super::figures::medians(&all);
    super::figures::print(&rows);
    assert_eq!(rows.len(), systems.len() * (2 + 2 + 4 + 1 + 2));
    let left: Vec<PathBuf> =
        std::fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
