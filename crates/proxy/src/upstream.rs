//! The way to the origins: a pool of connections per worker over `hyper::client::conn`.
//!
//! It promises: no connection, fresh or pooled, is used for an address that the caller's check
//! does not permit for this very request; a request is sent twice only when the first sending
//! cannot have had an effect (it never left, or it is idempotent, has no body, and the pooled
//! connection turned out dead before any answer); every wait has a bound.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Sleep, sleep, timeout};

use crate::access::Denial;
use crate::account::Observer;
use crate::metrics::Event;
use crate::options::UpstreamLimits;
use crate::out_body::{OutBody, Progress};
use crate::outcome::Error as Reason;
use crate::resolve::Resolver;

/// The server to talk to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// Lower-case name, or an IP literal without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Says whether an address may be connected to for the request at hand.
pub(crate) type Check<'a> = &'a dyn Fn(IpAddr) -> Result<(), Denial>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Every address of the origin is forbidden to this client.
    Denied(Denial),
    /// One of ours: the reason, and a sentence with the particulars.
    Failed(Reason, String),
}

impl Failure {
    /// The status that tells a client.
    pub fn status(&self) -> StatusCode {
        match self {
            Failure::Denied(_) => StatusCode::FORBIDDEN,
            Failure::Failed(Reason::ConnectTimeout | Reason::UpstreamTimeout, _) => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Failure::Failed(..) => StatusCode::BAD_GATEWAY,
        }
    }
}

/// The upstream connections of one worker.
pub(crate) struct Upstream {
    idle: RefCell<HashMap<Origin, Vec<Idle>>>,
    idle_count: Rc<Cell<usize>>,
    resolver: Resolver,
    builder: Builder,
    observer: Arc<dyn Observer>,
}

struct Idle {
    connection: Connection,
    since: Instant,
    _counted: Counted,
}

/// Counts the idle connections of a worker.
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// One connection: dropped, it is closed.
struct Connection {
    sender: SendRequest<OutBody>,
    address: IpAddr,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request, and how to make it again when that is allowed.
pub(crate) struct Outgoing<'a> {
    pub request: Request<OutBody>,
    /// Of a request with a body.
    pub progress: Option<Rc<Progress>>,
    /// Makes an equal request: given only for idempotent ones without body.
    pub again: Option<&'a dyn Fn() -> Request<OutBody>>,
}

impl Upstream {
    pub fn new(limits: &UpstreamLimits, observer: Arc<dyn Observer>) -> Upstream {
        let mut builder = Builder::new();
        builder.max_buf_size(limits.head_bytes.max(8192));
        let (idle, resolver) = (RefCell::default(), Resolver::default());
        Upstream { idle, idle_count: Rc::default(), resolver, builder, observer }
    }

    /// Sends a request and waits for the head of the answer.
    pub async fn send(
        self: &Rc<Self>,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let Outgoing { mut request, progress, again } = outgoing;
        let mut may_pool = true;
        loop {
            let pooled = if may_pool { self.take_idle(origin, limits, check) } else { None };
            let fresh = pooled.is_none();
            let mut connection = match pooled {
                Some(connection) => {
                    self.observer.count(Event::UpstreamReused, 1);
                    connection
                }
                None => self.connect(origin, limits, check).await?,
            };
            let sending = connection.sender.try_send_request(request);
            let sent = wait_for_head(limits.head_timeout, progress.as_deref(), sending).await;
            let Some(sent) = sent else {
                let text = format!(
                    "{origin} was asked but sent no answer within {} s.",
                    limits.head_timeout.as_secs_f32()
                );
                return Err(Failure::Failed(Reason::UpstreamTimeout, text));
            };
            let mut error = match sent {
                Ok(response) => {
                    return Ok(response.map(|incoming| {
                        self.body(origin, connection, incoming, progress, limits)
                    }));
                }
                Err(error) => error,
            };
            may_pool = false;
            match (error.take_message(), again) {
                (Some(unsent), _) if !fresh => request = unsent,
                (None, Some(again)) if !fresh && is_dead(error.error()) => request = again(),
                _ => return Err(no_answer(origin, error.error())),
            }
            self.observer.count(Event::UpstreamRetried, 1);
        }
    }

