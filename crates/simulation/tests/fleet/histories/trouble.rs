//! Faults in a history.

use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use fleet::class::{Copies, Eviction, Lookup, Replication};
use fleet::{ClassTable, Policy, Protocols};
use sim::network::Link;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::histories::nodes::{Disk, Nodes, name};
use crate::histories::origin::Health;

/// Draws how documents are treated.
pub fn classes(version: u64, random: &mut Rng) -> ClassTable {
    let copies = [Copies::Exclusive, Copies::DiscardCache, Copies::Inclusive, Copies::None];
    let two = Replication::Owners(2.try_into().unwrap());
    let policy = Policy {
        lookup: if random.bool() { Lookup::OWNER } else { Lookup::COOPERATE },
        copies: copies[random.usize(..4)],
        eviction: Eviction::DROP,
        replication: [Replication::ONE, Replication::ONE, two][random.usize(..3)],
    };
    ClassTable::new(version, Vec::new(), policy).unwrap()
}

/// Documents of one kind, on one disk each.
pub fn plain(copies: Copies) -> ClassTable {
    let (lookup, eviction, replication) = (Lookup::OWNER, Eviction::DROP, Replication::ONE);
    let policy = Policy { lookup, copies, eviction, replication };
    ClassTable::new(1, Vec::new(), policy).unwrap()
}

/// The programs of an upgrade, one after another: what each of them understands.
const PROGRAMS: [(u16, u16); 4] = [(1, 1), (1, 2), (2, 2), (2, 3)];

/// Returns what the program at a place among them understands.
fn program(at: usize) -> Protocols {
    let (oldest, newest) = PROGRAMS[at];
    Protocols::new(oldest, newest).unwrap()
}

/// Returns the place of a node's program among them.
fn place(nodes: &Nodes, node: usize) -> usize {
    (0..PROGRAMS.len()).find(|at| program(*at) == nodes.protocols(node)).unwrap()
}

/// Ends the upgrade: all nodes get the latest program that one of them has.
async fn end_upgrade(nodes: &Nodes) {
    let latest = (0..nodes.len()).map(|node| place(nodes, node)).max().unwrap();
    for node in (0..nodes.len()).filter(|node| place(nodes, *node) < latest) {
        nodes.stop(node).await;
        nodes.upgrade(node, program(latest));
        nodes.start(node);
    }
}

/// One thing that goes wrong, for a time.
struct Trouble {
    nodes: Rc<Nodes>,
    random: Rng,
}

/// Lets one thing after another go wrong until then, and waits until all of it is over.
pub async fn run(nodes: Rc<Nodes>, until: Duration) {
    let mut random = Rng::with_seed(nodes.truth.seed ^ 0x7b0b);
    let mut all = JoinSet::new();
    let mut number = 1;
    while nodes.truth.now() < until {
        sleep(Duration::from_millis(random.u64(300..5_000))).await;
        number += 1;
        let trouble = Trouble { nodes: nodes.clone(), random: random.fork() };
        all.spawn_local(trouble.happen(number));
    }
    while let Some(over) = all.join_next().await {
        over.unwrap();
    }
    end_upgrade(&nodes).await;
}

impl Trouble {
    async fn happen(mut self, number: u64) {
        match self.random.u8(..20) {
            0..3 => self.part().await,
            3 => self.isolate().await,
            4..6 => self.cut().await,
            6 => self.part_origin().await,
            7..9 => self.rough().await,
            9 => self.reset(),
            10 | 11 => self.hold().await,
            12..15 => self.end().await,
            15 => self.origin().await,
            16 => self.break_disk().await,
            17 | 18 => self.copy_disk(),
            _ => {
                self.nodes.truth.note("other classes");
                self.nodes.set_classes(classes(number, &mut self.random));
            }
        }
    }

    fn two(&mut self) -> (usize, usize) {
        let one = self.random.usize(..self.nodes.len());
        let other = (one + self.random.usize(1..self.nodes.len())) % self.nodes.len();
        (one, other)
    }

    async fn pause(&mut self, millis: std::ops::Range<u64>) {
        let millis = self.random.u64(millis);
        sleep(Duration::from_millis(millis)).await;
    }

    /// Both ways between two nodes are cut.
    async fn part(mut self) {
        let (a, b) = self.two();
        self.nodes.part(a, b);
        self.pause(300..25_000).await;
        self.nodes.join(a, b);
    }

    /// A node is cut off from all others.
    async fn isolate(mut self) {
        let (node, _) = self.two();
        self.nodes.truth.note(format!("{} is alone", name(node)));
        let own = self.nodes.slots[node].host.address();
        let others: Vec<_> = self.nodes.slots.iter().map(|slot| slot.host.address()).collect();
        for other in others.iter().filter(|other| **other != own) {
            self.nodes.cut(own, *other);
            self.nodes.cut(*other, own);
        }
        self.pause(300..30_000).await;
        for other in others.iter().filter(|other| **other != own) {
            self.nodes.mend(own, *other);
            self.nodes.mend(*other, own);
        }
        self.nodes.truth.note(format!("{} is back", name(node)));
    }

