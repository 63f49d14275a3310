//! Order of the decisions on a request. Each decision is made elsewhere.

use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::message::scheme::Scheme;
use crate::message::{cookies, framing};
use http::header::HeaderValue;
use http::{HeaderMap, Method, Response, StatusCode, Version, header};
use http_body::Body as _;
use http1::RequestHead;
use net::address;
use semantics::assumed_vary::ASSUMED;
use semantics::ignored_fields::IGNORED;
use semantics::invalidation::Write;
use semantics::{ExchangeTimes, MethodClass, Url, claims, hop_by_hop, max_forwards, storability};
use store::Key;
use tokio::task::spawn_local;
use upstream::message::request_body::{LimitedBody, RequestBody};
use upstream::message::upgrade;
use upstream::send::attempts::Attempts;
use upstream::settings::endpoint::Endpoint;

use crate::client::connection_state::ConnectionState;
use crate::client::handle::Client;
use crate::client::pool::Pooled;
use crate::exchange::node_question;
use crate::exchange::purge;
use crate::exchange::purge::{Answered, PurgeFields};
use crate::fleet_control::invalidating;
use crate::fleet_control::purging::Wait;
use crate::get::cache_request;
use crate::get::cached;
use crate::get::direct_fetch;
use crate::get::direct_fetch::FetchedResponse;
use crate::object::store::Store;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Bypass, Denied, Error, Invalid, Outcome};
use crate::options::Options;
use crate::origin::address_check::AddressCheck;
use crate::origin::failure::Failure;
use crate::peers::node::Node;
use crate::request::admission::Admission;
use crate::request::context::RequestContext;
use crate::request::held::Held;
use crate::request::prepare::prepare;
use crate::request::purge_order::{Purge, Purged, Scope};
use crate::request::request_values::{Requester, ResponseValues};
use crate::request::route::{Route, RouteInput};
use crate::request::target::{Refused, TargetPlace};
use crate::request::{admission, buffering, login, target};
use crate::response::client_response::ClientResponse;
use crate::response::failure::failed;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::tunnel::Tunnel;
use crate::response::{error_response, page, pass_through, refusal, reply};
use crate::rules::access::{Denial, Query, Verdict};
use crate::rules::request_rules::{Actions, DECISION};
use crate::services::Services;

/// A response, or the future that makes it.
#[expect(clippy::large_enum_variant, reason = "what is answered at once allocates nothing")]
pub(crate) enum Answering {
    Now(ClientResponse),
    Later(Unanswered),
}

/// Future that makes a response. Dropping it cancels the request.
pub(crate) struct Unanswered {
    work: Pin<Box<dyn Future<Output = ClientResponse>>>,
    /// True if the response may invalidate stored objects.
    pub is_unsafe: bool,
}

/// Maximum number of requests that continue after their client cancelled them, per connection and
/// per worker. The second bound is needed because they outlive their connections.
const RUN_ON_MAX: [usize; 2] = [16, 128];

