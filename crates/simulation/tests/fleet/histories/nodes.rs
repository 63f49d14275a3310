//! The nodes of a history: each with its disk, its clock and an admin interface.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::{ClassTable, FleetSeed, Member, Protocols};
use proxy::admin::guard::Guard;
use proxy::observe::metrics::Metrics;
use proxy::peers::node::NodeOptions;
use proxy::{AdminSetup, Observer, RequestRecord, TokioClock};
use sim::network::Host;
use simulation::{Cache, Proxy, Running, World};
use tokio::time::Instant;

use crate::histories::origin::Health;
use crate::histories::truth::Truth;
use crate::nodes::{listed, member, options};

const MEGABYTE: u64 = 1 << 20;

/// The port of the admin interfaces.
const ADMIN: u16 = 3129;

/// Disk with which a node is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// It is as it was left.
    Left,
    /// It is as it was at some time before.
    Old,
    /// It is another, empty one.
    Empty,
}

/// The nodes, and what is between them.
pub struct Nodes {
    pub world: World,
    pub truth: Rc<Truth>,
    pub origin: Rc<Cell<Health>>,
    pub slots: Vec<Slot>,
    classes: RefCell<ClassTable>,
    /// Ways that are cut, and how often.
    cuts: RefCell<BTreeMap<(IpAddr, IpAddr), u32>>,
    /// Pairs of nodes between which nothing is promised for another reason.
    rough: RefCell<BTreeMap<(usize, usize), u32>>,
    /// Questions that were answered from what was stored.
    hits: Arc<Hits>,
}

/// The place of one node.
pub struct Slot {
    pub host: Host,
    clock: TokioClock,
    cache: RefCell<Cache>,
    /// A copy of its disk, and when it was taken.
    old: RefCell<Option<(Duration, Cache)>>,
    pub running: RefCell<Option<Running>>,
    pub held: Cell<bool>,
    /// Set while it is being started or ended.
    pub busy: Cell<bool>,
    /// Protocols that its program understands, as of its next start.
    protocols: Cell<Protocols>,
    /// Disks that it has had.
    disks: Cell<u32>,
    /// Since when requests may fail there.
    bad: Cell<Option<Duration>>,
}

/// When the questions began that nodes answered with what they had stored themselves.
#[derive(Default)]
struct Hits(Mutex<Vec<Instant>>);

impl Observer for Hits {
    fn finished(&self, done: &RequestRecord<'_>) {
        let hits = ["HIT_RAM", "HIT_DISK", "HIT_FILL", "STALE", "REVALIDATED"];
        let outcome = done.outcome.text();
        let is_hit = hits.iter().any(|hit| outcome.starts_with(hit));
        if done.is_peer && is_hit {
            self.0.lock().unwrap().push(Instant::now() - done.duration);
        }
    }
}

impl Nodes {
    /// Makes so many nodes, none of which runs; their clocks differ by these seconds.
    pub async fn new(
        world: &World,
        truth: Rc<Truth>,
        skews: &[i64],
        classes: ClassTable,
    ) -> Rc<Nodes> {
        let mut slots = Vec::new();
        for (at, skew) in skews.iter().enumerate() {
            let wall = world.clock.since_1970().as_secs().saturating_add_signed(*skew);
            slots.push(Slot {
                host: world.network.host(&name(at)),
                clock: TokioClock::starting_at(Duration::from_secs(wall)),
                cache: RefCell::new(Nodes::disk(world, at, 0).await),
                old: RefCell::default(),
                running: RefCell::default(),
                held: Cell::default(),
                busy: Cell::default(),
                protocols: Cell::new(Protocols::OWN),
                disks: Cell::new(0),
                bad: Cell::new(Some(truth.now())),
            });
        }
        Rc::new(Nodes {
            world: world.clone(),
            truth,
            origin: Rc::default(),
            slots,
            classes: RefCell::new(classes),
            cuts: RefCell::default(),
            rough: RefCell::default(),
            hits: Arc::default(),
        })
    }

