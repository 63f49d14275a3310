//! Active health checks: each server of a site is sent periodic requests, and the responses decide
//! whether it is in use. The checks run in the background on one worker, over their own connections
//! and with the options in force.

use std::rc::Rc;
use std::sync::Arc;

use net::clock::TokioClock;
use net::network::Network;
use tokio::sync::watch;
use tokio::task::JoinSet;
use upstream::connection::events::Events;
use upstream::send::checks;
use upstream::send::client::Upstream;
use upstream::settings::limits::UpstreamLimits;

use crate::observe::observer::Observer;
use crate::options::Options;
use crate::options::control::State;
use crate::origin::events::Observed;

/// Checks all servers that have checks configured, until the drain begins.
pub(crate) async fn run(
    mut control: watch::Receiver<State>,
    observer: Arc<dyn Observer>,
    clock: TokioClock,
    network: Network,
) {
    let events: Arc<dyn Events> = Arc::new(Observed(observer));
    loop {
        let State { options, draining, .. } = control.borrow_and_update().clone();
        if draining {
            return;
        }
        // Dropping the set ends the running checks.
        let mut watching = JoinSet::new();
        let new = || Upstream::new(events.clone(), clock).through(network.clone());
        begin(&options, new, &mut watching);
        if control.changed().await.is_err() {
            return;
        }
    }
}

fn begin(options: &Options, new: impl Fn() -> Upstream, watching: &mut JoinSet<()>) {
    for (_, group) in options.front.groups() {
        let Some(check) = &group.options().check else { continue };
        let limits = UpstreamLimits {
            connect_timeout: check.timeout,
            head_timeout: check.timeout,
            idle_per_origin: 0,
            ..options.upstream.clone()
        };
        let upstream = Rc::new(new());
        for at in 0..group.servers().len() {
            let (upstream, group) = (upstream.clone(), group.clone());
            watching.spawn_local(checks::watch(upstream, limits.clone(), group, at));
        }
    }
}
