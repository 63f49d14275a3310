//! Body of an origin's response, and the return of its connection to the pool.

use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use semantics::Spellings;
use tokio::time::{Sleep, sleep};

use crate::connection::fetch_timer::{FetchTimer, TimedFetch};
use crate::connection::http1::{Http1Error, Incoming};
use crate::connection::http2;
use crate::connection::http2::Peer;
use crate::connection::pinned::PinnedConnection;
use crate::connection::pool::{Pool, PoolLimits};
use crate::connection::request_body::Progress;
use crate::connection::send_file::{SendFile, Sent};
use crate::connection::tunnel::UpstreamTunnel;
use crate::failure::cause;
use crate::failure::error::Reason;
use crate::failure::failure_log::{FailureLog, Phase};
use crate::servers::group::Serving;
use crate::settings::endpoint::Endpoint;

/// Data for returning a connection to the pool after use.
pub(crate) struct Lease {
    pub pool: Rc<Pool>,
    pub failures: Option<Arc<FailureLog>>,
    pub endpoint: Arc<Endpoint>,
    pub progress: Option<Rc<Progress>>,
    pub limits: PoolLimits,
    pub next_use: NextUse,
}

/// Next use of a connection after its response.
pub(crate) enum NextUse {
    Any,
    /// Only requests of the client that authenticated on it, while the client stays connected.
    Client(Weak<PinnedConnection>),
    Never,
}

/// Source of the bytes, with the resources it keeps open.
enum Source {
    Http1(Incoming, Option<Lease>),
    Http2(Box<http2::Incoming>, Option<http2::Stream>),
    /// Bytes from other code, not from a pooled connection.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = io::Error>>>),
    /// A file, or content generated from one.
    File(Box<dyn SendFile + Unpin>),
    Whole(Option<Bytes>),
    /// No body: the protocol was switched (101).
    Tunnel(Option<Box<UpstreamTunnel>>),
}

/// Body of an origin's response. On HTTP/1.1 the connection returns to the pool when the body was
/// read to its end, and is closed if it is dropped before. On HTTP/2 dropping the body early
/// cancels the request.
pub struct OriginBody {
    /// Boxed because the head and the body of a response are moved a dozen times.
    state: Box<State>,
}

struct State {
    source: Source,
    /// Counts the request at its server if the site has several.
    serving: Option<Serving>,
    /// Reports how long the response took.
    timed: Option<TimedFetch>,
    silence: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    armed: bool,
    /// Bytes that may still arrive.
    allowance: Option<u64>,
    /// Spelling of the field names in the response head.
    spellings: Spellings,
}

impl OriginBody {
    /// Creates the body of a response that does not come over a pooled connection. It breaks off
    /// when no bytes arrive for `silence`.
    pub fn stream<B>(body: B, silence: Duration) -> OriginBody
    where
        B: Body<Data = Bytes, Error = io::Error> + 'static,
    {
        OriginBody::of(Source::Stream(Box::pin(body)), silence)
    }

    /// Creates the body of a response that is a file, like [`OriginBody::stream`].
    pub fn file(body: impl SendFile + Unpin + 'static, silence: Duration) -> OriginBody {
        OriginBody::of(Source::File(Box::new(body)), silence)
    }

    /// Returns whether the body comes from a directory of files.
    pub fn is_file(&self) -> bool {
        matches!(self.state.source, Source::File(_))
    }

    /// Returns whether the kernel can send the body from a file; see [`SendFile::prefers_kernel`].
    pub fn prefers_kernel(&mut self) -> bool {
        match &mut self.state.source {
            Source::File(body) if self.state.allowance.is_none() => body.prefers_kernel(),
            _ => false,
        }
    }

