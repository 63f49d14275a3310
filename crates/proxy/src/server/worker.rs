//! One worker: a thread with its own runtime that owns everything its requests use. Workers share
//! the state in [`Process`].

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::server::wall_clock;
use crate::server::wall_clock::WallClock;
use net::clock::TokioClock;
use net::network::Network;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use upstream::connection::overrun::Overruns;
use upstream::failure::failure_log::FailureLog;
use upstream::send::client::Upstream;

use crate::downstream::connection_limit::ConnectionLimit;
use crate::downstream::connections::Connections;
use crate::observe::event::Event;
use crate::options::Options;
use crate::options::control::State;
use crate::origin::events::Observed;
use crate::services::{Services, Shared};

/// State shared by all workers.
pub(crate) struct Process {
    pub requests: Arc<Shared>,
    pub connection_limit: Arc<ConnectionLimit>,
    pub clock: TokioClock,
    pub network: Network,
    pub wall_clock: WallClock,
    pub failures: Arc<FailureLog>,
    pub overruns: Arc<Overruns>,
    /// Workers that have not ended yet.
    pub running: AtomicUsize,
    /// Set when the ports may close: the other nodes of a fleet have been told that this one
    /// leaves.
    pub may_close: watch::Sender<bool>,
    /// Workers that have not released the store yet.
    pub holding: AtomicUsize,
}

pub(crate) struct Worker {
    pub index: usize,
    pub process: Arc<Process>,
    pub services: Rc<Services>,
    pub connections: Rc<Connections>,
}

impl Worker {
    pub fn new(index: usize, process: Arc<Process>, options: Arc<Options>) -> Rc<Worker> {
        let Process { requests, clock, connection_limit, failures, overruns, .. } = &*process;
        let events = Arc::new(Observed(requests.observer.clone()));
        let upstream = Upstream::new(events, *clock)
            .through(process.network.clone())
            .with_log(failures.clone(), overruns.clone())
            .with_descriptors(connection_limit.reclaimer.clone());
        let services = Services::new(requests.clone(), *clock, upstream, options);
        let connections = Connections::new(index, services.clone(), connection_limit.clone());
        Rc::new(Worker { index, process, services, connections })
    }

    /// Enforces timeouts and applies option changes until the drain begins.
    pub async fn sweep(&self, mut control: watch::Receiver<State>) {
        // Treat changes made before this worker started as new.
        control.mark_changed();
        let mut tick = interval(self.connections.sweep_interval());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                now = tick.tick() => {
                    if let Some(step) = self.process.wall_clock.step() {
                        log::warn!("{}", wall_clock::warning(step));
                        self.services.observer.count(Event::ClockSet, 1);
                    }
                    let options = self.services.options();
                    self.connections.sweep(now.into_std(), &options.client);
                    self.services.upstream.prune(&options.upstream);
                }
                changed = control.changed() => {
                    let state = control.borrow_and_update().clone();
                    if changed.is_err() || state.draining {
                        return;
                    }
                    self.connections.set_options(state.options);
                    tick = interval(self.connections.sweep_interval());
                }
            }
        }
    }
}
