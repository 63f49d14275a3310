//! Client for origins: per-worker connections in HTTP/1.1 or, over `h2`, HTTP/2, to a single server
//! or to one of a site's servers.
//!
//! Guarantees: no connection, new or pooled, is used for an address that the caller's check does
//! not permit for this request. A request is sent twice only if the first attempt cannot have had
//! an effect: it was not sent at all, the origin states that it did not process it, or it is
//! idempotent and has no body. Every wait has a timeout.

use std::cell::Cell;
use std::fmt;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use tokio::time::timeout;

use crate::connection::events::{Event, Events};
use crate::connection::fetch_timer::FetchTimer;
use crate::connection::http1::{FailedRequest, Http1, Incoming};
use crate::connection::origin_body::{Lease, NextUse, OriginBody};
use crate::connection::overrun::{OverrunWatch, Overruns};
use crate::connection::pool::{Connection, Pool, PoolLimits, may_use};
use crate::connection::request_body::{OutBody, Progress};
use crate::connection::tunnel::UpstreamTunnel;
use crate::failure::error::Failure;
use crate::failure::error::Reason;
use crate::failure::failure_log::{FailureLog, Phase};
use crate::message::upgrade;
use crate::message::upgrade::Upgrade;
use crate::names::resolver::Resolver;
use crate::send::descriptors::FreeDescriptors;
use crate::send::origin::{Connector, Origin, Sending};
use crate::send::outgoing::Outgoing;
use crate::send::timers::Timers;
use crate::servers::group::Serving;
use crate::settings::endpoint::{Endpoint, Http2};
use crate::settings::limits::Check;
use crate::settings::limits::{UpstreamLimits, in_time};
use net::clock::TokioClock;
use net::network::Network;
use semantics::Spellings;
use semantics::connection_login::has_challenge;

/// Upstream connections of one worker.
pub struct Upstream {
    pub(crate) pool: Rc<Pool>,
    pub(crate) resolver: Resolver,
    pub(crate) clock: TokioClock,
    pub(crate) network: Network,
    pub(crate) events: Arc<dyn Events>,
    /// Log of failures; `None`: they are not logged.
    pub(crate) failures: Option<Arc<FailureLog>>,
    /// Frees file descriptors when they have run out.
    pub(crate) descriptors: Option<Arc<dyn FreeDescriptors>>,
    timers: Timers,
}

/// A server's failure to respond.
pub(crate) struct ServerError {
    pub(crate) failure: Failure,
    /// True if the request had no effect there, so that another server may get it, whatever its
    /// method.
    pub(crate) untouched: bool,
    /// True if the failure counts against the server's health. The failure of a connection that was
    /// idle for too long does not.
    pub(crate) counts: bool,
    /// True if there was a connection to the server.
    pub(crate) had_connection: bool,
}

impl ServerError {
    /// Creates the failure of a server that a connection was made to.
    fn connected(failure: Failure, untouched: bool, counts: bool) -> ServerError {
        ServerError { failure, untouched, counts, had_connection: true }
    }
}

/// A connection's failure to return a response.
struct ConnectionError {
    /// The request, if it is unmodified and can be retried.
    request: Option<Box<Request<OutBody>>>,
    /// True if the request was not sent.
    is_unsent: bool,
    /// True if the origin states that it did not process the request.
    untouched: bool,
    dead: bool,
    failure: Failure,
}

/// Maximum number of times that a request is sent to one server.
const ATTEMPTS: u32 = 3;

impl Upstream {
    /// Creates a client without any connections.
    pub fn new(events: Arc<dyn Events>, clock: TokioClock) -> Upstream {
        let overruns = Arc::default();
        let watch = OverrunWatch { overruns, events: events.clone(), failures: None, clock };
        let (pool, resolver) = (Rc::new(Pool::new(watch)), Resolver::new(clock));
        let (network, failures, descriptors) = (Network::System, None, None);
        let timers = Timers::new(clock);
        Upstream { pool, resolver, clock, network, events, failures, descriptors, timers }
    }

