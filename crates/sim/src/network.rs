//! A network in virtual time: hosts with addresses, listeners, and connections that are streams of
//! bytes, with delays, limited buffers, partitions, resets and silence.
//!
//! It exists so that several servers and their clients run in one thread, on the clock of a tokio
//! runtime that is paused, with a network that fails as it is told to. It is a model of what a
//! program sees of TCP, not of TCP: what is sent arrives once, in order and whole, or the
//! connection is reset, or nothing comes any more. Where the way is cut bytes wait, as those do
//! that are sent again and again, and arrive when it is whole; so does the room that the reader
//! makes.
//!
//! It promises: everything follows from the calls and the seed. [`Network::events`] says what
//! happened, so that a test can compare two runs.

mod connection;
mod listener;
mod pipe;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

pub use connection::Connection;
pub use listener::Listener;

use connection::Ends;
use listener::Queue;
use pipe::Pipe;

/// How the way from one host to another is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// How long what is sent is on its way; chosen anew each time.
    pub delay: RangeInclusive<Duration>,
    /// Of a million writes, so many have the connection reset.
    pub resets: u32,
    /// Of a million writes, so many are the last of which anything arrives.
    pub silences: u32,
    /// Bytes of a direction that are written and not read yet, at most.
    pub buffer: usize,
}

impl Default for Link {
    fn default() -> Link {
        let delay = Duration::from_millis(1)..=Duration::from_millis(3);
        Link { delay, resets: 0, silences: 0, buffer: 64 << 10 }
    }
}

/// What happened on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the network was made.
    pub at: Duration,
    /// Who did it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// What it was.
    pub what: What,
}

/// See [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A connection was made.
    Connected,
    /// Nobody listens there.
    Refused,
    /// So many bytes were sent.
    Sent(usize),
    /// The end was sent.
    Ended,
    /// The connection was reset.
    Reset,
    /// From here on nothing arrives.
    Silent,
}

/// A network. A clone is another handle on it.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// A way was cut or made whole, or a host came or went.
    changed: Notify,
    began: Instant,
}

struct State {
    random: Rng,
    link: Link,
    links: BTreeMap<(IpAddr, IpAddr), Link>,
    /// Ways on which nothing gets through.
    cut: BTreeSet<(IpAddr, IpAddr)>,
    names: BTreeMap<String, IpAddr>,
    ports: BTreeMap<IpAddr, u16>,
    listeners: BTreeMap<SocketAddr, Arc<Queue>>,
    /// Both directions of all connections, by who sends and who reads.
    pipes: BTreeMap<(SocketAddr, SocketAddr), Arc<Mutex<Pipe>>>,
    events: Vec<Event>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}

/// A host of a network: where connections come from.
#[derive(Clone, Debug)]
pub struct Host {
    network: Network,
    address: IpAddr,
}

impl Network {
    /// A network without hosts, on which every way is as `link` says. To be made within the
    /// runtime.
    pub fn new(seed: u64, link: Link) -> Network {
        let state = State {
            random: Rng::with_seed(seed),
            link,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            names: BTreeMap::new(),
            ports: BTreeMap::new(),
            listeners: BTreeMap::new(),
            pipes: BTreeMap::new(),
            events: Vec::new(),
        };
        let (state, changed) = (Mutex::new(state), Notify::new());
        Network(Arc::new(Shared { state, changed, began: Instant::now() }))
    }

    /// A host with a name and an address of its own; the same one again when it is known.
    pub fn host(&self, name: &str) -> Host {
        let mut state = self.state();
        let number = u32::try_from(state.names.len()).unwrap_or(u32::MAX) + 1;
        let fresh = IpAddr::from((0xc633_6400_u32 + number).to_be_bytes());
        let address = *state.names.entry(name.to_owned()).or_insert(fresh);
        drop(state);
        Host { network: self.clone(), address }
    }

    /// A host with a name and the address that is given.
    pub fn host_at(&self, name: &str, address: IpAddr) -> Host {
        self.state().names.insert(name.to_owned(), address);
        Host { network: self.clone(), address }
    }

    /// The address of a name.
    pub fn lookup(&self, name: &str) -> Option<IpAddr> {
        self.state().names.get(name).copied()
    }

    /// Has the way from one host to another be as `link` says from now on.
    pub fn set_link(&self, from: IpAddr, to: IpAddr, link: Link) {
        self.state().links.insert((from, to), link);
    }