    /// Lets the kernel send the next bytes to `socket`; see [`SendFile::poll_send`].
    pub fn poll_send(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<Sent> {
        let Source::File(body) = &mut self.state.source else { return Poll::Ready(Sent::Frames) };
        match body.poll_send(cx, socket) {
            Poll::Ready(sent) => {
                self.state.armed = false;
                Poll::Ready(sent)
            }
            // `poll_frame` reports the timeout.
            Poll::Pending => self.poll_silence(cx).map(|()| Sent::Frames),
        }
    }

    /// Creates a body from bytes in memory.
    pub fn whole(bytes: Bytes) -> OriginBody {
        OriginBody::of(Source::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), Duration::ZERO)
    }

    pub(crate) fn http1(mut incoming: Incoming, lease: Lease, silence: Duration) -> OriginBody {
        let spellings = incoming.take_spellings();
        let mut body = OriginBody::of(Source::Http1(incoming, Some(lease)), silence);
        body.state.spellings = spellings;
        body.return_connection_at_end();
        body
    }

    /// Returns the spelling of the field names in the response head, whose map has them in lower
    /// case.
    pub fn spellings(&self) -> &Spellings {
        &self.state.spellings
    }

    /// Sets the spelling of the field names in the response head.
    pub fn spelled(mut self, spellings: Spellings) -> OriginBody {
        self.state.spellings = spellings;
        self
    }

    /// Sets the maximum time without a byte. Must be called before the first poll.
    pub fn set_silence(&mut self, silence: Duration) {
        self.state.silence = silence;
    }

    /// Limits the body to `max` bytes.
    pub fn limit(&mut self, max: u64) {
        self.state.allowance = Some(max);
    }

    /// Deducts a frame from the remaining allowance. Returns false if the frame exceeds it.
    fn spend(&mut self, frame: &Frame<Bytes>) -> bool {
        let Some(allowance) = &mut self.state.allowance else { return true };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        let left = allowance.checked_sub(bytes);
        *allowance = left.unwrap_or(0);
        left.is_some()
    }

    pub(crate) fn http2(
        incoming: http2::Incoming,
        stream: http2::Stream,
        silence: Duration,
    ) -> OriginBody {
        OriginBody::of(Source::Http2(Box::new(incoming), Some(stream)), silence)
    }

    /// Creates the empty body of a 101 response, with its tunnel.
    pub(crate) fn tunnel(tunnel: UpstreamTunnel, spellings: Spellings) -> OriginBody {
        let mut body = OriginBody::of(Source::Tunnel(Some(Box::new(tunnel))), Duration::ZERO);
        body.state.spellings = spellings;
        body
    }

    /// Takes the tunnel of a 101 response.
    pub fn take_tunnel(&mut self) -> Option<UpstreamTunnel> {
        match &mut self.state.source {
            Source::Tunnel(tunnel) => tunnel.take().map(|tunnel| *tunnel),
            _ => None,
        }
    }

    fn of(source: Source, silence: Duration) -> OriginBody {
        let (serving, timed, timer, armed, allowance) = (None, None, None, false, None);
        let spellings = Spellings::default();
        let state = State { source, serving, timed, silence, timer, armed, allowance, spellings };
        OriginBody { state: Box::new(state) }
    }

    /// Counts the response as a request at its server until it ends.
    pub(crate) fn served_by(mut self, serving: Serving) -> OriginBody {
        if let Source::Tunnel(Some(tunnel)) = &mut self.state.source {
            tunnel.served_by(serving);
        } else if !self.is_end_stream() {
            self.state.serving = Some(serving);
        }
        self
    }

    /// Reports now that the head of the response has arrived, and later its end.
    pub fn time(&mut self, timer: FetchTimer) {
        self.state.timed = Some(timer.answered());
        if self.is_end_stream() {
            self.state.timed = None;
        }
    }