    /// Sets the network to connect over.
    pub fn through(self, network: Network) -> Upstream {
        Upstream { network, ..self }
    }

    /// Sets the failure log and the record of overruns, both shared by the workers. Must be called
    /// before the first request.
    pub fn with_log(self, failures: Arc<FailureLog>, overruns: Arc<Overruns>) -> Upstream {
        let (events, failures, clock) = (self.events.clone(), Some(failures), self.clock);
        let watch = OverrunWatch { overruns, events, failures: failures.clone(), clock };
        Upstream { pool: Rc::new(Pool::new(watch)), failures, ..self }
    }

    /// Sets how to free file descriptors when they have run out.
    pub fn with_descriptors(self, descriptors: Arc<dyn FreeDescriptors>) -> Upstream {
        Upstream { descriptors: Some(descriptors), ..self }
    }

    /// Returns an empty request to fill in and send, in recycled memory.
    pub fn request(&self) -> Box<Request<OutBody>> {
        self.pool.request()
    }

    /// Starts the timer of a request, whose times are reported under this label.
    pub fn timer(&self, label: u8) -> FetchTimer {
        FetchTimer::start(self.events.clone(), self.clock, label)
    }

    /// Logs a response that cannot be used.
    pub fn bad_response(&self, server: &dyn fmt::Display, cause: &str) {
        if let Some(failures) = &self.failures {
            failures.note(server, Phase::Answer, cause, self.clock.instant());
        }
    }

    /// Logs a failed attempt, unless the client caused the failure.
    pub(crate) fn failed(&self, server: &dyn fmt::Display, phase: Phase, why: &Failure) {
        if let (Some(failures), Failure::Failed(_, cause)) = (&self.failures, why) {
            failures.note(server, phase, cause, self.clock.instant());
        }
    }

    /// Sends a request to one server, over an open connection or a new one.
    pub(crate) async fn ask(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        outgoing: &mut Outgoing<'_>,
        serving: Option<&Serving>,
    ) -> Result<Response<OriginBody>, ServerError> {
        let mut may_pool = true;
        for attempt in 1.. {
            let pinned = self.pinned(endpoint, check, outgoing);
            let is_login = pinned.is_some() || outgoing.is_login();
            let had = match pinned {
                Some(pinned) => Ok((pinned, false)),
                None => {
                    let with = (outgoing.upgrade, is_login, outgoing.reuse_only);
                    self.unpinned(endpoint, limits, check, (with, may_pool, serving)).await
                }
            };
            let (connection, fresh) = had.map_err(|failure| {
                outgoing.note(endpoint, None);
                // The request was not sent, or only on a connection that proved dead.
                let untouched = outgoing.request.is_some();
                let had_connection = false;
                ServerError { failure, untouched, counts: !outgoing.reuse_only, had_connection }
            })?;
            let Some(request) = outgoing.next(endpoint) else { break };
            outgoing.note(endpoint, connection.address());
            let asked = match connection {
                Connection::Http1(connection) => {
                    may_pool = false;
                    let with = (request, is_login);
                    self.ask_http1(endpoint, connection, limits, with, outgoing).await
                }
                Connection::Http2(connection) => {
                    let asking = (&**endpoint, connection, limits);
                    Box::pin(ask_http2(&self.timers, asking, request, outgoing)).await
                }
            };
            let broke = match asked {
                Ok(response) => return Ok(outgoing.noted(response)),
                Err(broke) => broke,
            };
            let of_client = outgoing.progress.as_deref().and_then(Progress::failure);
            if let Some(why) = of_client.or_else(|| broke.of_request()) {
                return Err(ServerError::connected(why, false, false));
            }
            let (unsent, phase) = (broke.is_unsent, broke.phase(outgoing));
            outgoing.request = broke.request;
            let again = attempt < ATTEMPTS
                && match () {
                    () if unsent => !fresh,
                    () if broke.untouched => outgoing.again.is_some(),
                    () => broke.dead && !fresh && outgoing.may_repeat(),
                };
            // A dead idle connection is no failure while the request is retried.
            if !again || fresh || !broke.dead {
                self.failed(endpoint, phase, &broke.failure);
            }
            if !again {
                let untouched = unsent || (broke.untouched && outgoing.again.is_some());
                let counts = fresh || !broke.dead;
                return Err(ServerError::connected(broke.failure, untouched, counts));
            }
            self.events.count(Event::Retried);
        }
        let cause = "the request cannot be sent once more".to_owned();
        let failure = Failure::Failed(Reason::Internal, cause);
        Err(ServerError { failure, untouched: false, counts: false, had_connection: false })
    }

