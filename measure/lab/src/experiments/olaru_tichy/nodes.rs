//! Nodes that share a cache, in virtual time. Each decides by the same functions of the crate
//! `fleet` as the product; its actions take time of its processor, disk and link.
//!
//! A client's request follows [`fleet::lookup::plan`] step by step. It joins a running fetch where
//! [`fleet::lookup::may_follow`] permits it. [`fleet::eviction::decide`] decides on a copy evicted
//! from memory. Hints, breakers, grace time and the number of owners of a hot document also come
//! from the crate. The rest is decided here: notices of copies reach the nodes that [`Notified`]
//! names after [`NOTICE_WAIT`] and a message, and the known loads are up to [`Setup::load_age`]
//! old. A node knows the size of a document once it has had it or was told of a copy
//! ([`fleet::document_memory`]); what it keeps follows from the response.

mod memory;
mod search;
mod summaries;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use device::{Clock, Nanos};
use fleet::breaker::{self, Breaker};
use fleet::document_memory::DocumentMemory;
use fleet::grace::Grace;
use fleet::hints::Hints;
use fleet::lookup::Asked;
use fleet::placement::LoadBound;
use fleet::popularity::Hotness;
use fleet::token_bucket::TokenBucket;
use fleet::{ClassTable, FleetSeed, KeyHash, MemberId, Members};
use sim::Handle;

use super::counts::{Counts, Source};
use super::exchange;
use super::hardware::{Disk, Hardware, Station, transfer};
use super::lru::Lru;
use search::{Popular, Running};
use summaries::Summaries;
use workload::generator::documents::Documents;

use crate::experiment::Failed;

/// Bytes of a request or a notice between nodes.
const MESSAGE: u64 = 100;
/// Time between two batches of notices of copies, as in the product.
const NOTICE_WAIT: Nanos = 20_000_000;
/// Bytes of a node's memory of documents' sizes.
const SIZES_BYTES: usize = 4 << 20;
/// Bytes of one notice of a copy in a batch: a key's hash and two flags.
const NOTICE: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// All documents, on nodes that own keys; on the others the replicated classes: the files of a
    /// web server.
    All,
    /// A cache of this many bytes.
    Cache(u64),
}

/// The nodes that are notified when a copy enters or leaves a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notified {
    /// No node: there are no hints.
    None,
    Owner,
    All,
}

/// How nodes ask each other as sibling caches (ICP, RFC 2187).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Siblings {
    /// They do not: only the class table applies.
    None,
    /// All siblings are asked for each document.
    AskAll,
    /// Siblings whose summary has the document are asked; summaries are exchanged at this interval.
    Summaries(Nanos),
}

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) hardware: Hardware,
    /// Bytes of each node's memory.
    pub(super) memory: u64,
    /// Bytes that memory, disks and nodes' messages carry at a time: a document takes whole blocks.
    pub(super) block: u64,
    pub(super) storage: Storage,
    /// Weight of each node; 0: it owns no keys.
    pub(super) weights: Vec<u32>,
    /// The nodes that clients send requests to, in turn.
    pub(super) servers: Vec<usize>,
    /// True if a node that reads its disk for another node looks into its memory first.
    pub(super) memory_for_peers: bool,
    pub(super) table: ClassTable,
    pub(super) siblings: Siblings,
    pub(super) bound: Option<LoadBound>,
    pub(super) hot: Option<Hotness>,
    /// True if an owner's response states the number of owners.
    pub(super) reports_owners: bool,
    pub(super) hints: Notified,
    /// Maximum age of the known loads.
    pub(super) load_age: Nanos,
    /// Bytes per second of copies that a node may offer.
    pub(super) offers: u64,
    /// How long a node waits for another one.
    pub(super) timeout: Nanos,
    /// True if nodes that do not respond are avoided for some time.
    pub(super) breakers: bool,
    /// Response time of the origin.
    pub(super) origin: Nanos,
    pub(super) seed: u64,
}

