//! Compresses a response of the origin that is for one client alone.

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Method, Response, StatusCode};
use http_body::Body as _;
use semantics::compressed::Form;
use semantics::{ExchangeTimes, compressed, storability};
use upstream::connection::origin_body::OriginBody;

use crate::body::encoded_body::{EncodedBody, Flush, PermittedEncoder};
use crate::request::context::RequestContext;

/// Compresses a body and adapts its fields, if the client gets the response compressed. Says in
/// `Vary` that this depends on the client. Without a body that can be compressed, only adapts the
/// fields.
pub(crate) fn for_client(
    context: &RequestContext,
    status: StatusCode,
    fields: &mut HeaderMap,
    body: Option<Box<OriginBody>>,
) -> Option<Box<OriginBody>> {
    let coding = context.negotiated.coding;
    let is_304 = status == StatusCode::NOT_MODIFIED;
    if !context.negotiated.is_on || !(is_304 || context.options.may_compress(status, fields)) {
        return body;
    }
    compressed::vary_by_coding(fields);
    let Some(coding) = coding else { return body };
    if is_304 {
        compressed::answer_with_tag_of_form(fields, &context.head.fields, coding.name());
        return body;
    }
    let body = body?;
    if !has_size(context, fields, &body) {
        return Some(body);
    }
    if context.head.method == Method::HEAD {
        let form = if is_storable(context, status, fields) { Form::Stored } else { Form::Streamed };
        compressed::describe(fields, coding.name(), form);
        return Some(body);
    }
    let shared = &context.services.shared;
    let Some(encoder) = PermittedEncoder::new(&shared.encoders, coding, &shared.observer) else {
        return Some(body);
    };
    compressed::describe(fields, coding.name(), Form::Streamed);
    let limits = context.options.limits(context.rule.as_deref());
    let (silence, spellings) = (limits.body_timeout, body.spellings().clone());
    let body = EncodedBody::new(*body, encoder, Flush::WhenIdle);
    Some(Box::new(OriginBody::stream(body, silence).spelled(spellings)))
}

/// Like [`for_client`], for a whole response.
pub(crate) fn response(
    context: &RequestContext,
    response: Response<OriginBody>,
) -> Response<OriginBody> {
    let (mut head, body) = response.into_parts();
    let body = for_client(context, head.status, &mut head.headers, Some(Box::new(body)));
    Response::from_parts(head, body.map_or_else(|| OriginBody::whole(Bytes::new()), |body| *body))
}

/// Returns whether a GET would store the response, so that its form has a strong tag.
fn is_storable(context: &RequestContext, status: StatusCode, fields: &HeaderMap) -> bool {
    let (facts, now) = (context.facts.of_get(), context.now());
    let settings = &*context.settings_for(status, fields);
    let times = ExchangeTimes { requested: now, received: now };
    storability::judge(&facts, status, fields, times, settings).is_ok()
}

/// Returns the length of the body that the fields of a response announce.
pub(crate) fn announced_length(fields: &HeaderMap) -> Option<u64> {
    fields.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether a body is neither too small nor too large, as far as its length is known.
fn has_size(context: &RequestContext, fields: &HeaderMap, body: &OriginBody) -> bool {
    let length = match context.head.method {
        Method::HEAD => announced_length(fields),
        _ => body.size_hint().exact(),
    };
    length.is_none_or(|length| context.options.compress.has_size(length))
}
