//! The connections to origins that wait for their next request, per worker.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hyper::client::conn::http1::SendRequest;
use tokio::task::AbortHandle;

use super::Check;
use super::origin::{At, Origin};
use crate::options::UpstreamLimits;
use crate::out_body::OutBody;

/// See the module.
#[derive(Default)]
pub(super) struct Pool {
    idle: RefCell<HashMap<Arc<Origin>, Vec<Idle>>>,
    count: Rc<Cell<usize>>,
}

struct Idle {
    connection: Connection,
    since: Instant,
    _counted: Counted,
}

/// Counts the idle connections of a worker.
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

/// One connection: dropped, it is closed.
pub(super) struct Connection {
    pub sender: SendRequest<OutBody>,
    /// The other end; `None` for a socket in the file system.
    pub address: Option<IpAddr>,
    pub task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How many connections are kept.
#[derive(Clone, Copy)]
pub(super) struct PoolLimits {
    pub per_origin: usize,
    pub total: usize,
}

impl PoolLimits {
    pub fn of(limits: &UpstreamLimits) -> PoolLimits {
        PoolLimits { per_origin: limits.idle_per_origin, total: limits.idle_total }
    }
}

/// Whether a connection to `address` may be used for the request that `check` is about.
pub(super) fn may_use(origin: &Origin, address: Option<IpAddr>, check: Check<'_>) -> bool {
    match (&origin.at, address) {
        (At::Tcp(_, port), Some(ip)) => check(SocketAddr::new(ip, *port)).is_ok(),
        (At::Unix(_), _) => true,
        (At::Tcp(..), None) => false,
    }
}

impl Pool {
    /// Closes connections that idle for too long. To be called now and then.
    pub fn prune(&self, limits: &UpstreamLimits) {
        let mut idle = self.idle.borrow_mut();
        let now = Instant::now();
        idle.retain(|_, list| {
            list.retain(|idle| {
                !idle.connection.sender.is_closed()
                    && now.duration_since(idle.since) < limits.idle_timeout
            });
            !list.is_empty()
        });
    }

    /// A connection that can be used at once.
    pub fn take(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(origin)?;
        let now = Instant::now();
        let mut i = list.len();
        while i > 0 {
            i -= 1;
            let connection = &list[i].connection;
            if connection.sender.is_closed()
                || now.duration_since(list[i].since) >= limits.idle_timeout
            {
                list.swap_remove(i);
            } else if connection.sender.is_ready() && may_use(origin, connection.address, check) {
                return Some(list.swap_remove(i).connection);
            }
        }
        None
    }

    /// Keeps a connection, if there is room.
    pub fn put(&self, origin: Arc<Origin>, connection: Connection, limits: PoolLimits) {
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let list = idle.entry(origin).or_default();
        if list.len() < limits.per_origin && self.count.get() < limits.total {
            let counted = Counted::new(&self.count);
            list.push(Idle { connection, since: Instant::now(), _counted: counted });
        }
    }
}
