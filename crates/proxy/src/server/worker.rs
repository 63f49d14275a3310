//! One worker: a thread with a runtime of its own that owns everything its requests touch. What
//! workers share is in [`Shared`].

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use store::Key;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::client::connection_state::{ConnState, Cut, Phase};
use crate::client::crowd;
use crate::client::crowd::{Candidate, Crowd, Standing};
use crate::client::limits::ClientLimits;
use crate::client::tunnel_places::Places;
use crate::fill::memory_budget::Windows;
use crate::fill::missed_removals::Missed;
use crate::fill::neighbour_budget::Neighbours;
use crate::fill::registry::Fills;
use crate::fill::store_lease::Needs;
use crate::front::addresses::Addresses;
use crate::front::{connection, http2};
use crate::message::pseudonym::Pseudonym;
use crate::message::via::Via;
use crate::net::wall_clock;
use crate::net::wall_clock::WallClock;
use crate::object::purge_labels::ObjectLabels;
use crate::object::stored_response::Store;
use crate::object::variants::Variants;
use crate::observe::event::Event;
use crate::observe::observer::Observer;
use crate::options::Options;
use crate::options::control::State;
use crate::server::shortage::Shortage;
use crate::upstream::client::{FailureLog, Upstream};

/// Time that a connection on which nothing has come yet is given from when the drain begins, or
/// from when it was accepted if that was later: its first request may be on its way, and nobody
/// would send that again.
const FRESH: Duration = Duration::from_secs(1);

/// What all workers share.
pub(crate) struct Shared {
    pub observer: Arc<dyn Observer>,
    /// One permit for each connection that may be open.
    pub room: Arc<Semaphore>,
    /// Who makes way when there is no room.
    pub crowd: Arc<Crowd>,
    /// The connections of each client address.
    pub addresses: Arc<Addresses>,
    /// All permits are taken, and it was said.
    pub crowded: AtomicBool,
    pub wall_clock: WallClock,
    /// Of descriptors.
    pub descriptors: Shortage,
    /// Open connections of each worker.
    pub loads: Vec<AtomicUsize>,
    pub via: Via,
    pub pseudonym: Pseudonym,
    pub fills: Fills,
    pub neighbours: Neighbours,
    pub variants: Variants,
    pub missed: Missed,
    pub labels: Arc<ObjectLabels>,
    pub windows: Arc<Windows>,
    pub tunnels: Arc<Places>,
    pub failures: Arc<FailureLog>,
    /// Workers that have not ended yet.
    pub running: AtomicUsize,
    /// Workers that have not let go of the store yet.
    pub holding: AtomicUsize,
}

/// Options, and what follows from them.
pub(crate) struct Context {
    pub options: Arc<Options>,
    pub http1: http1::Builder,
    pub http2: h2::server::Builder,
}

impl Context {
    fn new(options: Arc<Options>) -> Rc<Context> {
        let http1 = connection::builder(&options.client);
        let http2 = http2::builder(&options.client, &options.http2);
        Rc::new(Context { options, http1, http2 })
    }
}

/// The state of one worker.
pub(crate) struct Worker {
    pub index: usize,
    pub shared: Arc<Shared>,
    pub observer: Arc<dyn Observer>,
    pub upstream: Rc<Upstream>,
    /// The sites whose neighbours are being validated here.
    pub attended: RefCell<HashSet<u64>>,
    /// Who needs the store.
    pub needs: Rc<Needs>,
    /// `None` while it is awaited.
    store: RefCell<Option<Option<Store>>>,
    context: RefCell<Rc<Context>>,
    connections: RefCell<HashMap<u64, Watched>>,
    next_id: Cell<u64>,
}

/// A connection as the sweep sees it.
struct Watched {
    state: Rc<ConnState>,
    /// When the phase was first seen.
    since: Instant,
    /// When the client was first seen to keep us waiting, and how many bytes it had moved then.
    blocked: Option<(Instant, u64)>,
}

