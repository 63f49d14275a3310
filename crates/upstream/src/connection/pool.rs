//! Open upstream connections of a worker: idle HTTP/1.1 connections, each for one request at a
//! time, and shared HTTP/2 connections.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use http::Request;
use indexmap::IndexMap;
use tokio::sync::Notify;

use crate::connection::http1::Http1;
use crate::connection::http2::Http2;
use crate::connection::overrun::{OverrunWatch, ResponseKind};
use crate::connection::request_body::OutBody;
use crate::connection::stream::Unread;
use crate::settings::endpoint::{At, Endpoint};
use crate::settings::limits::Check;
use crate::settings::limits::UpstreamLimits;
use net::clock::TokioClock;

/// Idle time after which a connection frees its buffers.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of requests whose memory is kept.
const REQUESTS_MAX: usize = 64;

/// Open upstream connections of one worker.
pub(crate) struct Pool {
    pub clock: TokioClock,
    watch: OverrunWatch,
    /// In the order in which origins were first used, so that a simulation is determined by its
    /// seed.
    slots: RefCell<IndexMap<Arc<Endpoint>, Slot, RandomState>>,
    count: Rc<Cell<usize>>,
    /// Reusable memory for requests.
    #[expect(clippy::vec_box, reason = "the boxes are used again, not only the requests")]
    requests: RefCell<Vec<Box<Request<OutBody>>>>,
}

#[derive(Default)]
struct Slot {
    idle: Vec<Idle>,
    shared: Vec<Rc<Http2>>,
    /// Set while a connection that may be shared is being opened; other requests wait for it.
    opening: Option<Rc<Notify>>,
    /// True once the origin chose HTTP/1.1, so requests need not wait for a shared connection.
    is_http1: bool,
}

struct Idle {
    connection: Box<Http1>,
    since: Instant,
    /// `None` if only the number per origin is limited.
    _counted: Option<Counted>,
}

/// Guard that counts an idle connection of the worker.
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection that is ready for a request.
pub(crate) enum Connection {
    Http1(Box<Http1>),
    Http2(Rc<Http2>),
}

impl Connection {
    /// Returns the address of the server; `None` for a Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Connection::Http1(connection) => connection.address,
            Connection::Http2(connection) => connection.peer.address,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct PoolLimits {
    pub per_origin: usize,
    /// `None`: unlimited, and not counted for the limit of others.
    pub total: Option<usize>,
}

impl PoolLimits {
    pub fn of(limits: &UpstreamLimits) -> PoolLimits {
        let total = Some(limits.idle_total).filter(|total| *total < usize::MAX);
        PoolLimits { per_origin: limits.idle_per_origin, total }
    }
}

/// Returns whether a connection to `address` may be used for the request that `check` is for.
pub(crate) fn may_use(endpoint: &Endpoint, address: Option<IpAddr>, check: Check<'_>) -> bool {
    match (&endpoint.at, address) {
        (At::Tcp(_, port), Some(ip)) => check(SocketAddr::new(ip, *port)),
        (At::Unix(_), _) => true,
        (At::Tcp(..), None) => false,
    }
}

/// Wakes the requests that wait for a connection being opened, on drop.
pub(crate) struct Opening<'a> {
    pool: &'a Pool,
    endpoint: &'a Endpoint,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut slots = self.pool.slots.borrow_mut();
        let waiting = slots.get_mut(self.endpoint).and_then(|slot| slot.opening.take());
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
    }
}

impl Pool {
    pub fn new(watch: OverrunWatch) -> Pool {
        let (slots, count, requests) = Default::default();
        Pool { clock: watch.clock, watch, slots, count, requests }
    }

    /// Returns an empty request, reusing the memory of a finished one.
    pub fn request(&self) -> Box<Request<OutBody>> {
        let spare = self.requests.borrow_mut().pop();
        let mut request = spare.unwrap_or_else(|| Box::new(Request::new(OutBody::Empty)));
        request.extensions_mut().clear();
        request
    }

    /// Returns whether an idle connection can be used: the origin has neither closed it nor sent
    /// anything, and reuse is permitted after its last response.
    pub fn is_usable(&self, endpoint: &Endpoint, connection: &mut Http1) -> bool {
        let unread = connection.unread();
        if unread == Unread::Bytes {
            self.overran(endpoint, connection.suspect);
        }
        unread == Unread::Nothing && self.watch.permits_reuse(endpoint, connection.last)
    }

    /// Returns whether a connection whose response has just ended can be kept. Makes no system
    /// call; the socket is checked before the next use.
    pub fn is_reusable(&self, endpoint: &Endpoint, connection: &Http1) -> bool {
        if connection.has_input() {
            self.overran(endpoint, connection.suspect);
            return false;
        }
        self.watch.permits_reuse(endpoint, connection.last)
    }