impl Unanswered {
    fn new(work: impl Future<Output = ClientResponse> + 'static) -> Unanswered {
        Unanswered { work: Box::pin(work), is_unsafe: false }
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ClientResponse> {
        self.work.as_mut().poll(cx)
    }

    /// Continues the work until the response has been processed, if that may invalidate stored
    /// objects: the client cancelled a request that the origin may have carried out (RFC 9111,
    /// 4.4).
    pub fn run_on(self, services: &Services, connection: &ConnectionState) {
        let held = [&connection.run_on, &services.run_on];
        let has_room = held.iter().zip(RUN_ON_MAX).all(|(held, max)| Rc::strong_count(held) <= max);
        if self.is_unsafe && has_room {
            let held = held.map(Rc::clone);
            spawn_local(async move {
                drop(self.work.await);
                drop(held);
            });
        }
    }
}

enum Rest {
    /// Check whether it is a purge, and whether its destination is permitted.
    Permission,
    /// Wait until the limits of its rule, or the check of its password, admit it.
    Admission,
    /// Read its body, or open a tunnel.
    Body,
    Route(Route),
}

/// Answers a request, without waiting if possible. Errors become responses too.
pub(crate) fn answer(
    services: &Rc<Services>,
    client: &Rc<Client>,
    head: Pooled<RequestHead>,
    body: RequestBody,
) -> Answering {
    let options = services.options();
    if client.link.is_peer {
        let (services, client) = (services.clone(), client.clone());
        return Answering::Later(Unanswered::new(async move {
            node_question::answer(&services, &client, &options, head, body).await
        }));
    }
    understand(services, client, options, head, body)
}

/// Interprets a request of a client: removes fields that the client is not trusted to send, and
/// finds the rule and the target. Then answers it.
fn understand(
    services: &Rc<Services>,
    client: &Rc<Client>,
    options: Arc<Options>,
    mut head: Pooled<RequestHead>,
    body: RequestBody,
) -> Answering {
    let purge = PurgeFields::of(&options, &head);
    if head.method == Method::OPTIONS {
        head.target.name_server();
    }
    hop_by_hop::strip_named(&mut head.fields);
    if head.version == Version::HTTP_2 {
        cookies::join_cookies(&mut head.fields);
    }
    login::note(client, &head.fields, &options);
    let (address, connection) = (client.address.ip(), client.link.scheme);
    let scheme = target::distrust(&mut head.fields, address, connection, &options);
    // A reverse proxy's URL has the scheme of the last hop; a trusted proxy knows the first one.
    let is_of_hop = !options.front.takes_whole_urls() && scheme != connection;
    if is_of_hop && head.target.scheme().and_then(Scheme::named) == Some(connection) {
        head.target.set_scheme(scheme.name());
    }
    let log_format = services.observer.log_format();
    let is_logged = log_format.as_ref().is_some_and(|format| format.has_request_id());
    let id = options.request_id.id(is_logged, address, &head.fields, &options.forwarded);
    let trace = options.tracing.context(&head.fields);
    let from = Requester {
        client: client.address,
        forwarded: &options.forwarded,
        tls: client.link.tls.as_ref(),
        listener: client.link.listener.as_deref(),
        id: id.as_ref(),
        trace: trace.as_deref(),
    };
    let logged = log_format.map(|format| (format, from));
    let mut transaction = Transaction::open(services, client, &head, scheme, logged);
    if let Some(text) = framing_error(&head, &body) {
        let status = StatusCode::BAD_REQUEST;
        let refused = Refused { status, why: Invalid::Body, text };
        return without_rule(&options, refuse(transaction, &refused));
    }
    if services.shared.via.is_loop(&head.fields) {
        let text = "This request came back to the proxy that had sent it: a loop.\n";
        let (status, outcome) = (StatusCode::LOOP_DETECTED, Outcome::Error(Error::Loop));
        let response = error_response::plain(transaction, status, outcome, text);
        return without_rule(&options, response);
    }
    if head.method == Method::CONNECT {
        let (services, client) = (services.clone(), client.clone());
        return Answering::Later(Unanswered::new(async move {
            let response = connect(&services, &client, &options, transaction, &head).await;
            without_hidden(&options, response)
        }));
    }
    let prepared = match prepare(&mut head, &options, scheme, from) {
        Ok(prepared) => prepared,
        Err(refused) => return without_rule(&options, refuse(transaction, &refused)),
    };
    if let Some(refused) = refusal_of(client, &options, &head, &prepared.target, &body) {
        return without_rule(&options, refuse(transaction, &refused));
    }
    let (kind, has_body) = ((&head.method, head.version), !body.is_end_stream());
    let upgrade = upgrade::asked_by(kind, head.is_extended_connect, &head.fields, has_body);
    let upgrade = upgrade.map(Rc::new);
    let mut context = RequestContext::new(services, client, options, head, prepared, upgrade);
    (context.id, context.trace) = (id, trace);
    transaction.note_request(&context);
    respond(context, transaction, body, purge)
}

/// Answers a request that was interpreted, without waiting if possible.
fn respond(
    context: RequestContext,
    transaction: Transaction,
    body: RequestBody,
    purge: PurgeFields,
) -> Answering {
    let busy = context.services.shared.node.as_ref().map(Node::busy);
    let (transaction, rest) = match at_once(&context, transaction, &body, &purge) {
        Ok(response) => return Answering::Now(response),
        Err(rest) => rest,
    };
    let is_unsafe = context.facts.class == MethodClass::Unsafe;
    let work = Unanswered::new(async move {
        let _busy = busy;
        let response = later(&context, transaction, body, purge, rest).await;
        held(&context, finished(&context, response))
    });
    Answering::Later(Unanswered { is_unsafe, ..work })
}

/// Answers a request without waiting, or returns the next step.
#[expect(clippy::result_large_err, reason = "to wait takes one allocation, for all that is left")]
fn at_once(
    context: &RequestContext,
    transaction: Transaction,
    body: &RequestBody,
    purge: &PurgeFields,
) -> Result<ClientResponse, (Transaction, Rest)> {
    if purge.may_be_purge() {
        return Err((transaction, Rest::Permission));
    }
    match permitted_by_name(context) {
        Verdict::Allow => {}
        Verdict::Deny(denial) => {
            return Ok(finished(context, failed(transaction, Failure::Denied(denial))));
        }
        Verdict::ByAddress => return Err((transaction, Rest::Permission)),
    }
    let transaction = match answer_here(context, transaction, body, false) {
        Step::Continue(transaction) => transaction,
        Step::Answer(response) => return Ok(finished(context, response)),
        Step::Admission(transaction, actions) => {
            return admitted_at_once(context, &actions, transaction, body);
        }
    };
    routed_at_once(context, transaction, body)
}

/// Answers a request that its rule must admit without waiting, or returns the next step.
#[cold]
#[expect(clippy::result_large_err, reason = "as `at_once`")]
fn admitted_at_once(
    context: &RequestContext,
    actions: &Actions,
    transaction: Transaction,
    body: &RequestBody,
) -> Result<ClientResponse, (Transaction, Rest)> {
    let transaction = match admission::begin(context, actions) {
        Admission::Admitted => transaction,
        Admission::Waits => return Err((transaction, Rest::Admission)),
        Admission::Refused(refusal) => {
            return Ok(finished(context, refusal::refuse(transaction, refusal)));
        }
    };
    let response = match answer_here(context, transaction, body, true) {
        Step::Answer(response) => finished(context, response),
        Step::Continue(transaction) | Step::Admission(transaction, _) => {
            routed_at_once(context, transaction, body)?
        }
    };
    Ok(held(context, response))
}

/// Answers a request that goes on to the cache without waiting, or returns the next step.
#[inline(always)]
#[expect(clippy::result_large_err, reason = "as `at_once`")]
fn routed_at_once(
    context: &RequestContext,
    transaction: Transaction,
    body: &RequestBody,
) -> Result<ClientResponse, (Transaction, Rest)> {
    context
        .client
        .state
        .set_servers(context.origin_site().group().map_or(0, |group| group.number()));
    if context.upgrade.is_some() || !body.is_end_stream() {
        return Err((transaction, Rest::Body));
    }
    let store = context.store();
    let asked = route_input(context, false, store.is_some());
    let (transaction, route) = match (asked.past_cache(), store) {
        (None, Some(store)) => {
            let answered = cached::answer(context, &store, transaction).map_err(|transaction| {
                (transaction, Rest::Route(asked.route(|| context.primary_key())))
            });
            return match &answered {
                Ok(response) if response.body().may_get_page() => {
                    answered.map(|response| finished(context, response))
                }
                _ => answered,
            };
        }
        (route, _) => (transaction, route.unwrap_or(Route::BadUrl)),
    };
    Err((transaction, Rest::Route(route)))
}

/// Carries out the remaining steps of a request.
async fn later(
    context: &RequestContext,
    mut transaction: Transaction,
    mut body: RequestBody,
    purge: PurgeFields,
    rest: Rest,
) -> ClientResponse {
    if matches!(rest, Rest::Permission) {
        transaction = match purge::answer(context, transaction, &body, purge).await {
            Answered::Yes(response) => return *response,
            Answered::NotAPurge(transaction) => transaction,
        };
        if let Err(failure) = permitted(context).await {
            return failed(transaction, failure);
        }
    }
    let rest = match rest {
        Rest::Permission | Rest::Admission => {
            transaction = match answer_admitted(context, transaction, &body).await {
                Ok(response) => return response,
                Err(transaction) => transaction,
            };
            context
                .client
                .state
                .set_servers(context.origin_site().group().map_or(0, |group| group.number()));
            Rest::Body
        }
        rest => rest,
    };
    let route = match rest {
        Rest::Route(route) => route,
        _ => {
            if context.upgrade.is_some() {
                let tunnels = &context.services.shared.tunnels;
                let (max, client) = (context.options.tunnels.max, context.client.address.ip());
                let place = Box::pin(tunnels.take(max, client)).await;
                if place.is_none() {
                    return too_many_tunnels(transaction);
                }
                let held = Held {
                    tunnel: place,
                    ..context.held.take().map_or_else(Held::default, |held| *held)
                };
                context.held.set(Some(Box::new(held)));
            }
            if !body.is_end_stream() {
                if let Some(max) = context.max_body() {
                    body = LimitedBody::limit(body, max);
                }
                body = match Box::pin(buffering::read_body(context, body)).await {
                    Ok(body) => body,
                    Err(failure) => return failed(transaction, failure),
                };
            }
            let asked = route_input(context, !body.is_end_stream(), context.store().is_some());
            asked.route(|| context.primary_key())
        }
    };
    follow_route(context, transaction, body, route).await
}

/// Applies the changes that every response needs.
fn finished(context: &RequestContext, mut response: ClientResponse) -> ClientResponse {
    if let Some(rule) = &context.rule {
        rule.unfold_vary(response.headers_mut());
    }
    purge::hide_tags(&context.options, &mut response);
    if context.client_edits().is_some_and(|edits| edits.has_pages()) {
        response = page::in_place_of(context, response);
    }
    if response.body().has_stored_fields() {
        return response;
    }
    let decision = response.headers_mut().remove(DECISION);
    response.headers_mut().remove(IGNORED);
    response.headers_mut().remove(ASSUMED);
    if context.client_edits().is_none() {
        return response;
    }
    let age = response.headers().get(header::AGE).and_then(|age| age.to_str().ok()?.parse().ok());
    let outcome = response.body().outcome().unwrap_or(Outcome::Tunnel);
    let values = ResponseValues { status: response.status(), outcome, age };
    let decision = || decision.as_ref().map(HeaderValue::as_bytes);
    if let Some(edits) = context.filled_edits(values, decision) {
        edits.apply(response.headers_mut());
    }
    response
}

/// Answers a request for which no rule was looked up.
fn without_rule(options: &Options, response: ClientResponse) -> Answering {
    Answering::Now(without_hidden(options, response))
}

/// Hides fields from the client of a request for which no rule was looked up.
fn without_hidden(options: &Options, mut response: ClientResponse) -> ClientResponse {
    if let Some(edits) = &options.client_edits {
        edits.hide(response.headers_mut());
    }
    response
}

/// Lets a response keep what its request holds.
fn held(context: &RequestContext, mut response: ClientResponse) -> ClientResponse {
    if let Some(held) = context.held.take() {
        response.body_mut().hold(held);
    }
    response
}

/// Next step of a request.
#[expect(clippy::large_enum_variant, reason = "moved once")]
enum Step {
    Continue(Transaction),
    Answer(ClientResponse),
    /// Its rule must admit it first.
    Admission(Transaction, Arc<Actions>),
}

/// Answers requests that need neither cache nor origin. `is_admitted`: the rule has admitted it.
fn answer_here(
    context: &RequestContext,
    transaction: Transaction,
    body: &RequestBody,
    is_admitted: bool,
) -> Step {
    let actions = context.rule.as_ref().and_then(|rule| rule.actions.as_ref());
    let transaction = match actions {
        Some(actions) if !is_admitted && actions.guards() => {
            return Step::Admission(transaction, actions.clone());
        }
        Some(actions) => match reply::answer(context, actions, transaction, body) {
            Ok(response) => return Step::Answer(response),
            Err(transaction) => transaction,
        },
        None => transaction,
    };
    if let Some(denial) = refuses_upgrade(context) {
        return Step::Answer(failed(transaction, Failure::Denied(denial)));
    }
    if max_forwards::hops_left(&context.head.method, &context.head.fields) == Some(0) {
        return Step::Answer(max_forwards_reached(transaction, &context.head));
    }
    Step::Continue(transaction)
}

/// Answers a request that needs neither cache nor origin, once its rule has admitted it.
async fn answer_admitted(
    context: &RequestContext,
    transaction: Transaction,
    body: &RequestBody,
) -> Result<ClientResponse, Transaction> {
    let (transaction, actions) = match answer_here(context, transaction, body, false) {
        Step::Answer(response) => return Ok(response),
        Step::Continue(transaction) => return Err(transaction),
        Step::Admission(transaction, actions) => (transaction, actions),
    };
    if let Err(refusal) = Box::pin(admission::admit(context, &actions)).await {
        return Ok(refusal::refuse(transaction, refusal));
    }
    match answer_here(context, transaction, body, true) {
        Step::Answer(response) => Ok(response),
        Step::Continue(transaction) | Step::Admission(transaction, _) => Err(transaction),
    }
}

/// Returns the facts that determine a request's route.
fn route_input(context: &RequestContext, has_body: bool, has_store: bool) -> RouteInput<'_> {
    RouteInput {
        facts: &context.facts,
        fields: &context.head.fields,
        rule: context.rule.as_deref(),
        upgrades: context.upgrade.is_some(),
        has_body,
        has_store,
    }
}