/// What the sweep finds due.
enum Due {
    Cut(Cut),
    Park,
}

/// Unregisters a connection when dropped.
pub(crate) struct WatchGuard {
    worker: Rc<Worker>,
    id: u64,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        if let Some(watched) = self.worker.connections.borrow_mut().remove(&self.id) {
            watched.state.report_moved(&*self.worker.observer);
        }
        self.worker.shared.loads[self.worker.index].fetch_sub(1, Ordering::Relaxed);
        self.worker.observer.connection(false);
    }
}

impl Worker {
    pub fn new(index: usize, shared: Arc<Shared>, options: Arc<Options>) -> Rc<Worker> {
        Rc::new(Worker {
            index,
            observer: shared.observer.clone(),
            upstream: Rc::new(
                Upstream::new(&options.upstream, shared.observer.clone())
                    .with_log(shared.failures.clone())
                    .with_crowd(shared.crowd.clone()),
            ),
            shared,
            attended: RefCell::default(),
            needs: Rc::default(),
            store: RefCell::default(),
            context: RefCell::new(Context::new(options)),
            connections: RefCell::default(),
            next_id: Cell::new(0),
        })
    }

    /// The options in force.
    pub fn context(&self) -> Rc<Context> {
        self.context.borrow().clone()
    }

    /// The store, if there is one.
    pub fn store(&self) -> Option<Store> {
        self.store.borrow().clone().flatten()
    }

    /// The store is not there yet, but may come.
    pub fn awaits_store(&self) -> bool {
        self.store.borrow().is_none()
    }

    /// The store has come, or turned out not to.
    pub fn set_store(&self, store: Option<Store>) {
        *self.store.borrow_mut() = Some(store);
    }

    /// Whether a connection is open that waits for its first request, and is still let to.
    pub fn has_fresh(&self) -> bool {
        let waits = |watched: &Watched| watched.state.is_fresh() && !watched.state.draining();
        self.connections.borrow().values().any(waits)
    }

    /// Removes what is stored under these keys: now, or as soon as the store is there.
    pub async fn forget(&self, mut keys: Vec<Key>) {
        loop {
            if let Some(store) = self.store() {
                for key in &keys {
                    store.remove(key).await;
                }
                return;
            }
            if !self.awaits_store() {
                return;
            }
            keys = match self.shared.missed.remember(keys) {
                Ok(()) => return,
                Err(keys) => keys,
            };
            // It is just coming, or nothing more can be remembered.
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Registers a connection with the sweep. Its place in `loads` was taken at accept.
    pub fn watch(self: &Rc<Self>, state: &Rc<ConnState>) -> WatchGuard {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        state.came();
        let watched = Watched { state: state.clone(), since: Instant::now(), blocked: None };
        self.connections.borrow_mut().insert(id, watched);
        self.observer.connection(true);
        WatchGuard { worker: self.clone(), id }
    }

    /// The first so many of the connections that may make way.
    pub fn candidates(&self, most: usize) -> Vec<Candidate> {
        let now = Instant::now();
        let mut all = Vec::new();
        for (&id, watched) in &*self.connections.borrow() {
            let state = &watched.state;
            let since = state.since().unwrap_or(watched.since);
            let (phase, has_asked) = (state.phase(), state.has_asked());
            let standing = Standing { id, phase, has_asked, since };
            // What it has been told to end needs no second word.
            all.extend(standing.candidate(now).filter(|_| state.cut().is_none()));
        }
        crowd::first(all, most)
    }

    /// Closes those of these connections that have nothing under way still, and says how many.
    pub fn close(&self, ids: &[u64]) -> usize {
        let connections = self.connections.borrow();
        let found = ids.iter().filter_map(|id| connections.get(id));
        let waiting = found.filter(|watched| watched.state.phase() != Phase::Busy);
        let closed = waiting.inspect(|watched| watched.state.cut_now(Cut::Crowd)).count();
        self.observer.count(Event::ConnectionMadeWay, closed as u64);
        closed
    }

    /// Looks after time-outs and changes of the options until the drain begins.
    pub async fn sweep(&self, mut control: watch::Receiver<State>) {
        // What was told before this worker was there counts as news.
        control.mark_changed();
        // What changed before this worker listened is no change to it.
        control.mark_changed();
        let mut tick = interval(self.sweep_interval());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                now = tick.tick() => {
                    if let Some(step) = self.shared.wall_clock.step() {
                        log::warn!("{}", wall_clock::warning(step));
                        self.observer.count(Event::ClockSet, 1);
                    }
                    let context = self.context();
                    self.sweep_once(now.into_std(), &context.options.client);
                    self.upstream.prune(&context.options.upstream);
                }
                changed = control.changed() => {
                    let state = control.borrow_and_update().clone();
                    if changed.is_err() || state.draining {
                        return;
                    }
                    *self.context.borrow_mut() = Context::new(state.options);
                    tick = interval(self.sweep_interval());
                }
            }
        }
    }