    /// Records that bytes arrived after a response, probably of this kind.
    pub fn overran(&self, endpoint: &Endpoint, after: ResponseKind) {
        self.watch.note(endpoint, after);
    }

    /// Closes connections that have been idle for too long. Must be called periodically.
    pub fn prune(&self, limits: &UpstreamLimits) {
        let mut slots = self.slots.borrow_mut();
        let now = self.clock.instant();
        let young = |since: Instant| now.duration_since(since) < limits.idle_timeout;
        slots.retain(|endpoint, slot| {
            slot.idle.retain_mut(|idle| {
                self.is_usable(endpoint, &mut idle.connection) && young(idle.since)
            });
            let long = |idle: &&mut Idle| now.duration_since(idle.since) >= SHRINK_AFTER;
            slot.idle.iter_mut().filter(long).for_each(|idle| idle.connection.shrink());
            slot.shared.retain(|shared| shared.is_open() && shared.idle_since().is_none_or(young));
            !slot.idle.is_empty() || !slot.shared.is_empty() || slot.opening.is_some()
        });
    }

    pub fn close_idle(&self) -> usize {
        let mut closed = 0;
        for slot in self.slots.borrow_mut().values_mut() {
            let before = slot.idle.len() + slot.shared.len();
            slot.idle.clear();
            slot.shared.retain(|shared| shared.idle_since().is_none());
            closed += before - slot.shared.len();
        }
        closed
    }

    /// Takes a connection that can be used at once. `current` holds the current addresses of the
    /// origin's name; connections to other addresses are closed or retired.
    pub fn take(
        &self,
        endpoint: &Endpoint,
        limits: &UpstreamLimits,
        check: Check<'_>,
        current: Option<&[IpAddr]>,
    ) -> Option<Connection> {
        let leads_there = |address: Option<IpAddr>| match (current, address) {
            (Some(current), Some(address)) => current.contains(&address.to_canonical()),
            _ => true,
        };
        let mut slots = self.slots.borrow_mut();
        let Slot { idle, shared, .. } = slots.get_mut(endpoint)?;
        shared.retain(|shared| {
            if !leads_there(shared.peer.address) {
                shared.retire();
            }
            shared.is_open()
        });
        let fits = |shared: &&Rc<Http2>| {
            shared.has_room() && may_use(endpoint, shared.peer.address, check)
        };
        if let Some(shared) = shared.iter().find(fits) {
            return Some(Connection::Http2(shared.clone()));
        }
        let now = self.clock.instant();
        let mut i = idle.len();
        while i > 0 {
            i -= 1;
            let Idle { connection, since, .. } = &mut idle[i];
            if now.duration_since(*since) >= limits.idle_timeout
                || !leads_there(connection.address)
                || !self.is_usable(endpoint, connection)
            {
                idle.swap_remove(i);
            } else if may_use(endpoint, connection.address, check) {
                return Some(Connection::Http1(idle.swap_remove(i).connection));
            }
        }
        None
    }

    /// Keeps a connection, unless a limit is reached.
    pub fn put(&self, endpoint: Arc<Endpoint>, mut connection: Box<Http1>, limits: PoolLimits) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() < REQUESTS_MAX {
            requests.extend(connection.spare.take());
        }
        drop(requests);
        let mut slots = self.slots.borrow_mut();
        let list = &mut slots.entry(endpoint).or_default().idle;
        let has_room = limits.total.is_none_or(|total| self.count.get() < total);
        if list.len() < limits.per_origin && has_room {
            let _counted = limits.total.map(|_| Counted::new(&self.count));
            list.push(Idle { connection, since: self.clock.instant(), _counted });
        }
    }

    /// Keeps a connection that further requests share.
    pub fn share(&self, endpoint: &Arc<Endpoint>, connection: Rc<Http2>) {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.entry(endpoint.clone()).or_default();
        slot.is_http1 = false;
        slot.shared.push(connection);
    }

    /// Records that the origin chose HTTP/1.1.
    pub fn is_http1(&self, endpoint: &Arc<Endpoint>) {
        self.slots.borrow_mut().entry(endpoint.clone()).or_default().is_http1 = true;
    }

    /// Waits while another request opens a connection that may be shared. Returns false if none
    /// does.
    pub async fn wait(&self, endpoint: &Endpoint) -> bool {
        let opening = {
            let slots = self.slots.borrow();
            slots.get(endpoint).filter(|slot| !slot.is_http1).and_then(|slot| slot.opening.clone())
        };
        let Some(opening) = opening else { return false };
        opening.notified().await;
        true
    }

    /// Marks a connection as being opened, until the return value is dropped.
    pub fn open<'a>(&'a self, endpoint: &'a Arc<Endpoint>) -> Opening<'a> {
        let mut slots = self.slots.borrow_mut();
        slots.entry(endpoint.clone()).or_default().opening.get_or_insert_default();
        Opening { pool: self, endpoint }
    }
}
