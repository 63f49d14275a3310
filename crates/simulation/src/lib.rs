//! Whole proxies in virtual time: each with its disk, its connections and its store, all of them in
//! one thread, on a network that fails on command.
//!
//! Events that depend on time and on other machines (timeouts, partitions, process exits, hours of
//! freshness) are tested in milliseconds, with the product's own code, and identically at each
//! repetition. The simulation replaces what a proxy is given from outside: its clock
//! (`net::clock::TokioClock` on a runtime whose clock is paused), its network (`sim::network`) and
//! its devices (`sim::TokioDisk`).
//!
//! Guarantees: the events on the network follow from the seed and the actions of the test.

mod adapters;
mod proxies;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use proxy::TokioClock;
use sim::network::{Link, Network};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;
use upstream::settings::lookup::Lookup;

pub use adapters::{listen, network_of};
pub use proxies::{Cache, Proxy, Running};

/// Wall time at which a world begins, in seconds since 1970.
pub const BEGINNING: u64 = 1_700_000_000;

/// The environment shared by the hosts of a simulation.
#[derive(Clone)]
pub struct World {
    /// Seed from which all random choices follow.
    pub seed: u64,
    /// The common clock.
    pub clock: TokioClock,
    /// The network.
    pub network: Network,
    /// Virtual time of the disks.
    disks: sim::Handle,
    began: Instant,
}

impl World {
    /// Runs `test` to completion in a world of its own; the tasks that it has spawned end with it.
    ///
    /// # Panics
    ///
    /// No tokio runtime can be created.
    pub fn run<T>(seed: u64, link: Link, test: impl AsyncFnOnce(World) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be created");
        let _fixed = net::random::fix(seed);
        LocalSet::new().block_on(&runtime, async {
            let began = Instant::now();
            let clock = TokioClock::starting_at(Duration::from_secs(BEGINNING));
            let executor = sim::Executor::new(Some(seed), BEGINNING);
            let disks = executor.handle();
            spawn_local(executor.follow(began));
            test(World { seed, clock, network: Network::new(seed, link), disks, began }).await
        })
    }

    /// Returns a lookup of the hosts' names.
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(adapters::Names(self.network.clone()))
    }

    /// Runs `future` for at most `time`; returns `None` if it takes longer.
    pub async fn within<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(time, future).await.ok()
    }
}
