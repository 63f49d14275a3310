//! Body that is compressed while it is sent.
//!
//! Guarantees: one step encodes at most [`SLICE`] bytes, and other tasks run between two steps.
//! Memory is bounded by the encoder's own, one frame of the source and the output of one step.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use compression::{Coding, Encoder, SLICE};
use http_body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

use crate::body::fill_body::FillBody;
use crate::body::stored_body::EntryBody;
use crate::observe::event::Event;
use crate::observe::observer::Observer;
use crate::observe::outcome::Error;

/// When encoded bytes leave the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// When the encoder has enough of them: equal bodies yield equal bytes.
    WhenFull,
    /// Also while the source has nothing more: nothing waits for later bytes.
    WhenIdle,
}

/// An encoder and the permit to use it.
pub(crate) struct PermittedEncoder {
    encoder: Encoder,
    observer: Arc<dyn Observer>,
    _permit: OwnedSemaphorePermit,
}

impl PermittedEncoder {
    /// Returns an encoder, unless too many are running.
    pub fn new(
        permits: &Arc<Semaphore>,
        coding: Coding,
        observer: &Arc<dyn Observer>,
    ) -> Option<PermittedEncoder> {
        let encoder = permits.clone().try_acquire_owned().ok().and_then(|permit| {
            let (encoder, observer) = (Encoder::new(coding).ok()?, observer.clone());
            Some(PermittedEncoder { encoder, observer, _permit: permit })
        });
        if encoder.is_none() {
            observer.count(Event::CompressionSkipped, 1);
        }
        encoder
    }
}

pub(crate) struct EncodedBody<B> {
    source: B,
    flush: Flush,
    /// `None` once the body has ended.
    encoder: Option<PermittedEncoder>,
    /// Bytes of the source that are not in `slice` yet.
    received: Bytes,
    /// The slice that is being collected.
    slice: Vec<u8>,
    has_unflushed: bool,
    is_source_done: bool,
    /// Lets other tasks run after a step.
    pause: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl<B> EncodedBody<B> {
    pub fn new(source: B, encoder: PermittedEncoder, flush: Flush) -> EncodedBody<B> {
        encoder.observer.count(Event::Compressed, 1);
        EncodedBody {
            source,
            flush,
            encoder: Some(encoder),
            received: Bytes::new(),
            slice: Vec::new(),
            has_unflushed: false,
            is_source_done: false,
            pause: None,
        }
    }

    /// Moves received bytes to the slice. Returns whether the slice is complete.
    fn collect(&mut self) -> bool {
        let take = (SLICE - self.slice.len()).min(self.received.len());
        self.slice.extend_from_slice(&self.received.split_to(take));
        self.slice.len() == SLICE
    }

    /// Encodes the slice. Returns the output, which may be empty.
    fn encode(&mut self, flushes: bool) -> io::Result<Vec<u8>> {
        let Some(PermittedEncoder { encoder, observer, .. }) = &mut self.encoder else {
            return Ok(Vec::new());
        };
        encoder.write(&self.slice)?;
        if flushes {
            encoder.flush()?;
        }
        observer.count(Event::BytesBeforeCompression, self.slice.len() as u64);
        self.slice.clear();
        self.has_unflushed = !flushes;
        let made = encoder.take();
        observer.count(Event::BytesAfterCompression, made.len() as u64);
        Ok(made)
    }

    /// Encodes the last slice and ends the body.
    fn finish(&mut self) -> io::Result<Vec<u8>> {
        let mut made = self.encode(false)?;
        if let Some(PermittedEncoder { encoder, observer, .. }) = self.encoder.take() {
            let rest = encoder.finish()?;
            observer.count(Event::BytesAfterCompression, rest.len() as u64);
            made.extend_from_slice(&rest);
        }
        Ok(made)
    }
}

impl<B> Body for EncodedBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            if this.encoder.is_none() {
                return Poll::Ready(None);
            }
            let made = if this.collect() {
                this.pause = Some(Box::pin(yield_now()));
                this.encode(false)
            } else if this.is_source_done {
                this.finish()
            } else {
                match Pin::new(&mut this.source).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        // Trailers may describe the bytes of the source.
                        this.received = frame.into_data().unwrap_or_default();
                        continue;
                    }
                    Poll::Ready(Some(Err(error))) => {
                        this.encoder = None;
                        return Poll::Ready(Some(Err(io::Error::other(error))));
                    }
                    Poll::Ready(None) => {
                        this.is_source_done = true;
                        continue;
                    }
                    Poll::Pending => {
                        let has_more = this.has_unflushed || !this.slice.is_empty();
                        if this.flush == Flush::WhenFull || !has_more {
                            return Poll::Pending;
                        }
                        this.encode(true)
                    }
                }
            };
            match made {
                Ok(made) if made.is_empty() => {}
                Ok(made) => return Poll::Ready(Some(Ok(Frame::data(made.into())))),
                Err(error) => {
                    this.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}

/// A body without a coding that the cache has or is fetching.
pub(crate) enum PlainBody {
    Whole(Bytes),
    Entry(Box<EntryBody>),
    Fill(Box<FillBody>),
}

/// The error of a [`PlainBody`] that broke off.
#[derive(Debug)]
pub(crate) struct Broken(Error);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body without a coding broke off")
    }
}

