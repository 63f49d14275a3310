//! Where the bytes of a fill go besides its readers, and the events of a body.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::message::cut_short::Truncated;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use store::{Refusal, Unfinished};
use upstream::connection::origin_body::BodyError;

use crate::fill::state::Fill;
use crate::object::store::Writer;
use crate::observe::outcome::Error;

/// Bytes of an unstored body that may wait for its readers, however scarce memory is.
pub(crate) const UNSTORED_WINDOW_MIN: u64 = 32 * 1024;

pub(crate) enum BodyEvent {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    Broken(Error),
    Abandoned,
    /// The store is being handed over; nothing more may be written to it.
    Unstored,
}

/// A body that a fill carries: from the origin or from the store.
pub(crate) trait ByteStream:
    Body<Data = Bytes, Error: fmt::Display + Into<Error>> + Unpin
{
}

impl<B> ByteStream for B
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: fmt::Display + Into<Error>,
{
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Error {
        error.reason().into()
    }
}

impl From<Truncated> for Error {
    fn from(_: Truncated) -> Error {
        Error::Store
    }
}

pub(crate) fn next_frame(body: &mut impl ByteStream, cx: &mut Context<'_>) -> Poll<BodyEvent> {
    Pin::new(body).poll_frame(cx).map(|frame| match frame {
        None => BodyEvent::End,
        Some(Err(error)) => {
            log::debug!("a body broke off: {error}");
            BodyEvent::Broken(error.into())
        }
        Some(Ok(frame)) => match frame.into_data() {
            Ok(data) => BodyEvent::Data(data),
            Err(other) => BodyEvent::Trailers(Frame::into_trailers(other).unwrap_or_default()),
        },
    })
}

pub(crate) enum Sink {
    Open(Writer),
    /// The store takes no more, but lagging readers may need the bytes it has.
    Refused(Writer),
    Committed,
    /// The response is not to be stored, or the store refused it.
    Nowhere,
}

impl Sink {
    /// Returns whether the store takes bytes of the body, keeps bytes for lagging readers, or has
    /// the whole body: false only for [`Sink::Nowhere`].
    pub fn stores(&self) -> bool {
        !matches!(self, Sink::Nowhere)
    }

    /// Returns whether a later response for the same key has been stored meanwhile.
    pub fn is_superseded(&self) -> bool {
        matches!(self, Sink::Open(writer) if writer.is_superseded())
    }

    pub fn unfinished(&self) -> Option<Unfinished> {
        match self {
            Sink::Open(writer) => Some(writer.unfinished()),
            _ => None,
        }
    }

    /// Drops the bytes of a refused body as soon as no reader of `fill` needs them.
    pub async fn drop_when_unneeded(&mut self, fill: &Fill) {
        if matches!(self, Sink::Refused(_)) {
            poll_fn(|cx| fill.poll_unneeded(cx)).await;
            self.drop_refused();
        }
    }

    /// Drops the bytes of a refused body if no reader needs them now.
    pub fn drop_if_unneeded(&mut self, fill: &Fill) {
        let mut cx = Context::from_waker(Waker::noop());
        if matches!(self, Sink::Refused(_)) && fill.poll_unneeded(&mut cx).is_ready() {
            self.drop_refused();
        }
    }

    fn drop_refused(&mut self) {
        if let Sink::Refused(writer) = std::mem::replace(self, Sink::Nowhere) {
            drop(writer);
        }
    }

    /// Commits the bytes received so far with other metadata, even if they are fewer than
    /// announced. Returns whether they are in the store.
    pub async fn commit_as(&mut self, meta: Bytes) -> bool {
        match std::mem::replace(self, Sink::Nowhere) {
            Sink::Open(writer) => match writer.commit_short(meta).await {
                Ok(()) => *self = Sink::Committed,
                Err(refusal) => log::debug!("not kept: {refusal}"),
            },
            other => *self = other,
        }
        matches!(self, Sink::Committed)
    }

    /// Writes a piece. A refusal ends the writing, not the fill.
    pub async fn write(&mut self, piece: Bytes) {
        if let Sink::Open(writer) = self
            && let Err(refusal) = writer.write(piece).await
        {
            self.refused(refusal);
        }
    }

    /// Ends the writing, if the store still takes bytes.
    pub fn refuse_open(&mut self, refusal: Refusal) {
        if matches!(self, Sink::Open(_)) {
            self.refused(refusal);
        }
    }

    pub fn refused(&mut self, refusal: Refusal) {
        log::debug!("no longer being stored: {refusal}");
        match std::mem::replace(self, Sink::Nowhere) {
            Sink::Open(writer) => *self = Sink::Refused(writer),
            other => *self = other,
        }
    }

    pub async fn commit(&mut self) {
        match std::mem::replace(self, Sink::Nowhere) {
            Sink::Open(writer) => match writer.commit().await {
                Ok(()) => *self = Sink::Committed,
                Err(refusal) => log::debug!("not stored after all: {refusal}"),
            },
            other => *self = other,
        }
    }
}
