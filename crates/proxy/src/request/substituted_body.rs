//! Body of an origin's response in which texts are replaced while it arrives.
//!
//! Guarantees: memory is bounded by one frame of the source, the longest text and [`OUT_MAX`]; a
//! body that breaks off stays broken.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame};
use upstream::connection::origin_body::OriginBody;

use crate::rules::request_rules::Replacing;

/// Bytes after which replaced bytes are passed on.
const OUT_MAX: usize = 64 << 10;

pub(crate) struct SubstitutedBody {
    /// `None` once the body has ended.
    source: Option<OriginBody>,
    replacing: Replacing,
    pending: BytesMut,
    is_source_done: bool,
}

impl SubstitutedBody {
    pub fn new(source: OriginBody, replacing: Replacing) -> SubstitutedBody {
        let (source, pending) = (Some(source), BytesMut::new());
        SubstitutedBody { source, replacing, pending, is_source_done: false }
    }

    /// Returns the next replaced bytes, if enough of the source has arrived.
    fn step(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        let done = self.replacing.replace(&self.pending, self.is_source_done, &mut out, OUT_MAX);
        self.pending.advance(done);
        (!out.is_empty()).then(|| out.into())
    }
}

impl Body for SubstitutedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if let Some(bytes) = this.step() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if this.is_source_done && this.pending.is_empty() {
                this.source = None;
            }
            let Some(source) = &mut this.source else { return Poll::Ready(None) };
            if this.is_source_done {
                continue;
            }
            match ready!(Pin::new(source).poll_frame(cx)) {
                // Trailers may describe the bytes of the source.
                Some(Ok(frame)) => {
                    this.pending.extend_from_slice(&frame.into_data().unwrap_or_default());
                }
                Some(Err(error)) => {
                    this.source = None;
                    this.pending.clear();
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                None => this.is_source_done = true,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none()
    }
}