    /// One way between two nodes is cut.
    async fn cut(mut self) {
        let (a, b) = self.two();
        self.nodes.truth.note(format!("the way from {} to {} is cut", name(a), name(b)));
        let [x, y] = [a, b].map(|node| self.nodes.slots[node].host.address());
        self.nodes.cut(x, y);
        self.pause(300..25_000).await;
        self.nodes.mend(x, y);
        self.nodes.truth.note(format!("the way from {} to {} is whole", name(a), name(b)));
    }

    /// The way of a node to the origin is cut.
    async fn part_origin(mut self) {
        let (node, _) = self.two();
        let since = self.nodes.truth.now();
        self.nodes.truth.note(format!("{} and the origin are parted", name(node)));
        let own = self.nodes.slots[node].host.address();
        let origin = self.nodes.world.network.lookup("origin").unwrap();
        self.nodes.cut(own, origin);
        self.nodes.cut(origin, own);
        self.pause(300..15_000).await;
        self.nodes.mend(own, origin);
        self.nodes.mend(origin, own);
        self.nodes.truth.note(format!("{} and the origin are joined", name(node)));
        self.nodes.truth.was_bad(node, since);
    }

    /// Delays messages between two nodes, or loses them by chance.
    async fn rough(mut self) {
        let (a, b) = self.two();
        let link = match self.random.u8(..3) {
            0 => Link {
                delay: Duration::from_millis(50)
                    ..=Duration::from_millis(self.random.u64(100..3_000)),
                ..Link::default()
            },
            1 => Link { resets: 100_000, ..Link::default() },
            _ => Link { silences: 50_000, ..Link::default() },
        };
        self.nodes.truth.note(format!("between {} and {}: {link:?}", name(a), name(b)));
        let [x, y] = [a, b].map(|node| self.nodes.slots[node].host.address());
        for (from, to, pair) in [(x, y, (a, b)), (y, x, (b, a))] {
            self.nodes.rough(pair.0, pair.1, true);
            self.nodes.world.network.set_link(from, to, link.clone());
        }
        self.pause(300..20_000).await;
        for (from, to) in [(x, y), (y, x)] {
            self.nodes.world.network.set_link(from, to, Link::default());
        }
        self.nodes.truth.note(format!("between {} and {} all is well", name(a), name(b)));
        // What fell silent is noticed later.
        sleep(Duration::from_secs(5)).await;
        for (a, b) in [(a, b), (b, a)] {
            self.nodes.rough(a, b, false);
        }
    }

    /// All connections between two nodes break off.
    fn reset(mut self) {
        let (a, b) = self.two();
        self.nodes.truth.note(format!("{} and {}: reset", name(a), name(b)));
        let [x, y] = [a, b].map(|node| self.nodes.slots[node].host.address());
        self.nodes.world.network.reset(x, y);
    }

    /// A node does not run for a while.
    async fn hold(mut self) {
        let (node, _) = self.two();
        if self.nodes.slots[node].busy.replace(true) {
            return;
        }
        self.nodes.hold(node);
        self.pause(200..12_000).await;
        self.nodes.release(node);
        self.nodes.slots[node].busy.set(false);
    }

    /// A node ends, and is started again.
    async fn end(mut self) {
        let (node, _) = self.two();
        if self.nodes.slots[node].busy.replace(true) {
            return;
        }
        match self.random.u8(..4) {
            0 => self.nodes.stop(node).await,
            _ => self.nodes.kill(node).await,
        }
        self.pause(10..15_000).await;
        let disk = [Disk::Left, Disk::Left, Disk::Old, Disk::Old, Disk::Empty];
        let disk = disk[self.random.usize(..disk.len())];
        self.nodes.put_disk(node, disk).await;
        if self.random.u8(..4) == 0 {
            let next = (place(&self.nodes, node) + 1).min(PROGRAMS.len() - 1);
            self.nodes.upgrade(node, program(next));
        }
        self.nodes.start(node);
        self.nodes.slots[node].busy.set(false);
    }

    /// The origin hangs, or fails.
    async fn origin(mut self) {
        if self.nodes.origin.get() != Health::Well {
            return;
        }
        let since = self.nodes.truth.now();
        let health = if self.random.bool() { Health::Hangs } else { Health::Fails };
        self.nodes.truth.note(format!("the origin: {health:?}"));
        self.nodes.origin.set(health);
        self.pause(100..6_000).await;
        self.nodes.origin.set(Health::Well);
        self.nodes.truth.note("the origin is well");
        if health == Health::Hangs {
            self.nodes.truth.was_hanging(since);
        }
        for node in 0..self.nodes.len() {
            self.nodes.truth.was_bad(node, since);
        }
    }

    /// The disk of a node fails; later the node is started again.
    async fn break_disk(mut self) {
        let (node, _) = self.two();
        if self.nodes.slots[node].busy.replace(true) {
            return;
        }
        self.nodes.break_disk(node);
        self.pause(1_000..15_000).await;
        self.nodes.kill(node).await;
        self.pause(10..4_000).await;
        if self.random.bool() {
            self.nodes.put_disk(node, Disk::Empty).await;
        }
        self.nodes.start(node);
        self.nodes.slots[node].busy.set(false);
    }

    fn copy_disk(mut self) {
        let (node, _) = self.two();
        self.nodes.copy_disk(node);
    }
}
