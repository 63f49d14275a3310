//! The way to the origins: connections per worker over `hyper::client::conn`.
//!
//! It promises: no connection, fresh or pooled, is used for an address that the caller's check
//! does not permit for this very request; a request is sent twice only when the first sending
//! cannot have had an effect (it never left, or it is idempotent, has no body, and the pooled
//! connection turned out dead before any answer); every wait has a bound.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::access::Denial;
use crate::account::Observer;
use crate::metrics::Event;
use crate::options::UpstreamLimits;
use crate::out_body::{OutBody, Progress};
use crate::outcome::Error as Reason;
use crate::resolve::Resolver;

mod body;
mod dial;
mod failure;
mod group;
mod origin;
mod pool;
mod stream;
mod tls;

pub(crate) use body::{BodyError, UpstreamBody};
pub(crate) use failure::Failure;
pub use group::{Group, Server};
pub use origin::{At, Http2, Origin};
pub use tls::{Identity, Tls, TlsOptions};

use body::Lease;
use pool::{Connection, Pool, PoolLimits};

/// Says whether an address may be connected to for the request at hand.
pub(crate) type Check<'a> = &'a dyn Fn(SocketAddr) -> Result<(), Denial>;

/// The upstream connections of one worker.
pub(crate) struct Upstream {
    pool: Pool,
    resolver: Resolver,
    builder: Builder,
    observer: Arc<dyn Observer>,
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
        Upstream { pool: Pool::default(), resolver: Resolver::default(), builder, observer }
    }

    /// Sends a request and waits for the head of the answer.
    pub async fn send(
        self: &Rc<Self>,
        origin: &Arc<Origin>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let Outgoing { mut request, progress, again } = outgoing;
        let mut may_pool = true;
        loop {
            let pooled = if may_pool { self.pool.take(origin, limits, check) } else { None };
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
            let Some(sent) = sent else { return Err(no_head(origin, limits)) };
            let mut error = match sent {
                Ok(response) => {
                    let (upstream, origin) = (self.clone(), origin.clone());
                    let limits_of_pool = PoolLimits::of(limits);
                    return Ok(response.map(|incoming| {
                        let lease = Lease {
                            upstream,
                            origin,
                            connection,
                            progress,
                            limits: limits_of_pool,
                        };
                        UpstreamBody::new(incoming, lease, limits.body_timeout)
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

    /// Closes connections that idle for too long. To be called now and then.
    pub fn prune(&self, limits: &UpstreamLimits) {
        self.pool.prune(limits);
    }

    async fn connect(
        &self,
        origin: &Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<Connection, Failure> {
        let (stream, address) = self.open(origin, limits, check).await?;
        let broken = |e: &dyn fmt::Display| {
            Failure::Failed(Reason::Connect, format!("The connection to {origin} broke: {e}."))
        };
        let (sender, connection) =
            self.builder.handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
        // An error of the connection reaches whoever waits for its answer.
        let task = tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Connection { sender, address, task: task.abort_handle() })
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

fn no_head(origin: &Origin, limits: &UpstreamLimits) -> Failure {
    let seconds = limits.head_timeout.as_secs_f32();
    let text = format!("{origin} was asked but sent no answer within {seconds} s.");
    Failure::Failed(Reason::UpstreamTimeout, text)
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
                    // A TLS peer that ends without taking its leave.
                    | io::ErrorKind::UnexpectedEof
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
        Failure::Failed(tls::refusal(error).unwrap_or(Reason::Upstream), text)
    }
}
