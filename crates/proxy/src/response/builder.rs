//! Builds the response to one request from a stored object or the head of a fill: its portion
//! ([`RequestContext::portion`]), HEAD, and the fields that a cache adds.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, header};
use net::random::random;
use semantics::multipart::Multipart;
use semantics::packed::Packed;
use semantics::range::ByteRange;
use semantics::{
    EncodedHead, Portion, Seconds, Spellings, StoredHead, hop_by_hop, meta, one_exchange, range,
    validators, value,
};

use crate::body::resume::Resume;
use crate::body::stored_body::{EntryBody, Stored, TrailedBody};
use crate::object::stored_response::StoredResponse;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::Outcome;
use crate::partial::multipart_body::{MultipartBody, Whole};
use crate::request::context::RequestContext;
use crate::request::request_values::ResponseValues;
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::stored_fields::{StoredFields, StoredPart};
use crate::response::transaction::Transaction;
use crate::rules::request_rules::DECISION;

pub(crate) struct ResponseParts<'a> {
    pub status: StatusCode,
    /// Fields to send, complete except for `Content-Length`.
    pub fields: HeaderMap,
    pub spellings: Spellings,
    pub portion: Portion,
    /// Body length in bytes, if known.
    pub length: Option<u64>,
    pub body: Box<dyn FnOnce(BodyPart) -> BodySource + 'a>,
}

/// The part of a body to send.
pub(crate) enum BodyPart {
    Whole,
    Part(ByteRange),
    Parts(Multipart),
}

/// Builds the response to a GET or HEAD.
pub(crate) fn build(
    method: &Method,
    mut transaction: Transaction,
    outcome: Outcome,
    response: ResponseParts<'_>,
) -> Response<ResponseBody> {
    let ResponseParts { mut status, fields: mut headers, spellings, portion, length, body } =
        response;
    let source = match (portion, length) {
        (Portion::NotModified, _) => {
            status = StatusCode::NOT_MODIFIED;
            headers = validators::not_modified_headers(&headers);
            BodySource::Empty
        }
        (Portion::Part(part), Some(length)) => {
            status = StatusCode::PARTIAL_CONTENT;
            one_exchange::remove_content_digests(&mut headers);
            headers.insert(header::CONTENT_RANGE, part.content_range(length));
            headers.insert(header::CONTENT_LENGTH, value::of_number(part.count()));
            body(BodyPart::Part(part))
        }
        (Portion::Parts(ranges), Some(length)) => {
            status = StatusCode::PARTIAL_CONTENT;
            one_exchange::remove_content_digests(&mut headers);
            let boundary = u128::from(random()) << 64 | u128::from(random());
            let content_type = headers.get(header::CONTENT_TYPE);
            let frame = Multipart::new(&ranges, length, content_type, boundary);
            headers.insert(header::CONTENT_TYPE, frame.content_type());
            headers.insert(header::CONTENT_LENGTH, value::of_number(frame.total_length()));
            body(BodyPart::Parts(frame))
        }
        (Portion::Unsatisfiable, Some(length)) => {
            status = StatusCode::RANGE_NOT_SATISFIABLE;
            one_exchange::remove_content_digests(&mut headers);
            headers.insert(header::CONTENT_RANGE, range::unsatisfied_content_range(length));
            for name in OF_THE_WHOLE {
                headers.remove(name);
            }
            BodySource::Empty
        }
        _ if *method == Method::HEAD => {
            // A 204 has no length (RFC 9110, 8.6).
            if let Some(length) = length.filter(|_| status != StatusCode::NO_CONTENT) {
                headers.insert(header::CONTENT_LENGTH, value::of_number(length));
            }
            BodySource::Empty
        }
        _ => body(BodyPart::Whole),
    };
    transaction.note_answer(status, outcome, &headers);
    let body = ResponseBody::new(source, transaction).with_spellings(spellings);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Fields of a stored response that a 416 lacks: they describe its body, and its lifetime, by which
/// another cache would keep the refusal.
const OF_THE_WHOLE: [HeaderName; 8] = [
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
];

pub(crate) struct StoredBytes<'a, F> {
    /// The encoded head, which [`EncodedHead::read`] has checked.
    pub meta: &'a Bytes,
    /// The facts in the head.
    pub facts: Packed,
    pub length: u64,
    /// The part of the body to send.
    pub part: StoredPart,
    /// Makes the source of a range of the body.
    pub source: F,
}

/// Returns the part of a stored response that a request gets, given its encoded head, which was
/// checked; `None` if it gets several parts or its ranges cannot be satisfied.
pub(crate) fn stored_part(
    context: &RequestContext,
    meta: &[u8],
    length: u64,
) -> Option<StoredPart> {
    if !context.facts.conditional && !context.facts.has_range {
        return Some(StoredPart::Whole);
    }
    let head = EncodedHead::checked(meta)?;
    match context.portion(&head.selected(), Some(length)) {
        Portion::Whole => Some(StoredPart::Whole),
        Portion::NotModified => Some(StoredPart::NotModified),
        Portion::Part(range) => Some(StoredPart::Range(range)),
        Portion::Parts(_) | Portion::Unsatisfiable => None,
    }
}

