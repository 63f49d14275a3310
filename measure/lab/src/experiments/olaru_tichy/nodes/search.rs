//! Lookups of a document at a node: it plans, asks other nodes, joins running fetches, and responds
//! to other nodes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use device::{Clock, Nanos};
use fleet::Policy;
use fleet::breaker::{Breaker, Permit};
use fleet::lookup::{self, Ask, Asked, LookupPlan, Reach, Request, Step};
use fleet::popularity::Hotness;
use workload::contents::mix;

use super::{BREAKER, MESSAGE, Nodes};
use crate::experiments::olaru_tichy::counts::Source;
use crate::experiments::olaru_tichy::exchange;

/// The interval in which requests for a document are counted.
const SPAN: Nanos = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Answer {
    source: Source,
    /// Number of owners of the document, by its popularity.
    owners: u32,
}

/// A running fetch that other requests may join.
pub(super) struct Running {
    plan: LookupPlan,
    /// The result: true if it delivered the document; `None` while it runs.
    end: Cell<Option<bool>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Running {
    fn new(plan: LookupPlan) -> Rc<Running> {
        Rc::new(Running { plan, end: Cell::new(None), waiting: RefCell::default() })
    }

    async fn wait(&self) -> bool {
        poll_fn(|context| match self.end.get() {
            Some(brought) => Poll::Ready(brought),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn end(&self, brought: bool) {
        self.end.set(Some(brought));
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// Recent popularity of documents at a node.
#[derive(Default)]
pub(super) struct Popular(HashMap<u32, Popularity>);

#[derive(Clone, Copy, Default)]
struct Popularity {
    span: Nanos,
    requests: u64,
    owners: u32,
    /// The number of owners that an owner stated, and until when it is valid.
    reported: (u32, Nanos),
}

impl Popular {
    /// Counts a request; returns the number of owners of the document.
    fn note(&mut self, document: u32, now: Nanos, hot: Hotness) -> u32 {
        let span = now / SPAN;
        let known = self.0.entry(document).or_default();
        if known.span != span {
            let last = if known.span + 1 == span { known.requests } else { 0 };
            known.owners = hot.owners(last, known.owners.max(1));
            (known.span, known.requests) = (span, 0);
        }
        known.requests += 1;
        let (reported, until) = known.reported;
        if now < until { known.owners.max(reported) } else { known.owners }
    }

    fn note_reported(&mut self, document: u32, now: Nanos, owners: u32) {
        self.0.entry(document).or_default().reported = (owners, now + SPAN);
    }
}

impl Nodes {
    /// Looks up a document at a node; returns `None` if it was not found.
    pub(super) async fn look_up(
        self: Rc<Nodes>,
        at: usize,
        document: u32,
        asked: Asked,
    ) -> Option<Source> {
        let owners = self.owners_of_hot(at, document);
        let node = &self.nodes[at];
        let to_the_disk = matches!(&asked, Asked::ByPeer { reach: Reach::Origin, .. })
            && !self.setup.memory_for_peers;
        if !to_the_disk && node.memory.borrow_mut().touch(document) {
            return Some(Source::Memory);
        }
        let mut plan = self.plan(at, document, &asked, owners, &self.known_policy(at, document))?;
        if to_the_disk {
            plan.steps.retain(|step| *step != Step::OwnMemory);
        }
        let running = node.running.borrow().get(&document).cloned();
        if let Some(running) = running
            && lookup::may_follow(&asked, &running.plan)
            && running.wait().await
        {
            return Some(Source::Joined);
        }
        let fetches = !matches!(&asked, Asked::ByPeer { reach, .. } if *reach < Reach::Origin);
        let running = fetches.then(|| Running::new(plan.clone()));
        if let Some(running) = &running {
            node.running.borrow_mut().insert(document, Rc::clone(running));
        }
        let found = self.walk(at, document, &plan).await;
        if let Some(running) = running {
            let mut all = node.running.borrow_mut();
            if all.get(&document).is_some_and(|known| Rc::ptr_eq(known, &running)) {
                all.remove(&document);
            }
            drop(all);
            running.end(found.is_some());
        }
        if found.is_some() {
            self.learn_size(at, document);
            // The response tells the class of the document.
            let plan = self.plan(at, document, &asked, owners, &self.policy(document))?;
            self.keep(at, document, plan.keep);
        }
        found
    }

    /// Plans a lookup by this policy from the node's knowledge.
    fn plan(
        &self,
        at: usize,
        document: u32,
        asked: &Asked,
        owners: u32,
        policy: &Policy,
    ) -> Option<LookupPlan> {
        let node = &self.nodes[at];
        let key = Nodes::key(document);
        let hinted: Vec<_> = node.hints.borrow().holders(key).cloned().collect();
        let (members, previous) = (self.members(), self.previous());
        let avoid = self.avoid(at);
        let bound = self.setup.bound;
        let view = exchange::view(&node.id, &members, &previous, &hinted, &avoid, bound);
        let on_own_disk = self.is_on_disk(at, document);
        let request =
            Request { key, asked: asked.clone(), on_own_disk, hot_owners: owners as usize };
        let mut plan = lookup::plan(&request, policy, &view).ok()?;
        if matches!(asked, Asked::ByClient) && !on_own_disk {
            let siblings = self.siblings(at, document).into_iter().map(Step::Ask);
            let before = plan.steps.len().saturating_sub(1);
            plan.steps.splice(before..before, siblings);
        }
        Some(plan)
    }

    /// Executes the steps of a plan until one finds the document.
    async fn walk(self: &Rc<Nodes>, at: usize, document: u32, plan: &LookupPlan) -> Option<Source> {
        for step in &plan.steps {
            let found = match step {
                Step::OwnMemory => {
                    let found = self.nodes[at].memory.borrow_mut().touch(document);
                    found.then_some(Source::Memory)
                }
                Step::OwnDisk => self.read(at, document).await,
                Step::Ask(ask) => self.ask(at, document, ask).await,
                Step::Origin => self.fetch(document).await,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    async fn read(&self, at: usize, document: u32) -> Option<Source> {
        if self.setup.storage != super::Storage::All {
            let has = self.nodes[at].cache.borrow_mut().touch(document);
            has.then_some(())?;
        }
        self.counts.borrow_mut().disk_reads += 1;
        let (position, size) = (mix(u64::from(document)) as u32, self.blocks(document));
        self.nodes[at].disk.transfer(&self.clock, position, size).await;
        Some(Source::Disk)
    }

    async fn fetch(&self, document: u32) -> Option<Source> {
        {
            let mut counts = self.counts.borrow_mut();
            counts.origin[0] += 1;
            counts.origin[1] += self.documents.size(document);
        }
        self.clock.sleep_until(self.clock.now() + self.setup.origin).await;
        Some(Source::Origin)
    }

    /// Asks another node and waits at most until the timeout.
    async fn ask(self: &Rc<Nodes>, at: usize, document: u32, ask: &Ask) -> Option<Source> {
        let to = *self.places.get(&ask.member)?;
        let permit = self.permit(at, to);
        if permit == Permit::No {
            return None;
        }
        self.note_message(1, MESSAGE);
        self.clock.sleep_until(self.clock.now() + self.setup.hardware.latency).await;
        let asked = exchange::asked(ask, &self.nodes[at].id);
        let answer = self.clock.spawn(Rc::clone(self).answer(to, document, asked));
        let deadline = self.clock.now() + self.setup.timeout;
        let answer = sim::until(&self.clock, deadline, answer).await;
        self.note_end(at, to, permit, answer.is_some());
        if answer.is_none() {
            self.counts.borrow_mut().timeouts += 1;
        }
        match answer.flatten() {
            Some(answer) => {
                if self.setup.reports_owners && answer.owners > 1 {
                    let mut popular = self.nodes[at].popular.borrow_mut();
                    popular.note_reported(document, self.clock.now(), answer.owners);
                }
                Some(answer.source.of_peer())
            }
            None => {
                self.nodes[at].hints.borrow_mut().forget(Nodes::key(document), &ask.member);
                None
            }
        }
    }

    /// Responds to another node. A node that is down never responds.
    fn answer(
        self: Rc<Nodes>,
        at: usize,
        document: u32,
        asked: Asked,
    ) -> Pin<Box<dyn Future<Output = Option<Answer>>>> {
        Box::pin(async move {
            let node = &self.nodes[at];
            if !node.is_up.get() {
                return std::future::pending().await;
            }
            node.load.set(node.load.get() + 1);
            node.answers.set(node.answers.get() + 1);
            node.processor.serve(&self.clock, self.setup.hardware.peer[0] / 2).await;
            if node.delay.get() > 0 {
                self.clock.sleep_until(self.clock.now() + node.delay.get()).await;
            }
            let source = Rc::clone(&self).look_up(at, document, asked).await;
            if source.is_some() {
                self.send(at, self.blocks(document)).await;
            }
            node.load.set(node.load.get() - 1);
            let owners = node.popular.borrow().0.get(&document).map_or(1, |known| known.owners);
            source.map(|source| Answer { source, owners })
        })
    }

    fn owners_of_hot(&self, at: usize, document: u32) -> u32 {
        let Some(hot) = self.setup.hot else { return 1 };
        self.nodes[at].popular.borrow_mut().note(document, self.clock.now(), hot)
    }

    fn permit(&self, at: usize, to: usize) -> Permit {
        let mut breakers = self.nodes[at].breakers.borrow_mut();
        breakers.get_mut(&to).map_or(Permit::Yes, |breaker| breaker.permit(self.now()))
    }

    fn note_end(&self, at: usize, to: usize, permit: Permit, answered: bool) {
        let mut breakers = self.nodes[at].breakers.borrow_mut();
        if answered {
            if let Some(breaker) = breakers.get_mut(&to) {
                breaker.succeeded(permit);
            }
        } else if self.setup.breakers {
            let seed = (at * self.nodes.len() + to) as u64;
            if !breakers.contains_key(&to)
                && let Ok(breaker) = Breaker::new(BREAKER, seed)
            {
                breakers.insert(to, breaker);
            }
            if let Some(breaker) = breakers.get_mut(&to) {
                breaker.failed(permit, self.now());
            }
        }
    }
}
