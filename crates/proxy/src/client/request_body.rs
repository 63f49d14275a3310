//! The body of a client's request as it comes in, whichever HTTP the client speaks.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::client::http2_body::StreamBody;

/// See the module.
pub(crate) enum RequestBody {
    /// There is none.
    Empty,
    Http1(Incoming),
    Http2(Box<StreamBody>),
}

/// The body did not come to its end.
#[derive(Debug)]
pub(crate) enum BrokenOff {
    Http1(hyper::Error),
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
            RequestBody::Http2(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Http1(body) => body.is_end_stream(),
            RequestBody::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Empty => SizeHint::with_exact(0),
            RequestBody::Http1(body) => body.size_hint(),
            RequestBody::Http2(body) => body.size_hint(),
        }
    }
}