    /// Takes the connection on which the request's client has authenticated, if it is usable.
    /// Otherwise another one is used, on which the origin asks the client to authenticate again.
    fn pinned(
        &self,
        endpoint: &Arc<Endpoint>,
        check: Check<'_>,
        outgoing: &Outgoing<'_>,
    ) -> Option<Connection> {
        let mut connection = outgoing.pinned.as_ref()?.upgrade()?.take(endpoint)?;
        if !may_use(endpoint, connection.address, check)
            || !self.pool.is_usable(endpoint, &mut connection)
        {
            return None;
        }
        self.events.count(Event::Reused);
        Some(Connection::Http1(connection))
    }

    /// Takes or opens a connection that is not pinned. The request may ask for another protocol,
    /// authenticate its connection, or not be allowed to open one.
    async fn unpinned(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        ((upgrade, is_login, reuse_only), may_pool, serving): (
            (Option<&Upgrade>, bool, bool),
            bool,
            Option<&Serving>,
        ),
    ) -> Result<(Connection, bool), Failure> {
        match upgrade {
            _ if reuse_only => self.idle(endpoint, limits, check, may_pool),
            // An HTTP/2 connection is shared, so it cannot be authenticated.
            _ if is_login && endpoint.may_be_http2() => {
                let endpoint = Arc::new(endpoint.over_http1());
                Box::pin(self.connection(&endpoint, limits, check, may_pool, serving)).await
            }
            Some(upgrade) => {
                let with = (upgrade, may_pool, serving);
                Box::pin(self.connection_for_tunnel(endpoint, limits, check, with)).await
            }
            None => self.connection(endpoint, limits, check, may_pool, serving).await,
        }
    }

    /// Takes an open connection, for a request that may not open a new one.
    fn idle(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        may_pool: bool,
    ) -> Result<(Connection, bool), Failure> {
        let current = may_pool.then(|| self.resolver.current(endpoint, limits)).flatten();
        let pooled = || self.pool.take(endpoint, limits, check, current.as_deref());
        let Some(taken) = may_pool.then(pooled).flatten() else {
            let cause = "no connection to it is idle".to_owned();
            return Err(Failure::Failed(Reason::UpstreamBusy, cause));
        };
        self.events.count(Event::Reused);
        Ok((taken, false))
    }

    /// Takes or opens a connection. Also returns whether it was opened for this request.
    async fn connection(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        may_pool: bool,
        serving: Option<&Serving>,
    ) -> Result<(Connection, bool), Failure> {
        let current = may_pool.then(|| self.resolver.current(endpoint, limits)).flatten();
        let take = || {
            let taken = self.pool.take(endpoint, limits, check, current.as_deref())?;
            self.events.count(Event::Reused);
            Some((taken, false))
        };
        if may_pool {
            if let Some(taken) = take() {
                return Ok(taken);
            }
            if endpoint.may_be_http2()
                && self.pool.wait(endpoint).await
                && let Some(taken) = take()
            {
                return Ok(taken);
            }
        }
        let began = self.clock.instant();
        let made = match endpoint.may_be_http2() {
            true => {
                let _opening = self.pool.open(endpoint);
                Box::pin(self.connect(endpoint, limits, check)).await
            }
            false => Box::pin(self.connect(endpoint, limits, check)).await,
        };
        if let (Some(serving), Ok(_)) = (serving, &made) {
            serving.connected(self.clock.since(began));
        }
        made.map(|made| (made, true))
    }

