//! Body of an HTTP/2 request. Flow-control capacity is released when a piece has been passed on, so
//! the client sends only as fast as the upstream takes.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use http::header;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use upstream::message::request_body::BrokenOff;

use crate::client::handle::Client;
use crate::client::upload_rate::Watched;

pub(crate) struct StreamBody {
    stream: RecvStream,
    /// Bytes still to come, if the head states a length. The `h2` crate enforces it.
    left: Option<u64>,
    /// Size of the piece returned last. The next poll means that it was consumed.
    owed: usize,
    data_ended: bool,
    watched: Watched,
    /// Client that waits for a 100 Continue before it sends the body (RFC 9110, 10.1.1).
    expectant: Option<Rc<Client>>,
}

impl StreamBody {
    pub(crate) fn new(stream: RecvStream, head: &HeaderMap, of: &Rc<Client>) -> StreamBody {
        let length = head.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
        let expects = head.get(header::EXPECT);
        let expects = expects.is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(CONTINUE));
        let expectant = expects.then(|| of.clone());
        let watched = Watched::new(&of.state);
        StreamBody { stream, left: length, owed: 0, data_ended: false, watched, expectant }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(client) = self.expectant.take() {
            client.ask_for_body();
        }
        let owed = std::mem::take(&mut self.owed);
        if owed > 0 {
            // Fails if the stream has ended.
            let _ = self.stream.flow_control().release_capacity(owed);
        }
        let upload = &self.watched.upload;
        if upload.is_given_up() {
            return Poll::Ready(Some(Err(BrokenOff::Slow)));
        }
        if !self.data_ended {
            let Poll::Ready(next) = self.stream.poll_data(cx) else {
                upload.waits(cx);
                return Poll::Pending;
            };
            match next {
                Some(Ok(data)) => {
                    upload.note_received(data.len());
                    self.owed = data.len();
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(BrokenOff::Http2(error)))),
                None => self.data_ended = true,
            }
        }
        let Poll::Ready(trailers) = self.stream.poll_trailers(cx) else {
            upload.waits(cx);
            return Poll::Pending;
        };
        upload.note_received(0);
        let trailers = trailers.map_err(BrokenOff::Http2);
        Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.get_mut().poll_next(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

const CONTINUE: &[u8] = b"100-continue";
