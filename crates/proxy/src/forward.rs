//! A request that the cache takes no part in: it goes to its upstream as it came, and the answer
//! streams back at the client's pace.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::{Response, StatusCode, Version};
use http_body::Body as _;
use semantics::hop_by_hop;

use crate::account::Account;
use crate::body::{AnswerBody, Source};
use crate::cache_status::CacheStatus;
use crate::connection::Connection;
use crate::errand;
use crate::interim::Interim;
use crate::outcome::Error;
use crate::request_body::RequestBody;
use crate::serve;
use crate::upstream::{Failure, UpstreamBody};
use crate::visit::Visit;

/// Asks the upstream and hands its answer on.
pub(crate) async fn pass(
    visit: &Visit<'_>,
    mut account: Account,
    body: RequestBody,
    status: CacheStatus,
) -> Response<AnswerBody> {
    let body = (!body.is_end_stream()).then_some(body);
    match ask(visit, &mut account, body).await {
        Ok(response) => hand_on(visit, account, response, status),
        Err(failure) => serve::failed(account, failure),
    }
}

/// Sends the request as it came and waits for the head of the answer, 1xx answers relayed.
pub(crate) async fn ask(
    visit: &Visit<'_>,
    account: &mut Account,
    body: Option<RequestBody>,
) -> Result<Response<UpstreamBody>, Failure> {
    let errand = visit.errand();
    account.asked(&errand.to, errand.trail.clone());
    let asking = errand.run(visit.worker(), visit.options(), body);
    // The connection's own future has no room for it: most requests never come here.
    let asking = Box::pin(asking);
    let response = relay(visit.connection, errand.interim.as_deref(), asking).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let text = format!("{} changed the protocol, which nobody asked for.", errand.to);
        return Err(Failure::Failed(Error::BadAnswer, text));
    }
    Ok(response)
}

/// Hands an upstream's answer on.
pub(crate) fn hand_on(
    visit: &Visit<'_>,
    mut account: Account,
    mut response: Response<UpstreamBody>,
    status: CacheStatus,
) -> Response<AnswerBody> {
    let version = response.version();
    let trailers = hop_by_hop::accepts_trailers(&visit.parts.headers);
    errand::clean_answer(visit.worker(), response.headers_mut(), version, trailers);
    status.append_to(account.pseudonym(), response.headers_mut());
    account.answered(response.status(), status.outcome, response.headers());
    let (mut head, body) = response.into_parts();
    // What we speak to the client is ours to say.
    head.version = Version::HTTP_11;
    head.extensions.clear();
    Response::from_parts(head, AnswerBody::new(Source::Upstream(body), account))
}

/// Waits for `work` while 1xx answers go to the client, and until they have gone.
pub(crate) async fn relay<T>(
    connection: &Connection,
    interim: Option<&Interim>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut done = None;
    poll_fn(|cx| {
        if done.is_none()
            && let Poll::Ready(value) = work.as_mut().poll(cx)
        {
            done = Some(value);
        }
        if let Some(interim) = interim {
            while let Poll::Ready(head) = interim.poll_head(cx) {
                connection.inform(head);
            }
        }
        if !connection.has_informed() {
            return Poll::Pending;
        }
        done.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
