//! The admin interface: health, readiness, metrics and purges, on a listener of its own.
//!
//! The interface serves the local machine and its operators. It defends against two attackers. A
//! web page in an operator's browser can reach loopback, so requests are refused when their `Host`
//! is not a configured name (DNS rebinding) or when the browser marks them as cross-origin. GET
//! changes nothing and contacts no origin. All other clients are kept out by a token, if one is
//! configured; without one, listening beyond loopback logs a warning.
//!
//! A [`Backend`] supplies the data and carries out the actions. Limits are small and fixed: the
//! interface must answer while the proxy is in trouble, and must never cause trouble. At the
//! connection limit, the longest-idle connection is closed (`connection_slots`), so idle clients
//! cannot exclude others.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::clock::TokioClock;
use net::network::AcceptSocket;
use net::socket::Socket;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::admin::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::admin::guard::Guard;
use crate::admin::live;
use crate::exchange::explain::Question;
use crate::observe::metrics::Format;
use crate::request::purge_order::{MESSAGE_MAX, Purge, PurgeResult};

/// Maximum size of a request head in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Maximum number of header lines in a request.
const HEADERS: usize = 64;
/// Maximum size of a request body in bytes.
const BODY_BYTES: usize = MESSAGE_MAX;
/// Time for a request head to arrive, including the idle time of the connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a request body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent connections.
const CONNECTIONS: usize = 64;
/// Maximum number of concurrent explanations that contact the origin; slow ones must not use up all
/// connections.
const ASKS: usize = 8;
/// Grace for a connection without a request when the interface ends. Its first request may be on
/// its way and would be lost.
const FRESH: Duration = Duration::from_secs(1);
/// Pause after a failed accept. The usual cause, too many open files, does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Readiness for the traffic of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It serves.
    Ready,
    /// Ready, but part of the cache is unusable; the text says what that means. A proxy without its
    /// cache is slow, but taking it out of service does not help, and the same device fault may
    /// affect all proxies.
    Uncached(String),
    /// The cache is being recovered; the text reports the progress.
    Recovering(String),
    /// It is no member of its fleet; the text says why.
    Excluded(String),
    /// The process is shutting down.
    Draining,
}

impl Readiness {
    /// Returns the state in one word.
    pub fn name(&self) -> &'static str {
        match self {
            Readiness::Ready => "ready",
            Readiness::Uncached(_) => "degraded",
            Readiness::Recovering(_) => "recovering",
            Readiness::Excluded(_) => "excluded",
            Readiness::Draining => "draining",
        }
    }

    /// Returns the explanation, if there is one.
    pub fn why(&self) -> Option<&str> {
        match self {
            Readiness::Uncached(why) | Readiness::Recovering(why) | Readiness::Excluded(why) => {
                Some(why)
            }
            Readiness::Ready | Readiness::Draining => None,
        }
    }
}

/// An action on the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the configuration and the certificates again, as SIGHUP does.
    Reload,
    /// Lets a new process take over, as SIGUSR2 does.
    Upgrade,
    /// Ends in order, as SIGTERM does.
    Drain,
    /// Ends in order, without waiting for clients.
    Stop,
}

impl Action {
    /// Returns the action's name, which is its path without the slash.
    pub fn name(self) -> &'static str {
        match self {
            Action::Reload => "reload",
            Action::Upgrade => "upgrade",
            Action::Drain => "drain",
            Action::Stop => "stop",
        }
    }
}

/// An explanation, or a sentence on why there is none.
pub type Explained<'a> = Pin<Box<dyn Future<Output = Result<serde_json::Value, String>> + 'a>>;

/// Result of an action, or a sentence on why nothing was done. For a reload: the changes made and
/// those that need a restart.
pub type Done<'a> = Pin<Box<dyn Future<Output = Result<serde_json::Value, String>> + 'a>>;

