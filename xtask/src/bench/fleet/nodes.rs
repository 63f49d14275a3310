//! The nodes of one system, started together: each with a device and limited memory of its own, all
//! on one core. Dropping them removes everything.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::address;
use testkit::loop_device::{Blocks, LoopDevice, Operations};
use testkit::memory_group::MemoryGroup;

use super::systems::{Kind, Larder, System};
use super::{nginx, varnish};
use crate::bench::interruption;
use crate::bench::system::{Running, confined, http_get, simple_request};
use crate::workspace;
use testkit::file_system::{FileSystem, Purpose};

/// Maximum time until all nodes of a fleet serve.
const GATHER: Duration = Duration::from_secs(60);
/// Maximum time in which nginx, which checks every ten seconds, reduces a cache to its size.
const SHRINK: Duration = Duration::from_secs(25);
/// Size of a file system relative to its cache, which may exceed its configured size.
const ROOM: u64 = 4;

/// The addresses of a node.
#[derive(Clone, Copy)]
pub struct Addresses {
    /// For clients.
    pub front: SocketAddr,
    /// For other nodes, if different.
    pub between: SocketAddr,
    /// For the admin interface.
    pub admin: SocketAddr,
}

/// A node's position among all nodes.
pub struct Place<'a> {
    /// Number of the node, from 0.
    pub number: usize,
    /// The addresses of all nodes.
    pub all: &'a [Addresses],
    /// The common origin.
    pub origin: SocketAddr,
    /// Size of its cache, MiB.
    pub cache_mib: u64,
}

impl Place<'_> {
    /// Returns the addresses of this node.
    pub fn own(&self) -> &Addresses {
        &self.all[self.number]
    }
}

/// The settings common to all nodes of a measurement.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Number of nodes.
    pub nodes: usize,
    /// The directory for their files.
    pub base: &'a Path,
    /// The origin.
    pub origin: SocketAddr,
    /// The core of all nodes.
    pub core: usize,
    /// Size of each cache, MiB.
    pub cache_mib: u64,
    /// The setting `memory` of larder, MiB.
    pub memory_mib: u64,
    /// Memory for each node, including the kernel memory charged to it, MiB.
    pub limit_mib: u64,
}

/// The running nodes. Fields are dropped in this order.
pub struct Nodes {
    running: Vec<Running>,
    killed: Option<usize>,
    addresses: Vec<Addresses>,
    stores: Vec<Store>,
    groups: Vec<MemoryGroup>,
    cache_mib: u64,
    shrinks: bool,
    _key: Option<TempDir>,
}

/// The device of a node.
struct Store {
    files: Option<FileSystem>,
    device: LoopDevice,
}

impl Nodes {
    /// Starts the nodes of a system with empty caches, and waits until they know each other.
    ///
    /// # Errors
    ///
    /// When a node does not start, or the nodes do not find each other.
    pub fn start(system: &System, setup: &Setup) -> Result<Nodes, String> {
        let addresses: Vec<Addresses> = (0..setup.nodes)
            .map(|_| Addresses {
                front: address::free(),
                between: address::free(),
                admin: address::free(),
            })
            .collect();
        let key = system.larder().is_some_and(|larder| larder.key).then(make_key).transpose()?;
        let key_file = key.as_ref().map(|directory| directory.path().join("key"));
        let mut nodes = Nodes {
            running: Vec::new(),
            killed: None,
            addresses,
            stores: Vec::new(),
            groups: Vec::new(),
            cache_mib: setup.cache_mib,
            shrinks: matches!(system.kind, Kind::Nginx(_)),
            _key: key,
        };
        for number in 0..setup.nodes {
            interruption::check()?;
            nodes.add(system, setup, number, key_file.as_deref())?;
        }
        match &system.kind {
            Kind::Larder(larder) if larder.fleet => {
                nodes.gather()?;
                larder.classes.map_or(Ok(()), |classes| nodes.follow(classes))?;
            }
            Kind::Varnish(_) => std::thread::sleep(varnish::FOUND),
            Kind::Larder(_) | Kind::Nginx(_) => (),
        }
        Ok(nodes)
    }