/// Returns the error in the framing of a request's body, if any.
fn framing_error(head: &RequestHead, body: &RequestBody) -> Option<&'static str> {
    if framing::is_absurd(&head.fields) {
        return Some("The request's Content-Length is larger than any body.");
    }
    let agrees = head.version != Version::HTTP_2
        || framing::agrees_with_stream(&head.fields, body.is_end_stream());
    (!agrees).then_some("The request's Content-Length is not that of its body.")
}

/// Returns the refusal of a valid request that this proxy does not accept, if any.
fn refusal_of(
    client: &Client,
    options: &Options,
    head: &RequestHead,
    target: &TargetPlace,
    body: &RequestBody,
) -> Option<Refused> {
    if !is_for_connection(client, options, || target.target(head, &options.front).host) {
        return Some(Refused {
            status: StatusCode::MISDIRECTED_REQUEST,
            why: Invalid::Misdirected,
            text: "This connection was secured for another host.",
        });
    }
    let kind = (&head.method, head.version);
    let asks = || upgrade::asked_by(kind, true, &head.fields, false).is_some();
    if head.is_extended_connect && !asks() {
        return Some(Refused {
            status: StatusCode::NOT_IMPLEMENTED,
            why: Invalid::Method,
            text: "No tunnel of this protocol is opened here.",
        });
    }
    let bad = head.method == Method::TRACE && !body.is_end_stream();
    let (status, why) = (StatusCode::BAD_REQUEST, Invalid::Body);
    bad.then_some(Refused { status, why, text: "TRACE must not have a body." })
}

