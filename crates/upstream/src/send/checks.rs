//! Active health checks: a server is sent periodic requests, and the responses decide whether it is
//! in use.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Request, header};
use net::random::random;
use tokio::time::sleep;

use crate::connection::request_body::OutBody;
use crate::failure::error::Failure;
use crate::send::client::Upstream;
use crate::send::origin::{Connector, Origin};
use crate::send::outgoing::Outgoing;
use crate::servers::group::Group;
use crate::servers::health_check::HealthCheck;
use crate::settings::limits::UpstreamLimits;

/// Checks one server at the interval of its site. Returns at once if the site has no checks.
pub async fn watch(upstream: Rc<Upstream>, limits: UpstreamLimits, group: Arc<Group>, at: usize) {
    let Some(check) = &group.options().check else { return };
    // A random delay keeps servers from being checked all at once.
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
    upstream: &Upstream,
    limits: &UpstreamLimits,
    group: &Group,
    at: usize,
    check: &HealthCheck,
) -> Result<(), String> {
    // The configuration names the server, so no client's permissions apply.
    let with = Connector { upstream, limits, check: &|_: SocketAddr| true };
    let outgoing = Outgoing {
        request: Some(request(check)),
        spellings: Default::default(),
        progress: None,
        interim: None,
        again: None,
        idempotent: true,
        rewrite_host: check.host.is_none(),
        reuse_only: false,
        place: "",
        pinned: None,
        store_max: 0,
        upgrade: None,
        trail: None,
        next_server: None,
    };
    match group.servers()[at].endpoint.clone().send(with, outgoing).await {
        Ok(response) if check.is_healthy(response.status()) => Ok(()),
        Ok(response) => Err(format!("it answered {}", response.status().as_u16())),
        Err(Failure::Failed(_, text) | Failure::Request(_, text)) => Err(text),
        Err(Failure::Denied) => Err("its address is not permitted".to_owned()),
    }
}

fn request(check: &HealthCheck) -> Box<Request<OutBody>> {
    let mut request = Box::new(Request::new(OutBody::Empty));
    *request.uri_mut() = check.path.clone();
    if let Some(host) = &check.host {
        request.headers_mut().insert(header::HOST, host.clone());
    }
    let agent = concat!("larder/", env!("CARGO_PKG_VERSION"), " (health check)");
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(agent));
    request
}
