//! Nodes that share one document, driven one step at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::MemberId;
use fleet::purges::order::{Patience, Progress};
use fleet::purges::replica::{Answer, Config};
use fleet::purges::{Consistency, Maker, Outcome, Replica, Trust, Vector};

/// Length of a step of time. A lease is a little more than two, so that a node trusts what is two
/// steps old, and a maker waits for three.
const TICK: Duration = Duration::from_secs(49);
/// When a history begins, by all clocks.
const BEGIN: Duration = Duration::from_secs(490);
const LEASE: Duration = Duration::from_secs(100);

/// A rule of the protocol that a walk leaves out, to show that the judge notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A fetch that a purge overtook is stored.
    Fence,
    /// Knowledge is dated by the arrival of an answer.
    AgeFromArrival,
    /// A peer answers whatever purges the asker has.
    PeerWithoutVector,
    /// A copy from a peer counts as fetched now.
    FreshFromPeer,
    /// A strict purge does not wait for the lease.
    NoWait,
    /// A node that lost its disk counts at once.
    RecoveringCounts,
    /// A node acknowledges what is not durable.
    EarlyAcknowledgement,
}

/// Step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Tick,
    Purge(usize),
    Flush(usize),
    Push(usize, usize),
    /// The first node acknowledges to the second; the message is under way.
    Acknowledge(usize, usize),
    /// The acknowledgement arrives.
    Acknowledged(usize, usize),
    /// The client of a purge is told.
    Tell(usize),
    Ask(usize, usize),
    Answer(usize),
    Answered(usize),
    Request(usize),
    /// A fetch begins, from a peer or from the origin.
    Fetch(usize, Option<usize>),
    Reply(usize),
    Deliver(usize),
    Crash(usize, bool),
    Start(usize),
}

/// A copy of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Copy {
    version: u8,
    fetched: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fetch {
    begun: Duration,
    /// A purge took effect meanwhile.
    is_overtaken: bool,
    from: Option<usize>,
    /// The purges that had an effect here when it began.
    entered: Vector,
    copy: Option<Copy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    to: usize,
    asked: Duration,
    answer: Option<Answer>,
}

/// A purge whose client waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Purge {
    maker: Maker,
    number: u64,
    /// The oldest version that it leaves.
    version: u8,
    /// No request that begins later gets an older version.
    promised: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// `None` while it is down.
    replica: Option<Replica>,
    incarnation: u64,
    has_lost: bool,
    ring: Vector,
    copy: Option<Copy>,
    copy_on_disk: Option<Copy>,
    fetch: Option<Fetch>,
    question: Option<Question>,
    /// Acknowledgements under way to each node.
    acknowledgements: Vec<Option<Vector>>,
}

/// All nodes, and what the judge knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    consistency: Consistency,
    broken: Option<Broken>,
    pub now: Duration,
    version: u8,
    nodes: Vec<Node>,
    purges: Vec<Purge>,
    pub crashes: usize,
    /// Requests answered from a copy.
    pub hits: usize,
    /// The first promise that was broken.
    pub wrong: Option<&'static str>,
}

fn name(node: usize) -> MemberId {
    format!("n{node}").parse().unwrap()
}

