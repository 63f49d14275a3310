//! Sends a response on an HTTP/2 stream: converts its head to HTTP/2, and sends its body as flow
//! control permits.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::message::cut_short::Truncated;
use crate::message::date;
use bytes::Bytes;
use h2::{Reason, SendStream};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, header};
use http_body::{Body, Frame};
use net::clock::TokioClock;
use net::http2_stream::poll_room;
use tokio::task::yield_now;

use crate::response::response_body::ResponseBody;
use crate::response::trailers::may_be_trailer;

/// Flow-control capacity reserved by a stream at a time. Concurrent streams share the connection's
/// capacity.
const CLAIM: usize = 32 << 10;

/// Connection-specific fields, which are forbidden in HTTP/2 (RFC 9113, 8.2.2).
static OF_HTTP_1: [HeaderName; 6] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Converts an HTTP/1 response head to HTTP/2. `body` is the body of the response; for HEAD, the
/// one that GET would get.
pub(super) fn settle(
    headers: &mut HeaderMap,
    body: &ResponseBody,
    may_have_length: bool,
    clock: TokioClock,
) {
    for name in &OF_HTTP_1 {
        headers.remove(name);
    }
    date::set(headers, clock);
    if let Some(length) = body.size_hint().exact().filter(|_| !body.is_end_stream())
        && may_have_length
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Sends a body that is complete in memory if the client's window holds all of it. Returns whether
/// it did.
pub(super) fn send_whole(body: &mut ResponseBody, sink: &mut SendStream<Bytes>) -> bool {
    let Some(length) = body.whole_length().and_then(|length| usize::try_from(length).ok()) else {
        return false;
    };
    if length > CLAIM {
        return false;
    }
    sink.reserve_capacity(length);
    if sink.capacity() < length {
        return false;
    }
    if let Some(bytes) = body.take_whole() {
        // Fails if the client is gone.
        let _ = sink.send_data(bytes, true);
    }
    true
}

/// Sends a body to its end, or until the client resets the stream.
pub(super) async fn send_body(mut body: ResponseBody, mut sink: SendStream<Bytes>) {
    loop {
        let next = poll_fn(|cx| poll_next(&mut body, &mut sink, cx)).await;
        match next {
            Next::Gone => return,
            Next::Frame(None) => {
                // Fails if the client is gone.
                let _ = sink.send_data(Bytes::new(), true);
                return;
            }
            // The client gets the bytes before the break but must not take them for the whole body.
            // A reset drops queued writes, so the connection writes first.
            Next::Frame(Some(Err(_))) => {
                yield_now().await;
                return sink.send_reset(Reason::INTERNAL_ERROR);
            }
            Next::Frame(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    let last = body.is_end_stream();
                    if send_data(&mut sink, data, last).await.is_none() || last {
                        return;
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return end(&mut sink, trailers);
                    }
                }
            },
        }
    }
}

/// Ends a stream with those trailers that are permitted. Fails silently if the client is gone.
fn end(sink: &mut SendStream<Bytes>, trailers: HeaderMap) {
    let all = trailers.iter().filter(|(name, _)| may_be_trailer(name));
    let trailers: HeaderMap = all.map(|(name, value)| (name.clone(), value.clone())).collect();
    let _ = match trailers.is_empty() {
        true => sink.send_data(Bytes::new(), true),
        false => sink.send_trailers(trailers),
    };
}

enum Next {
    Frame(Option<Result<Frame<Bytes>, Truncated>>),
    /// The client reset the stream.
    Gone,
}

fn poll_next(
    body: &mut ResponseBody,
    sink: &mut SendStream<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<Next> {
    match Pin::new(body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Next::Frame(frame)),
        Poll::Pending => sink.poll_reset(cx).map(|_| Next::Gone),
    }
}

/// Sends a piece as flow control permits. Returns `None` if the stream is over.
async fn send_data(sink: &mut SendStream<Bytes>, mut data: Bytes, last: bool) -> Option<()> {
    if data.is_empty() {
        return sink.send_data(data, last).ok();
    }
    while !data.is_empty() {
        sink.reserve_capacity(data.len().min(CLAIM));
        let room = poll_fn(|cx| poll_room(sink, cx)).await?;
        let piece = data.split_to(room.min(data.len()));
        sink.send_data(piece, last && data.is_empty()).ok()?;
    }
    Some(())
}
