//! One HTTP/2 connection to an origin, shared by the requests of a worker.
//!
//! Uses the `h2` crate directly rather than hyper's client, for two things that hyper does not
//! expose: interim responses (1xx), and which errors prove that the origin did not process the
//! request.
//!
//! Guarantees: connection-specific fields of HTTP/1.1 are not sent (RFC 9113, 8.2.2). A request
//! counts as untouched only if the origin itself says so, by REFUSED_STREAM or by a GOAWAY with a
//! lower last stream (RFC 9113, 8.7). A connection on which a response was late gets no further
//! requests.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{Reason as Code, RecvStream, SendStream};
use http::header::HeaderMap;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, Uri, Version, header};
use http_body::{Body, Frame};
use semantics::hop_by_hop;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{interval, timeout};

use crate::connection::request_body::OutBody;
use crate::failure::failure_log::FailureLog;
use crate::message::informational::Informational;
use crate::message::upgrade;
use crate::settings::endpoint::Endpoint;
use crate::settings::limits::UpstreamLimits;
use net::clock::TokioClock;
use net::http2_stream::StreamIo;

/// HTTP/2 connection shared by the requests of a worker.
pub(crate) struct Http2 {
    sender: SendRequest<Bytes>,
    pub peer: Peer,
    state: Rc<State>,
    task: AbortHandle,
}

pub(crate) struct Peer {
    pub endpoint: Arc<Endpoint>,
    /// `None` for a Unix socket.
    pub address: Option<IpAddr>,
    pub failures: Option<Arc<FailureLog>>,
    pub clock: TokioClock,
}

struct State {
    /// Number of requests whose responses have not ended.
    active: Cell<usize>,
    since: Cell<Instant>,
    retired: Cell<bool>,
    closed: Cell<bool>,
    /// Set once a ping was answered, so the origin's first SETTINGS have been read.
    settings_read: Cell<bool>,
    /// Notified by a request that waits for the origin's SETTINGS.
    settings_wanted: Notify,
    is_introduced: Notify,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request or its response in progress. Keeps the connection open.
pub(crate) struct Stream {
    pub connection: Rc<Http2>,
    /// Task that sends the request body.
    pump: Option<AbortHandle>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(pump) = &self.pump {
            pump.abort();
        }
        let state = &self.connection.state;
        state.active.set(state.active.get() - 1);
        state.since.set(self.connection.peer.clock.instant());
    }
}

/// A request that failed without a response.
pub(crate) struct FailedRequest {
    /// The request, if it was not sent.
    pub unsent: Option<Request<OutBody>>,
    /// True if the origin states that it did not process the request.
    pub untouched: bool,
    /// True if the connection must not be used any more.
    pub dead: bool,
    /// Error of the connection; `None` if HTTP/2 has no form for the request.
    pub error: Option<h2::Error>,
}

impl Http2 {
    /// Performs the HTTP/2 handshake and starts the connection's task.
    pub async fn handshake<S>(
        stream: S,
        peer: Peer,
        limits: &UpstreamLimits,
    ) -> Result<Rc<Http2>, h2::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (sender, mut connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(limits.stream_window)
            .initial_connection_window_size(limits.connection_window)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .handshake::<_, Bytes>(stream)
            .await?;
        let state = Rc::new(State {
            active: Cell::new(0),
            since: Cell::new(peer.clock.instant()),
            retired: Cell::new(false),
            closed: Cell::new(false),
            settings_read: Cell::new(false),
            settings_wanted: Notify::new(),
            is_introduced: Notify::new(),
        });
        let (ping, of_task) = (connection.ping_pong(), state.clone());
        let (every, wait) = (limits.ping_every, limits.ping_wait);
        let task = spawn_local(async move {
            tokio::select! {
                biased;
                // Requests that wait for a response get the connection's error.
                ended = connection => drop(ended),
                () = watch_pings(ping, &of_task, every, wait) => {}
            }
            of_task.closed.set(true);
            of_task.is_introduced.notify_waiters();
        });
        Ok(Rc::new(Http2 { sender, peer, state, task: task.abort_handle() }))
    }

    /// Returns whether another request may be sent on the connection.
    pub fn has_room(&self) -> bool {
        self.is_open() && self.state.active.get() < self.sender.current_max_send_streams()
    }

    pub fn is_open(&self) -> bool {
        !self.state.retired.get() && !self.state.closed.get()
    }

    /// Retires the connection: it gets no further requests, and those in progress continue.
    pub fn retire(&self) {
        self.state.retired.set(true);
    }

    /// Returns when the last request ended; `None` while there is one.
    pub fn idle_since(&self) -> Option<Instant> {
        (self.state.active.get() == 0).then(|| self.state.since.get())
    }