/// Operations that the interface needs from the running proxy.
pub trait Backend: 'static {
    /// Returns whether the proxy should get traffic.
    fn readiness(&self) -> Readiness;

    /// Returns the text of [`crate::observe::metrics::Metrics::scrape`].
    fn metrics(&self, format: Format) -> String;

    /// Returns the state of the process for operators.
    fn status(&self) -> serde_json::Value;

    /// Explains how a request from `client` would be handled, and why.
    fn explain<'a>(&'a self, question: &'a Question, client: SocketAddr) -> Explained<'a>;

    /// Acts on the process. An end has only begun when the future completes.
    fn act(&self, action: Action) -> Done<'_>;

    /// Returns the servers of all sites with their state.
    fn upstreams(&self) -> serde_json::Value;

    /// Returns the state of the fleet; `None` if there is no fleet.
    fn fleet(&self) -> Option<serde_json::Value> {
        None
    }

    /// Returns the version and the text of the table of classes in force; `None` if there is no
    /// fleet.
    fn fleet_policy(&self) -> Option<(u64, String)> {
        None
    }

    /// Puts the table of classes in `_text` into force in the whole fleet.
    fn set_fleet_policy<'a>(&'a self, _text: &'a str) -> Done<'a> {
        Box::pin(async { Err(NO_FLEET.to_owned()) })
    }

    /// Takes a node that is lost for good out of those that count for purges.
    fn forget_node<'a>(&'a self, _name: &'a str) -> Done<'a> {
        Box::pin(async { Err(NO_FLEET.to_owned()) })
    }

    /// Closes idle connections elsewhere to free a descriptor for a client of this interface.
    fn close_idle_clients(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async {})
    }

    /// Purges the given objects durably, under every front.
    fn purge<'a>(&'a self, purge: &'a Purge) -> Pin<Box<dyn Future<Output = PurgeResult> + 'a>>;
}

/// Error text of a node without a fleet.
const NO_FLEET: &str = "this is not a node of a fleet: start it with --fleet ADDR:PORT";

/// The admin interface.
pub struct Admin<B> {
    guard: Guard,
    backend: B,
    clock: TokioClock,
    accept_failed: Cell<bool>,
    asks: Semaphore,
}

pub(super) type Answer = Response<Full<Bytes>>;

impl<B: Backend> Admin<B> {
    /// Creates an interface that admits the requests that `guard` allows.
    pub fn new(guard: Guard, backend: B, clock: TokioClock) -> Admin<B> {
        let asks = Semaphore::new(ASKS);
        Admin { guard, backend, clock, accept_failed: Cell::new(false), asks }
    }

