//! A tree of small files, larger than memory, served by web servers: `cargo xtask bench --files`.
//!
//! Each server in turn has the same tree on an ext4 of its own loop device, one worker, and so much
//! memory with all that the kernel keeps for it (page cache, inodes, directory entries): a control
//! group. Larder has a second loop device, raw, for its cache. Sessions visit pages by popularity
//! (Zipf) and ask for what the page embeds, which lies in its directory. At first every page is
//! visited once, so that a cache has a copy of every file. After a warm-up by popularity the
//! requests count, in parts; then the server is started anew with nothing in the kernel's cache,
//! and the answers of the first seconds are counted.
//!
//! Device reads are those of both devices.

mod figures;
mod load;
mod tree;

use std::path::Path;
use std::time::{Duration, Instant};

use testbed::loop_device::{Blocks, LoopDevice, Operations};
use testbed::memory_group::MemoryGroup;

use self::figures::{Figures, Moment};
use self::load::Load;
use super::file_system::FileSystem;
use super::options::Options;
use super::system::{Running, Setup, Source, System};
use crate::workspace;

/// Parts of the requests that are reported one by one.
const PARTS: u64 = 4;
/// Size of Larder's cache.
const CACHE_GIB: u32 = 4;
/// The seconds after a restart that are reported.
const SECONDS: [u64; 3] = [1, 2, 5];

/// Measures and prints.
///
/// # Errors
///
/// When a system that is installed cannot be measured.
pub fn run(options: &Options) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("--files makes loop devices and groups: it wants the rights of root".into());
    }
    let mut systems = vec![System::larder(1)?];
    let mut tfs = System::larder(1)?;
    tfs.set("preset", "tfs");
    systems.push(tfs);
    match System::nginx() {
        Some(peer) => systems.push(peer),
        None => println!("SKIPPED: nginx is not installed"),
    }
    systems.retain(|system| system.name.contains(&options.systems));
    let base = options.dir.clone().unwrap_or_else(|| workspace::root().join("target"));
    std::fs::create_dir_all(&base).map_err(|e| format!("{}: {e}", base.display()))?;
    let pages = options.files.tree_pages;
    let len = tree::device_len(pages);
    let file = base.join(format!("bench-{}.tree", std::process::id()));
    let device = LoopDevice::over(&file, len, Blocks::Written)?;
    let files = FileSystem::new(device.path())?;
    println!("== {}", tree::make(files.path(), pages)?);
    files.settle()?;
    let mut all = Vec::new();
    for system in &systems {
        println!("== {}", system.name);
        let bench =
            Bench { options, system, base: &base, tree: files.path(), tree_device: &device };
        all.extend(bench.measure()?);
    }
    figures::print(&all);
    Ok(())
}

/// One system and its surroundings.
struct Bench<'a> {
    options: &'a Options,
    system: &'a System,
    base: &'a Path,
    tree: &'a Path,
    tree_device: &'a LoopDevice,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Vec<Figures>, String> {
        let file = self.base.join(format!("bench-{}.cache", std::process::id()));
        let cache = LoopDevice::over(&file, u64::from(CACHE_GIB) << 30, Blocks::Written)?;
        let options = &self.options.files;
        drop_caches()?;
        let group = MemoryGroup::new(options.limit_mib << 20)?;
        let server = self.start(&cache, &group)?;
        let mut load = Load::new(server.address(), self.options.connections, options.tree_pages);
        let mut all = Vec::new();
        let mut moments = vec![self.now(&server, &cache, &load)?];
        load.run_all()?;
        moments.push(self.now(&server, &cache, &load)?);
        if let [before, now] = &moments[..] {
            all.push(Figures::between(&self.system.name, "first pass", before, now));
            println!("   {}", all[all.len() - 1]);
        }
        let parts = [("warm-up".to_owned(), options.tree_warm_up)].into_iter();
        let counted =
            (1..=PARTS).map(|part| (format!("{part}/{PARTS}"), options.tree_requests / PARTS));
        for (name, requests) in parts.chain(counted) {
            load.run(requests)?;
            moments.push(self.now(&server, &cache, &load)?);
            if let [.., before, now] = &moments[..] {
                all.push(Figures::between(&self.system.name, &name, before, now));
                println!("   {}", all[all.len() - 1]);
            }
        }
        if let [_, _, first, .., last] = &moments[..] {
            all.push(Figures::between(&self.system.name, "all", first, last));
        }
        drop(server);
        drop_caches()?;
        let server = self.start(&cache, &group)?;
        load.reconnect(server.address());
        let before = self.now(&server, &cache, &load)?;
        for second in SECONDS {
            load.run_until(before.at + Duration::from_secs(second))?;
            let now = self.now(&server, &cache, &load)?;
            let name = format!("restarted, {second} s");
            all.push(Figures::between(&self.system.name, &name, &before, &now));
            println!("   {}", all[all.len() - 1]);
        }
        Ok(all)
    }

    fn start(&self, cache: &LoopDevice, group: &MemoryGroup) -> Result<Running, String> {
        self.system.start(&Setup {
            base: self.base,
            cache: Some(cache.path()),
            cache_gib: CACHE_GIB,
            memory_mib: self.options.files.memory_mib,
            source: Source::Files(self.tree),
            group: Some(&group.processes()),
        })
    }

    fn now(&self, server: &Running, cache: &LoopDevice, load: &Load) -> Result<Moment, String> {
        let (tree, cache) = (self.tree_device.operations()?, cache.operations()?);
        Ok(Moment {
            at: Instant::now(),
            requests: load.requests(),
            cpu_seconds: server.cpu()?,
            device: sum(tree, cache),
        })
    }
}

fn sum(one: Operations, other: Operations) -> Operations {
    Operations {
        reads: one.reads + other.reads,
        read_bytes: one.read_bytes + other.read_bytes,
        writes: one.writes + other.writes,
        written_bytes: one.written_bytes + other.written_bytes,
    }
}

/// Makes the kernel forget files, inodes and directory entries.
fn drop_caches() -> Result<(), String> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| format!("drop_caches: {e}"))
}
