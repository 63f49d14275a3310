//! Requests that bypass the cache: each is forwarded upstream, and the response streams back at the
//! client's pace.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::header::{HeaderMap, HeaderValue};
use http::{Response, StatusCode, Version, header};
use http_body::Body as _;
use semantics::cache_control::Scope;
use semantics::{ResponseDirectives, hop_by_hop};
use upstream::connection::origin_body::OriginBody;
use upstream::connection::tunnel::UpstreamTunnel;
use upstream::message::informational::Informational;
use upstream::message::request_body::RequestBody;
use upstream::message::upgrade;
use upstream::message::upgrade::Upgrade;

use crate::body::peer_body;
use crate::body::relayed_body::Relay;
use crate::client::handle::Client;
use crate::observe::cache_status::CacheStatus;
use crate::observe::event::Event;
use crate::observe::outcome::{Bypass, Error, Outcome};
use crate::origin::failure::Failure;
use crate::peers::asking::Asking;
use crate::request::context::RequestContext;
use crate::request::upstream_request;
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::transaction::Transaction;
use crate::response::tunnel::Tunnel;
use crate::response::{compressing, failure};

/// Sends the request to the origin and relays the response. `why` is the reason for the bypass.
pub(crate) async fn pass(
    context: &RequestContext,
    mut transaction: Transaction,
    body: RequestBody,
    why: Bypass,
) -> Response<ResponseBody> {
    let body = (!body.is_end_stream()).then_some(body);
    match ask(context, &mut transaction, body, None).await {
        Ok(response) => {
            let status = CacheStatus::new(Outcome::Bypass(why));
            relay_response(context, transaction, response, status)
        }
        Err(failure) => failure::failed(transaction, failure),
    }
}

/// Sends the request to the nodes that `asking` names, then to the origin, and waits for the
/// response head, relaying 1xx responses.
pub(crate) async fn ask(
    context: &RequestContext,
    transaction: &mut Transaction,
    body: Option<RequestBody>,
    asking: Option<Arc<Asking>>,
) -> Result<Response<OriginBody>, Failure> {
    let make = || {
        let mut upstream_request = context.upstream_request();
        upstream_request.ask_fleet(asking.as_ref());
        upstream_request
    };
    let upstream_request = make();
    transaction.note_upstream(&upstream_request);
    let interim = upstream_request.interim.clone();
    let again = || {
        let mut upstream_request = make();
        upstream_request.interim.clone_from(&interim);
        upstream_request
    };
    let sending = upstream_request.run_once(&context.services, &context.options, body, again);
    let response = relay(&context.client, interim.as_deref(), pin!(sending)).await?;
    Ok(match asking {
        Some(_) => {
            peer_body::continued_elsewhere(&context.services, &context.options, make, response)
                .await
        }
        None => response,
    })
}

pub(crate) fn relay_response(
    context: &RequestContext,
    mut transaction: Transaction,
    mut response: Response<OriginBody>,
    status: CacheStatus,
) -> Response<ResponseBody> {
    if let Some(upstream) = response.body_mut().take_tunnel() {
        let (head, body) = response.into_parts();
        let response = switch(context, transaction, Response::from_parts(head, ()), upstream);
        return response.map(|to_client| to_client.with_spellings(body.spellings().clone()));
    }
    let held = context.held.take();
    context.held.set(held.map(|held| held.without_tunnel()));
    let version = response.version();
    let trailers = hop_by_hop::accepts_trailers(&context.head.fields);
    upstream_request::sanitize_response(
        &context.services,
        response.headers_mut(),
        version,
        trailers,
    );
    context.make_own(response.headers_mut());
    if context.negotiated.is_on {
        response = compressing::response(context, response);
    }
    status.append_to(transaction.pseudonym(), response.headers_mut());
    transaction.note_answer(response.status(), status.outcome, response.headers());
    let (mut head, body) = response.into_parts();
    // The version on the client side is independent of the upstream's.
    head.version = Version::HTTP_11;
    head.extensions.clear();
    let spellings = body.spellings().clone();
    let body = BodySource::of_upstream(body, || relay_of(context, &head.headers));
    Response::from_parts(head, ResponseBody::new(body, transaction).with_spellings(spellings))
}

/// Returns the relay that reads the body of a response to this request from its origin.
pub(crate) fn relay_of(context: &RequestContext, fields: &HeaderMap) -> Relay {
    let (client, host) = (context.client.address.ip(), context.target().host);
    let relay = Relay::new(&context.services, &context.options, client, host);
    let directives = ResponseDirectives::parse(fields, context.settings());
    let is_forbidden = directives.no_store
        || directives.private != Scope::Absent
        || context.facts.directives.no_store;
    if is_forbidden { relay.without_spill() } else { relay }
}

/// Relays a response that changes the protocol. Bytes flow once the head has been written.
fn switch(
    context: &RequestContext,
    mut transaction: Transaction,
    mut answer: Response<()>,
    upstream: UpstreamTunnel,
) -> Response<ResponseBody> {
    let chosen = answer.headers().get(header::UPGRADE).cloned();
    let version = answer.version();
    upstream_request::sanitize_response(&context.services, answer.headers_mut(), version, false);
    let of_stream = context.upgrade.as_deref().is_some_and(Upgrade::of_stream);
    if of_stream {
        let asked = context.headers();
        if !upgrade::to_stream(asked, answer.headers_mut()) {
            let cause = "its response to the WebSocket handshake is wrong".to_owned();
            context.services.upstream.bad_response(&context.destination(), &cause);
            return failure::failed(transaction, Failure::Failed(Error::BadAnswer, cause));
        }
        *answer.status_mut() = StatusCode::OK;
    } else if let Some(chosen) = chosen {
        let connection = HeaderValue::from_static("upgrade");
        answer.headers_mut().insert(header::CONNECTION, connection);
        answer.headers_mut().insert(header::UPGRADE, chosen);
    }
    let status = CacheStatus::new(Outcome::Tunnel);
    status.append_to(transaction.pseudonym(), answer.headers_mut());
    transaction.note_answer(answer.status(), status.outcome, answer.headers());
    context.services.observer.count(Event::Upgraded, 1);
    let (mut head, ()) = answer.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    let (lifetime, held) = (context.options.tunnels.lifetime(), context.held.take());
    let tunnel = Tunnel { upstream, transaction, lifetime, held };
    Response::from_parts(head, ResponseBody::of_tunnel(tunnel))
}

/// Waits for `work` and relays 1xx responses to the client meanwhile. Returns once they have been
/// sent.
pub(crate) async fn relay<T>(
    client: &Client,
    interim: Option<&Informational>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> T {
    let mut done = None;
    poll_fn(|cx| {
        if done.is_none()
            && let Poll::Ready(value) = work.as_mut().poll(cx)
        {
            done = Some(value);
        }
        if let Some(interim) = interim {
            while let Poll::Ready(head) = interim.poll_head(cx) {
                client.inform(head);
            }
        }
        if !client.has_informed() {
            return Poll::Pending;
        }
        done.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