    /// Serves until `stop` completes, then answers the requests that have come and returns when all
    /// connections are closed. Must run where local tasks can be spawned.
    pub async fn serve(self: Rc<Self>, listener: AcceptSocket, stop: impl Future<Output = ()>) {
        if let Some(address) = listener.local_addr() {
            self.guard.warn_if_open(address);
        }
        let slots = ConnectionSlots::new(CONNECTIONS, self.clock);
        let closing = watch::Sender::new(false);
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((stream, client)) => {
                    self.accept_failed.set(false);
                    let (slot, closing) = (slots.take().await, closing.subscribe());
                    let admin = self.clone();
                    tokio::task::spawn_local(async move {
                        tokio::select! {
                            () = slot.displaced() => {}
                            () = admin.connection(stream, client, &slot, closing) => {}
                        }
                    });
                }
                Err(error) => {
                    if !self.accept_failed.replace(true) {
                        log::warn!("the admin interface cannot accept connections: {error}");
                    }
                    if !slots.close_longest_idle() {
                        self.backend.close_idle_clients().await;
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        closing.send_replace(true);
        if timeout(FRESH, slots.all_free()).await.is_err() {
            slots.close_idle();
            slots.all_free().await;
        }
    }

    async fn connection(
        self: Rc<Self>,
        stream: Socket,
        client: SocketAddr,
        slot: &ConnectionSlot,
        mut closing: watch::Receiver<bool>,
    ) {
        let (is_fresh, stops) = (Cell::new(true), closing.clone());
        let service = service_fn(|request| {
            is_fresh.set(false);
            let (admin, stops) = (self.clone(), stops.clone());
            async move {
                let mut answer = admin.answer(request, client, slot).await;
                if *stops.borrow() {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        let mut served = pin!(served);
        let served = tokio::select! {
            served = &mut served => served,
            _ = closing.wait_for(|closing| *closing) => {
                // It would close a connection whose first request is on its way.
                if !is_fresh.get() {
                    served.as_mut().graceful_shutdown();
                }
                served.await
            }
        };
        if let Err(error) = served {
            log::debug!("a connection to the admin interface ended: {error}");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        client: SocketAddr,
        slot: &ConnectionSlot,
    ) -> Answer {
        let mut answer = match self.guard.refusal(&request) {
            Some(refused) => refused,
            None => {
                let (head, body) = request.into_parts();
                match body_of(&head.headers, body).await {
                    Ok(body) => {
                        let _busy = slot.work();
                        self.route(Request::from_parts(head, body), client).await
                    }
                    Err(answer) => *answer,
                }
            }
        };
        let headers = answer.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answer
    }

    async fn route(&self, request: Request<Bytes>, client: SocketAddr) -> Answer {
        let path = request.uri().path().to_owned();
        let allowed = match path.as_str() {
            "/" | "/live" | "/live.js" | "/healthz" | "/readyz" | "/metrics" | "/status"
            | "/upstreams" | "/fleet" => "GET, HEAD",
            "/explain" | "/fleet/policy" => "GET, HEAD, POST",
            "/purge" | "/reload" | "/upgrade" | "/drain" | "/stop" | "/fleet/forget" => "POST",
            _ => {
                let what = format!("There is no {path} here.\n\n{ENDPOINTS}");
                return text(StatusCode::NOT_FOUND, what);
            }
        };
        let fits = match *request.method() {
            Method::GET | Method::HEAD => allowed != "POST",
            Method::POST => allowed.ends_with("POST"),
            _ => false,
        };
        if !fits {
            return method_not_allowed(format!("{path} takes {allowed}.\n"), allowed);
        }
        match path.as_str() {
            "/live" => live::page(),
            "/live.js" => live::script(),
            "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => self.readyz(),
            "/metrics" => self.metrics(request.headers()),
            "/status" => json_answer(StatusCode::OK, &self.backend.status()),
            "/explain" => self.explain(&request, client).await,
            "/purge" => self.purge(request).await,
            "/reload" => self.act(Action::Reload).await,
            "/upgrade" => self.act(Action::Upgrade).await,
            "/drain" => self.act(Action::Drain).await,
            "/stop" => self.act(Action::Stop).await,
            "/fleet" => match self.backend.fleet() {
                Some(view) => json_answer(StatusCode::OK, &view),
                None => no_fleet(),
            },
            "/fleet/policy" => self.fleet_policy(&request).await,
            "/fleet/forget" => self.forget_node(request.uri().query()).await,
            "/upstreams" => json_answer(StatusCode::OK, &self.backend.upstreams()),
            _ => text(StatusCode::OK, format!("Larder's admin interface.\n\n{ENDPOINTS}")),
        }
    }

    fn readyz(&self) -> Answer {
        let (status, what) = match self.backend.readiness() {
            Readiness::Ready => (StatusCode::OK, "ready\n".to_owned()),
            Readiness::Uncached(what) => (StatusCode::OK, format!("ready, but {what}\n")),
            Readiness::Recovering(how_far) => {
                (StatusCode::SERVICE_UNAVAILABLE, format!("recovering: {how_far}\n"))
            }
            Readiness::Excluded(why) => {
                (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"))
            }
            Readiness::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned()),
        };
        text(status, what)
    }

    async fn explain(&self, request: &Request<Bytes>, client: SocketAddr) -> Answer {
        let told = match Question::read(request.uri().query()) {
            Ok(question) if question.asks_origin() && request.method() != Method::POST => {
                let what = "/explain with ask=true takes POST: the origin server is asked.\n";
                return method_not_allowed(what.to_owned(), "POST");
            }
            Ok(question) => {
                let place = question.asks_origin().then(|| self.asks.try_acquire()).transpose();
                let Ok(_place) = place else { return too_many_asks() };
                self.backend.explain(&question, client).await
            }
            Err(why) => Err(why),
        };
        match told {
            Ok(told) => json_answer(StatusCode::OK, &told),
            Err(why) => json_answer(StatusCode::BAD_REQUEST, &serde_json::json!({"error": why})),
        }
    }

    fn metrics(&self, headers: &HeaderMap) -> Answer {
        let lines = headers.get_all(header::ACCEPT).iter();
        let format = Format::accepted(lines.filter_map(|line| line.to_str().ok()));
        let mut answer = text(StatusCode::OK, self.backend.metrics(format));
        let kind = HeaderValue::from_static(format.content_type());
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        answer
    }

    async fn act(&self, action: Action) -> Answer {
        match self.backend.act(action).await {
            Ok(told) => json_answer(StatusCode::OK, &told),
            Err(why) => {
                json_answer(StatusCode::UNPROCESSABLE_ENTITY, &serde_json::json!({"error": why}))
            }
        }
    }

    async fn fleet_policy(&self, request: &Request<Bytes>) -> Answer {
        let Some((version, text)) = self.backend.fleet_policy() else { return no_fleet() };
        if request.method() != Method::POST {
            let told = serde_json::json!({"version": version, "text": text});
            return json_answer(StatusCode::OK, &told);
        }
        let Ok(text) = std::str::from_utf8(request.body()) else {
            let wrong = serde_json::json!({"error": "the table is not UTF-8"});
            return json_answer(StatusCode::BAD_REQUEST, &wrong);
        };
        match self.backend.set_fleet_policy(text).await {
            Ok(told) => json_answer(StatusCode::OK, &told),
            Err(why) => {
                json_answer(StatusCode::UNPROCESSABLE_ENTITY, &serde_json::json!({"error": why}))
            }
        }
    }

    async fn forget_node(&self, query: Option<&str>) -> Answer {
        let given: Vec<_> = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
        let [(name, node)] = &given[..] else { return no_node() };
        if name != "node" {
            return no_node();
        }
        match self.backend.forget_node(node).await {
            Ok(told) => json_answer(StatusCode::OK, &told),
            Err(why) => {
                json_answer(StatusCode::UNPROCESSABLE_ENTITY, &serde_json::json!({"error": why}))
            }
        }
    }

    async fn purge(&self, request: Request<Bytes>) -> Answer {
        let (head, body) = request.into_parts();
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match Purge::read(head.uri.query(), kind, &body) {
            Ok(purge) => {
                let purged = self.backend.purge(&purge).await;
                let (status, json) = purged.answer(&purge);
                json_answer(status, &json)
            }
            Err(why) => json_answer(StatusCode::BAD_REQUEST, &serde_json::json!({"error": why})),
        }
    }
}

/// Reads a body within its limits. The error is the response that refuses it.
async fn body_of(headers: &HeaderMap, body: Incoming) -> Result<Bytes, Box<Answer>> {
    let too_large = || {
        let what = format!("The body is larger than {BODY_BYTES} bytes.\n");
        refused(text(StatusCode::PAYLOAD_TOO_LARGE, what))
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > BODY_BYTES as u64) {
        return Err(too_large());
    }
    let collect = Limited::new(body, BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collect).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            let what = format!("The body could not be read: {error}.\n");
            Err(refused(text(StatusCode::BAD_REQUEST, what)))
        }
        Err(_) => {
            let what = "The body took too long.\n".to_owned();
            Err(refused(text(StatusCode::REQUEST_TIMEOUT, what)))
        }
    }
}

const ENDPOINTS: &str = "\
GET  /live               requests, latencies, caches and servers as they change, for a browser
GET  /healthz            200 while the process serves
GET  /readyz             200 when ready for traffic, 503 while recovering or draining; with a
                         cache out of use it is 200 still, and the text says so
GET  /metrics            figures for Prometheus
GET  /status             the state of this process (JSON)
GET  /upstreams          the servers of all sites, and how they are (JSON)
GET  /fleet              the nodes of the fleet as this one sees them (JSON)
GET  /fleet/policy       the table of classes in force (JSON)
POST /fleet/policy       puts another in force in the whole fleet; its text (TOML) is the body
POST /fleet/forget?node=NAME
                         takes a node that is lost for good out of those that count for purges
POST /reload             reads the configuration and the certificates again, as SIGHUP does
POST /upgrade            lets a new process take over, as SIGUSR2 does
POST /drain              ends in order, as SIGTERM does
POST /stop               ends in order, without waiting for clients
GET  /explain?url=URL    what would become of a request, and why; also method, header,
                         client, listener, status and answer (that the origin might give)
POST /explain?url=URL&ask=true
                         the same, and the origin is asked, by GET or HEAD
POST /purge?url=URL      removes what is stored for URL, all variants; instead of url:
            prefix=URL   everything whose URL begins so
            host=HOST    everything of a host (host:port: of that port alone)
            tag=TAG      everything that bears the tag; may be repeated
            everything=1 everything
            with soft=1  it stays and counts as stale
                         The same may be sent as form fields, or as JSON: {\"url\": \"...\"},
                         {\"tags\": [\"...\"], \"soft\": true}
";

fn method_not_allowed(what: String, allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, what);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn no_node() -> Answer {
    let what = serde_json::json!({"error": "expected one parameter, node=NAME"});
    json_answer(StatusCode::BAD_REQUEST, &what)
}

fn too_many_asks() -> Answer {
    let what = serde_json::json!({"error": "too many explanations ask origins; try again later"});
    let mut answer = json_answer(StatusCode::SERVICE_UNAVAILABLE, &what);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn no_fleet() -> Answer {
    json_answer(StatusCode::NOT_FOUND, &serde_json::json!({"error": NO_FLEET}))
}

pub(super) fn text(status: StatusCode, what: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(what)));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn json_answer(status: StatusCode, json: &serde_json::Value) -> Answer {
    let mut answer = text(status, format!("{json}\n"));
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn refused(answer: Answer) -> Box<Answer> {
    Box::new(closing(answer))
}

/// Marks a response as the last one on its connection, so the rest of the request body is not read.
pub(super) fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Returns whether the address can be reached from this machine only.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