    /// Returns the length of the body if all of it has arrived and it is not empty.
    pub fn whole_length(&self) -> Option<u64> {
        match &self.state.source {
            Source::Http1(incoming, _) if self.state.allowance.is_none() => {
                incoming.whole().map(|length| length as u64)
            }
            Source::Whole(Some(bytes)) => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// Takes a body that has arrived completely.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.whole_length()?;
        let bytes = match &mut self.state.source {
            Source::Http1(incoming, _) => incoming.take_whole(),
            Source::Whole(bytes) => bytes.take(),
            _ => None,
        };
        self.return_connection_at_end();
        bytes
    }

    fn return_connection_at_end(&mut self) {
        if self.is_end_stream() {
            self.return_connection();
        }
    }

    /// Returns the connection to the pool after the body's clean end.
    fn return_connection(&mut self) {
        (self.state.serving, self.state.timed) = (None, None);
        match &mut self.state.source {
            Source::Http1(incoming, lease) => {
                if let Some(Lease { pool, endpoint, limits, next_use, .. }) = lease.take()
                    && let Some(connection) = incoming.take_connection()
                    && pool.is_reusable(&endpoint, &connection)
                {
                    match next_use {
                        NextUse::Any => pool.put(endpoint, connection, limits),
                        NextUse::Client(pinned) => {
                            if let Some(pinned) = pinned.upgrade() {
                                pinned.put(endpoint, connection);
                            }
                        }
                        NextUse::Never => {}
                    }
                }
            }
            Source::Http2(_, stream) => *stream = None,
            Source::Stream(_) | Source::File(_) | Source::Whole(_) | Source::Tunnel(_) => {}
        }
    }

    /// Drops the connection after the body broke off, and logs the failure.
    fn drop_connection(&mut self, why: &BodyError) {
        (self.state.serving, self.state.timed) = (None, None);
        match &mut self.state.source {
            Source::Http1(_, lease) => {
                if let Some(Lease { pool, failures, endpoint, progress, .. }) = lease.take() {
                    // If the request body broke off, the client caused the failure.
                    let client = progress.and_then(|progress| progress.failure());
                    if let (None, Some(failures)) = (client, failures) {
                        failures.note(&endpoint, Phase::Body, &why.cause(), pool.clock.instant());
                    }
                }
            }
            Source::Http2(_, stream) => {
                if let Some(stream) = stream.take()
                    && let Peer { endpoint, failures: Some(failures), clock, .. } =
                        &stream.connection.peer
                {
                    failures.note(endpoint, Phase::Body, &why.cause(), clock.instant());
                }
            }
            Source::Stream(_) | Source::File(_) | Source::Whole(_) | Source::Tunnel(_) => {}
        }
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.state.source {
            Source::Http1(incoming, _) => incoming.poll_frame(cx).map_err(BodyError::Broken),
            Source::Http2(incoming, _) => incoming.poll_frame(cx).map_err(BodyError::Reset),
            Source::Stream(body) => body.as_mut().poll_frame(cx).map_err(BodyError::Stream),
            Source::File(body) => Pin::new(body).poll_frame(cx).map_err(BodyError::Stream),
            Source::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Tunnel(_) => Poll::Ready(None),
        }
    }

    /// Completes when the upstream has been silent for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State { timer, armed, silence, .. } = &mut *self.state;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(*silence)));
        if !*armed {
            timer.set(sleep(*silence));
            *armed = true;
        }
        timer.as_mut().poll(cx)
    }
}

/// Why an upstream body ended early.
#[derive(Debug)]
pub enum BodyError {
    /// The connection was closed or reset, or the framing is invalid.
    Broken(Http1Error),
    /// The same on HTTP/2.
    Reset(h2::Error),
    /// The same for a source other than a pooled connection.
    Stream(io::Error),
    /// No byte for [`UpstreamLimits::body_timeout`].
    ///
    /// [`UpstreamLimits::body_timeout`]: crate::settings::limits::UpstreamLimits::body_timeout
    Silent,
    /// Longer than the operator permits.
    TooLong,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Broken(error) => error.fmt(f),
            BodyError::Reset(error) => error.fmt(f),
            BodyError::Stream(error) => error.fmt(f),
            BodyError::Silent => f.write_str("no byte within the time allowed"),
            BodyError::TooLong => f.write_str("more bytes than a rule permits"),
        }
    }
}