/// Returns the verdict of the access rules, as far as it does not depend on the destination's
/// address.
fn permitted_by_name(context: &RequestContext) -> Verdict {
    let first = context.options.access.before(&context.query());
    if context.facts.class == MethodClass::Cacheable || !matches!(first, Verdict::Allow) {
        return first;
    }
    for method in claims::other_methods(&context.head.fields) {
        let query = Query { method: &method, ..context.query() };
        match context.options.access.before(&query) {
            Verdict::Allow => {}
            other => return other,
        }
    }
    first
}

/// Checks that the access rules permit the request, by its method and by every other method that
/// its fields ask an application to assume. Cached responses too are served only to clients that
/// could fetch them.
async fn permitted(context: &RequestContext) -> Result<(), Failure> {
    permits(context, context.query()).await?;
    if context.facts.class != MethodClass::Cacheable {
        for method in claims::other_methods(&context.head.fields) {
            permits(context, Query { method: &method, ..context.query() }).await?;
        }
    }
    Ok(())
}

async fn permits(context: &RequestContext, query: Query<'_>) -> Result<(), Failure> {
    match context.options.access.before(&query) {
        Verdict::Allow => Ok(()),
        Verdict::Deny(denial) => Err(Failure::Denied(denial)),
        Verdict::ByAddress => {
            let (to, limits) = (context.destination(), &context.options.upstream);
            let rules = AddressCheck::new(&context.options.access, query);
            let check = |address: SocketAddr| rules.permits(address);
            let permitted = context.services.upstream.permitted(&*to, limits, &check).await;
            permitted.map_err(|failure| rules.explain(failure))
        }
    }
}

