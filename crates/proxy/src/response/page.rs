//! Puts an error page in place of an error.

use http::Method;
use http::header::{self, HeaderName, HeaderValue};
use semantics::one_exchange;

use crate::observe::outcome::Outcome;
use crate::request::context::RequestContext;
use crate::request::request_values::{RequestValues, ResponseValues};
use crate::response::client_response::ClientResponse;
use crate::response::response_body::BodySource;
use crate::response::stored_fields;

/// Fields that describe the body of the error, or for how long the error may be kept.
const OF_ERROR: [HeaderName; 14] = [
    header::ACCEPT_RANGES,
    header::AGE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
];

/// Returns the error page of the rule in place of `response`, if there is one for it. It is sent
/// with `no-store`, since it says nothing about the URL.
pub(crate) fn in_place_of(context: &RequestContext, response: ClientResponse) -> ClientResponse {
    let outcome = response.body().outcome().unwrap_or(Outcome::Tunnel);
    let Some(edits) = context.client_edits() else { return response };
    let Some(page) = edits.error_page(response.status(), outcome) else { return response };
    let is_head = context.head.method == Method::HEAD;
    let mut response = stored_fields::with_map(response, &context.services, (is_head, false));
    let answer = ResponseValues { status: response.status(), outcome, age: None };
    let body = page.body.bytes(&RequestValues { response: Some(answer), ..context.values() });
    let fields = response.headers_mut();
    OF_ERROR.iter().for_each(|name| _ = fields.remove(name));
    one_exchange::remove_content_digests(fields);
    fields.insert(header::CONTENT_TYPE, page.kind.clone());
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(status) = page.status {
        *response.status_mut() = status;
    }
    let source =
        if is_head || body.is_empty() { BodySource::Empty } else { BodySource::Whole(body) };
    let status = response.status();
    let (head, body) = response.into_parts();
    let body = body.replaced(source, status, &head.headers);
    ClientResponse::from_parts(head, body)
}
