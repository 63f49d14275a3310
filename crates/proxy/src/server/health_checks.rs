//! Active checks: each server of a site is asked for something now and then, and what it answers
//! decides whether it is in use. They run in the background on one worker, over connections of
//! their own.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::message::via::random;
use crate::net::clock::TokioClock;
use crate::observe::observer::Observer;
use crate::options::Options;
use crate::options::control::State;
use crate::upstream::client::{Outgoing, Upstream};
use crate::upstream::error::Failure;
use crate::upstream::group::Group;
use crate::upstream::health_check::HealthCheck;
use crate::upstream::limits::UpstreamLimits;
use crate::upstream::site::Front;

/// Checks all servers that are to be checked, until the drain begins.
pub(crate) async fn run(
    mut control: watch::Receiver<State>,
    observer: Arc<dyn Observer>,
    clock: TokioClock,
) {
    loop {
        let State { options, draining, .. } = control.borrow_and_update().clone();
        if draining {
            return;
        }
        // Dropped, they end.
        let mut checks = JoinSet::new();
        begin(&options, &observer, clock, &mut checks);
        if control.changed().await.is_err() {
            return;
        }
    }
}

fn begin(
    options: &Options,
    observer: &Arc<dyn Observer>,
    clock: TokioClock,
    checks: &mut JoinSet<()>,
) {
    let Front::Reverse(sites) = &options.front else { return };
    for site in sites {
        let Some(check) = &site.upstream.options().check else { continue };
        let limits = UpstreamLimits {
            connect_timeout: check.timeout,
            head_timeout: check.timeout,
            idle_per_origin: 0,
            ..options.upstream.clone()
        };
        let upstream = Rc::new(Upstream::new(&limits, observer.clone(), clock));
        for at in 0..site.upstream.servers().len() {
            let (upstream, group) = (upstream.clone(), site.upstream.clone());
            checks.spawn_local(watch(upstream, limits.clone(), group, at));
        }
    }
}

/// Checks one server again and again.
async fn watch(upstream: Rc<Upstream>, limits: UpstreamLimits, group: Arc<Group>, at: usize) {
    let Some(check) = &group.options().check else { return };
    // Not all at the same moment.
    let spread = check.interval.as_millis().max(1) as u64;
    sleep(Duration::from_millis(random() % spread.min(1000))).await;
    let (mut good, mut bad) = (0, 0);
    loop {
        let result = ask(&upstream, &limits, &group, at, check).await;
        match result {
            Ok(()) => (good, bad) = (good + 1, 0),
            Err(_) => (good, bad) = (0, bad + 1),
        }
        let health = &group.servers()[at].health;
        if good >= check.rise && health.checked(true) {
            group.report(at, true, ": its checks succeed");
        } else if bad >= check.fall && health.checked(false) {
            let why = result.err().unwrap_or_default();
            group.report(at, false, &format!("its checks fail: {why}"));
        }
        upstream.prune(&limits);
        sleep(check.interval).await;
    }
}

async fn ask(
    upstream: &Rc<Upstream>,
    limits: &UpstreamLimits,
    group: &Group,
    at: usize,
    check: &HealthCheck,
) -> Result<(), String> {
    // The configuration names the server: no client's rights are in question.
    let allowed = |_: SocketAddr| Ok(());
    let mut outgoing = Outgoing {
        request: Some(check.request()),
        progress: None,
        interim: None,
        again: None,
        idempotent: true,
        rewrite_host: check.host.is_none(),
        reuse_only: false,
        hash: 0,
        upgrade: None,
        trail: None,
    };
    let origin = &group.servers()[at].origin;
    match upstream.ask(origin, limits, &allowed, &mut outgoing, None).await {
        Ok(response) if check.is_well(response.status()) => Ok(()),
        Ok(response) => Err(format!("it answered {}", response.status().as_u16())),
        Err(unanswered) => Err(match unanswered.failure {
            Failure::Denied(denial) => denial.text,
            Failure::Failed(_, text) | Failure::Request(_, text) => text,
        }),
    }
}
