//! Answers that Larder makes itself: refusals and errors, in plain words.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::account::Account;
use crate::body::{AnswerBody, Source};
use crate::cache_status::CacheStatus;
use crate::outcome::Outcome;

/// An answer with a text. It is never stored by anyone.
pub(crate) fn plain(
    account: Account,
    status: StatusCode,
    outcome: Outcome,
    text: impl Into<Bytes>,
) -> Response<AnswerBody> {
    with_type(account, status, outcome, "text/plain; charset=utf-8", text.into())
}

/// An answer with a body of ours of any type.
pub(crate) fn with_type(
    mut account: Account,
    status: StatusCode,
    outcome: Outcome,
    content_type: &'static str,
    body: Bytes,
) -> Response<AnswerBody> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    CacheStatus::new(outcome).append_to(account.pseudonym(), headers);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allow = HeaderValue::from_static("GET, HEAD, OPTIONS, TRACE, PUT, POST, DELETE, PATCH");
        headers.insert(header::ALLOW, allow);
    }
    account.answered(status, outcome, headers);
    response.map(|()| AnswerBody::new(Source::Whole(body), account))
}
