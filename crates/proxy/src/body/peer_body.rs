//! The body of another node's answer: when it breaks off, the rest comes from the next place that
//! the plan names, at last the origin, by range.
//!
//! It promises: a node that ends costs the answers that it was sending a moment and not their end,
//! where a strong validator proves that a rest fits.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use upstream::connection::origin_body::OriginBody;

use crate::body::resume::{Resume, ResumedBody};
use crate::options::Options;
use crate::peers::origin::FromPeer;
use crate::request::upstream_request::UpstreamRequest;
use crate::services::Services;

/// How often the rest of one body is asked for.
const RESUMPTIONS: u32 = 3;

/// See the module.
struct PeerBody {
    services: Rc<Services>,
    options: Arc<Options>,
    request: UpstreamRequest,
    etag: HeaderValue,
    length: u64,
    came: u64,
    source: Source,
    /// How often the rest may still be asked for.
    left: u32,
}

enum Source {
    Peer(Box<OriginBody>),
    Rest(Box<ResumedBody>),
}

/// Makes the body of an answer to `request` outlast the node that sends it, if it is one of another
/// node and whole, and can be continued.
pub(crate) fn outlasting(
    services: &Rc<Services>,
    options: &Arc<Options>,
    request: &UpstreamRequest,
    response: Response<OriginBody>,
) -> Response<OriginBody> {
    let is_of_peer = response.extensions().get::<FromPeer>().is_some();
    let is_whole = response.status() == StatusCode::OK && request.method == Method::GET;
    let etag =
        response.headers().get(header::ETAG).filter(|etag| etag.as_bytes().starts_with(b"\""));
    let length = response.body().size_hint().exact().filter(|length| *length > 0);
    let (true, Some(etag), Some(length)) = (is_of_peer && is_whole, etag.cloned(), length) else {
        return response;
    };
    let silence = options.upstream.body_timeout;
    response.map(|body| {
        let body = PeerBody {
            services: services.clone(),
            options: options.clone(),
            request: request.clone(),
            etag,
            length,
            came: 0,
            source: Source::Peer(Box::new(body)),
            left: RESUMPTIONS,
        };
        OriginBody::stream(body, silence)
    })
}

impl PeerBody {
    /// Goes on with the rest from elsewhere.
    ///
    /// # Errors
    /// It was asked for too often.
    fn resume(&mut self, why: &str) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(io::Error::other(format!("another node's answer broke off: {why}")));
        };
        log::debug!("another node's answer broke off, the rest is asked for: {why}");
        self.left = left;
        let (services, options) = (self.services.clone(), self.options.clone());
        let resume =
            Resume::of(services, options, self.request.clone(), self.etag.clone(), self.length);
        self.source = Source::Rest(Box::new(resume.begin(self.came..self.length)));
        Ok(())
    }
}

impl Body for PeerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let why = match &mut self.source {
                Source::Peer(body) => match ready!(Pin::new(body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        self.came += frame.data_ref().map_or(0, |data| data.len() as u64);
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Some(Err(error)) => Some(error.to_string()),
                    None => None,
                },
                Source::Rest(rest) => {
                    if let Some(data) = ready!(rest.poll(cx)) {
                        self.came += data.len() as u64;
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    None
                }
            };
            if self.came >= self.length {
                // Trailers that did not come are no part of the content.
                return Poll::Ready(None);
            }
            if let Err(error) = self.resume(why.as_deref().unwrap_or("it ended too early")) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Peer(body) => body.is_end_stream(),
            Source::Rest(_) => self.came >= self.length,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length.saturating_sub(self.came))
    }
}
