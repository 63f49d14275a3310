//! A fleet with clients and a stream of changes: every response is checked, and counted by node and
//! by phase of the fault.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::client::{Client, Reply, get, request};
use testkit::fleet_nodes::{HOST, await_whole, key, view};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, percent};
use testkit::origin::Origin;
use testkit::random::Random;

use crate::network::{NODES, Network, ORIGIN, at};
use crate::{LOG, SECONDS};

/// Documents that clients request again and again.
const DOCUMENTS: usize = 200;
/// Pause of a client after each response.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause after each change of a document.
const CHANGE_PAUSE: Duration = Duration::from_millis(500);
/// Responses that take longer are counted as slow.
const SLOW: Duration = Duration::from_secs(1);

/// The phases of a fault.
pub const PHASES: [&str; 3] = ["before", "during", "after"];

/// How documents change while the clients run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Purge,
    Put,
}

/// Counts of one node's clients in one phase.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub answers: u64,
    /// Responses for which the origin was asked.
    pub from_origin: u64,
    /// Of these, those for a version that clients of the counted nodes had before in this phase.
    pub again: u64,
    /// Responses older than a purge that was complete at this node.
    pub old: u64,
    /// Responses older than a purge whose answer named this node.
    pub old_at_named: u64,
    /// Requests without a whole response, and responses with an error status.
    pub failed: u64,
    pub slow: u64,
    pub slowest: Duration,
}

impl Tally {
    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.answers += other.answers;
        self.from_origin += other.from_origin;
        self.again += other.again;
        self.old += other.old;
        self.old_at_named += other.old_at_named;
        self.failed += other.failed;
        self.slow += other.slow;
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// A fleet under test. Nodes have the numbers 1 to [`NODES`].
pub struct World {
    pub network: Network,
    pub setups: Vec<Setup>,
    nodes: Vec<Mutex<Option<Larder>>>,
    origin: Origin,
    _keys: TempDir,
    /// The lowest version of each document that each node may serve to a request sent now. The
    /// first entry is for a node that no answer to a purge has named.
    floors: Vec<Vec<AtomicU64>>,
    tallies: Mutex<Vec<[Tally; 3]>>,
    /// Nodes whose clients count.
    counted: &'static [usize],
    /// Versions that clients of these nodes had, by phase and target.
    had: Mutex<HashSet<(usize, String, u64)>>,
    phase: AtomicUsize,
    over: AtomicBool,
    /// The node whose clients request documents that no client has requested before; 0: none.
    pub misses_at: AtomicUsize,
    next_miss: AtomicU64,
    /// Number of changes, and of those whose answer named a node.
    changes: Mutex<(u64, u64)>,
}

/// Returns how long a fault lasts at least, in seconds.
fn seconds() -> u64 {
    let given = std::env::var(SECONDS).ok();
    given.and_then(|seconds| seconds.parse().ok()).unwrap_or(15)
}

fn target(document: usize) -> String {
    format!("/d{document}?size={}&etag=1", 500 + document * 7)
}

impl World {
    /// Sets up `nodes` nodes that run `program`, none of which is started.
    ///
    /// # Errors
    /// Fails if the machine permits no such network.
    pub fn of(nodes: usize, counted: &'static [usize], program: &Path) -> Result<World, String> {
        let network = Network::of(nodes)?;
        let keys = tempfile::tempdir().map_err(|error| format!("a directory: {error}"))?;
        let origin = Origin::start_at(&at(ORIGIN, 8000).to_string());
        let setups = (1..=nodes).map(|node| {
            let setup = Setup::reverse(origin.url("").trim_end_matches('/'))
                .listen(at(node, 8080))
                .admin_at(at(node, 9090))
                .flag("workers", "1")
                .flag("fleet", &at(node, 3130).to_string())
                .flag("fleet-node", &format!("n{node}"))
                .flag("fleet-key", &key(keys.path(), 7));
            let setup = (1..=nodes.min(3))
                .fold(setup, |setup, seed| setup.more("join", &at(seed, 3130).to_string()));
            let script = setup.path("start");
            // A write beyond the file size limit is an error then, and ends no process.
            let text = format!(
                "#!/bin/sh\ntrap '' XFSZ\nexec {} {} \"$@\"\n",
                network.inside(node),
                program.display()
            );
            fs::write(&script, text).expect("a temporary file can be written");
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
            setup.program(&script)
        });
        let floors = || (0..DOCUMENTS).map(|_| AtomicU64::new(0)).collect();
        Ok(World {
            setups: setups.collect(),
            network,
            nodes: (0..nodes).map(|_| Mutex::default()).collect(),
            origin,
            _keys: keys,
            floors: (0..=NODES).map(|_| floors()).collect(),
            counted,
            had: Mutex::default(),
            tallies: Mutex::new(vec![<[Tally; 3]>::default(); NODES + 1]),
            phase: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            misses_at: AtomicUsize::new(0),
            next_miss: AtomicU64::new(0),
            changes: Mutex::default(),
        })
    }

