//! The environment of the scripts: the machine's network and clock, or simulated ones.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use net::clock::TokioClock;
use net::network::{ListenSocket, Network};
use tokio::task::LocalSet;

use super::origin::Origin;

/// Maximum duration of any step.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of tests played concurrently: most of them wait.
const PLAYERS: usize = 24;

/// Clock, network and concurrency of a run.
#[derive(Clone)]
pub struct World {
    /// The clock of proxies and origin.
    pub clock: TokioClock,
    /// The network between client, proxies and origin.
    pub network: Network,
    /// Number of tests played concurrently.
    pub players: usize,
    /// The network as a client at an address sees it, if clients can have any address.
    pub network_from: Option<Rc<dyn Fn(IpAddr) -> Network>>,
}

impl World {
    /// Returns a world of this clock and network.
    pub fn new(clock: TokioClock, network: Network) -> World {
        World { clock, network, players: PLAYERS, network_from: None }
    }

    /// Returns the network of a client.
    pub(super) fn network_of(&self, client: Option<IpAddr>) -> Network {
        match client.zip(self.network_from.as_ref()) {
            Some((client, network_from)) => network_from(client),
            None => self.network.clone(),
        }
    }

    /// Runs `test` with an origin, in real time and on the network of this machine.
    pub fn in_real_time<T>(test: impl AsyncFnOnce(World, Origin) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        LocalSet::new().block_on(&runtime.expect("a runtime"), async {
            let world = World::new(TokioClock::system(), Network::System);
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
            let origin = Origin::start(ListenSocket::Tcp(listener), world.clock);
            test(world, origin).await
        })
    }
}

/// Returns the result of `work`, or an error when the time is up.
pub(super) async fn patiently<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}