/// Returns the denial of a protocol upgrade if the operator's rule refuses it.
fn refuses_upgrade(context: &RequestContext) -> Option<Denial> {
    context.rule.as_ref().filter(|rule| rule.refuse_upgrades && context.upgrade.is_some())?;
    let text = format!(
        "Changing the protocol (Upgrade, as WebSocket does) is refused here{}.\n",
        reply::told_rule(context)
    );
    Some(Denial { reason: Denied::Upgrade, text })
}

/// Returns whether a request may arrive on this connection. In a reverse proxy a TLS connection
/// must have been secured for the request's host (RFC 9110, 7.4).
pub(crate) fn is_for_connection<'h>(
    client: &Client,
    options: &Options,
    host: impl FnOnce() -> &'h str,
) -> bool {
    if !options.front.stands_for_origins() {
        return true;
    }
    let (Some(tls), Some(keyring)) = (&client.link.tls, &options.keyring) else { return true };
    keyring.covers(tls.sni.as_deref(), address::bare(host()))
}

async fn follow_route(
    context: &RequestContext,
    transaction: Transaction,
    body: RequestBody,
    route: Route,
) -> ClientResponse {
    match (route, context.store()) {
        (Route::Cache(key), Some(store)) => {
            cache_request::answer(context, &store, &key, transaction, body).await
        }
        (Route::Cache(_), None) => {
            Box::pin(pass_through::pass(context, transaction, body, Bypass::Offline)).await
        }
        (Route::Pass(Bypass::Offline), None) => {
            Box::pin(direct_fetch::answer_without_store(context, transaction, body)).await
        }
        (Route::Pass(why), _) => {
            Box::pin(pass_through::pass(context, transaction, body, why)).await
        }
        (Route::Write(why), _) => {
            let services = &context.services;
            // A fleet has other nodes to inform, and this node may have a store that is not in use
            // yet.
            if services.is_without_store() && services.shared.node.is_none() {
                return Box::pin(pass_through::pass(context, transaction, body, why)).await;
            }
            Box::pin(write_through(context, transaction, body, why)).await
        }
        (Route::Refuse, _) => cache_request::only_if_cached(context, transaction),
        (Route::BadUrl, _) => refuse(transaction, &BAD_URL),
    }
}

