//! The body of a client's request as it is received, in any HTTP version.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http1::Malformed;

/// The body of a client's request.
pub enum RequestBody {
    /// No body.
    Empty,
    /// A body read from a connection or from one of its streams.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BrokenOff>>>),
    /// A body that is buffered, in part or as a whole, before it is forwarded.
    Buffered(Box<BufferedBody>),
}

impl RequestBody {
    /// Returns whether the whole body has been read, so that it can be sent without waiting.
    pub fn is_whole(&self) -> bool {
        match self {
            RequestBody::Buffered(body) => body.rest.is_end_stream(),
            other => other.is_end_stream(),
        }
    }
}

/// A body of unknown length that breaks off once it is larger than permitted.
pub struct LimitedBody {
    body: RequestBody,
    left: u64,
}

impl LimitedBody {
    /// Limits a body to `max` bytes.
    pub fn limit(body: RequestBody, max: u64) -> RequestBody {
        RequestBody::Stream(Box::pin(LimitedBody { body, left: max }))
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let Some(left) = this.left.checked_sub(data.len() as u64) else {
                return Poll::Ready(Some(Err(BrokenOff::TooLarge)));
            };
            this.left = left;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that is buffered, in part or as a whole, before it is forwarded.
pub struct BufferedBody {
    /// Bytes that were read before the request was forwarded.
    front: Bytes,
    /// The rest of the body.
    rest: RequestBody,
    /// Accounts for the memory of `front`; dropped once `front` has been handed out.
    held: Option<Box<dyn Any>>,
    /// True if the end of the body is known. A body without a length, even an empty one, must
    /// signal its end.
    has_end: bool,
}

impl BufferedBody {
    /// Creates a body from the bytes read so far, whose memory `held` accounts for, and the rest.
    /// `has_length`: the head declares the body's length.
    pub fn new(
        front: Bytes,
        rest: RequestBody,
        held: Box<dyn Any>,
        has_length: bool,
    ) -> BufferedBody {
        BufferedBody { front, rest, held: Some(held), has_end: has_length }
    }
}

impl Body for BufferedBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        if !this.front.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.front)))));
        }
        this.held = None;
        let frame = ready!(Pin::new(&mut this.rest).poll_frame(cx));
        this.has_end |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.has_end && self.front.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.size_hint().exact() {
            Some(rest) if self.has_end => SizeHint::with_exact(self.front.len() as u64 + rest),
            _ => SizeHint::default(),
        }
    }
}

/// The error of a body that ended early.
#[derive(Debug)]
pub enum BrokenOff {
    /// The body's HTTP/1 framing is invalid.
    Malformed(Malformed),
    /// The client closed the connection before the end of the body.
    Ended,
    /// The connection failed.
    Io(io::Error),
    /// HTTP/2 reported an error.
    Http2(h2::Error),
    /// The client sent below the minimum rate.
    Slow,
    /// The body is larger than permitted.
    TooLarge,
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokenOff::Malformed(error) => error.fmt(f),
            BrokenOff::Ended => f.write_str("the client ended the connection"),
            BrokenOff::Io(error) => error.fmt(f),
            BrokenOff::Http2(error) => error.fmt(f),
            BrokenOff::Slow => f.write_str("the client sent too slowly"),
            BrokenOff::TooLarge => f.write_str("the body is larger than permitted"),
        }
    }
}

impl Error for BrokenOff {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BrokenOff::Malformed(_) | BrokenOff::Ended => None,
            BrokenOff::Io(error) => error.source(),
            BrokenOff::Http2(error) => error.source(),
            BrokenOff::Slow | BrokenOff::TooLarge => None,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            RequestBody::Empty => Poll::Ready(None),
            RequestBody::Stream(body) => body.as_mut().poll_frame(cx),
            RequestBody::Buffered(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Stream(body) => body.is_end_stream(),
            RequestBody::Buffered(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Empty => SizeHint::with_exact(0),
            RequestBody::Stream(body) => body.size_hint(),
            RequestBody::Buffered(body) => body.size_hint(),
        }
    }
}
