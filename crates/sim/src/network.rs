//! A network in virtual time: hosts with addresses, listeners, and connections that are streams of
//! bytes, with delays, limited buffers, partitions, resets and silent losses.
//!
//! It lets several servers and their clients run in one thread, on the paused clock of a tokio
//! runtime, with a network that fails on command. It models the behaviour of TCP as programs see
//! it, not the protocol: sent bytes arrive once, in order and complete, or the connection is reset,
//! or nothing more arrives. While a path is cut, bytes wait, like retransmitted ones, and arrive
//! when it is restored. The same holds for the buffer space that a reader frees.
//!
//! Guarantees: everything follows from the calls and the seed. [`Network::events`] returns what
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

/// Properties of the path from one host to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Delay of each write, drawn anew from this range.
    pub delay: RangeInclusive<Duration>,
    /// Resets per million writes.
    pub resets: u32,
    /// Writes per million with which a direction falls silent: neither they nor later ones arrive.
    pub silences: u32,
    /// Maximum bytes of one direction that are written but not yet read.
    pub buffer: usize,
}

impl Default for Link {
    fn default() -> Link {
        let delay = Duration::from_millis(1)..=Duration::from_millis(3);
        Link { delay, resets: 0, silences: 0, buffer: 64 << 10 }
    }
}

/// An event on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time since the network was created.
    pub at: Duration,
    /// The address that caused the event.
    pub from: SocketAddr,
    /// The address at the other end.
    pub to: SocketAddr,
    /// The kind of event.
    pub what: What,
}

/// The kind of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A connection was established.
    Connected,
    /// No listener was at the address.
    Refused,
    /// This many bytes were sent.
    Sent(usize),
    /// The end of the stream was sent.
    Ended,
    /// The connection was reset.
    Reset,
    /// From now on nothing arrives.
    Silent,
}

/// A simulated network. A clone is another handle on it.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when a path is cut or restored.
    changed: Notify,
    began: Instant,
}

struct State {
    random: Rng,
    link: Link,
    links: BTreeMap<(IpAddr, IpAddr), Link>,
    cut: BTreeSet<(IpAddr, IpAddr)>,
    names: BTreeMap<String, IpAddr>,
    ports: BTreeMap<IpAddr, u16>,
    listeners: BTreeMap<SocketAddr, Arc<Queue>>,
    /// Both directions of all connections, by sender and reader.
    pipes: BTreeMap<(SocketAddr, SocketAddr), Arc<Mutex<Pipe>>>,
    events: Vec<Event>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}

/// A host of a network, from which connections are made.
#[derive(Clone, Debug)]
pub struct Host {
    network: Network,
    address: IpAddr,
}

impl Network {
    /// Returns a network without hosts, whose paths all follow `link`. Must be called within the
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

    /// Returns the host of this name; a new one gets an address of its own.
    pub fn host(&self, name: &str) -> Host {
        let mut state = self.state();
        let number = u32::try_from(state.names.len()).unwrap_or(u32::MAX) + 1;
        let fresh = IpAddr::from((0xc633_6400_u32 + number).to_be_bytes());
        let address = *state.names.entry(name.to_owned()).or_insert(fresh);
        drop(state);
        Host { network: self.clone(), address }
    }

    /// Adds a host with this name and address.
    pub fn host_at(&self, name: &str, address: IpAddr) -> Host {
        self.state().names.insert(name.to_owned(), address);
        Host { network: self.clone(), address }
    }

    /// Returns the address of a name.
    pub fn lookup(&self, name: &str) -> Option<IpAddr> {
        self.state().names.get(name).copied()
    }

    /// Sets the properties of the path from one host to another.
    pub fn set_link(&self, from: IpAddr, to: IpAddr, link: Link) {
        self.state().links.insert((from, to), link);
    }

    /// Cuts the path from one host to another. Bytes in the other direction still arrive, but are
    /// not acknowledged.
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        self.state().cut.insert((from, to));
    }

    /// Restores the path from one host to another: waiting bytes arrive.
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

    /// Cuts both paths between two hosts.
    pub fn part(&self, a: IpAddr, b: IpAddr) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Restores both paths between two hosts.
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

    /// Returns the events so far.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn note(&self, from: SocketAddr, to: SocketAddr, what: What) {
        self.state().note(self.0.began, from, to, what);
    }

    /// Waits until the paths in both directions between two hosts are whole.
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
    /// Returns the host's address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Listens at a port until the listener and its clones are dropped.
    ///
    /// # Errors
    ///
    /// Another listener has the port.
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

    /// Connects to an address. This takes a round trip, once both paths are whole.
    ///
    /// # Errors
    ///
    /// No listener has the address.
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

/// Locks a mutex, ignoring poison: no code under these locks can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