    async fn disk(world: &World, node: usize, disks: u32) -> Cache {
        let number = 1 + node as u32 + 16 * disks;
        Cache::numbered(world, 64 * MEGABYTE, 8 * MEGABYTE, number).await
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Where clients ask a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.slots[node].host.address(), 80)
    }

    /// Where its operator does.
    pub fn admin(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.slots[node].host.address(), ADMIN)
    }

    pub fn is_up(&self, node: usize) -> bool {
        let slot = &self.slots[node];
        slot.running.borrow().is_some() && !slot.held.get()
    }

    /// The number of the node with a name.
    pub fn named(&self, of: &str) -> usize {
        (0..self.len()).find(|at| name(*at) == of).expect("a node of ours")
    }

    /// How many questions that have begun since then were answered from what was stored.
    pub fn hits(&self, since: Instant) -> usize {
        self.hits.0.lock().unwrap().iter().filter(|begun| **begun >= since).count()
    }

    /// Starts a node with the disk that it has.
    pub fn start(&self, node: usize) {
        let slot = &self.slots[node];
        let mut proxy = Proxy::new(slot.host.clone(), 80, options(slot.host.address()));
        proxy.cache = Some(slot.cache.borrow().clone());
        proxy.clock = Some(slot.clock);
        proxy.observer = self.hits.clone();
        proxy.admin = Some(AdminSetup {
            listener: simulation::listen(&slot.host, ADMIN).unwrap(),
            guard: Guard::new(Vec::new(), None),
            metrics: Arc::new(Metrics::new(1, slot.clock)),
            act: Arc::new(|_| Err("there is no process".to_owned())),
            facts: Arc::new(|| serde_json::Value::Null),
            trouble: Box::new(|| None),
        });
        let classes = self.classes.borrow().clone();
        let protocols = slot.protocols.get();
        let program = format!("of {protocols}").into();
        let own = Member { program, protocols, ..member(&name(node)) };
        let node_options = NodeOptions::new(own, FleetSeed(7), classes);
        let names: Vec<String> = (0..self.len()).map(name).collect();
        proxy.node = Some((node_options, names.iter().map(|name| listed(name)).collect()));
        *slot.running.borrow_mut() = Some(proxy.start(&self.world).unwrap());
        self.truth.note(format!("{} starts, with protocols {protocols}", name(node)));
        self.good(node);
    }

    /// Ends a node at once.
    pub async fn kill(&self, node: usize) {
        let slot = &self.slots[node];
        let Some(running) = slot.running.take() else { return };
        self.bad(node);
        self.truth.note(format!("{} is killed", name(node)));
        running.kill().await;
        slot.held.set(false);
        let seed = self.truth.seed ^ self.truth.now().as_nanos() as u64;
        let left = slot.cache.borrow().after_kill(&self.world, seed);
        *slot.cache.borrow_mut() = left;
    }

    /// Returns what the program of a node understands.
    pub fn protocols(&self, node: usize) -> Protocols {
        self.slots[node].protocols.get()
    }

    /// Has a node understand these from its next start on.
    pub fn upgrade(&self, node: usize, protocols: Protocols) {
        self.slots[node].protocols.set(protocols);
    }

    /// Returns whether two nodes have no protocol in common.
    fn are_strangers(&self, a: usize, b: usize) -> bool {
        self.protocols(a).common(self.protocols(b)).is_none()
    }

    /// Ends a node in order.
    pub async fn stop(&self, node: usize) {
        let slot = &self.slots[node];
        let Some(running) = slot.running.take() else { return };
        self.bad(node);
        self.truth.note(format!("{} ends in order", name(node)));
        running.stop().await;
        self.truth.note(format!("{} has ended", name(node)));
    }

    /// Takes a copy of a node's disk.
    pub fn copy_disk(&self, node: usize) {
        let slot = &self.slots[node];
        self.truth.note(format!("the disk of {} is copied", name(node)));
        let copy = slot.cache.borrow().after_kill(&self.world, self.truth.seed);
        *slot.old.borrow_mut() = Some((self.truth.now(), copy));
    }

    /// Puts a disk into a node that does not run.
    pub async fn put_disk(&self, node: usize, disk: Disk) {
        let slot = &self.slots[node];
        let old = slot
            .old
            .borrow()
            .as_ref()
            .map(|(since, old)| (*since, old.after_kill(&self.world, self.truth.seed)));
        match (disk, old) {
            (Disk::Left, _) | (Disk::Old, None) => {}
            (Disk::Old, Some((since, old))) => {
                *slot.cache.borrow_mut() = old;
                self.truth.note(format!("{} gets its disk of {since:?}", name(node)));
                self.truth.forget(node, since);
            }
            (Disk::Empty, _) => {
                slot.disks.set(slot.disks.get() + 1);
                let empty = Nodes::disk(&self.world, node, slot.disks.get()).await;
                *slot.cache.borrow_mut() = empty;
                self.truth.note(format!("{} gets an empty disk", name(node)));
                self.truth.forget(node, Duration::ZERO);
            }
        }
    }

    /// Has every operation of a node's disk fail, until it gets another or is started again.
    pub fn break_disk(&self, node: usize) {
        self.truth.note(format!("the disk of {} fails", name(node)));
        let gone = sim::Fault::Gone { after: 0, times: u64::MAX };
        self.slots[node].cache.borrow().disk().set_plan(sim::FaultPlan::one(gone));
    }

    /// Has the next operations of a node's disk take seconds, longer than a write may take before
    /// clients stop to wait for it.
    pub fn slow_disk(&self, node: usize) {
        self.truth.note(format!("the disk of {} is slow", name(node)));
        let slow = sim::Fault::Slow { after: 0, times: 40, by: 3_000_000_000 };
        self.slots[node].cache.borrow().disk().set_plan(sim::FaultPlan::one(slow));
    }

    pub fn hold(&self, node: usize) {
        let slot = &self.slots[node];
        if let Some(running) = &*slot.running.borrow() {
            self.bad(node);
            self.truth.note(format!("{} is held", name(node)));
            running.hold();
            slot.held.set(true);
        }
    }

    pub fn release(&self, node: usize) {
        let slot = &self.slots[node];
        if let Some(running) = &*slot.running.borrow()
            && slot.held.replace(false)
        {
            self.truth.note(format!("{} goes on", name(node)));
            running.release();
            self.good(node);
        }
    }

    fn bad(&self, node: usize) {
        let bad = &self.slots[node].bad;
        bad.set(Some(bad.get().unwrap_or(self.truth.now())));
    }

    fn good(&self, node: usize) {
        if let Some(since) = self.slots[node].bad.take() {
            self.truth.was_bad(node, since);
        }
    }

    /// Notes what is bad until now.
    pub fn still_bad(&self) {
        for node in 0..self.len() {
            if let Some(since) = self.slots[node].bad.get() {
                self.truth.was_bad(node, since);
            }
        }
    }

    /// Has all nodes treat documents so from now on.
    pub fn set_classes(&self, classes: ClassTable) {
        for slot in &self.slots {
            if let Some(node) = slot.running.borrow().as_ref().and_then(|r| r.node.clone()) {
                node.set_classes(classes.clone());
            }
        }
        *self.classes.borrow_mut() = classes;
    }

    /// Cuts both ways between two nodes, until [`Nodes::join`].
    pub fn part(&self, a: usize, b: usize) {
        self.truth.note(format!("{} and {} are parted", name(a), name(b)));
        let [x, y] = [a, b].map(|node| self.slots[node].host.address());
        self.cut(x, y);
        self.cut(y, x);
    }

    /// Takes a [`Nodes::part`] back.
    pub fn join(&self, a: usize, b: usize) {
        let [x, y] = [a, b].map(|node| self.slots[node].host.address());
        self.mend(x, y);
        self.mend(y, x);
        self.truth.note(format!("{} and {} are joined", name(a), name(b)));
    }

    /// Returns the number of the last purge of another node that a node which runs has.
    pub fn last_purge(&self, node: usize, of: usize) -> Option<u64> {
        let running = self.slots[node].running.borrow();
        let node = running.as_ref()?.node.clone()?;
        let vector = node.purge_vector();
        vector.newest(&name(of).parse().unwrap()).map(|(_, number)| number)
    }

    /// Cuts the way from one address to another, once more.
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        *self.cuts.borrow_mut().entry((from, to)).or_default() += 1;
        self.world.network.cut(from, to);
    }

    /// Takes one of the cuts back.
    pub fn mend(&self, from: IpAddr, to: IpAddr) {
        let mut cuts = self.cuts.borrow_mut();
        let left = cuts.get_mut(&(from, to)).expect("it was cut");
        *left -= 1;
        if *left == 0 {
            cuts.remove(&(from, to));
            self.world.network.mend(from, to);
        }
    }

    /// Notes that the ways between two nodes are rough from now on, or no longer.
    pub fn rough(&self, a: usize, b: usize, is_rough: bool) -> bool {
        let mut rough = self.rough.borrow_mut();
        let times = rough.entry((a, b)).or_default();
        *times = if is_rough { *times + 1 } else { *times - 1 };
        *times > 0
    }

    /// Notes who is out of touch with whom now.
    pub fn tick(&self) {
        let at = |address: IpAddr| self.slots.iter().position(|s| s.host.address() == address);
        let cuts = self.cuts.borrow();
        let cut = cuts.keys().filter_map(|(from, to)| Some((at(*from)?, at(*to)?)));
        let rough = self.rough.borrow();
        let rough = rough.iter().filter(|(_, times)| **times > 0).map(|(pair, _)| *pair);
        let pairs = (0..self.len()).flat_map(|a| (0..self.len()).map(move |b| (a, b)));
        let strangers = pairs.filter(|(a, b)| self.are_strangers(*a, *b));
        let parted: BTreeSet<(usize, usize)> = cut.chain(rough).chain(strangers).collect();
        self.truth.tick(self.len(), |node| self.is_up(node), &parted);
    }
}

/// The name of a node.
pub fn name(node: usize) -> String {
    format!("node-{node}")
}