    fn add(
        &mut self,
        system: &System,
        setup: &Setup,
        number: usize,
        key_file: Option<&Path>,
    ) -> Result<(), String> {
        let store = Store::new(system, setup, number)?;
        let group = MemoryGroup::new(setup.limit_mib << 20)?;
        let fail = |e: std::io::Error| format!("{}: {e}", setup.base.display());
        let directory = TempDir::new_in(setup.base).map_err(fail)?;
        let place = Place {
            number,
            all: &self.addresses,
            origin: setup.origin,
            cache_mib: setup.cache_mib,
        };
        let mut command = confined(system.program(), &[group.processes()], Some(setup.core));
        let cache = store.cache();
        let at = directory.path();
        let write = |name: &str, text: String| std::fs::write(at.join(name), text).map_err(fail);
        match &system.kind {
            Kind::Larder(larder) => {
                arguments(&place, larder, setup.memory_mib, &cache, key_file, &mut command);
            }
            Kind::Nginx(_) => {
                write("nginx.conf", nginx::configuration(&place, at, &cache))?;
                command.arg("-c").arg(at.join("nginx.conf")).arg("-p").arg(at);
            }
            Kind::Varnish(_) => {
                write("node.vcl", varnish::program(&place))?;
                varnish::arguments(&place, at, &cache, &mut command);
            }
        }
        let admin = system.larder().map(|_| place.own().admin);
        let served = (place.own().front, admin);
        // Kept before the start, so that they are dropped after a failed process.
        self.stores.push(store);
        self.groups.push(group);
        self.running.push(Running::launch(&system.name, command, directory, served)?);
        Ok(())
    }

    /// Waits until every node sees all nodes serve.
    fn gather(&self) -> Result<(), String> {
        let all_there = |state: &Value| {
            let members = state["members"].as_array().map_or(&[][..], Vec::as_slice);
            members.len() == self.addresses.len()
                && members.iter().all(|member| member["state"] == "serving")
                && state["caught_up"] == true
        };
        self.await_all("the nodes do not find each other", all_there)
    }

    /// Activates a table of classes.
    fn follow(&self, classes: &str) -> Result<(), String> {
        let told = simple_request(self.addresses[0].admin, "POST", "/fleet/policy", classes)?;
        let told: Value = serde_json::from_str(&told).map_err(|e| format!("{told}: {e}"))?;
        let version = told["version"].clone();
        self.await_all("not all nodes follow the table", |state| state["policy"] == version)
    }