    /// Takes or opens a connection on which another protocol can be requested: HTTP/2 if that is
    /// defined for the protocol and the server accepts it, else HTTP/1.1.
    async fn connection_for_tunnel(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        (upgrade, may_pool, serving): (&Upgrade, bool, Option<&Serving>),
    ) -> Result<(Connection, bool), Failure> {
        let in_http2 = upgrade.of_extended_connect().is_some();
        if in_http2 || !endpoint.may_be_http2() {
            let had = self.connection(endpoint, limits, check, may_pool, serving).await?;
            match &had.0 {
                Connection::Http1(_) => return Ok(had),
                Connection::Http2(shared) => {
                    let answer = timeout(limits.head_timeout, shared.accepts_tunnels()).await;
                    if answer == Ok(true) {
                        return Ok(had);
                    }
                }
            }
        }
        let endpoint = Arc::new(endpoint.over_http1());
        self.connection(&endpoint, limits, check, may_pool, serving).await
    }

    async fn connect(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<Connection, Failure> {
        let phase = Cell::new(Phase::Resolve);
        let made = self.make_connection(endpoint, limits, check, &phase).await;
        made.inspect_err(|why| self.failed(endpoint, phase.get(), why))
    }

    async fn make_connection(
        &self,
        endpoint: &Arc<Endpoint>,
        limits: &UpstreamLimits,
        check: Check<'_>,
        phase: &Cell<Phase>,
    ) -> Result<Connection, Failure> {
        let (stream, address) =
            in_time(limits, phase, self.open(endpoint, limits, check, phase)).await?;
        let broken = |error: &(dyn std::error::Error + 'static)| {
            Failure::Failed(Reason::Connect, crate::failure::cause::of(error))
        };
        if endpoint.http2 == Http2::PriorKnowledge || stream.chose_http2() {
            let to = crate::connection::http2::Peer {
                endpoint: endpoint.clone(),
                address,
                failures: self.failures.clone(),
                clock: self.clock,
            };
            let shared = crate::connection::http2::Http2::handshake(stream, to, limits)
                .await
                .map_err(|e| broken(&e))?;
            self.pool.share(endpoint, shared.clone());
            return Ok(Connection::Http2(shared));
        }
        if endpoint.may_be_http2() {
            self.pool.is_http1(endpoint);
        }
        let head_max = limits.head_bytes.max(8192);
        Ok(Connection::Http1(Box::new(Http1::new(stream, address, head_max))))
    }

    async fn ask_http1(
        &self,
        endpoint: &Arc<Endpoint>,
        connection: Box<Http1>,
        limits: &UpstreamLimits,
        (request, is_login): (Box<Request<OutBody>>, bool),
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<OriginBody>, ConnectionError> {
        let sending =
            connection.send(request, &outgoing.spellings, outgoing.interim.map(Arc::as_ref));
        let progress = &outgoing.progress;
        let bound = limits.head_timeout;
        let sent = wait_for_head(&self.timers, bound, progress.as_deref(), pin!(sending)).await;
        match sent {
            None => Err(ConnectionError::late(limits)),
            Some(Err(FailedRequest { request, is_unsent, overran, error })) => {
                if let Some(after) = overran {
                    self.pool.overran(endpoint, after);
                }
                Err(ConnectionError {
                    request,
                    is_unsent,
                    untouched: false,
                    dead: error.is_end() || overran.is_some(),
                    failure: no_answer(&error, error.is_bad_answer()),
                })
            }
            Some(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let switched = switch(response, outgoing.upgrade);
                switched.map_err(|failure| ConnectionError {
                    request: None,
                    is_unsent: false,
                    untouched: false,
                    dead: false,
                    failure,
                })
            }
            Some(Ok(response)) => {
                let next_use = match (is_login, &outgoing.pinned) {
                    (true, Some(pinned)) => NextUse::Client(pinned.clone()),
                    (true, None) => NextUse::Never,
                    (false, _) if has_challenge(response.headers()) => NextUse::Never,
                    (false, _) => NextUse::Any,
                };
                Ok(response.map(|incoming| {
                    let lease = Lease {
                        pool: self.pool.clone(),
                        failures: self.failures.clone(),
                        endpoint: endpoint.clone(),
                        progress: progress.clone(),
                        limits: PoolLimits::of(limits),
                        next_use,
                    };
                    OriginBody::http1(incoming, lease, limits.body_timeout)
                }))
            }
        }
    }

    /// Closes connections that have been idle for too long. Must be called periodically.
    pub fn prune(&self, limits: &UpstreamLimits) {
        self.pool.prune(limits);
        if let Some(failures) = &self.failures {
            failures.tick(self.clock.instant());
        }
    }

    /// Closes all idle connections, and returns how many there were.
    pub fn close_idle(&self) -> usize {
        self.pool.close_idle()
    }
}

/// Sends a request to a single server and waits for the head of the response.
pub(super) async fn ask_server(
    server: Arc<Endpoint>,
    with: Connector<'_>,
    mut request: Outgoing<'_>,
) -> Result<Response<OriginBody>, Failure> {
    let Connector { upstream, limits, check } = with;
    let asked = upstream.ask(&server, limits, check, &mut request, None).await;
    asked.map_err(|unanswered| unanswered.failure)
}

impl Origin for Endpoint {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(ask_server(self, with, request))
    }

    fn server(self: Arc<Self>) -> Option<Arc<Endpoint>> {
        Some(self)
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        (number == 0).then_some(self)
    }
}

async fn ask_http2(
    timers: &Timers,
    (endpoint, connection, limits): (
        &Endpoint,
        Rc<crate::connection::http2::Http2>,
        &UpstreamLimits,
    ),
    request: Box<Request<OutBody>>,
    outgoing: &Outgoing<'_>,
) -> Result<Response<OriginBody>, ConnectionError> {
    if let Some(protocol) = outgoing.upgrade.and_then(Upgrade::of_extended_connect) {
        let asking = (endpoint, connection, limits);
        return ask_for_tunnel(timers, asking, request, protocol).await;
    }
    let sending = connection.send(*request, endpoint.scheme(), outgoing.interim);
    let progress = outgoing.progress.as_deref();
    let response = answer_in_time(timers, &connection, limits, progress, sending).await?;
    let (parts, (body, stream)) = response.into_parts();
    let incoming = crate::connection::http2::Incoming::new(body, &parts.headers);
    let body = OriginBody::http2(incoming, stream, limits.body_timeout);
    Ok(Response::from_parts(parts, body))
}

/// Takes over the connection of a 101 response that switches to a requested protocol. Any other 101
/// is an error, because the protocol of its connection is then unknown.
fn switch(
    response: Response<Incoming>,
    upgrade: Option<&Upgrade>,
) -> Result<Response<OriginBody>, Failure> {
    let wrong = |why: &str| {
        let cause = format!("it changed the protocol, {why}");
        Failure::Failed(Reason::BadAnswer, cause)
    };
    let Some(upgrade) = upgrade else { return Err(wrong("which was not requested")) };
    let Some(chosen) = upgrade.chosen(response.headers()) else {
        return Err(wrong("and not to a requested one"));
    };
    let (mut head, mut body) = response.into_parts();
    let spellings = body.take_spellings();
    let Some(switched) = body.into_switched() else {
        return Err(wrong("before the whole request was sent"));
    };
    head.headers.insert(header::UPGRADE, chosen);
    let body = OriginBody::tunnel(UpstreamTunnel::http1(switched), spellings);
    Ok(Response::from_parts(head, body))
}

/// Requests another protocol over HTTP/2. The response is returned in the form of HTTP/1.1.
async fn ask_for_tunnel(
    timers: &Timers,
    (endpoint, connection, limits): (
        &Endpoint,
        Rc<crate::connection::http2::Http2>,
        &UpstreamLimits,
    ),
    request: Box<Request<OutBody>>,
    protocol: &str,
) -> Result<Response<OriginBody>, ConnectionError> {
    let fields = request.headers().clone();
    let sending = connection.ask_for_tunnel(*request, endpoint.scheme(), protocol);
    let response = answer_in_time(timers, &connection, limits, None, sending).await?;
    let (mut parts, (body, stream, sink)) = response.into_parts();
    let body = match sink {
        None => {
            let incoming = crate::connection::http2::Incoming::new(body, &parts.headers);
            OriginBody::http2(incoming, stream, limits.body_timeout)
        }
        Some(sink) => {
            parts.status = StatusCode::SWITCHING_PROTOCOLS;
            upgrade::from_server(protocol, &fields, &mut parts.headers);
            let joined = crate::connection::http2::joined(body, sink);
            OriginBody::tunnel(UpstreamTunnel::http2(joined, stream), Spellings::LOWER_CASE)
        }
    };
    Ok(Response::from_parts(parts, body))
}

/// Waits for the head of an HTTP/2 response.
async fn answer_in_time<T>(
    timers: &Timers,
    connection: &crate::connection::http2::Http2,
    limits: &UpstreamLimits,
    progress: Option<&Progress>,
    sending: impl Future<Output = Result<T, crate::connection::http2::FailedRequest>>,
) -> Result<T, ConnectionError> {
    match wait_for_head(timers, limits.head_timeout, progress, pin!(sending)).await {
        None => {
            // Either this response or the whole connection may hang.
            connection.retire();
            Err(ConnectionError::late(limits))
        }
        Some(Ok(response)) => Ok(response),
        Some(Err(crate::connection::http2::FailedRequest { unsent, untouched, dead, error })) => {
            if dead {
                connection.retire();
            }
            let failure = match error {
                Some(error) => no_answer(&error, error.is_library()),
                None => {
                    let text = "The host cannot be named in HTTP/2, which the server speaks.";
                    Failure::Request(StatusCode::BAD_REQUEST, text.to_owned())
                }
            };
            let is_unsent = unsent.is_some();
            let request = unsent.map(Box::new);
            Err(ConnectionError { request, is_unsent, untouched, dead, failure })
        }
    }
}

impl ConnectionError {
    /// Creates the error for a response that did not arrive in time.
    fn late(limits: &UpstreamLimits) -> ConnectionError {
        let seconds = limits.head_timeout.as_secs_f32();
        let cause = format!("no response within {seconds} s");
        let failure = Failure::Failed(Reason::UpstreamTimeout, cause);
        let (request, is_unsent) = (None, false);
        ConnectionError { request, is_unsent, untouched: false, dead: false, failure }
    }