/// Answers from a stored response, whose fields are sent in their stored form.
pub(crate) fn from_bytes(
    context: &RequestContext,
    mut transaction: Transaction,
    status: CacheStatus,
    age: Seconds,
    found: StoredBytes<'_, impl FnOnce(Range<u64>) -> BodySource>,
) -> Response<ResponseBody> {
    let StoredBytes { meta: bytes, facts, length, part, source } = found;
    let code = match part {
        StoredPart::Whole => facts.status(),
        StoredPart::NotModified => StatusCode::NOT_MODIFIED,
        StoredPart::Range(_) => StatusCode::PARTIAL_CONTENT,
    };
    let outcome = status.outcome;
    let status = status.ttl(facts.ttl(context.now()));
    let age = context.site().vouched().is_none().then_some(age);
    let rule = context.rule.clone().filter(|rule| rule.unfolds_vary());
    let response = ResponseValues { status: code, outcome, age: age.map(|age| age.get().into()) };
    let is_decision = |name: &[u8]| name == DECISION.as_str().as_bytes();
    let decision = || meta::fields(bytes).find(|(name, _)| is_decision(name)).map(|(_, of)| of);
    let edits = context.filled_edits(response, decision);
    let fields = StoredFields { meta: bytes.clone(), age, part, length, status, rule, edits };
    let source = match part {
        StoredPart::NotModified => BodySource::Empty,
        _ if context.head.method == Method::HEAD => BodySource::Empty,
        StoredPart::Whole => source(0..length),
        StoredPart::Range(range) => source(range.as_range()),
    };
    transaction.note_stored(code, outcome, age, |name| fields.value(name));
    let body = ResponseBody::new(source, transaction).with_stored_fields(fields);
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
}

/// Answers from a stored object. `head` replaces the object's own head after a validation.
pub(crate) fn from_entry(
    context: &RequestContext,
    transaction: Transaction,
    status: CacheStatus,
    age: Seconds,
    stored: &Rc<StoredResponse>,
    head: Option<&StoredHead>,
) -> Response<ResponseBody> {
    if head.is_none()
        && !stored.is_of_head()
        && let Some(meta) = stored.head.meta()
        && let Some(encoded) = EncodedHead::read(meta)
        && let Some(part) = stored_part(context, meta, stored.length())
    {
        let (facts, source) = (encoded.facts, |range| source(context, stored, None, range));
        let found = StoredBytes { meta, facts, length: stored.length(), part, source };
        return from_bytes(context, transaction, status, age, found);
    }
    let shown = head.unwrap_or(stored.head.stored());
    let (mut fields, spellings) = (shown.reply_headers(age), shown.spellings().clone());
    context.make_own(&mut fields);
    let status = status.ttl(shown.packed().ttl(context.now()));
    status.append_to(transaction.pseudonym(), &mut fields);
    let outcome = status.outcome;
    let length = stored.length();
    // Common case: the whole body, which needs no boxed source.
    if context.head.method == Method::GET && !context.facts.has_range && !context.facts.conditional
    {
        let mut transaction = transaction;
        let mut source = source(context, stored, head, 0..length);
        if let Some(trailers) = shown.trailers()
            && hop_by_hop::accepts_trailers(&context.head.fields)
        {
            source = trailed(source, trailers, &mut fields);
        }
        let mut response = Response::new(());
        *response.status_mut() = shown.status();
        *response.headers_mut() = fields;
        transaction.note_answer(shown.status(), outcome, response.headers());
        let body = ResponseBody::new(source, transaction);
        return response.map(|()| body.with_spellings(spellings));
    }
    let body = |wanted| match wanted {
        BodyPart::Whole => source(context, stored, head, 0..length),
        BodyPart::Part(part) => source(context, stored, head, part.as_range()),
        BodyPart::Parts(frame) => {
            let whole = Whole::Stored(context.store(), stored.clone());
            BodySource::Multipart(Box::new(MultipartBody::new(whole, frame)))
        }
    };
    // Only the origin knows the body length of an object stored from a HEAD.
    let length = (!stored.is_of_head()).then_some(length);
    let portion = context.portion(&shown.selected(), length);
    let status = shown.status();
    let body = Box::new(body);
    let response = ResponseParts { status, fields, spellings, portion, length, body };
    build(&context.head.method, transaction, outcome, response)
}

/// Returns the source of the bytes `range` of a stored object. `head` is its head, if it differs
/// from the object's own.
fn source(
    context: &RequestContext,
    stored: &StoredResponse,
    head: Option<&StoredHead>,
    range: Range<u64>,
) -> BodySource {
    match stored.entry.whole() {
        Some(bytes) => BodySource::Whole(bytes.slice(range.start as usize..range.end as usize)),
        None => {
            let head = head.unwrap_or(stored.head.stored());
            let rescue = Resume::new(context, head, stored.entry.len());
            BodySource::Entry(Box::new(EntryBody::new(context.store(), stored, range, rescue)))
        }
    }
}

/// Adds the trailers to a stored body and announces them. The length is left out, because trailers
/// require chunks. Clients that send conditions, ask for a range or do not accept trailers get none
/// (RFC 9110, 6.5.1).
fn trailed(source: BodySource, trailers: &HeaderMap, fields: &mut HeaderMap) -> BodySource {
    let body = match source {
        BodySource::Whole(bytes) => Stored::Whole(bytes),
        BodySource::Entry(body) => Stored::Entry(body),
        other => return other,
    };
    let names: Vec<&str> = trailers.keys().map(|name| name.as_str()).collect();
    if let Ok(names) = HeaderValue::try_from(names.join(", ")) {
        fields.insert(header::TRAILER, names);
    }
    fields.remove(header::CONTENT_LENGTH);
    BodySource::Trailed(Box::new(TrailedBody::new(body, trailers.clone())))
}
