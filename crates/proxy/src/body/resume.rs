//! Fetches the rest of a body whose source was lost while it was being sent. The range request
//! carries the strong entity tag of the part already sent and, if the origin vouches for its
//! responses, the version. If it fails or the origin now has another representation, the transfer
//! is cut.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode, header};
use http_body::Body;
use semantics::packed::Flag;
use semantics::range::ByteRange;
use semantics::{StoredHead, validators};
use upstream::connection::origin_body::OriginBody;
use upstream::send::origin::VERSION;

use crate::options::Options;
use crate::request::context::RequestContext;
use crate::request::upstream_request::UpstreamRequest;
use crate::services::Services;

/// Prepared fetch of the rest of a body. Created before the head is sent, rarely started.
pub(crate) struct Resume {
    services: Rc<Services>,
    options: Arc<Options>,
    upstream_request: UpstreamRequest,
    same: MatchingFields,
    length: u64,
    /// Maximum time without a byte; `None`: that of origins.
    silence: Option<Duration>,
}

/// Fields in which the response with the rest must equal the first response.
#[derive(Clone)]
pub(crate) struct MatchingFields {
    /// The strong entity tag.
    etag: HeaderValue,
    /// Value of the [`VERSION`] field; files that replaced each other may share an entity tag.
    version: Option<HeaderValue>,
}

impl MatchingFields {
    /// Takes the fields from a response. Returns `None` if it has no strong entity tag, because
    /// then nothing proves that the rest fits.
    pub fn of(headers: &HeaderMap) -> Option<MatchingFields> {
        let etag = headers.get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""))?;
        Some(MatchingFields { etag: etag.clone(), version: headers.get(VERSION).cloned() })
    }

    fn are_in(&self, headers: &HeaderMap) -> bool {
        headers.get(header::ETAG) == Some(&self.etag)
            && headers.get(VERSION) == self.version.as_ref()
    }
}

pub(crate) struct ResumedBody {
    state: State,
    left: u64,
    /// Bytes to skip before the requested ones.
    skip: u64,
}

/// Body of a response, and the number of bytes to skip.
type ResumeAnswer = Option<(OriginBody, u64)>;

enum State {
    Asking(Pin<Box<dyn Future<Output = ResumeAnswer>>>),
    Reading(Box<OriginBody>),
    Lost,
}

impl Resume {
    /// Creates a `Resume` for a stored response; `None` unless it is a 200 with a strong entity
    /// tag. The origin has no part of a form that was compressed here.
    pub fn new(context: &RequestContext, head: &StoredHead, length: u64) -> Option<Resume> {
        if head.status() != StatusCode::OK
            || !head.packed().is(Flag::StrongEtag)
            || head.is_compressed()
        {
            return None;
        }
        let same = MatchingFields::of(head.headers())?;
        let (services, options) = (context.services.clone(), context.options.clone());
        Some(Resume::of(services, options, context.upstream_request(), same, length))
    }

    /// Creates a `Resume` for the response to a request, with these validators and this length.
    pub fn of(
        services: Rc<Services>,
        options: Arc<Options>,
        mut upstream_request: UpstreamRequest,
        same: MatchingFields,
        length: u64,
    ) -> Resume {
        upstream_request.method = http::Method::GET;
        upstream_request.interim = None;
        validators::remove_conditions(&mut upstream_request.headers);
        Resume { services, options, upstream_request, same, length, silence: None }
    }

    /// Sets the maximum time without a byte; by default that of origins.
    pub fn with_silence(self, silence: Duration) -> Resume {
        Resume { silence: Some(silence), ..self }
    }

    pub fn begin(self, range: Range<u64>) -> ResumedBody {
        let left = range.end - range.start;
        let asking = async move {
            let Resume { services, options, mut upstream_request, same, length, silence } = self;
            let part = ByteRange { start: range.start, end: range.end };
            let value = format!("bytes={}-{}", range.start, range.end - 1);
            upstream_request.headers.insert(header::RANGE, HeaderValue::try_from(value).ok()?);
            upstream_request.headers.insert(header::IF_RANGE, same.etag.clone());
            let asked = upstream_request.run(&services, &options, None).await;
            let response = asked
                .inspect_err(|failure| {
                    log::debug!("the rest of a body cannot be fetched: {failure:?}")
                })
                .ok()?;
            let skip = fits(&response, &same, part, length)?;
            let mut body = response.into_body();
            silence.into_iter().for_each(|silence| body.set_silence(silence));
            Some((body, skip))
        };
        ResumedBody { state: State::Asking(Box::pin(asking)), left, skip: 0 }
    }
}