    /// Waits until the fleet state of every node satisfies `is_such`.
    fn await_all(&self, otherwise: &str, is_such: impl Fn(&Value) -> bool) -> Result<(), String> {
        let end = Instant::now() + GATHER;
        let mut last = String::new();
        for node in &self.addresses {
            loop {
                interruption::check()?;
                last = http_get(node.admin, "/fleet").unwrap_or(last);
                if serde_json::from_str(&last).is_ok_and(|state| is_such(&state)) {
                    break;
                }
                if Instant::now() > end {
                    return Err(format!("{otherwise}: {last}"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns the addresses for clients.
    pub fn fronts(&self) -> Vec<SocketAddr> {
        self.addresses.iter().map(|node| node.front).collect()
    }

    /// Returns the processes of all running nodes.
    pub fn pids(&self) -> Vec<u32> {
        self.living().flat_map(Running::pids).collect()
    }

    /// Returns the user and system time of the running nodes, in seconds.
    pub fn cpu(&self) -> Result<f64, String> {
        self.living().map(Running::cpu).sum()
    }

    fn living(&self) -> impl Iterator<Item = &Running> {
        let lives = |(number, _): &(usize, &Running)| Some(*number) != self.killed;
        self.running.iter().enumerate().filter(lives).map(|(_, running)| running)
    }

    /// Kills a node, so that it cannot announce its end.
    pub fn kill(&mut self, number: usize) {
        self.running[number].kill();
        self.killed = Some(number);
    }

    /// Returns the operations of all devices.
    pub fn operations(&self) -> Result<Operations, String> {
        let mut sum = Operations::default();
        for store in &self.stores {
            let of = store.device.operations()?;
            sum.reads += of.reads;
            sum.read_bytes += of.read_bytes;
            sum.writes += of.writes;
            sum.written_bytes += of.written_bytes;
        }
        Ok(sum)
    }

    /// Returns the bytes of the largest cache on its device; larder's is its whole device.
    pub fn held(&self) -> Result<u64, String> {
        let mut most = 0;
        for store in &self.stores {
            let held = store.files.as_ref().map(FileSystem::used).transpose()?;
            most = most.max(held.unwrap_or(self.cache_mib << 20));
        }
        Ok(most)
    }

    /// Waits until stored objects are on the devices and no cache exceeds its size.
    pub fn settle(&self) -> Result<(), String> {
        let end = Instant::now() + SHRINK;
        let most = self.cache_mib << 20;
        while self.shrinks && self.held()? > most + most / 16 && Instant::now() < end {
            interruption::check()?;
            std::thread::sleep(Duration::from_millis(200));
        }
        for store in &self.stores {
            store.files.as_ref().map_or(Ok(()), FileSystem::settle)?;
        }
        // Past the durability bound.
        std::thread::sleep(Duration::from_millis(1500));
        Ok(())
    }
}

impl Store {
    fn new(system: &System, setup: &Setup, number: usize) -> Result<Store, String> {
        let name = format!("bench-{}.node-{number}", std::process::id());
        let file = setup.base.join(name);
        let in_files = system.larder().is_none();
        let len = (setup.cache_mib << 20) * if in_files { ROOM } else { 1 };
        let device = LoopDevice::over(&file, len, Blocks::Sparse)?;
        let files = match in_files {
            true => Some(FileSystem::new(device.path(), Purpose::Cache, false)?),
            false => {
                format(system.program(), device.path(), setup.cache_mib)?;
                None
            }
        };
        Ok(Store { files, device })
    }

    fn cache(&self) -> PathBuf {
        match &self.files {
            Some(files) => files.path().join("cache"),
            None => self.device.path().to_path_buf(),
        }
    }
}

/// Formats an empty cache of larder on a device.
fn format(larder: &Path, device: &Path, mib: u64) -> Result<(), String> {
    let mut command = Command::new(larder);
    command.args(["format", "--force", "--cache-size", &format!("{mib}M")]).arg(device);
    command.stdout(std::process::Stdio::null());
    workspace::succeed(command)
}

/// Creates a fleet key in a temporary directory.
fn make_key() -> Result<TempDir, String> {
    use std::os::unix::fs::OpenOptionsExt;
    let fail = |e: std::io::Error| format!("a key: {e}");
    let directory = TempDir::new().map_err(fail)?;
    let key: String = (0..64).map(|_| fastrand::digit(16)).collect();
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600);
    let mut file = file.open(directory.path().join("key")).map_err(fail)?;
    std::io::Write::write_all(&mut file, key.as_bytes()).map_err(fail)?;
    Ok(directory)
}

/// Completes the command that starts the larder node at `place`.
fn arguments(
    place: &Place,
    larder: &Larder,
    memory_mib: u64,
    cache: &Path,
    key_file: Option<&Path>,
    command: &mut Command,
) {
    let own = place.own();
    command.arg("serve").arg("--cache").arg(cache);
    command.args(["--cache-size", &format!("{}M", place.cache_mib)]);
    command.args(["--memory", &format!("{memory_mib}M"), "--workers", "1"]);
    command.args(["--listen", &own.front.to_string(), "--admin", &own.admin.to_string()]);
    command.args(["--reverse", &format!("http://{}", place.origin)]);
    if !larder.fleet {
        return;
    }
    command.args(["--fleet", &own.between.to_string()]);
    command.args(["--fleet-node", &format!("node-{}", place.number)]);
    if place.number > 0 {
        command.args(["--join", &place.all[0].between.to_string()]);
    }
    if let Some(file) = key_file {
        command.arg("--fleet-key").arg(file);
    }
}