impl World {
    pub fn new(nodes: usize, consistency: Consistency, broken: Option<Broken>) -> World {
        let node = || Node {
            replica: None,
            incarnation: 1,
            has_lost: false,
            ring: Vector::default(),
            copy: None,
            copy_on_disk: None,
            fetch: None,
            question: None,
            acknowledgements: vec![None; nodes],
        };
        let nodes = (0..nodes).map(|_| node()).collect();
        let (purges, now) = (Vec::new(), BEGIN);
        let mut world = World {
            consistency,
            broken,
            now,
            version: 0,
            nodes,
            purges,
            crashes: 0,
            hits: 0,
            wrong: None,
        };
        (0..world.nodes.len()).for_each(|node| world.start(node));
        world
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn purges(&self) -> usize {
        self.purges.len()
    }

    /// Returns whether any node has lost its disk and not recovered. More than one at a time is
    /// more than the protocol bears.
    pub fn is_any_recovering(&self) -> bool {
        let is_recovering = |node: &Node| {
            let replica = node.replica.as_ref();
            node.has_lost || replica.is_some_and(Replica::is_recovering)
        };
        self.nodes.iter().any(is_recovering)
    }

    /// Returns whether `action` changes anything now.
    pub fn is_possible(&self, action: Action) -> bool {
        let is_up = |node: usize| self.nodes[node].replica.is_some();
        let question = |node: usize| self.nodes[node].question.as_ref();
        let fetch = |node: usize| self.nodes[node].fetch.as_ref();
        match action {
            Action::Tick => true,
            Action::Purge(node) | Action::Crash(node, _) => is_up(node),
            Action::Flush(node) => {
                let is_clean = |up: &Replica| up.entered() == up.durable();
                let node = &self.nodes[node];
                let is_stored = node.copy == node.copy_on_disk;
                node.replica.as_ref().is_some_and(|up| !is_clean(up) || !is_stored)
            }
            Action::Push(from, to) => from != to && is_up(from) && is_up(to),
            Action::Acknowledge(from, to) => {
                from != to && is_up(from) && self.nodes[to].acknowledgements[from].is_none()
            }
            Action::Acknowledged(from, to) => {
                is_up(to) && self.nodes[to].acknowledgements[from].is_some()
            }
            Action::Tell(purge) => {
                self.purges.get(purge).is_some_and(|purge| purge.promised.is_none())
            }
            Action::Ask(from, to) => from != to && is_up(from) && question(from).is_none(),
            Action::Answer(node) => {
                question(node).is_some_and(|asked| asked.answer.is_none() && is_up(asked.to))
            }
            Action::Answered(node) => question(node).is_some_and(|asked| asked.answer.is_some()),
            Action::Request(node) => is_up(node) && self.usable(node).is_some(),
            Action::Fetch(node, from) => {
                let is_wanted = self.usable(node).is_none() && fetch(node).is_none();
                from != Some(node) && is_up(node) && is_wanted
            }
            Action::Reply(node) => fetch(node).is_some_and(|fetch| fetch.copy.is_none()),
            Action::Deliver(node) => fetch(node).is_some_and(|fetch| fetch.copy.is_some()),
            Action::Start(node) => !is_up(node),
        }
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Action::Tick => self.now += TICK,
            Action::Purge(node) => self.purge(node),
            Action::Flush(node) => self.flush(node),
            Action::Push(from, to) => self.push(from, to),
            Action::Acknowledge(from, to) => self.acknowledge(from, to),
            Action::Acknowledged(from, to) => {
                let vector = self.nodes[to].acknowledgements[from].take().unwrap();
                let now = self.now;
                self.up(to).acknowledge(&name(from), &vector, now);
            }
            Action::Tell(purge) => self.tell(purge),
            Action::Ask(from, to) => {
                let question = Question { to, asked: self.now, answer: None };
                self.nodes[from].question = Some(question);
            }
            Action::Answer(node) => self.answer(node),
            Action::Answered(node) => self.answered(node),
            Action::Request(node) => {
                let copy = self.usable(node).unwrap();
                self.hits += 1;
                self.judge(copy, self.now, "a copy");
            }
            Action::Fetch(node, from) => self.fetch(node, from),
            Action::Reply(node) => self.reply(node),
            Action::Deliver(node) => {
                let fetch = self.nodes[node].fetch.take().unwrap();
                let copy = fetch.copy.unwrap();
                self.judge(copy, fetch.begun, "a fetch");
                if !fetch.is_overtaken || self.broken == Some(Broken::Fence) {
                    self.nodes[node].copy = Some(copy);
                }
            }
            Action::Crash(node, loses_disk) => self.crash(node, loses_disk),
            Action::Start(node) => self.start(node),
        }
    }

    fn up(&mut self, node: usize) -> &mut Replica {
        self.nodes[node].replica.as_mut().unwrap()
    }

    fn purge(&mut self, node: usize) {
        self.version += 1;
        let up = self.up(node);
        let (maker, number) = (up.own().clone(), up.next_number());
        let mut purges = Vector::default();
        purges.reach(&maker, number);
        self.enter(node, &purges);
        self.purges.push(Purge { maker, number, version: self.version, promised: None });
    }

    /// Lets purges take effect at a node.
    fn enter(&mut self, node: usize, purges: &Vector) {
        if self.up(node).entered().covers(purges) {
            return;
        }
        self.up(node).enter(purges);
        let node = &mut self.nodes[node];
        node.copy = None;
        node.fetch.iter_mut().for_each(|fetch| fetch.is_overtaken = true);
    }

    fn flush(&mut self, node: usize) {
        let now = self.now;
        let up = self.up(node);
        let entered = up.entered().clone();
        up.note_durable(&entered, now);
        let node = &mut self.nodes[node];
        (node.ring, node.copy_on_disk) = (entered, node.copy);
    }

    /// Sends the purges that a node made and that are durable at it.
    fn push(&mut self, from: usize, to: usize) {
        let up = self.up(from);
        let own = up.own().clone();
        let mut made = Vector::default();
        made.reach(&own, up.durable().get(&own));
        self.enter(to, &made);
    }

