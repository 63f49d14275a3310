//! Open connections of one worker: their timeouts, their candidates for closing, and their end on
//! shutdown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::Handshake;
use tokio::time::interval;

use crate::client::connection_state::{CloseReason, ConnectionState, Phase};
use crate::client::limits::ClientLimits;
use crate::client::reclaimer;
use crate::client::reclaimer::{Candidate, ConnectionActivity, Group};
use crate::downstream::connection_limit::ConnectionLimit;
use crate::downstream::http2;
use crate::downstream::http2::client_io::ClientIo;
use crate::observe::event::Event;
use crate::options::Options;
use crate::services::Services;

/// Grace for a connection without any received bytes, from the start of the drain or from accept,
/// whichever is later. Its first request may be on its way and would be lost.
const FRESH: Duration = Duration::from_secs(1);

/// Grace for a connection that waits for its next request, from its last response. A client that
/// sends one request after the other gets one more response, which says that it is the last.
const BUSY: Duration = Duration::from_millis(500);

pub(crate) struct Connections {
    pub index: usize,
    pub services: Rc<Services>,
    pub connection_limit: Arc<ConnectionLimit>,
    /// HTTP/2 server builder for the current options.
    http2: RefCell<h2::server::Builder>,
    /// Ordered by connection number, so that every sweep visits connections in the same order.
    open: RefCell<BTreeMap<u64, TrackedConnection>>,
    next_id: Cell<u64>,
}

/// A connection as the periodic sweep sees it.
struct TrackedConnection {
    state: Rc<ConnectionState>,
    group: Group,
    /// When the sweep first saw the current phase.
    since: Instant,
    /// When the proxy was first seen waiting for the client, and the bytes moved by then.
    blocked: Option<(Instant, u64)>,
}

/// Unregisters a connection on drop.
pub(crate) struct WatchGuard {
    connections: Rc<Connections>,
    id: u64,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let Connections { index, services, connection_limit, open, .. } = &*self.connections;
        if let Some(watched) = open.borrow_mut().remove(&self.id) {
            watched.state.report_moved(&*services.observer);
        }
        connection_limit.connection_ended(*index);
        services.observer.connection(false);
    }
}

impl Connections {
    /// Creates the empty table of worker `index`.
    pub fn new(
        index: usize,
        services: Rc<Services>,
        connection_limit: Arc<ConnectionLimit>,
    ) -> Rc<Connections> {
        let options = services.options();
        let http2 = RefCell::new(http2::builder(&options.client, &options.http2));
        Rc::new(Connections {
            index,
            services,
            connection_limit,
            http2,
            open: RefCell::default(),
            next_id: Cell::new(0),
        })
    }

    /// Begins the HTTP/2 handshake of a new connection.
    pub fn begin_http2(&self, io: ClientIo) -> Handshake<ClientIo, Bytes> {
        self.http2.borrow().handshake(io)
    }

    /// Applies new options to connections and requests that begin from now on.
    pub fn set_options(&self, options: Arc<Options>) {
        *self.http2.borrow_mut() = http2::builder(&options.client, &options.http2);
        self.services.set_options(options);
    }

    /// Returns whether a request is expected on any connection, also on one that was accepted for
    /// this worker but is not registered yet.
    pub fn expects_request(&self) -> bool {
        let open = self.open.borrow();
        open.values().any(|watched| watched.state.expects_request())
            || self.connection_limit.has_more(self.index, open.len())
    }

    /// Registers a connection with the sweep. The worker's load counted it at accept.
    pub fn watch(self: &Rc<Self>, state: &Rc<ConnectionState>, group: Group) -> WatchGuard {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        state.accepted();
        state.count_half_closed(&self.connection_limit.reclaimer.half_closed);
        let since = self.services.clock.instant();
        let watched = TrackedConnection { state: state.clone(), group, since, blocked: None };
        self.open.borrow_mut().insert(id, watched);
        self.services.observer.connection(true);
        WatchGuard { connections: self.clone(), id }
    }

    /// Returns the first `most` connections that may be closed, of one group or of all.
    pub fn candidates(&self, most: usize, of: Option<Group>) -> Vec<Candidate> {
        let now = self.services.clock.instant();
        let mut all = Vec::new();
        let open = self.open.borrow();
        let wanted = |watched: &TrackedConnection| of.is_none_or(|of| of == watched.group);
        for (&id, watched) in open.iter().filter(|(_, watched)| wanted(watched)) {
            let (state, group) = (&watched.state, watched.group);
            let since = state.since().unwrap_or(watched.since);
            let (phase, has_had_request) = (state.phase(), state.has_had_request());
            let may_be_gone = state.may_be_gone();
            let standing =
                ConnectionActivity { id, group, phase, has_had_request, may_be_gone, since };
            // A connection must not be closed while it is being cut or has unsent response bytes.
            let may_close = state.cut().is_none() && (may_be_gone || !state.is_answering());
            all.extend(standing.candidate(now).filter(|_| may_close));
        }
        reclaimer::first(all, most)
    }