const BAD_URL: Refused = Refused {
    status: StatusCode::BAD_REQUEST,
    why: Invalid::Target,
    text: "The URL's path or host is not valid.",
};

/// Forwards an unsafe request. Removes the objects that its response invalidates before the client
/// gets the response (RFC 9111, 4.4).
async fn write_through(
    context: &RequestContext,
    mut transaction: Transaction,
    body: RequestBody,
    why: Bypass,
) -> Response<ResponseBody> {
    let node = context.services.shared.node.as_ref();
    if node.is_some_and(|node| node.name_in_use().is_some()) {
        // What it invalidates would be told under the name of the other node.
        let text = "This node is not ready: another one of its fleet has its name.\n";
        return unavailable(transaction, Error::Overload, text);
    }
    let leases = &context.services.leases;
    if leases.is_released() {
        return handed_over(transaction);
    }
    let _lease = leases.lease_until_done();
    // `Location` and `Content-Location` are relative to the host that the client named.
    let url = context.named_url();
    let post = url.as_ref().and_then(|url| place_of_post(context, url));
    let mut token = post.as_ref().map(|(store, key)| store.begin_fetch(key));
    let clock = context.services.clock;
    let requested = clock.time();
    let body = (!body.is_end_stream()).then_some(body);
    let response = match pass_through::ask(context, &mut transaction, body, None).await {
        Ok(response) => response,
        Err(failure) => return failed(transaction, failure),
    };
    let times = ExchangeTimes { requested, received: clock.time() };
    let status = CacheStatus::new(Outcome::Bypass(why));
    let Some(url) = url else {
        return pass_through::relay_response(context, transaction, response, status);
    };
    let (code, headers) = (response.status(), response.headers());
    let (method, request) = (&context.head.method, context.headers());
    let write = Write { method, url: &url, request, status: code, response: headers };
    for collection in write.collections() {
        Box::pin(forget_below(context, collection)).await;
    }
    let keys = write.targets().iter().flat_map(|url: &Url| context.keys(url)).collect();
    invalidating::forget(&context.services, keys, token.as_mut()).await;
    let settings = context.settings();
    let is_for_get =
        storability::is_post_for_get(&context.facts, &url, code, headers, times, settings);
    match (post, token) {
        (Some((store, key)), Some(token)) if is_for_get => {
            let fetched = FetchedResponse { response, times, token, asking: None };
            cache_request::keep_post(context, &store, &key, transaction, fetched).await
        }
        _ => pass_through::relay_response(context, transaction, response, status),
    }
}