pub(super) struct Node {
    pub(super) id: MemberId,
    /// True while it responds.
    pub(super) is_up: Cell<bool>,
    /// True while the others count it as a member.
    pub(super) is_member: Cell<bool>,
    /// Additional delay of its responses to other nodes.
    pub(super) delay: Cell<Nanos>,
    memory: RefCell<Lru>,
    /// The documents on its disk, if that is a cache.
    cache: RefCell<Lru>,
    processor: Station,
    link: Station,
    disk: Disk,
    load: Cell<u64>,
    answers: Cell<u64>,
    hints: RefCell<Hints>,
    sizes: RefCell<DocumentMemory>,
    /// Breakers for the nodes that have failed to respond.
    breakers: RefCell<BTreeMap<usize, Breaker>>,
    running: RefCell<HashMap<u32, Rc<Running>>>,
    popular: RefCell<Popular>,
    offers: RefCell<TokenBucket>,
}

pub(super) struct Nodes {
    pub(super) setup: Setup,
    pub(super) clock: Handle,
    pub(super) documents: Arc<Documents>,
    pub(super) nodes: Vec<Node>,
    pub(super) counts: RefCell<Counts>,
    /// The members with their loads, and the time when they were determined.
    members: RefCell<(Nanos, Members)>,
    grace: RefCell<Option<Grace>>,
    pub(super) grace_time: Cell<Duration>,
    summaries: RefCell<Summaries>,
    clients: Station,
    /// Index of each node by its id.
    places: BTreeMap<MemberId, usize>,
}

impl Nodes {
    pub(super) fn new(
        setup: Setup,
        documents: Arc<Documents>,
        clock: Handle,
    ) -> Result<Rc<Nodes>, Failed> {
        let count = setup.weights.len();
        let nodes: Vec<Node> =
            (0..count).map(|at| node(at, &setup)).collect::<Result<_, Failed>>()?;
        let places = nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect();
        let nodes = Nodes {
            members: RefCell::new((0, Members::empty())),
            grace: RefCell::default(),
            grace_time: Cell::new(Duration::ZERO),
            summaries: RefCell::default(),
            clients: Station::default(),
            counts: RefCell::default(),
            places,
            nodes,
            setup,
            clock,
            documents,
        };
        nodes.start_counting();
        nodes.refresh();
        Ok(Rc::new(nodes))
    }

    pub(super) fn start_counting(&self) {
        let now = self.clock.now();
        let seconds = std::mem::take(&mut self.counts.borrow_mut().seconds);
        *self.counts.borrow_mut() = Counts { from: now, seconds, ..Counts::default() };
        let mut counts = self.counts.borrow_mut();
        counts.processors = self.nodes.iter().map(|node| node.processor.busy()).collect();
        counts.disks = self.nodes.iter().map(|node| node.disk.busy()).collect();
        counts.answers = self.nodes.iter().map(|node| node.answers.get()).collect();
    }

    pub(super) fn counted(&self) -> Counts {
        let mut counts = self.counts.borrow().clone();
        counts.until = self.clock.now();
        for (at, node) in self.nodes.iter().enumerate() {
            counts.processors[at] = node.processor.busy() - counts.processors[at];
            counts.disks[at] = node.disk.busy() - counts.disks[at];
            counts.answers[at] = node.answers.get() - counts.answers[at];
        }
        counts
    }

    /// Serves a client's request at a node.
    pub(super) async fn serve(self: Rc<Nodes>, at: usize, document: u32) {
        let began = self.clock.now();
        let node = &self.nodes[at];
        let size = self.documents.size(document);
        node.load.set(node.load.get() + 1);
        let [each, kib] = self.setup.hardware.client;
        node.processor.serve(&self.clock, each).await;
        let found = Rc::clone(&self).look_up(at, document, Asked::ByClient).await;
        node.processor.serve(&self.clock, kib * size / 1_024).await;
        self.clients.serve(&self.clock, transfer(size, self.setup.hardware.clients)).await;
        node.load.set(node.load.get() - 1);
        node.answers.set(node.answers.get() + 1);
        self.count(began, found);
    }