    /// Closes those of these connections that may still be closed. Returns their number.
    pub fn close(&self, ids: &[u64]) -> usize {
        let connections = self.open.borrow();
        let found = ids.iter().filter_map(|id| connections.get(id));
        let may_close = |state: &ConnectionState| state.may_be_gone() || !state.is_answering();
        let waiting = found.filter(|watched| may_close(&watched.state));
        let closed =
            waiting.inspect(|watched| watched.state.cut_now(CloseReason::Reclaimed)).count();
        self.services.observer.count(Event::ConnectionReclaimed, closed as u64);
        closed
    }

    /// Closes up to `most` connections with a request for `servers` whose clients may be gone,
    /// oldest first. Returns their number.
    pub fn close_abandoned(&self, servers: usize, most: usize) -> usize {
        let connections = self.open.borrow();
        let left = connections.values().map(|watched| &watched.state).filter(|state| {
            state.cut().is_none() && state.may_be_gone() && state.servers() == servers
        });
        let mut left: Vec<_> = left.collect();
        left.sort_by_key(|state| state.since());
        left.truncate(most);
        left.iter().for_each(|state| state.cut_now(CloseReason::Reclaimed));
        left.len()
    }

    /// Lets running responses finish, then cuts the remaining connections when the drain time is
    /// over or `is_cut` returns true. Until then it also waits for connections accepted for this
    /// worker but not registered yet.
    pub async fn drain(&self, is_cut: impl Fn() -> bool) {
        let limits = self.services.options().client.clone();
        let began = self.services.clock.instant();
        let deadline = began + limits.drain;
        let mut tick = interval(Duration::from_millis(10));
        let mut now = began;
        while !self.open.borrow().is_empty()
            || (now < deadline && !is_cut() && self.connection_limit.has_more(self.index, 0))
        {
            now = tick.tick().await.into_std();
            if now >= deadline || is_cut() {
                for watched in self.open.borrow().values() {
                    watched.state.cut_now(CloseReason::Drain);
                }
            }
            for watched in self.open.borrow().values() {
                watched.end(now, began);
            }
        }
    }

    /// Returns the time between two sweeps: a quarter of the shortest timeout, from 5 ms to 1 s, so
    /// that no timeout is exceeded by much.
    pub fn sweep_interval(&self) -> Duration {
        let options = self.services.options();
        let limits = &options.client;
        let shortest = limits.head_timeout.min(limits.idle_timeout).min(limits.stall_timeout);
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// Cuts the connections that have exceeded a timeout.
    pub fn sweep(&self, now: Instant, limits: &ClientLimits) {
        for watched in self.open.borrow_mut().values_mut() {
            if let Some(cut) = watched.check(now, limits) {
                watched.state.cut_now(cut);
            }
            watched.state.check_uploads(now, limits);
            watched.state.look_for_end();
        }
    }
}

impl TrackedConnection {
    /// Tells the client, in the drain that `began`, that the connection ends, and closes it if no
    /// request is expected.
    fn end(&self, now: Instant, began: Instant) {
        let state = &self.state;
        let is_over = |since, grace| now.saturating_duration_since(since) >= grace;
        let is_spared = match state.is_fresh() {
            true => !is_over(self.since.max(began), FRESH),
            false => !is_over(state.since().unwrap_or(self.since), BUSY),
        };
        // A new HTTP/2 client could lose its first request by a GOAWAY.
        if !(state.draining() || state.is_fresh() && is_spared) {
            state.drain();
        }
        let waits = state.is_fresh() || state.phase() != Phase::Busy;
        if waits && !is_spared && !state.closes_idle() {
            state.close_idle();
        }
    }

    fn check(&mut self, now: Instant, limits: &ClientLimits) -> Option<CloseReason> {
        if self.state.take_changed() {
            self.since = now;
            self.blocked = None;
        }
        let waited = now.duration_since(self.since);
        match self.state.phase() {
            Phase::Idle if !self.state.blocked() => {
                (waited >= limits.idle_timeout).then_some(CloseReason::Idle)
            }
            Phase::Head => (waited >= limits.head_timeout).then_some(CloseReason::Head),
            Phase::Idle | Phase::Busy => self.check_rate(now, limits),
        }
    }

    fn check_rate(&mut self, now: Instant, limits: &ClientLimits) -> Option<CloseReason> {
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
        (moved - before < limits.least_in_stall_timeout()).then_some(CloseReason::Stall)
    }
}