    /// Returns the failure if the request itself is at fault.
    fn of_request(&self) -> Option<Failure> {
        match &self.failure {
            Failure::Request(status, text) => Some(Failure::Request(*status, text.clone())),
            _ => None,
        }
    }

    /// Returns the phase in which the attempt failed.
    fn phase(&self, outgoing: &Outgoing<'_>) -> Phase {
        let is_sent = outgoing.progress.as_deref().is_none_or(Progress::ended);
        match &self.failure {
            Failure::Failed(Reason::BadAnswer, _) => Phase::Answer,
            _ if self.is_unsent || !is_sent => Phase::Send,
            _ => Phase::Head,
        }
    }
}

/// Waits for the head of a response; returns `None` if it is late. The timeout restarts as long as
/// the request body makes progress.
async fn wait_for_head<T>(
    timers: &Timers,
    bound: Duration,
    progress: Option<&Progress>,
    mut sending: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    loop {
        let before = progress.map(Progress::frames);
        let sent = timers.within(bound, sending.as_mut()).await;
        if sent.is_some() {
            return sent;
        }
        if progress.map(Progress::frames) == before {
            return None;
        }
    }
}

/// Converts an error to a failure. `is_wrong` says that the response is not valid HTTP.
fn no_answer<E: std::error::Error + 'static>(error: &E, is_wrong: bool) -> Failure {
    let cause = crate::failure::cause::of(error);
    if is_wrong {
        return Failure::Failed(Reason::BadAnswer, format!("not valid HTTP: {cause}"));
    }
    Failure::Failed(crate::settings::tls::refusal(error).unwrap_or(Reason::Upstream), cause)
}
