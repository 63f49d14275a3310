//! Membership by gossip over UDP: nodes announce themselves to each other (`chitchat`: Scuttlebutt
//! reconciliation and a phi accrual failure detector).
//!
//! A node needs one live address of the fleet to find all of it ([`Seed`]). It then announces its
//! facts ([`Membership::announce`]), and learns those of all others within a few rounds. A node
//! that was killed leaves the view after three to six seconds; one that stops in order announces
//! that before ([`Gossip::leave`]). With a key, datagrams are sealed: only nodes that have the key
//! are members, and datagrams from others are dropped. Without a key, use gossip only on a network
//! on which no other host can send: others could make themselves members, and have nodes send to
//! any address.
//!
//! Guarantees, even without a key: no datagram makes a node panic or grow without bound. The
//! datagram size limits what nodes know, to about 900 nodes with short names and 400 with the
//! longest, including those that died in the last half hour. Further nodes are not admitted, with a
//! warning.

mod figures;
mod node;
mod seal;
mod seeds;
mod socket;
mod view;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chitchat::ChitchatId;
use fleet::member::State;
use fleet::{Member, MemberId, Members};
use net::clock::TokioClock;
use tokio::sync::{oneshot, watch};

pub use crate::gossip::figures::Figures;
pub use crate::gossip::seeds::{InvalidSeed, Seed};

use crate::facts;
use crate::gossip::figures::Counters;
use crate::gossip::node::{Node, ROUND, Shared};
use crate::gossip::seal::Seal;
use crate::gossip::socket::Wire;
use crate::gossip::view::View;
use crate::published::{Published, is_own, lock};
use crate::{Leaving, Lost, Membership};

const FLEET_MAX: usize = 64;

/// Rounds for which a leaving node announces it. In one round it tells three other nodes, which
/// each tell as many.
const LEAVING_ROUNDS: u32 = 5;

/// Settings of a node's gossip.
pub struct Settings {
    /// Name of the fleet. Datagrams of other fleets are dropped.
    pub fleet: String,
    /// The address at which this node receives.
    pub bind: SocketAddr,
    /// The address at which other nodes reach it; `None`: the one to which it is bound.
    pub advertise: Option<SocketAddr>,
    /// This node.
    pub own: Member,
    /// Where other nodes may be found. This node may be among them.
    pub seeds: Vec<Seed>,
    /// Name servers for service lookups; if empty, those of the system.
    pub name_servers: Vec<SocketAddr>,
    /// The key shared by all nodes of the fleet.
    pub key: Option<[u8; 32]>,
}