impl std::error::Error for Broken {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        error.downcast::<Broken>().map_or(Error::Internal, |Broken(why)| why)
    }
}

impl Body for PlainBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Poll::Ready(match self.get_mut() {
            PlainBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
            }
            PlainBody::Entry(body) => ready!(body.poll(cx))
                .map(|next| next.map(Frame::data).map_err(|_| Broken(Error::Store))),
            PlainBody::Fill(body) => ready!(body.poll(cx)).map(|next| next.map_err(Broken)),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use super::*;
    use crate::observe::observer::Unobserved;

    /// Frames of a body; `None` stands for a wait.
    struct Frames(VecDeque<Option<Bytes>>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match self.0.pop_front() {
                Some(Some(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(None) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                None => Poll::Ready(None),
            }
        }
    }

    async fn encoded(frames: Vec<Option<Bytes>>, flush: Flush) -> Vec<Bytes> {
        let (permits, observer) = (Arc::new(Semaphore::new(1)), Arc::new(Unobserved) as Arc<_>);
        let encoder = PermittedEncoder::new(&permits, Coding::Gzip, &observer).unwrap();
        assert!(PermittedEncoder::new(&permits, Coding::Gzip, &observer).is_none());
        let mut body = EncodedBody::new(Frames(frames.into()), encoder, flush);
        let mut made = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            made.push(frame.unwrap().into_data().unwrap());
        }
        assert!(body.is_end_stream() && permits.available_permits() == 1);
        made
    }

    #[tokio::test]
    async fn equal_bodies_yield_equal_bytes_however_they_arrive() {
        let text: Bytes = (0..40_000).map(|n| n.to_string()).collect::<String>().into();
        let whole = encoded(vec![Some(text.clone())], Flush::WhenFull).await.concat();
        for size in [1000, SLICE, SLICE + 1, 50_000] {
            let pieces = text.chunks(size).map(|piece| text.slice_ref(piece));
            let frames = pieces.flat_map(|piece| [Some(piece), None]).collect();
            assert_eq!(encoded(frames, Flush::WhenFull).await.concat(), whole, "{size}");
        }
    }

    #[tokio::test]
    async fn received_bytes_do_not_wait_for_others_when_flushed() {
        let frames = || vec![Some(Bytes::from_static(b"a")), None, None, Some("b".into()), None];
        assert_eq!(encoded(frames(), Flush::WhenFull).await.len(), 1);
        assert_eq!(encoded(frames(), Flush::WhenIdle).await.len(), 3);
    }
}
