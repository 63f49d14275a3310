//! Pages such as those of the web through whole products, on caches that evict all the time:
//! `cargo xtask bench --pages`.
//!
//! Sessions, each with a keep-alive connection of its own, visit pages of a site behind each
//! reverse proxy in turn, object by object ([`testbed::pages`]); the origin takes 2 ms for an
//! answer. Each system has a cache of 1 GiB and 64 MiB of memory for objects, one worker or thread
//! for connections, and a fresh loop device that counts its operations: raw for larder and Traffic
//! Server, with ext4 for nginx, whose files the kernel's page cache also holds, without a limit,
//! and whose cache may grow beyond its size for ten seconds. Counting begins when the cache is
//! full; the result is reported in five parts and in all. Hits are requests that the origin was not
//! asked for.
//!
//! With `--operations` the device is held to so many reads and as many writes a second while it is
//! counted. The kernel's write-back for nginx is held to the same, apart from nginx's own
//! operations; but data that is not written yet waits in memory. Its file system reads no inodes
//! ahead then ([`FileSystem::new`]).

mod figures;
mod load;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use testbed::loop_device::{Blocks, LoopDevice};
use testbed::throttle::{Group, Limit};

use self::figures::{Figures, Moment};
use super::options::Options;
use super::origin::{self, Origin};
use super::system::{Running, Setup, Source, System, larders};
use testbed::file_system::{FileSystem, Purpose};
use testbed::mounts;

use super::interruption;
use crate::workspace;

/// Time that the origin takes for an answer.
const DELAY: Duration = Duration::from_millis(2);
/// Parts of the requests that are reported one by one.
const PARTS: u64 = 5;
/// Size of the caches.
const CACHE_GIB: u32 = 1;
/// Memory for objects.
const MEMORY_MIB: u64 = 64;
/// Bytes of a device that holds a cache in files: nginx looks every ten seconds whether its cache
/// has grown too large, and fails when there is no space.
const FILES_LEN: u64 = 4 << 30;

/// Measures and prints.
///
/// # Errors
///
/// When a system that is installed cannot be measured.
pub fn run(options: &Options) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("--pages makes loop devices: it wants the rights of root".into());
    }
    mounts::make_private()?;
    interruption::watch()?;
    let origin = origin::start(DELAY)?;
    let mut systems = match options.layout.is_empty() && options.preset.is_empty() {
        true => vec![System::larder(1)?],
        false => larders(options)?,
    };
    for (name, peer) in [("Traffic Server", System::traffic_server()), ("nginx", System::nginx())] {
        match peer {
            Some(peer) => systems.push(peer),
            None => println!("SKIPPED: {name} is not installed"),
        }
    }
    systems.retain(|system| options.wants(&system.name));
    let mut all = Vec::new();
    for system in &systems {
        println!("== {}", system.name);
        all.extend(measure(options, system, &origin)?);
    }
    figures::print(&all);
    options.json.as_ref().map_or(Ok(()), |path| figures::write(path, &all, options))
}

/// Measures one system on a fresh device, which is removed afterwards.
fn measure(options: &Options, system: &System, origin: &Origin) -> Result<Vec<Figures>, String> {
    let pages = &options.pages;
    let base = options.dir.clone().unwrap_or_else(|| workspace::root().join("target"));
    // In the reverse order they are removed: first the limit, then the server.
    let len = if system.wants_directory() { FILES_LEN } else { u64::from(CACHE_GIB) << 30 };
    std::fs::create_dir_all(&base).map_err(|e| format!("{}: {e}", base.display()))?;
    let file = base.join(format!("bench-{}.cache", std::process::id()));
    let device = LoopDevice::over(&file, len, Blocks::Written)?;
    let files = || FileSystem::new(device.path(), Purpose::Cache, options.operations.is_some());
    let files = system.wants_directory().then(files).transpose()?;
    if let Some(user) = system.user()? {
        device.give_to(user)?;
    }
    let group = options.operations.map(|_| Group::new()).transpose()?;
    let cache: PathBuf = match &files {
        Some(files) => files.path().join("cache"),
        None => device.path().to_path_buf(),
    };
    let server = system.start(&Setup {
        base: &base,
        cache: Some(&cache),
        cache_gib: CACHE_GIB,
        memory_mib: MEMORY_MIB,
        source: Source::Origin(origin.address()),
        groups: group.iter().map(Group::processes).collect(),
        core: None,
    })?;
    let load = load::Load::new(server.address(), options.connections);
    println!("   {} requests to warm up", pages.warm_up);
    load.run(pages.warm_up)?;
    // What the kernel has not written back yet is not to be written while requests count.
    files.as_ref().map_or(Ok(()), FileSystem::settle)?;
    let limit =
        |(group, most): (&Group, u32)| group.limit_with_write_back(&device, Limit::both(most));
    let _limited = group.as_ref().zip(options.operations).map(limit).transpose()?;
    let files = files.as_ref();
    let counted = Counted { server: &server, device: &device, files, origin, load: &load };
    counted.parts(pages.requests)
}

/// The measurement under way, and its sources.
struct Counted<'a> {
    server: &'a Running,
    device: &'a LoopDevice,
    files: Option<&'a FileSystem>,
    origin: &'a Origin,
    load: &'a load::Load,
}

impl Counted<'_> {
    /// Returns the figures of each part, and of all.
    fn parts(&self, requests: u64) -> Result<Vec<Figures>, String> {
        let mut moments = vec![self.now()?];
        let mut all = Vec::new();
        for part in 1..=PARTS {
            self.load.run(requests / PARTS)?;
            let now = self.now()?;
            let name = format!("{part}/{PARTS}");
            if let Some(before) = moments.last() {
                let figures = Figures::between(self.server.name(), &name, before, &now);
                println!("   {figures}");
                all.push(figures);
            }
            moments.push(now);
        }
        if let [first, .., last] = &moments[..] {
            all.push(Figures::between(self.server.name(), "all", first, last));
        }
        Ok(all)
    }

    fn now(&self) -> Result<Moment, String> {
        Ok(Moment {
            at: Instant::now(),
            requests: self.load.requests(),
            bytes: self.load.bytes(),
            fetched: self.origin.served(),
            fetched_bytes: self.origin.bytes(),
            cpu_seconds: self.server.cpu()?,
            device: self.device.operations()?,
            held: self.files.map_or(Ok(u64::from(CACHE_GIB) << 30), FileSystem::used)?,
        })
    }
}
