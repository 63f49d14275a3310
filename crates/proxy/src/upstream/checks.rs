//! Active checks: each server of a site is asked for something now and then, and what it answers
//! decides whether it is in use. They run in the background on one worker, over connections of
//! their own.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, StatusCode, Uri};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::message::via::random;
use crate::request::control::State;
use crate::request::options::{Front, Options, UpstreamLimits};
use crate::response::transaction::Observer;
use crate::upstream::client::{Outgoing, Upstream};
use crate::upstream::group::Group;
use crate::upstream::request_body::OutBody;

use crate::upstream::error::Failure;

/// How the servers of a site are checked.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// What is asked for with GET: path and query.
    pub path: Uri,
    /// The `Host` that is sent; `None`: the server's own name.
    pub host: Option<HeaderValue>,
    /// Time between checks. Default 5 s.
    pub interval: Duration,
    /// Time for connecting, and for the head of the answer. Default 2 s.
    pub timeout: Duration,
    /// Statuses that say that the server is well: each from one to another, both included.
    /// Default 200 to 399.
    pub statuses: Vec<(u16, u16)>,
    /// So many good checks in a row bring a server back. Default 2.
    pub rise: u32,
    /// So many bad ones in a row take it out. Default 3.
    pub fall: u32,
}

impl HealthCheck {
    /// A check of `path` with the defaults.
    pub fn new(path: Uri) -> HealthCheck {
        HealthCheck {
            path,
            host: None,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            statuses: vec![(200, 399)],
            rise: 2,
            fall: 3,
        }
    }

    fn is_well(&self, status: StatusCode) -> bool {
        self.statuses.iter().any(|&(from, to)| (from..=to).contains(&status.as_u16()))
    }

    fn request(&self) -> Request<OutBody> {
        let mut request = Request::new(OutBody::Empty);
        *request.uri_mut() = self.path.clone();
        if let Some(host) = &self.host {
            request.headers_mut().insert(header::HOST, host.clone());
        }
        let agent = concat!("larder/", env!("CARGO_PKG_VERSION"), " (health check)");
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(agent));
        request
    }
}

/// Checks all servers that are to be checked, until the drain begins.
pub(crate) async fn run(mut control: watch::Receiver<State>, observer: Arc<dyn Observer>) {
    loop {
        let State { options, draining, .. } = control.borrow_and_update().clone();
        if draining {
            return;
        }
        // Dropped, they end.
        let mut checks = JoinSet::new();
        begin(&options, &observer, &mut checks);
        if control.changed().await.is_err() {
            return;
        }
    }
}

fn begin(options: &Options, observer: &Arc<dyn Observer>, checks: &mut JoinSet<()>) {
    let Front::Reverse(sites) = &options.front else { return };
    for site in sites {
        let Some(check) = &site.upstream.options().check else { continue };
        let limits = UpstreamLimits {
            connect_timeout: check.timeout,
            head_timeout: check.timeout,
            idle_per_origin: 0,
            ..options.upstream.clone()
        };
        let upstream = Rc::new(Upstream::new(&limits, observer.clone()));
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
        own_host: check.host.is_none(),
        in_passing: false,
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
