//! Buffers request bodies before the origin is asked, so that a slow client holds neither an origin
//! connection nor a request slot at the origin while it sends.
//!
//! A body that exceeds the limit, or for which no memory is available, is streamed after the
//! buffered bytes. A request that announces a longer body and expects `100 Continue` is left to the
//! origin, which may refuse it. gRPC bodies are never buffered, because both sides send at once.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::header;
use http_body::Body as _;
use semantics::Fields;
use upstream::connection::request_body::status_of;
use upstream::message::request_body::{BrokenOff, BufferedBody, RequestBody};

use crate::client::limits::ClientLimits;
use crate::object::buffers::{Buffered, Buffers};
use crate::origin::failure::Failure;
use crate::request::context::RequestContext;

/// Reads as much of a request's body as must be buffered before the origin is asked.
///
/// # Errors
///
/// The body broke off.
pub(crate) async fn read_body(
    context: &RequestContext,
    body: RequestBody,
) -> Result<RequestBody, Failure> {
    let limits = &context.options.client;
    if !is_read_first(limits, &context.head.fields, &body) {
        return Ok(body);
    }
    let buffers = &context.services.shared.buffers;
    let shares = buffers.shares(context.client.address.ip(), context.target().host);
    let held = Buffers::begin(buffers, shares, limits.buffers);
    read(body, limits.request_buffer, held).await.map_err(|error| {
        let (status, text) = status_of(&error);
        Failure::Request(status, text.to_owned())
    })
}

fn is_read_first(limits: &ClientLimits, fields: &impl Fields, body: &RequestBody) -> bool {
    let is_long = body.size_hint().exact().is_some_and(|length| length > limits.request_buffer);
    let waits = fields.has(&header::EXPECT);
    let is_left = limits.request_buffer == 0 || (is_long && waits) || is_grpc(fields);
    !(is_left || body.is_end_stream())
}

/// Returns whether a request is gRPC, in any of its forms.
fn is_grpc(fields: &impl Fields) -> bool {
    let kind = fields.line(&header::CONTENT_TYPE).unwrap_or_default();
    [&b"application/grpc"[..], b"application/connect+"].iter().any(|prefix| {
        kind.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
    })
}

/// Reads until more than `most` bytes are buffered or no more memory is available.
async fn read(
    mut body: RequestBody,
    most: u64,
    mut held: Buffered,
) -> Result<RequestBody, BrokenOff> {
    let has_length = body.size_hint().exact().is_some();
    let mut front = BytesMut::new();
    loop {
        let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else {
            return Ok(made(front, RequestBody::Empty, held, has_length));
        };
        // Request trailers are not forwarded.
        let Ok(data) = frame?.into_data() else { continue };
        let is_full = (front.len() + data.len()) as u64 > most || !held.grow(data.len() as u64);
        // Copied, because a small piece would keep the buffer it was read into alive.
        front.extend_from_slice(&data);
        if body.is_end_stream() {
            body = RequestBody::Empty;
            return Ok(made(front, body, held, has_length));
        }
        if is_full {
            return Ok(made(front, body, held, has_length));
        }
    }
}

fn made(front: BytesMut, rest: RequestBody, held: Buffered, has_length: bool) -> RequestBody {
    let front: Bytes = front.freeze();
    RequestBody::Buffered(Box::new(BufferedBody::new(front, rest, Box::new(held), has_length)))
}