    /// Cuts the way from one host to another; what goes the other way still arrives, but is not
    /// acknowledged.
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        self.state().cut.insert((from, to));
    }

    /// Makes the way from one host to another whole: what waited arrives.
    pub fn mend(&self, from: IpAddr, to: IpAddr) {
        let mut state = self.state();
        state.cut.remove(&(from, to));
        let touched = |key: &(SocketAddr, SocketAddr)| {
            (key.0.ip(), key.1.ip()) == (from, to) || (key.1.ip(), key.0.ip()) == (from, to)
        };
        let pipes: Vec<_> = state.pipes.iter().filter(|(key, _)| touched(key)).collect();
        let pipes: Vec<_> = pipes.into_iter().map(|(key, pipe)| (*key, pipe.clone())).collect();
        for (key, pipe) in pipes {
            let arrives = Instant::now() + state.delay(key.0.ip(), key.1.ip());
            let mut pipe = lock(&pipe);
            if !state.is_cut(key.0, key.1) {
                pipe.release(arrives);
            }
            if !state.is_cut(key.1, key.0) {
                pipe.acknowledge();
            }
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Cuts both ways between two hosts.
    pub fn part(&self, a: IpAddr, b: IpAddr) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Makes both ways between two hosts whole.
    pub fn join(&self, a: IpAddr, b: IpAddr) {
        self.mend(a, b);
        self.mend(b, a);
    }

    /// Resets all connections between two hosts.
    pub fn reset(&self, a: IpAddr, b: IpAddr) {
        let mut state = self.state();
        let between = |key: &(SocketAddr, SocketAddr)| {
            let ips = (key.0.ip(), key.1.ip());
            ips == (a, b) || ips == (b, a)
        };
        let pipes: Vec<_> = state.pipes.iter().filter(|(key, _)| between(key)).collect();
        let pipes: Vec<_> = pipes.into_iter().map(|(key, pipe)| (*key, pipe.clone())).collect();
        for ((from, to), pipe) in pipes {
            lock(&pipe).reset();
            state.note(self.0.began, from, to, What::Reset);
        }
    }

    /// What happened so far.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn note(&self, from: SocketAddr, to: SocketAddr, what: What) {
        self.state().note(self.0.began, from, to, what);
    }

    /// Waits until something can get from one host to another and back.
    async fn whole(&self, a: IpAddr, b: IpAddr) {
        loop {
            let changed = self.0.changed.notified();
            {
                let state = self.state();
                if !state.cut.contains(&(a, b)) && !state.cut.contains(&(b, a)) {
                    return;
                }
            }
            changed.await;
        }
    }
}

impl State {
    fn link(&self, from: IpAddr, to: IpAddr) -> &Link {
        self.links.get(&(from, to)).unwrap_or(&self.link)
    }

    fn delay(&mut self, from: IpAddr, to: IpAddr) -> Duration {
        let range = self.link(from, to).delay.clone();
        let nanos = |duration: &Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let (least, most) = (nanos(range.start()), nanos(range.end()));
        Duration::from_nanos(self.random.u64(least..=most.max(least)))
    }

    fn is_cut(&self, from: SocketAddr, to: SocketAddr) -> bool {
        self.cut.contains(&(from.ip(), to.ip()))
    }

    fn note(&mut self, began: Instant, from: SocketAddr, to: SocketAddr, what: What) {
        self.events.push(Event { at: began.elapsed(), from, to, what });
    }
}

impl Host {
    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Listens at a port, until the listener and its clones are gone.
    ///
    /// # Errors
    ///
    /// When somebody listens there already.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        let address = SocketAddr::new(self.address, port);
        let mut state = self.network.state();
        if state.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let queue = Arc::new(Queue::default());
        state.listeners.insert(address, queue.clone());
        Ok(Listener::new(self.network.clone(), address, queue))
    }

    /// Connects to an address: after a way there and back, when both are whole.
    ///
    /// # Errors
    ///
    /// When nobody listens there.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<Connection> {
        let network = &self.network;
        let from = SocketAddr::new(self.address, self.port());
        network.whole(from.ip(), to.ip()).await;
        let there = network.state().delay(from.ip(), to.ip());
        sleep(there).await;
        network.whole(from.ip(), to.ip()).await;
        let queue = network.state().listeners.get(&to).cloned();
        let Some(queue) = queue else {
            network.note(from, to, What::Refused);
            let back = network.state().delay(to.ip(), from.ip());
            sleep(back).await;
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let ends = Ends { near: from, far: to };
        let (near, far) = Connection::pair(network, ends);
        network.note(from, to, What::Connected);
        queue.push(far, from);
        let back = network.state().delay(to.ip(), from.ip());
        sleep(back).await;
        Ok(near)
    }

    fn port(&self) -> u16 {
        let mut state = self.network.state();
        let last = state.ports.entry(self.address).or_insert(32_767);
        *last = last.checked_add(1).unwrap_or(32_768);
        *last
    }
}

/// Nothing under these locks can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
