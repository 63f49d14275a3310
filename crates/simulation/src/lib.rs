//! Whole proxies in virtual time: each with its disk, its connections and its store, all of them in
//! one thread, on a network that fails as it is told to.
//!
//! It exists so that what only time and other machines bring about (time-outs, partitions, ends of
//! processes, hours of freshness) is tested in milliseconds, with the product's own code, and the
//! same at each repetition. What is simulated is what a proxy is given from outside: its clock
//! (`net::clock::TokioClock` on a runtime whose clock is paused), its network
//! (`sim::network`) and its devices (`sim::TokioDisk`).
//!
//! It promises: what the network saw follows from the seed and from what the test does.

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

/// Wall time when a world begins, in seconds since 1970.
pub const BEGINNING: u64 = 1_700_000_000;

/// What the hosts of a simulation have in common.
#[derive(Clone)]
pub struct World {
    /// What it follows from.
    pub seed: u64,
    /// What time it is, for all.
    pub clock: TokioClock,
    /// The network.
    pub network: Network,
    /// The time of the disks.
    disks: sim::Handle,
    began: Instant,
}

impl World {
    /// Runs `test` in a world of its own, to its end; what it has begun ends with it.
    ///
    /// # Panics
    ///
    /// When there is no runtime to be had.
    pub fn run<T>(seed: u64, link: Link, test: impl AsyncFnOnce(World) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be had");
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

    /// Where the names of the hosts are looked up.
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(adapters::Names(self.network.clone()))
    }

    /// Runs `future` for as long as it takes, or so long; `None`: it took longer.
    pub async fn within<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(time, future).await.ok()
    }
}
