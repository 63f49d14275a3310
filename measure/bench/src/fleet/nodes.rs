//! The nodes of one system, started together: each with a device and limited memory of its own, all
//! on one core. Dropping them removes everything.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::address;

use super::plan::Plan;
use super::variants::Variant;
use crate::run::Subject;
use crate::systems::{Addresses, Bed, Node, Role, Running, Setup, admin};

/// Maximum time until all nodes of a fleet serve.
const GATHER: Duration = Duration::from_secs(60);
/// Time after which nodes without an admin interface have found each other: two probes of Varnish.
const FOUND: Duration = Duration::from_millis(2_500);
/// Maximum time in which nginx, which checks every ten seconds, reduces a cache to its size.
const SHRINK: Duration = Duration::from_secs(25);
/// Time after which stored objects are on the device.
const DURABLE: Duration = Duration::from_millis(1_500);

/// The running nodes. Fields are dropped in this order.
pub struct Nodes {
    running: Vec<Running>,
    killed: Option<usize>,
    addresses: Vec<Addresses>,
    beds: Vec<Bed>,
    _key: Option<TempDir>,
}

impl Nodes {
    /// Starts the nodes with empty caches, and waits until they know each other.
    ///
    /// # Errors
    /// Fails if a node does not start, or the nodes do not find each other.
    pub fn start(
        plan: &Plan,
        variant: &Variant,
        origin: SocketAddr,
        interrupted: &AtomicBool,
        notes: &mut Vec<String>,
    ) -> Result<Nodes, String> {
        let free = |_| Addresses {
            front: address::free(),
            between: address::free(),
            admin: address::free(),
        };
        let addresses: Vec<Addresses> = (0..plan.nodes).map(free).collect();
        let key = variant.has_key.then(make_key).transpose()?;
        let key_file = key.as_ref().map(|directory| directory.path().join("key"));
        let (running, beds) = (Vec::new(), Vec::new());
        let mut nodes = Nodes { running, killed: None, addresses, beds, _key: key };
        for number in 0..plan.nodes {
            let name = format!("{}-{number}", variant.name);
            let bed = Bed::new(&plan.grant, &variant.system, &name, notes)?;
            let node = Node {
                number,
                all: &nodes.addresses,
                is_fleet: variant.is_fleet,
                owns: !variant.has_disk_node || number == 0,
                key: key_file.as_deref(),
                larder_memory: plan.larder_memory,
            };
            let setup = Setup {
                base: &plan.grant.base,
                role: Role::Node(node),
                cache: &bed.cache(),
                cache_bytes: plan.grant.cache,
                object_bytes: 11_000,
                connections: plan.connections,
                http2: false,
                is_site: false,
                objects: "/".to_owned(),
                memory: plan.grant.memory,
                listen: nodes.addresses[number].front,
                origin,
                groups: bed.groups(),
                core: plan.grant.core,
            };
            let running = variant.system.start(&setup, interrupted)?;
            nodes.running.push(running);
            nodes.beds.push(bed);
        }
        match variant.is_fleet {
            true => nodes.gather(variant.classes.as_deref(), interrupted)?,
            false => std::thread::sleep(FOUND),
        }
        Ok(nodes)
    }

    /// Waits until every node of a fleet sees all nodes serve, and activates a table of classes.
    fn gather(&self, classes: Option<&str>, interrupted: &AtomicBool) -> Result<(), String> {
        let (all, first) = (self.addresses.len(), self.addresses[0].admin);
        for node in &self.addresses {
            admin::gather(node.admin, all, GATHER, interrupted)?;
        }
        let Some(classes) = classes else { return Ok(()) };
        let (status, told) = admin::ask(first, "POST", "/fleet/policy", classes)?;
        let version: Value = serde_json::from_str(&told)
            .map_err(|error| format!("the table of classes: {status} {told}: {error}"))?;
        for node in &self.addresses {
            let follows = |state: &Value| state["policy"] == version["version"];
            admin::await_fleet(node.admin, GATHER, interrupted, follows)
                .map_err(|why| format!("not all nodes follow the table: {why}"))?;
        }
        Ok(())
    }

    /// Returns the addresses for clients.
    pub fn fronts(&self) -> Vec<SocketAddr> {
        self.addresses.iter().map(|node| node.front).collect()
    }

    /// Returns the processes and devices of the nodes.
    pub fn subject(&self) -> Subject {
        let living = self.running.iter().enumerate().filter(|(node, _)| self.killed != Some(*node));
        Subject {
            processes: living.map(|(_, running)| running.process()).collect(),
            devices: self.beds.iter().map(|bed| bed.device().to_path_buf()).collect(),
            system_calls: false,
        }
    }

    /// Kills a node, so that it cannot announce its end.
    pub fn kill(&mut self, number: usize) {
        self.running[number].kill();
        self.killed = Some(number);
    }

    /// Returns the bytes of the largest cache on its device; `None` if each is its whole device.
    pub fn held(&self) -> Result<Option<u64>, String> {
        let all = self.beds.iter().map(Bed::used).collect::<Result<Vec<_>, String>>()?;
        Ok(all.into_iter().flatten().max())
    }

    /// Waits until stored objects are on the devices and no cache exceeds its size.
    ///
    /// # Errors
    /// Fails if data cannot be written.
    pub fn settle(&mut self, cache: u64, interrupted: &AtomicBool) -> Result<(), String> {
        let end = Instant::now() + SHRINK;
        let is_larger = |held: Option<u64>| held.is_some_and(|held| held > cache + cache / 16);
        while is_larger(self.held()?)
            && Instant::now() < end
            && !interrupted.load(Ordering::Relaxed)
        {
            std::thread::sleep(Duration::from_millis(200));
        }
        self.beds.iter_mut().try_for_each(|bed| bed.settle(None))?;
        std::thread::sleep(DURABLE);
        Ok(())
    }
}

/// Creates a fleet key in a temporary directory.
fn make_key() -> Result<TempDir, String> {
    let fail = |error: std::io::Error| format!("a key: {error}");
    let directory = TempDir::new().map_err(fail)?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(directory.path().join("key"));
    let key: String = (0..32).map(|byte| format!("{byte:02x}")).collect();
    file.and_then(|mut file| file.write_all(key.as_bytes())).map_err(fail)?;
    Ok(directory)
}
