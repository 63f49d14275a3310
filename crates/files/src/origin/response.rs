//! The heads of responses: pure functions of the file that was found.

use std::borrow::Cow;
use std::time::SystemTime;

use crate::File;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use semantics::range::{self, ByteRange};
use semantics::validators::{self, Selected, Verdict};
use semantics::{Portion, RequestFacts, Time};
use upstream::send::origin::VERSION;

use crate::origin::compress;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// The part of a file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// One range of bytes, with status and fields.
    Bytes(StatusCode, HeaderMap, ByteRange),
    /// Several ranges, with the fields of the whole.
    Parts(HeaderMap, Vec<ByteRange>),
    /// Only status and fields.
    Head(StatusCode, HeaderMap),
}

/// Returns the fields of a response with the whole file. The tag of a file that changed a moment
/// ago is weak, because another change may leave the same timestamps.
pub(crate) fn fields(file: &File, now: SystemTime) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(8);
    let mut put = |name, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            fields.insert(name, value);
        }
    };
    put(header::CONTENT_TYPE, &file.media_type);
    let tag = compress::etag(&file.representation());
    match file.version.is_settled(now) {
        true => put(header::ETAG, &tag),
        false => put(header::ETAG, &format!("W/{tag}")),
    }
    if let Some(date) = file.version.last_modified(now) {
        put(header::LAST_MODIFIED, &date);
    }
    if let Some(coding) = file.coding.or(file.compress) {
        put(header::CONTENT_ENCODING, coding.name());
    }
    if file.varies {
        put(header::VARY, "accept-encoding");
    }
    put(header::ACCEPT_RANGES, "bytes");
    put(VERSION, &compress::identity(&file.representation()));
    fields
}

/// Returns the request without its conditions if the cache's stored response was made from another
/// state of the file than these fields: the tag may be the same nevertheless.
pub(crate) fn settled<'a>(request: &'a HeaderMap, fields: &HeaderMap) -> Cow<'a, HeaderMap> {
    let stored = request.get(VERSION);
    if stored.is_none() || stored == fields.get(VERSION) {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    request.remove(header::IF_NONE_MATCH);
    request.remove(header::IF_MODIFIED_SINCE);
    Cow::Owned(request)
}

/// Decides which part of a file of `length` bytes with these fields to send. Without a length, as
/// before a file is compressed, it is all or nothing.
pub(crate) fn decide(
    method: &Method,
    request: &HeaderMap,
    fields: HeaderMap,
    length: Option<u64>,
    now: SystemTime,
) -> Sent {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_unix(now.as_secs());
    let selected = Selected::of(StatusCode::OK, &fields, now).vouched(now);
    match validators::as_origin(method, request, &selected, now) {
        Verdict::NotModified => return Sent::Head(StatusCode::NOT_MODIFIED, fields),
        Verdict::PreconditionFailed => {
            return Sent::Head(StatusCode::PRECONDITION_FAILED, HeaderMap::new());
        }
        Verdict::Proceed | Verdict::ForOrigin => {}
    }
    let facts = RequestFacts { conditional: false, ..RequestFacts::of(method, request) };
    let end = length.unwrap_or_default();
    let whole = ByteRange { start: 0, end };
    let portion = Portion::of(&facts, method, request, &selected, length, now);
    let (status, range) = match portion {
        Portion::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Portion::Unsatisfiable => {
            let mut fields = HeaderMap::new();
            fields.insert(header::CONTENT_RANGE, range::unsatisfied_content_range(end));
            return Sent::Head(StatusCode::RANGE_NOT_SATISFIABLE, fields);
        }
        Portion::Parts(parts) => return Sent::Parts(fields, parts),
        Portion::Whole | Portion::NotModified => (StatusCode::OK, whole),
    };
    let mut fields = fields;
    if length.is_some() {
        fields.insert(header::CONTENT_LENGTH, range.count().into());
    }
    if status == StatusCode::PARTIAL_CONTENT {
        fields.insert(header::CONTENT_RANGE, range.content_range(end));
    }
    match *method == Method::HEAD {
        true => Sent::Head(status, fields),
        false => Sent::Bytes(status, fields, range),
    }
}

/// Returns whether the client wants a listing as JSON, by the same rule as Caddy.
pub(crate) fn accepts_json(request: &HeaderMap) -> bool {
    let is_json = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("application/json"))
    };
    request.get_all(header::ACCEPT).iter().any(is_json)
}

/// Returns whether a request is for a whole file, unconditionally.
pub(crate) fn is_of_all(method: &Method, request: &HeaderMap) -> bool {
    let facts = RequestFacts::of(method, request);
    *method == Method::GET && !facts.conditional && !facts.has_range
}

/// Returns the response to a method that files do not support, or to OPTIONS.
pub(crate) fn of_method(method: &Method) -> Option<(StatusCode, HeaderMap)> {
    let status = match *method {
        Method::GET | Method::HEAD => return None,
        Method::OPTIONS => StatusCode::NO_CONTENT,
        _ => StatusCode::METHOD_NOT_ALLOWED,
    };
    Some((status, HeaderMap::from_iter([(header::ALLOW, METHODS)])))
}

/// Returns the body text of a response without a configured error page.
pub(crate) fn text(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or("Error");
    format!("{} {reason}\n", status.as_u16())
}