    /// A connection of its own, for a tunnel.
    pub async fn dial(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<TcpStream, Failure> {
        match timeout(limits.connect_timeout, self.dial_any(origin, limits, check)).await {
            Ok(result) => result.map(|(stream, _)| stream),
            Err(_) => {
                let seconds = limits.connect_timeout.as_secs_f32();
                let text = format!("No connection to {origin} within {seconds} s.");
                Err(Failure::Failed(Reason::ConnectTimeout, text))
            }
        }
    }

    /// Closes connections that idle for too long. To be called now and then.
    pub fn prune(&self, limits: &UpstreamLimits) {
        let mut idle = self.idle.borrow_mut();
        let now = Instant::now();
        idle.retain(|_, list| {
            list.retain(|idle| {
                !idle.connection.sender.is_closed()
                    && now.duration_since(idle.since) < limits.idle_timeout
            });
            !list.is_empty()
        });
    }

    fn take_idle(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(origin)?;
        let now = Instant::now();
        let mut i = list.len();
        while i > 0 {
            i -= 1;
            let sender = &list[i].connection.sender;
            if sender.is_closed() || now.duration_since(list[i].since) >= limits.idle_timeout {
                list.swap_remove(i);
            } else if sender.is_ready() && check(list[i].connection.address).is_ok() {
                return Some(list.swap_remove(i).connection);
            }
        }
        None
    }

    fn put_idle(&self, origin: Origin, connection: Connection, limits: PoolLimits) {
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let list = idle.entry(origin).or_default();
        if list.len() < limits.per_origin && self.idle_count.get() < limits.total {
            let counted = Counted::new(&self.idle_count);
            list.push(Idle { connection, since: Instant::now(), _counted: counted });
        }
    }

    async fn connect(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<Connection, Failure> {
        let stream = self.dial(origin, limits, check).await?;
        let broken = |e: &dyn fmt::Display| {
            Failure::Failed(Reason::Connect, format!("The connection to {origin} broke: {e}."))
        };
        let address = stream.peer_addr().map_err(|e| broken(&e))?.ip();
        let (sender, connection) =
            self.builder.handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
        // An error of the connection reaches whoever waits for its answer.
        let task = tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Connection { sender, address, task: task.abort_handle() })
    }

    async fn dial_any(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<(TcpStream, IpAddr), Failure> {
        let permitted = self.addresses(origin, limits, check).await?;
        let connected = race(&permitted, limits.stagger).await;
        let stream = connected.map_err(|e| {
            Failure::Failed(Reason::Connect, format!("No connection to {origin}: {e}."))
        })?;
        self.observer.count(Event::UpstreamConnected, 1);
        // Small requests must not wait for acknowledgements; a failure only costs time.
        let _ = stream.set_nodelay(true);
        let address = stream.peer_addr().map_or(permitted[0].ip(), |peer| peer.ip());
        Ok((stream, address))
    }

    /// Whether the check permits any address of the origin.
    pub async fn permitted(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<(), Failure> {
        self.addresses(origin, limits, check).await.map(drop)
    }

    /// The addresses of the origin that the check permits.
    async fn addresses(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let addresses = self.resolver.resolve(&origin.host, limits.dns_ttl).await.map_err(|e| {
            let text = format!("The name {} could not be resolved: {e}.", origin.host);
            Failure::Failed(Reason::Dns, text)
        })?;
        let mut denied = None;
        let mut permitted = Vec::with_capacity(addresses.len());
        for &address in addresses.iter() {
            match check(address) {
                Ok(()) => permitted.push(SocketAddr::new(address, origin.port)),
                Err(why) => denied = Some(why),
            }
        }
        if let (true, Some(why)) = (permitted.is_empty(), denied) {
            return Err(Failure::Denied(why));
        }
        Ok(permitted)
    }

    fn body(
        self: &Rc<Self>,
        origin: &Origin,
        connection: Connection,
        incoming: Incoming,
        progress: Option<Rc<Progress>>,
        limits: &UpstreamLimits,
    ) -> UpstreamBody {
        let pool = PoolLimits { per_origin: limits.idle_per_origin, total: limits.idle_total };
        let lease = Lease {
            upstream: self.clone(),
            origin: origin.clone(),
            connection,
            progress,
            limits: pool,
        };
        let mut body = UpstreamBody {
            incoming,
            lease: Some(lease),
            silence: limits.body_timeout,
            timer: None,
            armed: false,
        };
        body.give_back_at_end();
        body
    }
}

/// Connects to the first address that answers; each gets a head start of `stagger`.
async fn race(addresses: &[SocketAddr], stagger: Duration) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect(only).await;
    }
    let mut attempts = JoinSet::new();
    let mut rest = addresses.iter().copied();
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no address");
    loop {
        if let Some(address) = rest.next() {
            attempts.spawn_local(TcpStream::connect(address));
        } else if attempts.is_empty() {
            return Err(last_error);
        }
        let bound = if rest.len() > 0 { stagger } else { Duration::from_secs(3600) };
        // Elapsed: the next address joins the race.
        if let Ok(Some(Ok(result))) = timeout(bound, attempts.join_next()).await {
            match result {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = error,
            }
        }
    }
}

/// Waits for an answer's head. The bound starts anew while the request's body still moves.
async fn wait_for_head<T>(
    bound: Duration,
    progress: Option<&Progress>,
    sending: impl Future<Output = T>,
) -> Option<T> {
    let mut sending = std::pin::pin!(sending);
    loop {
        let before = progress.map(Progress::frames);
        if let Ok(sent) = timeout(bound, sending.as_mut()).await {
            return Some(sent);
        }
        if progress.map(Progress::frames) == before {
            return None;
        }
    }
}

/// True when a pooled connection was closed by the peer before it sent anything.
fn is_dead(error: &hyper::Error) -> bool {
    use std::error::Error as _;
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return true;
    }
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return matches!(
                io.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
            );
        }
        source = inner.source();
    }
    false
}