    /// Returns a node; `None` while it is not running.
    pub fn node(&self, node: usize) -> MutexGuard<'_, Option<Larder>> {
        self.nodes[node - 1].lock().expect("no thread panics under this lock")
    }

    /// Starts a node without waiting for it.
    pub fn launch(&self, node: usize) {
        *self.node(node) = Some(self.setups[node - 1].launch());
    }

    /// Kills a node.
    pub fn kill(&self, node: usize) {
        let larder = self.node(node).take();
        larder.into_iter().for_each(Larder::kill);
    }

    /// Stops a node in order.
    pub fn stop(&self, node: usize) {
        let larder = self.node(node).take();
        larder.into_iter().for_each(|larder| _ = larder.stop());
    }

    /// Starts these nodes, waits until each sees all of them serve, and stores all documents.
    pub fn begin(&self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.launch(*node));
        for node in nodes {
            await_whole(self.node(*node).as_ref().expect("it was launched"), nodes.len());
        }
        for document in 0..DOCUMENTS {
            let target = target(document);
            get(&target).send(at(nodes[0], 8080)).verify(&target);
        }
        let written = |node: &usize| self.node(*node).as_ref().expect("as above").await_written();
        nodes.iter().for_each(written);
    }

    /// Waits until a node uses its cache, at most as long as [`eventually`] does.
    pub fn await_caught_up(&self, node: usize) -> bool {
        eventually(|| self.node(node).as_ref().is_some_and(|node| view(node)["caught_up"] == true))
    }

    /// Runs `during` while clients of all nodes send requests and documents change, in three
    /// phases.
    pub fn run(&self, change: Change, during: impl FnOnce(&World), after: impl FnOnce(&World)) {
        let long = Duration::from_secs;
        thread::scope(|scope| {
            for node in 1..=self.nodes.len() {
                scope.spawn(move || self.client(node));
            }
            scope.spawn(|| self.change_documents(change));
            thread::sleep(long(5));
            self.phase.store(1, Ordering::SeqCst);
            let begin = Instant::now();
            during(self);
            thread::sleep(long(seconds()).saturating_sub(begin.elapsed()));
            if std::env::var_os(LOG).is_some() {
                (1..=self.nodes.len())
                    .for_each(|node| println!("    n{node}: {}", self.knowledge(node)));
            }
            after(self);
            self.phase.store(2, Ordering::SeqCst);
            thread::sleep(long(5));
            self.require_same_of_all();
            thread::sleep(long(5));
            self.over.store(true, Ordering::SeqCst);
        });
    }

    /// Returns the counts of the clients of a node by phase.
    pub fn tallies(&self, node: usize) -> [Tally; 3] {
        self.tallies.lock().expect("no thread panics under this lock")[node]
    }

    /// Returns the number of changes, and of those whose answer named a node.
    pub fn changes(&self) -> (u64, u64) {
        *self.changes.lock().expect("no thread panics under this lock")
    }

    fn client(&self, node: usize) {
        let mut random = Random::of(node as u64 * 77);
        let mut connection = None;
        while !self.over.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
            if self.node(node).is_none() {
                connection = None;
                continue;
            }
            let document = match self.misses_at.load(Ordering::SeqCst) == node {
                true => None,
                false => Some(random.below(DOCUMENTS)),
            };
            let (phase, begin) = (self.phase.load(Ordering::SeqCst), Instant::now());
            let counted = self.fetch(&mut connection, node, document);
            let took = begin.elapsed();
            let counted = Tally {
                slow: u64::from(took > SLOW),
                slowest: took,
                ..counted.unwrap_or_default()
            };
            self.tallies.lock().expect("as above")[node][phase].add(&counted);
        }
    }

    /// Sends one request and checks its response. `document`: a new one if `None`. Returns `None`
    /// if there is no connection, as to a node that does not run.
    fn fetch(
        &self,
        connection: &mut Option<Client>,
        node: usize,
        document: Option<usize>,
    ) -> Option<Tally> {
        let target = document.map_or_else(|| self.new_target(), target);
        let floor = |node: usize| {
            document.map_or(0, |document| self.floors[node][document].load(Ordering::SeqCst))
        };
        let (floor_here, floor_anywhere) = (floor(node), floor(0));
        let client = match connection.as_mut() {
            Some(client) => client,
            None => connection.insert(Client::open(at(node, 8080)).ok()?),
        };
        client.take_silence();
        let failed = Tally { failed: 1, ..Tally::default() };
        let reply = get(&target).header("Host", "site.test").send_on(client);
        let whole = reply.ok().filter(|reply| reply.whole && reply.status == 200);
        let Some(reply) = whole else {
            *connection = None;
            // A node that was killed meanwhile has no response.
            return Some(failed).filter(|_| self.node(node).is_some());
        };
        reply.verify(&target);
        let version: u64 = reply.header("x-version").parse().expect("the origin sends a number");
        let is_old = version < floor_here;
        let (is_from_origin, is_again) = (is_from_origin(&reply), self.had(node, target, version));
        Some(Tally {
            answers: 1,
            from_origin: u64::from(is_from_origin),
            again: u64::from(is_from_origin && is_again),
            old: u64::from(is_old),
            old_at_named: u64::from(!is_old && version < floor_anywhere),
            ..Tally::default()
        })
    }

    /// Notes a version that a client had; returns whether clients of the counted nodes had it
    /// before.
    fn had(&self, node: usize, target: String, version: u64) -> bool {
        let phase = self.phase.load(Ordering::SeqCst);
        let mut had = self.had.lock().expect("no thread panics under this lock");
        self.counted.contains(&node) && !had.insert((phase, target, version))
    }

    /// Returns what a node knows of the others, in one line.
    pub fn knowledge(&self, node: usize) -> String {
        let view = self.node(node).as_ref().map(view).unwrap_or_default();
        let members = view["members"].as_array().cloned().unwrap_or_default();
        let word = |member: &Value| {
            let asked = &member["asked"];
            let passed_by = if member["passed_by"] == true { ", passed by" } else { "" };
            let behind = if member["behind"] == true { ", behind" } else { "" };
            format!(
                "{} {}{passed_by}{behind} ({} hits, {} fetched, {} absent, {} failed)",
                member["name"].as_str().unwrap_or_default(),
                member["state"].as_str().unwrap_or_default(),
                asked["hit"],
                asked["fetched"],
                asked["absent"],
                asked["failed"]
            )
        };
        let words = members.iter().filter(|member| member["asked"].is_object()).map(word);
        format!("caught up {}; {}", view["caught_up"], words.collect::<Vec<_>>().join("; "))
    }

    /// Returns the target of a document that no client has requested before.
    pub fn new_target(&self) -> String {
        format!("/new{}?size=3000&etag=1", self.next_miss.fetch_add(1, Ordering::SeqCst))
    }

    /// Changes documents at the first node until the run is over. A response that is older than a
    /// change is wrong from the answer to the change on, except at nodes that the answer names.
    fn change_documents(&self, change: Change) {
        let (mut random, mut versions) = (Random::of(5), vec![0; DOCUMENTS]);
        while !self.over.load(Ordering::SeqCst) {
            thread::sleep(CHANGE_PAUSE);
            let document = random.below(DOCUMENTS);
            let target = target(document);
            self.origin.change(&target);
            versions[document] += 1;
            let named = match change {
                Change::Purge => self.purge(&target),
                Change::Put => put(&target),
            };
            let mut changes = self.changes.lock().expect("as above");
            changes.0 += 1;
            let Some(named) = named else { continue };
            changes.1 += u64::from(!named.is_empty());
            for (node, floors) in self.floors.iter().enumerate() {
                if !named.contains(&format!("n{node}")) {
                    floors[document].store(versions[document], Ordering::SeqCst);
                }
            }
        }
    }

    /// Requires of nodes that were named what is required of the others.
    fn require_same_of_all(&self) {
        let (anywhere, at_nodes) = self.floors.split_first().expect("an entry for any node");
        for floors in at_nodes {
            for (floor, anywhere) in floors.iter().zip(anywhere) {
                floor.fetch_max(anywhere.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
    }

    /// Purges at the first node; returns the named nodes, or `None` if nothing was done.
    pub fn purge(&self, target: &str) -> Option<Vec<String>> {
        let path = format!("/purge?url={}", percent(&format!("{HOST}{target}")));
        let purge = request("POST", &path).header("Host", "localhost").body(b"");
        let reply = purge.try_send(at(1, 9090)).ok()?;
        let answer: Value = serde_json::from_slice(&reply.body).ok()?;
        let unreached = answer["fleet"]["unreached"].as_object();
        Some(unreached.into_iter().flatten().map(|(name, _)| name.clone()).collect())
    }
}

/// Changes a document by PUT at the first node; returns `None` if that failed.
fn put(target: &str) -> Option<Vec<String>> {
    let put = request("PUT", target).header("Host", "site.test").body(b"x");
    let reply = put.try_send(at(1, 8080)).ok()?;
    (reply.status == 200).then(Vec::new)
}

fn is_from_origin(reply: &Reply) -> bool {
    !reply.outcome().starts_with("HIT") && reply.outcome() != "STALE"
}