/// Purges everything below a collection's URL.
async fn forget_below(context: &RequestContext, collection: Url) {
    let order = Purge { scope: Scope::Prefix(collection.clone()), soft: false };
    let done = purge::purge(&context.services, &context.options, &order, Wait::Request).await;
    if let Purged::NotDurable(why) | Purged::NotNow(why) = done.purged {
        log::warn!("objects stored below {collection} may remain although it was deleted: {why}");
    }
}

/// Returns where the response to a POST would be stored for later GETs. Returns `None` if rules
/// give the object several names, because the rule and the key of a GET are then unknown.
fn place_of_post(context: &RequestContext, url: &Url) -> Option<(Store, Key)> {
    let names_itself = context.head.method == Method::POST
        && context.upgrade.is_none()
        && context.target().is_as_named()
        && context.names(url).len() == 1;
    context.store().zip(context.key(url).filter(|_| names_itself))
}

fn refuse(transaction: Transaction, refused: &Refused) -> Response<ResponseBody> {
    if refused.why == Invalid::Body {
        // Another parser might disagree on where the request ends.
        transaction.mark_last();
    }
    let outcome = Outcome::Invalid(refused.why);
    error_response::plain(transaction, refused.status, outcome, format!("{}\n", refused.text))
}

/// Returns the response to an unsafe request that arrives after the store was handed over to
/// another process: objects that it invalidates could not be removed there.
fn handed_over(transaction: Transaction) -> Response<ResponseBody> {
    transaction.mark_last();
    let text = "This process has just been replaced: ask again on another connection.\n";
    unavailable(transaction, Error::Draining, text)
}