    fn count(&self, began: Nanos, found: Option<Source>) {
        let mut counts = self.counts.borrow_mut();
        counts.requests += 1;
        counts.times.push(((self.clock.now() - began) / 1_000) as u32);
        match found {
            Some(source) => counts.sources[source as usize] += 1,
            None => counts.failed += 1,
        }
        let second = (began / 1_000_000_000) as usize;
        if counts.seconds.len() <= second {
            counts.seconds.resize(second + 1, [0; 2]);
        }
        counts.seconds[second][0] += 1;
        counts.seconds[second][1] += u32::from(found == Some(Source::Origin));
    }

    /// Announces the current members to all nodes at once.
    pub(super) fn members_changed(&self) {
        let before = self.members.borrow().1.clone();
        self.refresh();
        let (now, after) = (self.now(), self.members.borrow().1.clone());
        let grace = Grace::begin(None, (&before, &after), now, self.grace_time.get());
        if grace.is_some() {
            *self.grace.borrow_mut() = grace;
        }
    }

    fn members(&self) -> Members {
        let age = self.clock.now() - self.members.borrow().0;
        if age >= self.setup.load_age {
            self.refresh();
        }
        self.members.borrow().1.clone()
    }

    fn refresh(&self) {
        let list = self.nodes.iter().enumerate().filter(|(_, node)| node.is_member.get());
        let list = list.filter_map(|(at, node)| {
            exchange::member(&node.id, self.setup.weights[at], node.load.get())
        });
        let version = self.members.borrow().1.version() + 1;
        // Cannot fail: the names differ, and the number was checked before.
        if let Ok(members) = Members::new(version, list.collect()) {
            *self.members.borrow_mut() = (self.clock.now(), members);
        }
    }

    fn previous(&self) -> Vec<Members> {
        let grace = self.grace.borrow();
        grace.as_ref().map(|grace| grace.previous(self.now())).unwrap_or_default()
    }

    /// Returns the time in the form of the crate `fleet`.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }

    fn key(document: u32) -> KeyHash {
        KeyHash::of(&document.to_le_bytes(), FleetSeed(0))
    }

    /// Returns the bytes of the blocks of a document.
    fn blocks(&self, document: u32) -> u64 {
        self.documents.size(document).next_multiple_of(self.setup.block)
    }

    fn note_message(&self, count: u64, bytes: u64) {
        let mut counts = self.counts.borrow_mut();
        counts.messages[0] += count;
        counts.messages[1] += count * bytes;
    }
}

fn node(at: usize, setup: &Setup) -> Result<Node, Failed> {
    let id = format!("n{at}").parse().map_err(|_| Failed::from("no name of a node"))?;
    let cache = match setup.storage {
        Storage::All => 0,
        Storage::Cache(bytes) => bytes,
    };
    let hints = match setup.hints {
        Notified::None => 0,
        Notified::Owner | Notified::All => (setup.memory / 1_024).clamp(1 << 12, 1 << 20) as usize,
    };
    Ok(Node {
        id,
        is_up: Cell::new(true),
        is_member: Cell::new(true),
        delay: Cell::new(0),
        memory: RefCell::new(Lru::new(setup.memory)),
        cache: RefCell::new(Lru::new(cache)),
        processor: Station::default(),
        link: Station::default(),
        disk: Disk::new(setup.hardware.disk, setup.seed ^ at as u64),
        load: Cell::new(0),
        answers: Cell::new(0),
        hints: RefCell::new(Hints::new(hints)),
        sizes: RefCell::new(DocumentMemory::new(SIZES_BYTES)),
        breakers: RefCell::default(),
        running: RefCell::default(),
        popular: RefCell::default(),
        offers: RefCell::new(TokenBucket::new(setup.offers, setup.offers, Duration::ZERO)),
    })
}

/// When a node that does not respond is avoided, and for how long.
const BREAKER: breaker::Settings = breaker::Settings {
    failures: 5,
    first: Duration::from_secs(1),
    longest: Duration::from_secs(30),
    try_time: Duration::from_secs(5),
};