    /// Returns whether the origin accepts extended CONNECT (RFC 8441, 3). If necessary, waits for
    /// its SETTINGS, which precede its first reply to a ping.
    pub async fn accepts_tunnels(&self) -> bool {
        let state = &self.state;
        while !self.sender.is_extended_connect_protocol_enabled()
            && self.is_open()
            && !state.settings_read.get()
        {
            let told = state.is_introduced.notified();
            state.settings_wanted.notify_one();
            told.await;
        }
        self.is_open() && self.sender.is_extended_connect_protocol_enabled()
    }

    /// Requests another protocol on a stream and waits for the head of the response. If the origin
    /// agrees, the returned halves of the stream are a tunnel.
    pub async fn ask_for_tunnel(
        self: &Rc<Self>,
        request: Request<OutBody>,
        scheme: &'static str,
        protocol: &str,
    ) -> Result<Response<(RecvStream, Stream, Option<SendStream<Bytes>>)>, FailedRequest> {
        let (stream, mut sender, mut head, _) = self.begin(request, scheme).await?;
        *head.method_mut() = Method::CONNECT;
        head.extensions_mut().insert(Protocol::from(protocol));
        upgrade::to_server(head.headers_mut());
        let (mut answer, mut sink) = sender.send_request(head, false).map_err(FailedRequest::of)?;
        let answered = poll_fn(|cx| poll_answer(&mut answer, None, cx)).await;
        let response = answered.map_err(FailedRequest::of)?;
        if upgrade::is_switch_of_stream(response.status()) {
            return Ok(response.map(|body| (body, stream, Some(sink))));
        }
        // Fails if the origin has ended the stream.
        let _ = sink.send_data(Bytes::new(), true);
        Ok(response.map(|body| (body, stream, None)))
    }

    /// Reserves a stream on the connection for a request, and converts the request head to HTTP/2.
    async fn begin(
        self: &Rc<Self>,
        request: Request<OutBody>,
        scheme: &'static str,
    ) -> Result<(Stream, SendRequest<Bytes>, Request<()>, OutBody), FailedRequest> {
        let state = &self.state;
        state.active.set(state.active.get() + 1);
        let stream = Stream { connection: self.clone(), pump: None };
        let sender = match self.sender.clone().ready().await {
            Ok(sender) => sender,
            Err(error) => return Err(FailedRequest::unsent(request, error)),
        };
        match convert(request, scheme) {
            Ok((head, body)) => Ok((stream, sender, head, body)),
            Err(request) => {
                let unsent = Some(*request);
                Err(FailedRequest { unsent, untouched: false, dead: false, error: None })
            }
        }
    }

    /// Sends a request and waits for the head of the response.
    pub async fn send(
        self: &Rc<Self>,
        request: Request<OutBody>,
        scheme: &'static str,
        interim: Option<&Arc<Informational>>,
    ) -> Result<Response<(RecvStream, Stream)>, FailedRequest> {
        let (mut stream, mut sender, head, body) = self.begin(request, scheme).await?;
        let ends = body.is_end_stream();
        let (mut answer, sink) = sender.send_request(head, ends).map_err(FailedRequest::of)?;
        if !ends {
            stream.pump = Some(spawn_local(pump(body, sink)).abort_handle());
        }
        let answered = poll_fn(|cx| poll_answer(&mut answer, interim, cx)).await;
        let response = answered.map_err(FailedRequest::of)?;
        Ok(response.map(|body| (body, stream)))
    }
}

