//! Failover for a site with several servers: a request is sent to one server after another until
//! one responds, as long as that is safe.

use std::pin::pin;
use std::rc::Weak;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::timeout;

use crate::connection::events::Event;
use crate::connection::origin_body::OriginBody;
use crate::connection::request_body::Progress;
use crate::failure::error::Failure;
use crate::failure::error::Reason;
use crate::send::client::{ServerError, Upstream};
use crate::send::origin::{Connector, Origin, Sending};
use crate::send::outgoing::Outgoing;
use crate::servers::group::{Group, Next, Serving};
use crate::servers::health::Blame;
use crate::settings::endpoint::Endpoint;

/// Interval between attempts to free server capacity while a request waits.
const FREE_EVERY: Duration = Duration::from_secs(1);

/// Sends a request to the servers of a group, one after another and each at most once. Neither a
/// retry nor a request that must reuse a connection waits for a server that is at its limit.
async fn ask_any(
    group: Arc<Group>,
    with: Connector<'_>,
    mut outgoing: Outgoing<'_>,
) -> Result<Response<OriginBody>, Failure> {
    let Connector { upstream, limits, check } = with;
    let options = group.options();
    let next = outgoing.next_server.unwrap_or(&options.next);
    let uri = outgoing.request.as_deref().map(Request::uri);
    let of = |uri| (group.hash(outgoing.place, uri), group.page(outgoing.place, uri));
    let (hash, page) = uri.map_or((0, 0), of);
    let mut upload = match outgoing.progress.as_deref().is_some_and(Progress::is_open) {
        true => group.admit_upload().await?,
        false => None,
    };
    let (mut tried, mut tries, mut last) = (0u64, 0, None);
    let pinned = outgoing.pinned.as_ref().and_then(Weak::upgrade);
    let pinned = pinned.and_then(|pinned| group.at(|endpoint| pinned.leads_to(endpoint)));
    // The client is authenticated at one server. If that is out of use, another one takes over.
    let others = pinned.map(|at| !(1 << at));
    let others = others.filter(|others| group.has_other(*others, upstream.clock.millis()));
    loop {
        let chosen = match tries {
            0 if !outgoing.reuse_only => admit(&group, upstream, others.unwrap_or(0), hash).await,
            _ => group.choose(tried, hash, upstream.clock),
        };
        let mut serving = match chosen {
            Ok(serving) => serving,
            Err(no_server) => return Err(last.unwrap_or(no_server)),
        };
        tried |= 1 << serving.at;
        tries += 1;
        if tries > 1 {
            upstream.events.count(Event::Retried);
        }
        let more = tries < options.tries.max(1) && group.has_other(tried, upstream.clock.millis());
        let endpoint = &serving.endpoint().clone();
        match upstream.ask(endpoint, limits, check, &mut outgoing, Some(&serving)).await {
            Ok(response) => {
                serving.keep_upload(upload.take());
                let status = response.status();
                let is_left = next.statuses.contains(&status);
                match is_left && !is_about_request(status) {
                    false => serving.succeeded(),
                    true => note_failure(upstream, &serving, status, page),
                }
                if is_left && more && outgoing.may_repeat() {
                    continue;
                }
                return Ok(response.map(|body| body.served_by(serving)));
            }
            // The client or its request is refused; another server would not change that.
            Err(ServerError {
                failure: why @ (Failure::Denied | Failure::Request(..)), ..
            }) => {
                return Err(why);
            }
            Err(unanswered) => {
                if let (true, Failure::Failed(_, why)) = (unanswered.counts, &unanswered.failure) {
                    serving.failed(blame_of(&unanswered, page), why);
                }
                let safe = unanswered.untouched || outgoing.may_repeat();
                if !more || !safe || !next.covers(&unanswered.failure) {
                    return Err(unanswered.failure);
                }
                last = Some(unanswered.failure);
            }
        }
    }
}

/// Records and logs a response that counts as a failure of its server. `page` is the hash of the
/// URL.
fn note_failure(upstream: &Upstream, serving: &Serving, status: StatusCode, page: u64) {
    let cause = format!("it answered {}", status.as_u16());
    serving.failed(Blame::Request(page), &cause);
    upstream.bad_response(serving.endpoint(), &cause);
}

/// Returns whether a server with this response is healthy: it only lacks what was requested.
fn is_about_request(status: StatusCode) -> bool {
    matches!(status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
}

/// Waits for a server. Meanwhile ends requests whose clients may be gone, as many as there are
/// requests in the queue.
async fn admit(
    group: &Arc<Group>,
    upstream: &Upstream,
    refused: u64,
    hash: u64,
) -> Result<Serving, Failure> {
    let clock = upstream.clock;
    let free_places = async || {
        if let Some(holder) = &upstream.descriptors {
            holder.free_places(group.number(), group.waiting() + 1).await;
        }
    };
    if !group.is_crowded(clock.millis()) {
        return group.admit(refused, hash, clock).await;
    }
    free_places().await;
    let mut admitted = pin!(group.admit(refused, hash, clock));
    loop {
        match timeout(FREE_EVERY, admitted.as_mut()).await {
            Ok(served) => return served,
            Err(_) => free_places().await,
        }
    }
}

/// Returns what to blame for a failure. `page` is the hash of the URL.
fn blame_of(unanswered: &ServerError, page: u64) -> Blame {
    match &unanswered.failure {
        _ if unanswered.had_connection => Blame::Request(page),
        Failure::Failed(Reason::DnsTimeout | Reason::ConnectTimeout, _) => Blame::Silence,
        _ => Blame::Server,
    }
}

impl Origin for Group {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(ask_any(self, with, request))
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        self.servers().get(number).map(|server| &*server.endpoint)
    }
}

impl Next {
    /// Returns whether a request with this failure is sent to another server.
    fn covers(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Failed(
                Reason::DnsTimeout | Reason::ConnectTimeout | Reason::UpstreamTimeout,
                _,
            ) => self.timeout,
            _ => self.error,
        }
    }
}
