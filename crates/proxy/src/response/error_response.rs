//! Responses that Larder generates: refusals and errors, with plain texts.

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Response, StatusCode, header};
use semantics::proxy_status;
use semantics::proxy_status::ErrorType;

use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Denied, Error, Outcome};
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::transaction::Transaction;

/// Creates a text response that must not be stored.
pub(crate) fn plain(
    transaction: Transaction,
    status: StatusCode,
    outcome: Outcome,
    text: impl Into<Bytes>,
) -> Response<ResponseBody> {
    with_type(transaction, status, outcome, "text/plain; charset=utf-8", text.into())
}

/// Creates a response with a body of any type, which must not be stored.
pub(crate) fn with_type(
    mut transaction: Transaction,
    status: StatusCode,
    outcome: Outcome,
    content_type: &'static str,
    body: Bytes,
) -> Response<ResponseBody> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    CacheStatus::new(outcome).append_to(transaction.pseudonym(), headers);
    if let Some(error) = error_type(outcome) {
        proxy_status::append(headers, transaction.pseudonym(), error);
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allow = HeaderValue::from_static("GET, HEAD, OPTIONS, TRACE, PUT, POST, DELETE, PATCH");
        headers.insert(header::ALLOW, allow);
    }
    transaction.note_answer(status, outcome, headers);
    response.map(|()| ResponseBody::new(BodySource::Whole(body), transaction))
}

/// Returns the error type for `Proxy-Status` (RFC 9209, 2.3).
fn error_type(outcome: Outcome) -> Option<ErrorType> {
    let error = match outcome {
        Outcome::Error(error) => match error {
            Error::Dns => ErrorType::DnsError,
            Error::DnsTimeout => ErrorType::DnsTimeout,
            Error::Connect | Error::NoUpstream => ErrorType::DestinationUnavailable,
            Error::ConnectRefused => ErrorType::ConnectionRefused,
            Error::Tls => ErrorType::TlsProtocolError,
            Error::TlsAlert => ErrorType::TlsAlertReceived,
            Error::Certificate => ErrorType::TlsCertificateError,
            Error::ConnectTimeout => ErrorType::ConnectionTimeout,
            Error::Upstream => ErrorType::ConnectionTerminated,
            Error::UpstreamTimeout => ErrorType::ConnectionReadTimeout,
            Error::BadAnswer => ErrorType::HttpProtocolError,
            Error::OnlyIfCached | Error::Draining => ErrorType::ProxyInternalResponse,
            Error::Store | Error::Memory | Error::Internal => ErrorType::ProxyInternalError,
            Error::Loop => ErrorType::ProxyLoopDetected,
            Error::Overload | Error::UpstreamBusy => ErrorType::ConnectionLimitReached,
        },
        Outcome::Denied(Denied::OwnAddress | Denied::PrivateAddress) => {
            ErrorType::DestinationIpProhibited
        }
        Outcome::Denied(_) => ErrorType::HttpRequestDenied,
        Outcome::Invalid(_) => ErrorType::HttpRequestError,
        _ => return None,
    };
    Some(error)
}