/// Completes when a ping is not answered within `wait`. Sends one every `every` while responses are
/// awaited, and one when a request waits for the SETTINGS.
async fn watch_pings(ping: Option<h2::PingPong>, state: &State, every: Duration, wait: Duration) {
    let Some(mut ping) = ping else { return std::future::pending().await };
    let mut tick = interval(every);
    loop {
        let mut asked = false;
        tokio::select! {
            _ = tick.tick() => {}
            () = state.settings_wanted.notified() => asked = !state.settings_read.get(),
        }
        if state.active.get() == 0 && !asked {
            continue;
        }
        match timeout(wait, ping.ping(h2::Ping::opaque())).await {
            Ok(Ok(_)) => {
                state.settings_read.set(true);
                state.is_introduced.notify_waiters();
            }
            // The connection's task reports its error.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

impl FailedRequest {
    fn unsent(request: Request<OutBody>, error: h2::Error) -> FailedRequest {
        FailedRequest { unsent: Some(request), untouched: false, dead: true, error: Some(error) }
    }

    fn of(error: h2::Error) -> FailedRequest {
        let refused = error.is_reset() && error.reason() == Some(Code::REFUSED_STREAM);
        // Streams that a GOAWAY ends with an error are always beyond the last one that it names.
        let untouched = error.is_remote() && (refused || error.is_go_away());
        let dead = error.is_io() || error.is_go_away();
        FailedRequest { unsent: None, untouched, dead, error: Some(error) }
    }
}

fn poll_answer(
    answer: &mut ResponseFuture,
    interim: Option<&Arc<Informational>>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<RecvStream>, h2::Error>> {
    while let Poll::Ready(Some(Ok(head))) = answer.poll_informational(cx) {
        if let Some(interim) = interim {
            interim.receive(head.status(), head.headers());
        }
    }
    Pin::new(answer).poll(cx)
}

/// Converts a request to HTTP/2. Returns it unmodified if its host is missing or invalid.
fn convert(
    request: Request<OutBody>,
    scheme: &'static str,
) -> Result<(Request<()>, OutBody), Box<Request<OutBody>>> {
    let host = request.headers().get(header::HOST);
    let authority = host.map(|host| Authority::try_from(host.as_bytes()));
    let Some(Ok(authority)) = authority else { return Err(Box::new(request)) };
    let mut uri = http::uri::Parts::default();
    uri.scheme = Scheme::try_from(scheme).ok();
    uri.authority = Some(authority);
    let path = request.uri().path_and_query().cloned();
    uri.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    let Ok(uri) = Uri::from_parts(uri) else { return Err(Box::new(request)) };
    let (mut parts, body) = request.into_parts();
    let trailers = hop_by_hop::accepts_trailers(&parts.headers);
    remove_connection_fields(&mut parts.headers);
    if trailers {
        parts.headers.insert(header::TE, header::HeaderValue::from_static("trailers"));
    }
    let mut head = Request::new(());
    *head.method_mut() = parts.method;
    *head.uri_mut() = uri;
    *head.version_mut() = Version::HTTP_2;
    *head.headers_mut() = parts.headers;
    Ok((head, body))
}

/// Removes connection-specific fields (RFC 9113, 8.2.2), and `Host`, which is sent as `:authority`.
fn remove_connection_fields(headers: &mut HeaderMap) {
    hop_by_hop::strip(headers);
    headers.remove(header::HOST);
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove("http2-settings");
}

/// Sends a request body as flow control permits.
async fn pump(mut body: OutBody, mut sink: SendStream<Bytes>) {
    loop {
        let frame = tokio::select! {
            frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)) => frame,
            // The origin refuses the body or is gone; the request that waits for the response gets
            // the error.
            _ = poll_fn(|cx| sink.poll_reset(cx)) => return,
        };
        match frame {
            None => {
                let _ = sink.send_data(Bytes::new(), true);
                return;
            }
            // The client broke off. Without a reset the origin would take half a body for a whole
            // one.
            Some(Err(_)) => return sink.send_reset(Code::CANCEL),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data()
                    && send_data(&mut sink, data).await.is_none()
                {
                    return;
                }
            }
        }
    }
}

/// Sends a piece of a body; returns `None` if the stream is over.
async fn send_data(sink: &mut SendStream<Bytes>, mut data: Bytes) -> Option<()> {
    while !data.is_empty() {
        sink.reserve_capacity(data.len());
        let room = poll_fn(|cx| sink.poll_capacity(cx)).await?.ok()?;
        let piece = data.split_to(room.min(data.len()));
        sink.send_data(piece, false).ok()?;
    }
    Some(())
}

/// Joins the two halves of a stream.
pub(crate) fn joined(source: RecvStream, sink: SendStream<Bytes>) -> StreamIo {
    StreamIo { sink, source, early: Bytes::new() }
}

pub(crate) struct Incoming {
    body: RecvStream,
    /// Bytes still to come, if the head states a length.
    left: Option<u64>,
    /// Size of the piece returned last. The next poll means that it was consumed, and returns as
    /// much flow-control capacity to the origin.
    owed: usize,
    data_ended: bool,
}

impl Incoming {
    pub fn new(body: RecvStream, head: &HeaderMap) -> Incoming {
        // h2 has checked that there is at most one length, and enforces it.
        let length = head.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
        let left = if body.is_end_stream() { Some(0) } else { length };
        Incoming { body, left, owed: 0, data_ended: false }
    }

    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0 {
            // Fails if the stream has ended.
            let _ = self.body.flow_control().release_capacity(owed);
        }
        if !self.data_ended {
            match ready!(self.body.poll_data(cx)) {
                Some(Ok(data)) => {
                    self.owed = data.len();
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) if self.is_whole(&error) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.data_ended = true,
            }
        }
        match ready!(self.body.poll_trailers(cx)) {
            Ok(Some(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Ok(None) => Poll::Ready(None),
            Err(error) if self.is_whole(&error) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    /// Returns whether an error marks the end of a complete response. An origin that did not read
    /// the whole request may reset the stream with NO_ERROR after its response (RFC 9113, 8.1).
    /// Without a length nothing proves that the response is complete, so it does not count as
    /// whole.
    fn is_whole(&self, error: &h2::Error) -> bool {
        self.left == Some(0) && error.is_reset() && error.reason() == Some(Code::NO_ERROR)
    }

    pub fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Returns the number of bytes to come, if known.
    pub fn left(&self) -> Option<u64> {
        self.left
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("left", &self.left).finish_non_exhaustive()
    }
}
