//! Several nodes of a fleet: real processes on loopback, in front of one origin.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::address;
use crate::client::{Reply, get};
use crate::io::eventually;
use crate::larder::{Larder, Setup, larder_command};
use crate::origin::Origin;

/// The host that clients request, on every node.
pub const HOST: &str = "http://site.test";

/// Start parameters of the nodes of a fleet.
pub struct Fleet {
    pub setups: Vec<Setup>,
    /// Addresses for traffic between nodes.
    pub addresses: Vec<SocketAddr>,
    keys: TempDir,
}

/// Returns the name of a node.
pub fn name(node: usize) -> String {
    ["a", "b", "c", "d"][node].to_owned()
}

/// Writes a key that begins with this byte.
pub fn key(directory: &Path, byte: u8) -> String {
    let path = directory.join(format!("key-{byte}"));
    let digits: String = (byte..byte + 32).map(|byte| format!("{byte:02x}")).collect();
    fs::write(&path, digits).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

impl Fleet {
    /// Returns nodes that share a key and find each other through the first of them.
    pub fn of(nodes: usize, origin: &Origin) -> Fleet {
        let keys = tempfile::tempdir().unwrap();
        let addresses: Vec<_> = (0..nodes).map(|_| address::free()).collect();
        let setups = addresses.iter().enumerate().map(|(node, address)| {
            Setup::reverse(origin.url("").trim_end_matches('/'))
                .flag("fleet", &address.to_string())
                .flag("join", &addresses[0].to_string())
                .flag("fleet-node", &name(node))
                .flag("fleet-key", &key(keys.path(), 7))
        });
        Fleet { setups: setups.collect(), addresses, keys }
    }

    /// Changes the start parameters of all nodes.
    pub fn each(mut self, change: impl Fn(Setup, &[SocketAddr]) -> Setup) -> Fleet {
        let setups = std::mem::take(&mut self.setups);
        self.setups = setups.into_iter().map(|setup| change(setup, &self.addresses)).collect();
        self
    }

    /// Changes the start parameters of one node.
    pub fn with(mut self, node: usize, change: impl Fn(Setup) -> Setup) -> Fleet {
        let setup = self.setups.remove(node);
        self.setups.insert(node, change(setup));
        self
    }

    /// Returns the directory for keys and certificates.
    pub fn keys(&self) -> &Path {
        self.keys.path()
    }

    /// Returns the file of a different key.
    pub fn other_key(&self) -> String {
        key(self.keys.path(), 8)
    }

    /// Starts all nodes, and waits until each serves and sees the others serve.
    #[track_caller]
    pub fn start(&self) -> Vec<Larder> {
        let nodes: Vec<Larder> = self.setups.iter().map(Setup::launch).collect();
        for node in &nodes {
            await_whole(node, nodes.len());
        }
        nodes
    }
}

/// Returns the response of `GET /fleet`; null while there is none.
pub fn view(node: &Larder) -> Value {
    let asked = get("/fleet").header("Host", "localhost").try_send(node.admin());
    asked.ok().and_then(|reply| serde_json::from_slice(&reply.body).ok()).unwrap_or(Value::Null)
}

/// Waits until a node serves, has caught up, sees `nodes` nodes serve, and sends requests to them
/// all.
#[track_caller]
pub fn await_whole(node: &Larder, nodes: usize) {
    let whole = || {
        let view = view(node);
        let serving = view["members"].as_array().into_iter().flatten().filter(|member| {
            let well = ["behind", "passed_by"].iter().all(|so| member[*so] == false);
            well && member["state"] == "serving"
        });
        view["caught_up"] == true && view["state"] == "serving" && serving.count() == nodes
    };
    assert!(eventually(whole), "{:#}\n{}", view(node), node.said());
}

/// Fetches a path as a client of the common host.
#[track_caller]
pub fn fetch(node: &Larder, target: &str) -> Reply {
    let reply = get(target).send(node.address());
    reply.verify(target);
    reply
}

/// Returns the version of a page in a response; it grows with each change at the origin.
#[track_caller]
pub fn version(node: &Larder, target: &str) -> u64 {
    fetch(node, target).header("x-version").parse().unwrap()
}

/// Purges a URL at one node; returns the exit code and the output.
pub fn purge(node: &Larder, target: &str) -> (i32, String) {
    ask(node, &["purge", &format!("{HOST}{target}")])
}

/// Runs `larder` with a node's admin interface; returns its exit code and its output.
pub fn ask(node: &Larder, words: &[&str]) -> (i32, String) {
    let admin = node.admin().to_string();
    let output = larder_command()
        .args(words)
        .args(["--admin", &admin])
        .output()
        .expect("the program can be run");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().expect("it ended by itself"), said.concat())
}

/// Pause of a client of a [`Crowd`] after each response. Without one it keeps two processors busy.
const PAUSE: Duration = Duration::from_millis(10);

/// Clients that request pages repeatedly, each on new connections, until stopped.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<usize>>,
}

impl Crowd {
    /// Starts one client for each of these nodes. A rejection, an error or a wrong byte is a panic.
    pub fn at(nodes: &[&Larder]) -> Crowd {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |address: SocketAddr| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) || count < 10 {
                    // With a tag: if the node that sends a response dies in the middle, the
                    // response continues from another node.
                    let (page, size) = (count % 13, 1 + (count % 13) * 9_999);
                    let target = format!("/page{page}?size={size}&etag=1");
                    let reply = get(&target).send(address);
                    assert_eq!(reply.status, 200, "{:?}", reply.head);
                    reply.verify(&target);
                    count += 1;
                    thread::sleep(PAUSE);
                }
                count
            })
        };
        let clients = nodes.iter().map(|node| client(node.address())).collect();
        Crowd { stop, clients }
    }

    /// Stops the clients; panics if one of them had a problem. Returns the number of responses.
    #[track_caller]
    pub fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().map(|client| client.join().expect("no client fails")).sum()
    }
}