fn no_answer(origin: &Origin, error: &hyper::Error) -> Failure {
    if error.is_parse() {
        let text = format!("The answer of {origin} is not valid HTTP: {error}.");
        Failure::Failed(Reason::BadAnswer, text)
    } else {
        let text = format!("{origin} closed the connection without an answer: {error}.");
        Failure::Failed(Reason::Upstream, text)
    }
}

#[derive(Clone, Copy)]
struct PoolLimits {
    per_origin: usize,
    total: usize,
}

/// A connection in use, and where it goes afterwards.
struct Lease {
    upstream: Rc<Upstream>,
    origin: Origin,
    connection: Connection,
    progress: Option<Rc<Progress>>,
    limits: PoolLimits,
}

/// The body of an upstream's answer. Read to its clean end it gives its connection back to the
/// pool; dropped before, it closes it.
pub(crate) struct UpstreamBody {
    incoming: Incoming,
    lease: Option<Lease>,
    silence: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    armed: bool,
}

impl UpstreamBody {
    fn give_back_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some(Lease { upstream, origin, connection, progress, limits }) = self.lease.take()
            && progress.is_none_or(|progress| progress.ended())
        {
            upstream.put_idle(origin, connection, limits);
        }
    }

    /// Ready when the upstream has been silent for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.silence)));
        if !self.armed {
            timer.as_mut().reset(tokio::time::Instant::now() + self.silence);
            self.armed = true;
        }
        timer.as_mut().poll(cx)
    }
}

/// Why an upstream's body ended early.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// Closed, reset, or not what the framing promised.
    Broken(hyper::Error),
    /// Silent for longer than [`UpstreamLimits::body_timeout`].
    Silent,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Broken(error) => error.fmt(f),
            BodyError::Silent => f.write_str("no byte within the time allowed"),
        }
    }
}

impl std::error::Error for BodyError {}

impl BodyError {
    /// The reason for the outcome.
    pub fn reason(&self) -> Reason {
        match self {
            BodyError::Broken(_) => Reason::Upstream,
            BodyError::Silent => Reason::UpstreamTimeout,
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.armed = false;
                this.give_back_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.lease = None;
                Poll::Ready(Some(Err(BodyError::Broken(error))))
            }
            Poll::Ready(None) => {
                this.give_back();
                Poll::Ready(None)
            }
            Poll::Pending => match this.poll_silence(cx) {
                Poll::Ready(()) => {
                    this.lease = None;
                    Poll::Ready(Some(Err(BodyError::Silent)))
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