/// Returns how many bytes a response has before the requested part; `None` if it is not of exactly
/// the same representation. An origin without range requests sends the whole.
fn fits<B: Body>(
    response: &Response<B>,
    same: &MatchingFields,
    part: ByteRange,
    length: u64,
) -> Option<u64> {
    let headers: &HeaderMap = response.headers();
    if !same.are_in(headers) {
        return None;
    }
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let fits = headers.get(header::CONTENT_RANGE) == Some(&part.content_range(length));
            fits.then_some(0)
        }
        StatusCode::OK => {
            (response.body().size_hint().exact() == Some(length)).then_some(part.start)
        }
        _ => None,
    }
}

impl ResumedBody {
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Polls for the next bytes; `None` when there are no more, which is an error while
    /// [`ResumedBody::left`] is not zero.
    pub fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        loop {
            match &mut self.state {
                State::Asking(asking) => {
                    let found = ready!(asking.as_mut().poll(cx));
                    self.state = match found {
                        Some((body, skip)) => {
                            self.skip = skip;
                            State::Reading(Box::new(body))
                        }
                        None => State::Lost,
                    };
                }
                State::Lost => return Poll::Ready(None),
                State::Reading(body) => {
                    let frame = ready!(Pin::new(&mut **body).poll_frame(cx));
                    let data = frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
                    let Some(mut data) = data else {
                        self.state = State::Lost;
                        return Poll::Ready(None);
                    };
                    let skipped = data.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                    data.advance(skipped);
                    self.skip -= skipped as u64;
                    if data.is_empty() {
                        continue;
                    }
                    data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                    self.left -= data.len() as u64;
                    return Poll::Ready(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_representation_fits() {
        let part = ByteRange { start: 5, end: 10 };
        let head = |tag: &'static str, version: &'static str| {
            let fields = [("etag", tag), ("larder-version", version)].map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            HeaderMap::from_iter(fields.into_iter().filter(|(_, value)| !value.is_empty()))
        };
        let skip = |sent: &HeaderMap, status: u16, headers: HeaderMap, range: &str, body: usize| {
            let body = "x".repeat(body);
            let mut response = Response::builder().status(status).header("content-range", range);
            response.headers_mut().unwrap().extend(headers);
            fits(&response.body(body).unwrap(), &MatchingFields::of(sent).unwrap(), part, 20)
        };
        let plain = head("\"a\"", "");
        assert_eq!(skip(&plain, 206, plain.clone(), "bytes 5-9/20", 5), Some(0));
        assert_eq!(skip(&plain, 200, plain.clone(), "", 20), Some(5));
        for (status, tag, range, body) in [
            (200, "\"a\"", "", 19),
            (200, "\"b\"", "", 20),
            (206, "\"b\"", "bytes 5-9/20", 5),
            (206, "W/\"a\"", "bytes 5-9/20", 5),
            (206, "\"a\"", "bytes 5-8/20", 5),
            (206, "\"a\"", "bytes 5-9/21", 5),
        ] {
            let fitted = skip(&plain, status, head(tag, ""), range, body);
            assert_eq!(fitted, None, "{status} {tag} {range}");
        }
        let vouched = head("\"a\"", "1");
        assert_eq!(skip(&vouched, 206, vouched.clone(), "bytes 5-9/20", 5), Some(0));
        for other in [head("\"a\"", "2"), plain.clone()] {
            assert_eq!(skip(&vouched, 206, other.clone(), "bytes 5-9/20", 5), None, "{other:?}");
            assert_eq!(skip(&vouched, 200, other.clone(), "", 20), None, "{other:?}");
        }
        assert!(MatchingFields::of(&head("W/\"a\"", "1")).is_none());
    }
}