/// Returns the response to a tunnel request when the limit on tunnels is reached.
fn too_many_tunnels(transaction: Transaction) -> Response<ResponseBody> {
    let text = "As many tunnels are active as may be (client.tunnels): ask again later.\n";
    unavailable(transaction, Error::Overload, text)
}

fn unavailable(transaction: Transaction, why: Error, text: &str) -> Response<ResponseBody> {
    let (status, outcome) = (StatusCode::SERVICE_UNAVAILABLE, Outcome::Error(why));
    let mut response = error_response::plain(transaction, status, outcome, text.to_owned());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Parts of the names of fields that carry credentials.
const SECRET_NAMES: [&str; 7] =
    ["auth", "cookie", "key", "token", "secret", "session", "credential"];

/// Answers a TRACE or OPTIONS whose `Max-Forwards` is used up (RFC 9110, 7.6.2).
fn max_forwards_reached(transaction: Transaction, head: &RequestHead) -> Response<ResponseBody> {
    let outcome = Outcome::Bypass(Bypass::Method);
    if head.method == Method::OPTIONS {
        let mut response = error_response::plain(transaction, StatusCode::OK, outcome, "");
        let allow = HeaderValue::from_static("GET, HEAD, OPTIONS, TRACE, PUT, POST, DELETE, PATCH");
        response.headers_mut().insert(header::ALLOW, allow);
        return response;
    }
    let mut echo = format!("TRACE {} {:?}\r\n", head.target, head.version).into_bytes();
    for (name, value) in head.fields.iter() {
        // Credentials must not be sent back (RFC 9110, 9.3.8). Applications have names of their own
        // for them.
        let name_text = name.to_ascii_lowercase();
        let is_secret = SECRET_NAMES.iter().any(|part| name_text.contains(part));
        if !is_secret {
            http1::write_field(name.as_bytes(), value, &mut echo);
        }
    }
    error_response::with_type(transaction, StatusCode::OK, outcome, "message/http", echo.into())
}

/// Opens a tunnel. Bytes flow once the response head has been written.
async fn connect(
    services: &Services,
    client: &Client,
    options: &Options,
    mut transaction: Transaction,
    head: &RequestHead,
) -> Response<ResponseBody> {
    if !options.front.is_clients_choice() {
        let refused = Refused {
            status: StatusCode::METHOD_NOT_ALLOWED,
            why: Invalid::Method,
            text: "A reverse proxy opens no tunnels.",
        };
        return refuse(transaction, &refused);
    }
    let (host, port) = match target::tunnel_target(head) {
        Ok(target) => target,
        Err(refused) => return refuse(transaction, &refused),
    };
    let query = Query { client: client.address.ip(), method: &head.method, host, port };
    if let Verdict::Deny(denial) = options.access.before(&query) {
        return failed(transaction, Failure::Denied(denial));
    }
    let place = services.shared.tunnels.take(options.tunnels.max, client.address.ip()).await;
    let Some(place) = place else {
        return too_many_tunnels(transaction);
    };
    let rules = AddressCheck::new(&options.access, query);
    let check = |address: SocketAddr| rules.permits(address);
    let origin = Endpoint::plain(host, port);
    match services.upstream.dial(&origin, &options.upstream, &check).await {
        Err(failure) => failed(transaction, rules.explain(failure)),
        Ok(stream) => {
            transaction.note_answer(StatusCode::OK, Outcome::Tunnel, &HeaderMap::new());
            let (origin, trail) = (Arc::new(origin), Attempts::default());
            trail.note(&origin, stream.peer_addr().map(|peer| peer.ip()));
            transaction.note_server(&origin, Some(&Arc::new(trail)));
            let (lifetime, held) = (options.tunnels.lifetime(), Some(Held::of_tunnel(place)));
            let tunnel = Tunnel { upstream: stream.into(), transaction, lifetime, held };
            Response::new(ResponseBody::of_tunnel(tunnel))
        }
    }
}