impl std::error::Error for BodyError {}

impl BodyError {
    fn cause(&self) -> String {
        match self {
            BodyError::Broken(error) => cause::of(error),
            BodyError::Reset(error) => cause::of_http2(error),
            BodyError::Stream(error) => cause::of_io(error),
            BodyError::Silent | BodyError::TooLong => self.to_string(),
        }
    }

    /// Returns the reason, for the request's outcome.
    pub fn reason(&self) -> Reason {
        match self {
            BodyError::Stream(error) => {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<BodyError>());
                inner.map_or(Reason::Upstream, BodyError::reason)
            }
            BodyError::Broken(_) | BodyError::Reset(_) => Reason::Upstream,
            BodyError::Silent => Reason::UpstreamTimeout,
            BodyError::TooLong => Reason::BadAnswer,
        }
    }
}

impl Body for OriginBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this.poll_source(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.state.armed = false;
                if !this.spend(&frame) {
                    this.drop_connection(&BodyError::TooLong);
                    return Poll::Ready(Some(Err(BodyError::TooLong)));
                }
                this.return_connection_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.drop_connection(&error);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.return_connection();
                Poll::Ready(None)
            }
            Poll::Pending => match this.poll_silence(cx) {
                Poll::Ready(()) => {
                    this.drop_connection(&BodyError::Silent);
                    Poll::Ready(Some(Err(BodyError::Silent)))
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state.source {
            Source::Http1(incoming, _) => incoming.is_end_stream(),
            Source::Http2(incoming, _) => incoming.is_end_stream(),
            Source::Stream(body) => body.is_end_stream(),
            Source::File(body) => body.is_end_stream(),
            Source::Whole(bytes) => bytes.is_none(),
            Source::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state.source {
            Source::Http1(incoming, _) => incoming.size_hint(),
            Source::Http2(incoming, _) => {
                incoming.left().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Source::Stream(body) => body.size_hint(),
            Source::File(body) => body.size_hint(),
            Source::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use tokio::runtime::Builder;

    use super::*;

    /// A body that is not from a connection: its frames, and then its end or silence.
    struct Frames {
        left: VecDeque<io::Result<Bytes>>,
        ends: bool,
    }

    impl Body for Frames {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match self.left.pop_front() {
                Some(next) => Poll::Ready(Some(next.map(Frame::data))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    /// Reads a body of these frames. `max` bytes are permitted.
    fn read(frames: &[&'static str], ends: bool, max: u64) -> (String, Option<BodyError>) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let frame = |text: &&'static str| match *text {
            "broken" => Err(io::ErrorKind::UnexpectedEof.into()),
            text => Ok(Bytes::from_static(text.as_bytes())),
        };
        let frames = Frames { left: frames.iter().map(frame).collect(), ends };
        let mut body = OriginBody::stream(frames, Duration::from_secs(1));
        body.limit(max);
        let mut text = String::new();
        runtime.unwrap().block_on(async {
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                match frame {
                    Ok(frame) => text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap(),
                    Err(error) => return (text, Some(error)),
                }
            }
            (text, None)
        })
    }

    #[test]
    fn bodies_from_other_sources_obey_the_same_rules() {
        assert!(matches!(read(&["a", "b"], true, 9), (text, None) if text == "ab"));
        let (text, error) = read(&["a", "broken"], true, 9);
        assert!(text == "a" && matches!(&error, Some(BodyError::Stream(_))));
        assert_eq!(error.unwrap().reason(), Reason::Upstream);
        assert!(matches!(read(&["a"], false, 9), (text, Some(BodyError::Silent)) if text == "a"));
        assert!(matches!(read(&["a", "bc"], true, 2), (_, Some(BodyError::TooLong))));
    }
}
