//! The body of a client's request as it comes in, of any HTTP version.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// The body of a client's request.
pub enum RequestBody {
    /// There is none.
    Empty,
    /// The body on a connection in HTTP/1.
    Http1(Incoming),
    /// The body on a stream in HTTP/2, or from any other source.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BrokenOff>>>),
}

/// The error of a body that did not come to its end.
#[derive(Debug)]
pub enum BrokenOff {
    /// The error of HTTP/1.
    Http1(hyper::Error),
    /// The error of HTTP/2.
    Http2(h2::Error),
    /// The client sent less than the least rate.
    Slow,
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokenOff::Http1(error) => error.fmt(f),
            BrokenOff::Http2(error) => error.fmt(f),
            BrokenOff::Slow => f.write_str("the client sent too slowly"),
        }
    }
}

impl Error for BrokenOff {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BrokenOff::Http1(error) => error.source(),
            BrokenOff::Http2(error) => error.source(),
            BrokenOff::Slow => None,
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
            RequestBody::Http1(body) => Pin::new(body).poll_frame(cx).map_err(BrokenOff::Http1),
            RequestBody::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Http1(body) => body.is_end_stream(),
            RequestBody::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Empty => SizeHint::with_exact(0),
            RequestBody::Http1(body) => body.size_hint(),
            RequestBody::Stream(body) => body.size_hint(),
        }
    }
}