    /// Lets running answers end, cuts the rest after the drain time.
    pub async fn drain(&self) {
        let limits = self.context().options.client.clone();
        let began = Instant::now();
        let deadline = began + limits.drain;
        let mut tick = interval(Duration::from_millis(10));
        while !self.connections.borrow().is_empty() {
            let now = tick.tick().await.into_std();
            if now >= deadline {
                for watched in self.connections.borrow().values() {
                    watched.state.cut_now(Cut::Drain);
                }
            }
            for watched in self.connections.borrow().values() {
                let fresh_since = watched.since.max(began);
                let spared =
                    watched.state.is_fresh() && now.saturating_duration_since(fresh_since) < FRESH;
                if !watched.state.draining() && !spared {
                    watched.state.drain();
                }
            }
        }
    }

    /// A quarter of the shortest bound, so that none is overrun by much. Parking may come late.
    fn sweep_interval(&self) -> Duration {
        let context = self.context();
        let limits = &context.options.client;
        let shortest = limits.head_timeout.min(limits.idle_timeout).min(limits.stall_timeout);
        let interval = (shortest / 4).min(limits.park_after);
        interval.clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    fn sweep_once(&self, now: Instant, limits: &ClientLimits) {
        for watched in self.connections.borrow_mut().values_mut() {
            match watched.check(now, limits) {
                Some(Due::Cut(cut)) => watched.state.cut_now(cut),
                Some(Due::Park) => watched.state.park(),
                None => {}
            }
            watched.state.check_uploads(now, limits);
        }
    }
}

impl Watched {
    fn check(&mut self, now: Instant, limits: &ClientLimits) -> Option<Due> {
        if self.state.take_changed() {
            self.since = now;
            self.blocked = None;
        }
        let waited = now.duration_since(self.since);
        match self.state.phase() {
            Phase::Idle if !self.state.blocked() => match waited {
                waited if waited >= limits.idle_timeout => Some(Due::Cut(Cut::Idle)),
                waited => (waited >= limits.park_after).then_some(Due::Park),
            },
            Phase::Head => (waited >= limits.head_timeout).then_some(Due::Cut(Cut::Head)),
            Phase::Idle | Phase::Busy => self.check_rate(now, limits).map(Due::Cut),
        }
    }

    fn check_rate(&mut self, now: Instant, limits: &ClientLimits) -> Option<Cut> {
        if !self.state.blocked() {
            self.blocked = None;
            return None;
        }
        let moved = self.state.moved();
        let (since, before) = *self.blocked.get_or_insert((now, moved));
        if now.duration_since(since) < limits.stall_timeout {
            return None;
        }
        self.blocked = Some((now, moved));
        (moved - before < limits.least_in_stall_timeout()).then_some(Cut::Stall)
    }
}
