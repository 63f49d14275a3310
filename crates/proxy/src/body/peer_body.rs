//! Body of another node's response. If it breaks off or stalls, the rest is requested by range from
//! the next source in the plan, and at last from the origin.
//!
//! Guarantee: when a node stops, the responses it was sending are delayed, not cut, if a strong
//! validator proves that the rest fits.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use upstream::connection::origin_body::OriginBody;

use crate::body::resume::{MatchingFields, Resume, ResumedBody};
use crate::options::Options;
use crate::peers::origin::FromPeer;
use crate::request::upstream_request::UpstreamRequest;
use crate::services::Services;

/// Upper bound on requests for the rest of one body. The last one goes to the origin.
const RESUMPTIONS: u32 = 3;

struct PeerBody {
    services: Rc<Services>,
    options: Arc<Options>,
    request: UpstreamRequest,
    /// Bytes that had arrived when the head was examined.
    early: Option<Bytes>,
    same: MatchingFields,
    length: u64,
    received: u64,
    source: Source,
    /// Number of requests for the rest that are still allowed.
    left: u32,
}

enum Source {
    Peer(Box<OriginBody>),
    Rest(Box<ResumedBody>),
}

/// Makes the body of a response continue from elsewhere if its node stops. Applies only to a whole
/// response of another node with a strong validator. `request` rebuilds the request.
pub(crate) async fn continued_elsewhere(
    services: &Rc<Services>,
    options: &Arc<Options>,
    request: impl FnOnce() -> UpstreamRequest,
    mut response: Response<OriginBody>,
) -> Response<OriginBody> {
    let Some((same, length)) = continuable(&response) else { return response };
    if let Some(from) = response.extensions_mut().get_mut::<FromPeer>() {
        from.is_continued = true;
    }
    response.body_mut().set_silence(silence(options));
    let early = available_bytes(response.body_mut()).await;
    let is_all = early.as_ref().is_some_and(|data| data.len() as u64 == length);
    let early = match early {
        // The whole body has arrived, so nothing can break off.
        Some(all) if is_all && response.body().is_end_stream() => {
            return response.map(|_| OriginBody::whole(all));
        }
        early => early,
    };
    let (longest, request) = (options.upstream.body_timeout, request());
    response.map(|body| {
        let body = PeerBody {
            services: services.clone(),
            options: options.clone(),
            request,
            early,
            same,
            length,
            received: 0,
            source: Source::Peer(Box::new(body)),
            left: RESUMPTIONS,
        };
        OriginBody::stream(body, longest)
    })
}

/// Returns the time without a byte after which the rest is requested elsewhere. It is short enough
/// for all nodes to hang in turn before the client's own timeout.
fn silence(options: &Options) -> Duration {
    options.upstream.body_timeout / (RESUMPTIONS + 1)
}

/// Returns the validators for requesting the rest of a response, and its length; `None` unless it
/// is another node's and whole, and does not continue from elsewhere yet.
fn continuable(response: &Response<OriginBody>) -> Option<(MatchingFields, u64)> {
    let from = response.extensions().get::<FromPeer>()?;
    if from.is_continued || response.status() != StatusCode::OK {
        return None;
    }
    let same = MatchingFields::of(response.headers())?;
    let length = response.body().size_hint().exact().filter(|length| *length > 0)?;
    Some((same, length))
}

/// Takes body bytes that have already arrived, without waiting. If the body broke off, the next
/// read reports that again.
async fn available_bytes(body: &mut OriginBody) -> Option<Bytes> {
    let frame = poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(frame),
        Poll::Pending => Poll::Ready(None),
    });
    frame.await?.ok()?.into_data().ok()
}

impl PeerBody {
    /// Requests the rest from elsewhere.
    ///
    /// # Errors
    /// The rest has been requested too often.
    fn resume(&mut self, why: &str) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(io::Error::other(format!("another node's response broke off: {why}")));
        };
        log::debug!("another node's response broke off, requesting the rest: {why}");
        self.left = left;
        if left == 0 {
            // The last attempt bypasses the fleet, so it works even if all paths between nodes are
            // broken.
            self.request.ask_origin();
        }
        let (services, options) = (self.services.clone(), self.options.clone());
        let silence = silence(&options);
        let resume =
            Resume::of(services, options, self.request.clone(), self.same.clone(), self.length);
        let resume = if left == 0 { resume } else { resume.with_silence(silence) };
        self.source = Source::Rest(Box::new(resume.begin(self.received..self.length)));
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
        if let Some(data) = self.early.take() {
            self.received += data.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        loop {
            let why = match &mut self.source {
                Source::Peer(body) => match ready!(Pin::new(body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Some(Err(error)) => Some(error.to_string()),
                    None => None,
                },
                Source::Rest(rest) => {
                    if let Some(data) = ready!(rest.poll(cx)) {
                        self.received += data.len() as u64;
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    None
                }
            };
            if self.received >= self.length {
                // Missing trailers are not part of the content.
                return Poll::Ready(None);
            }
            if let Err(error) = self.resume(why.as_deref().unwrap_or("it ended too early")) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Peer(body) => self.early.is_none() && body.is_end_stream(),
            Source::Rest(_) => self.received >= self.length,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length.saturating_sub(self.received))
    }
}