    fn acknowledge(&mut self, from: usize, to: usize) {
        let is_early = self.broken == Some(Broken::EarlyAcknowledgement);
        let up = self.up(from);
        let vector = if is_early { up.entered() } else { up.durable() }.clone();
        self.nodes[to].acknowledgements[from] = Some(vector);
    }

    fn tell(&mut self, purge: usize) {
        let Purge { maker, number, .. } = self.purges[purge].clone();
        let made_at = |node: &&Node| node.replica.as_ref().is_some_and(|up| *up.own() == maker);
        let Some(node) = self.nodes.iter().find(made_at) else { return };
        let replica = node.replica.as_ref().unwrap();
        let waited = if self.broken == Some(Broken::NoWait) { LEASE * 10 } else { Duration::ZERO };
        let promised = match replica.progress(number, &BTreeSet::new(), self.now + waited) {
            Some(Progress::Done(Outcome::Complete)) => self.now,
            Some(Progress::Done(Outcome::Accepted { .. })) => match self.consistency {
                Consistency::Strict => self.now,
                Consistency::Bounded => self.now + LEASE,
            },
            _ => return,
        };
        self.purges[purge].promised = Some(promised);
    }

    fn answer(&mut self, node: usize) {
        let to = self.nodes[node].question.as_ref().unwrap().to;
        let now = self.now;
        let answer = self.up(to).answer(now);
        self.nodes[node].question.as_mut().unwrap().answer = Some(answer);
    }

    fn answered(&mut self, node: usize) {
        let Question { asked, answer, .. } = self.nodes[node].question.take().unwrap();
        let answer = answer.unwrap();
        let asked = if self.broken == Some(Broken::AgeFromArrival) { self.now } else { asked };
        self.enter(node, &answer.vector);
        self.up(node).take(asked, answer);
    }

    /// Returns the copy of a node if it may be used without validation.
    fn usable(&self, node: usize) -> Option<Copy> {
        let node = &self.nodes[node];
        let up = node.replica.as_ref()?;
        let is_recent = |copy: &Copy| match up.trust(self.now) {
            Trust::Full => true,
            Trust::For(limit) => self.now.saturating_sub(copy.fetched) <= limit,
        };
        node.copy.filter(is_recent)
    }

    fn fetch(&mut self, node: usize, from: Option<usize>) {
        let entered = self.up(node).entered().clone();
        let (begun, is_overtaken) = (self.now, false);
        self.nodes[node].fetch = Some(Fetch { begun, is_overtaken, from, entered, copy: None });
    }

    fn reply(&mut self, node: usize) {
        let fetch = self.nodes[node].fetch.clone().unwrap();
        let of_peer = fetch.from.and_then(|from| {
            let peer = self.nodes[from].replica.as_ref()?;
            let covers = peer.entered().covers(&fetch.entered);
            let may_answer = covers || self.broken == Some(Broken::PeerWithoutVector);
            self.usable(from).filter(|_| may_answer)
        });
        let copy = match of_peer {
            Some(copy) if self.broken == Some(Broken::FreshFromPeer) => {
                Copy { fetched: self.now, ..copy }
            }
            Some(copy) => copy,
            None => Copy { version: self.version, fetched: fetch.begun },
        };
        self.nodes[node].fetch.as_mut().unwrap().copy = Some(copy);
    }

    fn crash(&mut self, node: usize, loses_disk: bool) {
        self.crashes += 1;
        let was_recovering = self.up(node).is_recovering();
        let node = &mut self.nodes[node];
        node.has_lost = was_recovering;
        (node.replica, node.fetch, node.question) = (None, None, None);
        node.acknowledgements.fill(None);
        if loses_disk {
            node.incarnation += 1;
            (node.ring, node.copy_on_disk, node.has_lost) = (Vector::default(), None, true);
        }
        node.copy = node.copy_on_disk;
    }

    fn start(&mut self, at: usize) {
        let patience = Patience { lease: LEASE, rest: LEASE / 10 };
        let config = Config { consistency: self.consistency, patience };
        let others: BTreeSet<MemberId> = (0..self.len()).map(name).collect();
        let node = &mut self.nodes[at];
        let own = Maker { member: name(at), incarnation: node.incarnation };
        let has_lost = node.has_lost && self.broken != Some(Broken::RecoveringCounts);
        let mut replica = Replica::new(own, config, node.ring.clone(), has_lost, self.now);
        replica.set_view(others, self.now);
        replica.join(false);
        (node.replica, node.has_lost) = (Some(replica), false);
    }

    fn judge(&mut self, copy: Copy, begun: Duration, what: &'static str) {
        let is_broken = |purge: &Purge| {
            purge.promised.is_some_and(|promised| begun > promised) && copy.version < purge.version
        };
        if self.purges.iter().any(is_broken) {
            self.wrong = Some(what);
        }
    }
}