/// Why gossip cannot start.
#[derive(Debug)]
pub enum StartError {
    /// The name of the fleet is empty or too long.
    FleetName,
    /// Other nodes cannot reach this node at this address.
    Unreachable(SocketAddr),
    /// A fact of this node cannot be encoded.
    Fact(Box<str>),
    /// The system reported an error for this address.
    System(SocketAddr, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::FleetName => write!(f, "the name of a fleet has 1 to {FLEET_MAX} bytes"),
            StartError::Unreachable(address) => {
                write!(
                    f,
                    "other nodes cannot reach {address}: set an address that belongs to this node \
                     only"
                )
            }
            StartError::Fact(error) => write!(f, "this node cannot be a member: {error}"),
            StartError::System(address, error) => {
                write!(f, "cannot start gossip at {address}: {error}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// A node that gossips until it is dropped. The other nodes treat a drop like a crash and notice it
/// after some seconds. [`Gossip::leave`] announces it first.
pub struct Gossip {
    shared: Arc<Shared>,
    address: SocketAddr,
    own: watch::Sender<Member>,
    leaving: AtomicBool,
    /// Stops the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gossip {
    /// Starts gossip.
    ///
    /// # Errors
    ///
    /// A setting is wrong, or the address cannot be bound.
    pub fn start(settings: Settings, clock: TokioClock) -> Result<Gossip, StartError> {
        let Settings { fleet, bind, advertise, own, seeds, name_servers, key } = settings;
        if fleet.is_empty() || fleet.len() > FLEET_MAX {
            return Err(StartError::FleetName);
        }
        facts::encode(&own).map_err(|error| StartError::Fact(error.to_string().into()))?;
        let failed = |error| StartError::System(bind, error);
        let socket = UdpSocket::bind(bind).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = match advertise {
            Some(address) => address,
            None => socket.local_addr().map_err(failed)?,
        };
        if !wire::is_of_one(address) {
            return Err(StartError::Unreachable(address));
        }
        let wire = Arc::new(Wire {
            socket,
            seal: key.map(|key| Seal::new(&key, &fleet)),
            counters: Counters::default(),
            clock,
            warnings: Default::default(),
        });
        let first = ChitchatId::new(own.id.as_str(), node::generation(&wire), address);
        let shared = Arc::new(Shared {
            wire,
            view: View::new(first.clone(), own.clone()).into(),
            // One member is neither a duplicate nor too many.
            published: Published::new(vec![own.clone()])
                .map_err(|error| StartError::Fact(error.to_string().into()))?,
        });
        let own = watch::Sender::new(own);
        let own_told = own.subscribe();
        let node =
            Node { shared: shared.clone(), fleet, first, seeds, name_servers, own: own_told };
        let (stop, stopped) = oneshot::channel();
        let thread = begin(node, stopped).map_err(failed)?;
        let leaving = AtomicBool::new(false);
        Ok(Gossip { shared, address, own, leaving, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address at which other nodes reach this node.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters of gossip so far.
    pub fn figures(&self) -> Figures {
        self.shared.wire.counters.read()
    }

    /// Announces that this node leaves, and returns when the other nodes have had time to learn it.
    /// From then on the node announces nothing else.
    pub async fn leave(&self) {
        self.leaving.store(true, Relaxed);
        let own = lock(&self.shared.view).own().clone();
        self.announce(&own);
        tokio::time::sleep(ROUND * LEAVING_ROUNDS).await;
    }
}

fn begin(node: Node, stopped: oneshot::Receiver<()>) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("gossip".to_owned()).spawn(move || {
        runtime.block_on(node.run(stopped));
        // Do not wait for name lookups in progress.
        runtime.shutdown_background();
    })
}

impl Drop for Gossip {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the gossip thread panicked");
        }
    }
}

/// Gossip detects liveness itself. Results of requests keep those nodes that answer though their
/// datagrams do not arrive, and that a node leaves counts at once.
impl Membership for Gossip {
    fn members(&self) -> Members {
        self.shared.published.members()
    }

    fn changes(&self) -> watch::Receiver<Members> {
        self.shared.published.changes()
    }

    fn announce(&self, own: &Member) {
        let mut view = lock(&self.shared.view);
        if !is_own(&view.own().id, own) {
            return;
        }
        if let Err(error) = facts::encode(own) {
            log::error!("keeping the facts announced before: {error}");
            return;
        }
        let state = if self.leaving.load(Relaxed) { State::Leaving } else { own.state };
        let own = Member { state, ..own.clone() };
        if *view.own() != own {
            view.announce(own.clone());
            self.shared.published.publish(view.members());
            self.own.send_replace(own);
        }
    }

    fn lost(&self) -> Vec<Lost> {
        lock(&self.shared.view).lost()
    }

    fn started(&self) -> BTreeMap<MemberId, u64> {
        lock(&self.shared.view).started()
    }

    fn name_in_use(&self) -> Option<SocketAddr> {
        lock(&self.shared.view).name_in_use()
    }

    fn is_kept_by_requests(&self, id: &MemberId) -> bool {
        lock(&self.shared.view).is_kept_by_requests(id)
    }

    fn leave(&self) -> Leaving<'_> {
        Box::pin(Gossip::leave(self))
    }

    fn heard(&self, of: Member, _now: Duration) {
        let mut view = lock(&self.shared.view);
        if of.state != State::Leaving {
            view.hear(of, self.shared.wire.clock.running());
        } else if view.depart(&of) {
            self.shared.published.publish(view.members());
        }
    }

    fn silent(&self, id: &MemberId, _now: Duration) {
        lock(&self.shared.view).silent(id);
    }

    fn elapse(&self, _now: Duration) {}
}
