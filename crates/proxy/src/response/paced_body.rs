//! Bodies sent at a limited bandwidth. Between two pieces the body waits on a timer, as if its
//! source were slow; a fetch that others share goes on meanwhile as with any slow client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use tokio::time::{Sleep, sleep};

use crate::message::cut_short::Truncated;
use crate::request::held::Pacer;

/// Result of polling a source.
pub(crate) type NextFrame = Option<Result<Frame<Bytes>, Truncated>>;

/// A source of frames, read at a limited bandwidth.
pub(crate) struct PacedBody<S> {
    pub source: S,
    pacer: Pacer,
    /// Bytes of the source that are not sent yet.
    pub bytes: Bytes,
    /// How many of them may be sent, once the timer has run out.
    granted: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> PacedBody<S> {
    pub fn new(source: S, pacer: Pacer) -> PacedBody<S> {
        PacedBody { source, pacer, bytes: Bytes::new(), granted: 0, timer: None }
    }

    /// Returns the next bytes when they are due. `poll_source` polls the source.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        poll_source: impl FnOnce(&mut S, &mut Context<'_>) -> Poll<NextFrame>,
    ) -> Poll<NextFrame> {
        if self.bytes.is_empty() {
            match ready!(poll_source(&mut self.source, cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.bytes = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        if self.granted == 0 {
            let (bytes, wait) = self.pacer.next(self.bytes.len() as u64);
            self.granted = bytes;
            self.timer = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
        }
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
        }
        // At most the length of `bytes`.
        let piece = self.bytes.split_to(std::mem::take(&mut self.granted) as usize);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
