//! Upstream request made for a client: its head as it will be sent, and the client's address, since
//! the access rules check every server address for that client. It owns its data because a fill
//! outlives the request that began it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;

use crate::message::framing;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Response, StatusCode, Uri, Version, header};
use http1::RequestHead;
use net::address;
use semantics::assumed_vary::ASSUMED;
use semantics::compressed;
use semantics::compressed::BODY_ID;
use semantics::forwarded::Hop;
use semantics::ignored_fields::IGNORED;
use semantics::scanned_path::ScannedPath;
use semantics::{
    MethodClass, RequestFacts, Settings, Spellings, StoredHead, Url, claims, date, forwarded,
    hop_by_hop, max_forwards, value,
};
use store::Key;
use upstream::connection::origin_body::OriginBody;
use upstream::connection::pinned::PinnedConnection;
use upstream::connection::raw_target::RawTarget;
use upstream::connection::request_body::{ClientBody, OutBody};
use upstream::message::informational::Informational;
use upstream::message::request_body::RequestBody;
use upstream::message::upgrade::Upgrade;
use upstream::message::via;
use upstream::send::attempts::Attempts;
use upstream::send::client::Upstream;
use upstream::send::origin::{Connector, Origin};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

use crate::observe::outcome::Error;
use crate::observe::site_slots::SiteSlot;
use crate::options::Options;
use crate::origin::address_check::AddressCheck;
use crate::origin::authorized::AuthorizedOrigin;
use crate::origin::failure::Failure;
use crate::origin::outages::{FailureScope, Outages};
use crate::origin::redirects::FollowedOrigin;
use crate::origin::target::Target;
use crate::origin::try_root::{OfFile, Tries, TryRootOrigin};
use crate::peers::asking::Asking;
use crate::peers::origin::{FleetOrigin, FromPeer};
use crate::request::prepare::with_values;
use crate::request::request_values::RequestValues;
use crate::request::server_choice::ServerChoice;
use crate::request::substituted_body::SubstitutedBody;
use crate::request::target::encoded;
use crate::rules::access::Query;
use crate::rules::basic_auth::CREDENTIALS;
use crate::rules::classes::{FoundClasses, KEY_CLASSES};
use crate::rules::request_rules::{
    Actions, DECIDED_BY, DECISION, KEY_COOKIES, Rule, RuleFacts, Settled,
};
use crate::services::Services;

/// Approximate maximum number of fields that are added to a request.
pub(super) const FIELDS_ADDED: usize = 8;

#[derive(Clone)]
pub(crate) struct UpstreamRequest {
    pub to: Arc<dyn Origin>,
    /// The origin itself, if fleet nodes are asked first.
    past_fleet: Option<Arc<dyn Origin>>,
    pub method: Method,
    pub headers: HeaderMap,
    /// The original spelling of the field names.
    spellings: Spellings,
    uri: Uri,
    /// Target as received, if the URI contains it encoded.
    raw_target: Option<RawTarget>,
    client: SocketAddr,
    /// True if `Host` is set to the server's own name.
    rewrite_host: bool,
    /// The host and port that the client named, as the access rules see them.
    named: (String, u16),
    /// Slot of the site whose origin gets the request.
    slot: SiteSlot,
    /// Hash of the origin in the table of outages.
    origin: u64,
    /// Host of the target, if the choice among several servers depends on it.
    place: String,
    /// Receives the 1xx responses.
    pub interim: Option<Arc<Informational>>,
    /// Servers that the request was sent to, for the log.
    pub trail: Option<Arc<Attempts>>,
    /// The operator's rule for the request, which also edits the response.
    pub rule: Option<Arc<Rule>>,
    /// The protocol upgrade that the request asks for.
    upgrade: Option<Rc<Upgrade>>,
    /// True if only an idle pooled connection may be used, and no new one opened.
    pub reuse_only: bool,
    /// Status of the stored response that a 304 confirms; 200 for the client's own conditions.
    confirms: StatusCode,
    /// Fields of that response, if the rule has entries for responses.
    confirmed: Option<HeaderMap>,
    /// The rule with the settings that the response has decided on.
    decided: Option<Arc<Rule>>,
    /// Origin connection that belongs to the client's connection.
    pub pinned: Option<Weak<PinnedConnection>>,
    /// The caching settings, if the origin vouches for its responses.
    vouched: Option<Arc<Settings>>,
    /// Path that the client asked for, if a rule asks the origin for another.
    asked_path: Option<String>,
    /// The address of the listener that the client's request arrived at, if it is known.
    pub listener: Option<Arc<str>>,
    /// True if the request names its server, which then has no private address.
    closes_private: bool,
    /// Problem of the request that a rule made of this one.
    invalid: Option<&'static str>,
}

impl UpstreamRequest {
    /// Creates the upstream request from a client's request, with the fields that a proxy adds and
    /// without those that it removes.
    pub fn new(
        services: &Services,
        client: SocketAddr,
        options: &Options,
        head: &RequestHead,
        target: &Target<'_>,
    ) -> UpstreamRequest {
        let mut made = UpstreamRequest::passed_on(services, client, options, head, target);
        let fields = &mut made.headers;
        if let Some(left) = max_forwards::hops_left(&head.method, &head.fields) {
            fields.insert(header::MAX_FORWARDS, HeaderValue::from(left.saturating_sub(1)));
        }
        match options.forwarded.via {
            true => _ = fields.append(header::VIA, services.shared.via.entry(head.version)),
            false => services.shared.via.hide(fields),
        }
        add_forwarding_headers(
            fields,
            client.ip(),
            options,
            &effective_target(&head.method, target),
        );
        if matches!(head.method, Method::GET | Method::HEAD) {
            claims::remove_other_methods(fields);
        }
        made
    }

    /// Creates the upstream request from one that another fleet node forwards for a client. The
    /// fields that a proxy adds are already there.
    pub fn passed_on(
        services: &Services,
        client: SocketAddr,
        options: &Options,
        head: &RequestHead,
        target: &Target<'_>,
    ) -> UpstreamRequest {
        // Reserve space for the added fields, and later for the fields of the response.
        let mut fields = head.fields.to_map(FIELDS_ADDED);
        hop_by_hop::strip_always(&mut fields);
        fields.remove(DECIDED_BY);
        fields.remove(KEY_COOKIES);
        fields.remove(KEY_CLASSES);
        fields.remove(CREDENTIALS);
        let to = target.origin(&options.upstream);
        let place = match to.has_several() {
            true => target.place().0.to_ascii_lowercase(),
            false => String::new(),
        };
        let target = &effective_target(&head.method, target);
        let rewrite_host = !target.site.passes_host() || target.host.is_empty();
        // The origin is asked for the host that the response is stored under, however the client
        // spells it in the URL or in `Host`, with or without the default port.
        let host = match rewrite_host {
            true => value::of(to.authority()),
            false if is_named_plainly(target, &fields) => None,
            false => value::of(target.authority()),
        };
        if let Some(host) = host {
            fields.insert(header::HOST, host);
        }
        if hop_by_hop::accepts_trailers(&head.fields) {
            fields.insert(header::TE, HeaderValue::from_static("trailers"));
            fields.insert(header::CONNECTION, HeaderValue::from_static("te"));
        }
        // HTTP/1.0 clients do not understand 1xx responses.
        let interim = (head.version >= Version::HTTP_11).then(Arc::default);
        let (uri, raw_target) = origin_form(target.path.text);
        UpstreamRequest {
            to,
            past_fleet: None,
            rewrite_host,
            method: head.method.clone(),
            headers: fields,
            spellings: Spellings::of(head.fields.iter().map(|(name, _)| name)),
            uri,
            raw_target,
            client,
            named: (target.host.to_ascii_lowercase(), target.port),
            slot: target.site.slot(),
            origin: services.shared.outages.origin(target),
            place,
            interim,
            trail: services.observer.log_format().map(|_| Arc::default()),
            rule: None,
            upgrade: None,
            reuse_only: false,
            confirms: StatusCode::OK,
            confirmed: None,
            decided: None,
            pinned: None,
            vouched: target.site.vouched().cloned(),
            asked_path: None,
            listener: None,
            closes_private: false,
            invalid: None,
        }
    }

    /// Applies the operator's rule, if any, to the request to `target`: the query becomes that of
    /// the key, unless the request asks for another protocol, and the response is edited, with
    /// these values of variables.
    pub fn apply_rule(
        &mut self,
        rule: Option<&Arc<Rule>>,
        values: &RequestValues<'_>,
        target: &Target<'_>,
        options: &Options,
    ) {
        let Some(rule) = rule else { return };
        if rule.substitution.is_some() {
            // A part of a body would have other bytes than the whole.
            self.headers.remove(header::RANGE);
            self.headers.remove(header::IF_RANGE);
        }
        if rule.rewrites_query(&self.method)
            && self.upgrade.is_none()
            && let Some(url) = target.url(&options.upstream)
        {
            (self.uri, self.raw_target) = origin_form(rule.query.apply(&url).sent());
        }
        if let Some(actions) = &rule.actions {
            self.choose_server(rule, values, target, options);
            self.apply_actions(actions, rule, values, target.url(&options.upstream));
            if let Some(root) = &actions.try_root
                && let Some(site) = options.front.site_named(&root.site)
            {
                let files = Target { site, ..*target }.origin(&options.upstream);
                let to = (!root.only).then(|| self.to.clone());
                let named = target.url(&options.upstream).map(|url| rule.query.apply(&url));
                let named = named.as_ref().map_or("/", Url::path_and_query).to_owned();
                let values = RequestValues { normal: Some(&named), ..*values };
                let tries = Tries::new(root, &named, &values);
                self.to = Arc::new(TryRootOrigin { files, to, tries });
            }
        }
        self.rule = Some(with_values(rule, values));
    }

    /// Replaces the origin by the server that the request names, if the rule says so. The server
    /// gets its own name in `Host`.
    fn choose_server(
        &mut self,
        rule: &Rule,
        values: &RequestValues<'_>,
        target: &Target<'_>,
        options: &Options,
    ) {
        match ServerChoice::of(Some(rule), values, target, options) {
            ServerChoice::Configured => {}
            ServerChoice::Refused => {
                self.invalid = Some("The request names no permitted server.");
            }
            ServerChoice::Named(server) => {
                let endpoint = server.endpoint(&options.upstream);
                if let Some(host) = value::of(endpoint.authority()) {
                    self.headers.insert(header::HOST, host);
                }
                let lists = |actions: &Arc<Actions>| actions.lists_host(&server.host);
                self.closes_private = !rule.actions.as_ref().is_some_and(lists);
                self.to = Arc::new(endpoint);
            }
        }
    }

    /// Changes path, query, `Host` and credentials. `url` is the URL of the request, in the form
    /// that the key has: rewriting begins there, so that spellings of one URL stay one.
    fn apply_actions(
        &mut self,
        actions: &Actions,
        rule: &Rule,
        values: &RequestValues<'_>,
        url: Option<Url>,
    ) {
        if !actions.rewrites.is_empty() && *self.uri.path() != *"*" {
            let is_whole = self.upgrade.is_some() || !rule.rewrites_query(&self.method);
            let url = url.map(|url| match !is_whole {
                true => rule.query.apply(&url),
                false => url,
            });
            let named = self.uri.path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
            let named = url.as_ref().map_or(named.as_str(), Url::path_and_query);
            self.asked_path = Some(named.split('?').next().unwrap_or_default().to_owned());
            let values = RequestValues { normal: Some(named), ..*values };
            let rewritten = actions.rewritten(named, &values);
            match rewritten.parse::<PathAndQuery>() {
                Ok(path) => (self.uri, self.raw_target) = (Uri::from(path), None),
                Err(_) => {
                    self.invalid = Some("The path that a rule makes is not valid, or too long.")
                }
            }
        }
        if let Some(host) = &actions.host {
            let host = host.field_value(values);
            match host
                .filter(|host| host.to_str().is_ok_and(|host| host.parse::<Authority>().is_ok()))
            {
                Some(host) => _ = self.headers.insert(header::HOST, host),
                None => self.invalid = Some("The Host that a rule makes is not valid."),
            }
            self.rewrite_host = false;
        }
        if let Some(credentials) = &actions.credentials {
            let (to, credentials) = (self.to.clone(), credentials.clone());
            self.to = Arc::new(AuthorizedOrigin { to, credentials });
        }
    }

    /// Follows redirects of the origin if the rule says so. `head` and `target` are those of the
    /// client's request at its own site.
    pub fn follow_redirects(
        &mut self,
        options: &Arc<Options>,
        head: &RequestHead,
        target: &Target<'_>,
        facts: &RequestFacts,
    ) {
        let Some(follow) = self.actions().and_then(|actions| actions.follow.clone()) else {
            return;
        };
        let (site, scheme) = (target.site.name().map(str::to_owned), target.scheme);
        let (host, method) = (target.place().0.to_ascii_lowercase(), head.method.clone());
        let client = options.forwarded.client(self.client.ip(), &head.fields);
        let (rules, listener) = (options.clone(), self.listener.clone());
        let may_ask = move |url: &Url, fields: &HeaderMap| {
            let path = url.path_and_query();
            if rules.rules.hide_from_redirects(site.as_deref(), &host, path) {
                return false;
            }
            let asked = RuleFacts {
                site: site.as_deref(),
                host: &host,
                path: ScannedPath::new(path),
                method: method.as_str(),
                scheme,
                client,
                listener: listener.as_deref(),
                upgrade: false,
                classes: &FoundClasses::default(),
            };
            let rule = rules.rules.find(&asked, fields);
            rule.is_none_or(|rule| rule.lets_through(&method))
        };
        self.to = Arc::new(FollowedOrigin {
            to: self.to.clone(),
            follow,
            scheme,
            hosts: target.site.hosts().to_vec(),
            access: options.access.clone(),
            client: self.client.ip(),
            is_personal: facts.is_personal() || facts.is_logged_in,
            may_ask: Box::new(may_ask),
            targets: options.semantics.targets.clone(),
        });
    }

    /// Sends the id of the request in a field of this name.
    pub fn set_id(&mut self, name: &HeaderName, id: &HeaderValue) {
        self.headers.insert(name, id.clone());
    }

    /// Makes the request ask for another protocol.
    pub fn ask_for(&mut self, upgrade: Rc<Upgrade>) {
        upgrade.ask(&mut self.headers);
        self.upgrade = Some(upgrade);
    }

    /// Asks the nodes of this plan before the origin, if there is a plan.
    pub fn ask_fleet(&mut self, asking: Option<&Arc<Asking>>) {
        let Some(asking) = asking else { return };
        self.past_fleet = Some(self.to.clone());
        self.to = Arc::new(FleetOrigin::new(asking.clone(), self.to.clone(), self.origin));
    }

    /// Bypasses the fleet: sends the request straight to the origin.
    pub fn ask_origin(&mut self) {
        if let Some(origin) = self.past_fleet.take() {
            self.to = origin;
        }
    }

    /// Sends the request and waits for the response head. `body` is the client's request body, if
    /// any.
    pub async fn run(
        &self,
        services: &Services,
        options: &Options,
        body: Option<RequestBody>,
    ) -> Result<Response<OriginBody>, Failure> {
        let again = || self.request(&services.upstream);
        let response = self.ask(services, options, again(), Some(&again), body).await?;
        self.settle(services, response)
    }

    /// Sends a request that is not repeated once it has a response; otherwise like
    /// [`UpstreamRequest::run`].
    pub async fn run_last(
        &mut self,
        services: &Services,
        options: &Options,
    ) -> Result<Response<OriginBody>, Failure> {
        // With a single HTTP/1.1 server the request can be recovered from a broken connection.
        // Other origins need a fresh copy.
        let only = self.to.endpoint(0).filter(|_| !self.to.has_several());
        if self.rule.is_some() || only.is_none_or(Endpoint::may_be_http2) {
            return self.run(services, options, None).await;
        }
        let request = self.take_request(&services.upstream);
        let response = self.ask(services, options, request, None, None).await?;
        self.settle(services, response)
    }

    /// Consumes the request; otherwise like [`UpstreamRequest::run`]. `again` makes an equal one if
    /// it must be repeated.
    pub async fn run_once(
        mut self,
        services: &Services,
        options: &Options,
        body: Option<RequestBody>,
        again: impl Fn() -> UpstreamRequest,
    ) -> Result<Response<OriginBody>, Failure> {
        let first = match body.is_some() || self.rule.is_some() {
            true => self.request(&services.upstream),
            false => self.take_request(&services.upstream),
        };
        let again = || again().take_request(&services.upstream);
        let response = self.ask(services, options, first, Some(&again), body).await?;
        self.settle(services, response)
    }

    /// Checks a response and adapts its head and body to the framing and the rule.
    fn settle(
        &self,
        services: &Services,
        mut response: Response<OriginBody>,
    ) -> Result<Response<OriginBody>, Failure> {
        let (status, received) = (response.status(), services.clock.time());
        // Only this proxy numbers bodies.
        response.headers_mut().remove(BODY_ID);
        services.borrow_options().tracing.remove_from_response(response.headers_mut());
        if status == StatusCode::SWITCHING_PROTOCOLS {
            // A 101 has no body, and must not announce one.
            response.headers_mut().remove(header::CONTENT_LENGTH);
            if let Some(rule) = &self.rule {
                rule.edit(status, response.headers_mut(), received);
            }
            return Ok(response);
        }
        if self.upgrade.as_deref().is_some_and(Upgrade::of_stream) && status.is_success() {
            // A 2xx here would tell the client that the protocol was changed (RFC 8441, 4).
            return Err(self.bad_response(services, "it did not change the protocol".to_owned()));
        }
        let length = http_body::Body::size_hint(response.body()).exact();
        if let Err(why) = framing::settle(&self.method, status, length, response.headers_mut()) {
            return Err(
                self.bad_response(services, format!("its response cannot be forwarded: {why}"))
            );
        }
        let is_of_file = response.extensions().get::<OfFile>().is_some();
        if is_of_file {
            // Like any origin's: an older `Last-Modified` is then a strong validator.
            response.headers_mut().insert(header::DATE, date::to_value(received));
        }
        let is_settled = response.extensions().get::<FromPeer>().is_some();
        if !is_settled {
            // Only nodes of this fleet have decided on a response.
            response.headers_mut().remove(DECISION);
            response.headers_mut().remove(IGNORED);
            response.headers_mut().remove(ASSUMED);
        }
        if self.rule.is_none() && !is_settled && status == StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(IGNORED, HeaderValue::from_static(""));
        }
        if let Some(rule) = self.rule.as_ref().filter(|_| !is_settled) {
            let path = self.asked_path.as_deref().unwrap_or(self.uri.path());
            let of = self.settled(status);
            rule.settle(path, of, response.headers_mut(), received);
            if is_of_file && response.headers().contains_key(IGNORED) {
                // What decides on a file is of the proxy itself.
                response.headers_mut().insert(IGNORED, HeaderValue::from_static(""));
            }
            self.substitute(services, &mut response);
            if let Some(max) = rule.answer_max {
                self.limit(services, &mut response, length, max)?;
            }
        }
        Ok(response)
    }

    /// Replaces texts in the body of a response, if the rule says so.
    fn substitute(&self, services: &Services, response: &mut Response<OriginBody>) {
        let Some(of) = self.rule.as_ref().and_then(|rule| rule.substitution.as_ref()) else {
            return;
        };
        if !of.applies(response.status(), response.headers()) {
            return;
        }
        compressed::describe_changed(response.headers_mut());
        if self.method == Method::HEAD {
            return;
        }
        let silence = services.options().upstream.body_timeout;
        let spellings = response.body().spellings().clone();
        let source = std::mem::replace(response.body_mut(), OriginBody::whole(Bytes::new()));
        let body = SubstitutedBody::new(source, of.begin());
        *response.body_mut() = OriginBody::stream(body, silence).spelled(spellings);
    }

    fn settled(&self, status: StatusCode) -> Settled<'_> {
        let confirmed = self.confirmed.as_ref().filter(|_| status == StatusCode::NOT_MODIFIED);
        Settled { status, confirms: self.confirms, confirmed }
    }

    /// Notes the stored response that a 304 would confirm.
    pub fn ask_about(&mut self, stored: &StoredHead) {
        self.confirms = stored.status();
        if self.rule.as_ref().is_some_and(|rule| rule.responses.is_some()) {
            self.confirmed = Some(stored.headers().clone());
        }
    }

    /// Takes over the settings that a response with this head decides on, for
    /// [`UpstreamRequest::settings`].
    pub fn follow(&mut self, status: StatusCode, fields: &HeaderMap) {
        let of = self.settled(status);
        let status = of.status();
        // Another node's 304 says nothing of the decision, which stands.
        let fields = of.confirmed.filter(|_| !fields.contains_key(DECISION)).unwrap_or(fields);
        self.decided =
            self.rule.as_ref().and_then(|rule| rule.decided(status, fields)).map(Arc::new);
    }

    /// Returns the maximum size in bytes of a response to store, if a rule states one.
    pub fn store_max(&self) -> Option<u64> {
        self.decided.as_ref().or(self.rule.as_ref())?.store_max
    }

    /// Refuses a response that announces more bytes than the rule permits. Cuts one without a
    /// length at the limit.
    fn limit(
        &self,
        services: &Services,
        response: &mut Response<OriginBody>,
        length: Option<u64>,
        max: u64,
    ) -> Result<(), Failure> {
        if length.is_some_and(|length| length > max) && self.method != Method::HEAD {
            let cause = format!("its response has more than the {max} bytes that a rule permits");
            return Err(self.bad_response(services, cause));
        }
        response.body_mut().limit(max);
        Ok(())
    }

    /// Reports an unusable response and returns the failure.
    pub fn bad_response(&self, services: &Services, cause: String) -> Failure {
        services.upstream.bad_response(&self.to, &cause);
        Failure::Failed(Error::BadAnswer, cause)
    }

    /// Returns the address of the client that the request is made for.
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    /// Returns the origin and key that a failure of this request may concern.
    pub fn failure_scope(&self, outages: &Outages, key: &Key) -> FailureScope {
        outages.failure_scope(self.origin, key.as_bytes())
    }

    /// Returns the caching settings for the response.
    pub fn settings<'a>(&'a self, options: &'a Options) -> &'a Settings {
        if let Some(settings) = &self.vouched {
            return settings;
        }
        let rule = self.decided.as_ref().or(self.rule.as_ref());
        rule.map_or(&options.semantics, |rule| &rule.settings)
    }

    async fn ask(
        &self,
        services: &Services,
        options: &Options,
        mut request: Box<Request<OutBody>>,
        again: Option<&dyn Fn() -> Box<Request<OutBody>>>,
        body: Option<RequestBody>,
    ) -> Result<Response<OriginBody>, Failure> {
        if let Some(why) = self.invalid {
            return Err(Failure::Request(StatusCode::BAD_REQUEST, why.to_owned()));
        }
        let query = Query {
            client: self.client.ip(),
            method: &self.method,
            host: &self.named.0,
            port: self.named.1,
        };
        let rules = AddressCheck::new(&options.access, query).closing_private(self.closes_private);
        let limits = options.limits(self.rule.as_deref());
        let with = Connector {
            upstream: &services.upstream,
            limits: &limits,
            check: &|address| rules.permits(address),
        };
        let Some(body) = body else {
            let outgoing = Outgoing { again, ..self.outgoing(services, request) };
            let sent = self.send(with, outgoing).await;
            return sent.map_err(|failure| rules.explain(failure));
        };
        if matches!(body, RequestBody::Buffered(_)) {
            // The client has already been told to send the body.
            request.headers_mut().remove(header::EXPECT);
        }
        let expects = request.headers().contains_key(header::EXPECT);
        let chunked = http_body::Body::size_hint(&body).exact().is_none();
        let body = ClientBody::new(body, self.interim.clone().filter(|_| expects));
        let progress = Some(body.progress());
        *request.body_mut() = OutBody::Client(body);
        if chunked {
            // A body of unknown length is always announced, whatever the method.
            let value = HeaderValue::from_static("chunked");
            request.headers_mut().insert(header::TRANSFER_ENCODING, value);
        }
        let outgoing = Outgoing { progress, ..self.outgoing(services, request) };
        let sent = self.send(with, outgoing).await;
        sent.map_err(|failure| rules.explain(failure))
    }

    /// Sends the request. Reports how long a server takes that is no node of the fleet.
    async fn send(
        &self,
        with: Connector<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<OriginBody>, upstream::failure::error::Failure> {
        let timer = self.vouched.is_none().then(|| with.upstream.timer(self.slot.label()));
        let mut response = self.to.ask(with, outgoing).await?;
        if let Some(timer) = timer
            && response.status() != StatusCode::SWITCHING_PROTOCOLS
            && response.extensions().get::<FromPeer>().is_none()
        {
            response.body_mut().time(timer);
        }
        Ok(response)
    }

    fn outgoing(&self, services: &Services, request: Box<Request<OutBody>>) -> Outgoing<'_> {
        Outgoing {
            store_max: services.store().map_or(0, |store| store.object_max()),
            request: Some(request),
            spellings: self.spellings.clone(),
            progress: None,
            interim: self.interim.as_ref(),
            again: None,
            idempotent: via::is_idempotent(&self.method),
            // With a single server the host is already set.
            rewrite_host: self.rewrite_host && self.to.has_several(),
            trail: self.trail.as_deref(),
            reuse_only: self.reuse_only,
            upgrade: self.upgrade.as_deref(),
            place: &self.place,
            pinned: self.pinned.clone(),
            next_server: self.actions().and_then(|actions| actions.next_server.as_ref()),
        }
    }

    fn actions(&self) -> Option<&Actions> {
        self.rule.as_ref()?.actions.as_deref()
    }

    fn request(&self, upstream: &Upstream) -> Box<Request<OutBody>> {
        self.with(upstream, self.uri.clone(), self.headers.clone())
    }

    /// Returns the request without a body and takes target and fields out of `self`.
    fn take_request(&mut self, upstream: &Upstream) -> Box<Request<OutBody>> {
        let (uri, headers) = (std::mem::take(&mut self.uri), std::mem::take(&mut self.headers));
        self.with(upstream, uri, headers)
    }

    fn with(&self, upstream: &Upstream, uri: Uri, headers: HeaderMap) -> Box<Request<OutBody>> {
        let mut request = upstream.request();
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        if let Some(target) = &self.raw_target {
            request.extensions_mut().insert(target.clone());
        }
        *request.headers_mut() = headers;
        request
    }
}

/// Returns the target as the origin server sees it. Only shareable requests use the alias that
/// their responses are stored under: a server that gets a POST may compare `Host` with `Origin`.
fn effective_target<'a>(method: &Method, target: &Target<'a>) -> Target<'a> {
    let is_shared = MethodClass::of(method) == MethodClass::Cacheable;
    Target { aliases: target.aliases.filter(|_| is_shared), ..*target }
}

/// Returns whether `Host` already names the target in the canonical form sent to origins.
fn is_named_plainly(target: &Target<'_>, fields: &HeaderMap) -> bool {
    let mut lines = fields.get_all(header::HOST).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let is_plain = |byte: &u8| !byte.is_ascii_uppercase() && *byte != b'[';
    line == target.host
        && target.port == target.scheme.default_port()
        && target.aliases.is_none()
        && line.as_bytes().iter().all(is_plain)
}

/// Sets the fields that describe the request's path to the proxy.
fn add_forwarding_headers(
    fields: &mut HeaderMap,
    client: IpAddr,
    options: &Options,
    target: &Target<'_>,
) {
    let add = &options.forwarded.add;
    if !add.is_empty() {
        let client = address::canonical(client);
        let host = if target.host.is_empty() { String::new() } else { target.authority() };
        forwarded::add(fields, &Hop { client, host: &host, proto: target.scheme.name() }, add);
    }
}

/// Returns the target in origin form (RFC 9112, 3.2.1), and the target as received if a URI cannot
/// hold it. [`target`](crate::request::target::target) ensures that no path is too long for a URI.
fn origin_form(path: &str) -> (Uri, Option<RawTarget>) {
    let path = match path {
        "" => Cow::Borrowed("/"),
        "*" => return (Uri::from_static("*"), None),
        path if path.starts_with('/') => Cow::Borrowed(path),
        query => Cow::Owned(format!("/{query}")),
    };
    match PathAndQuery::try_from(&*path) {
        Ok(path) => (Uri::from(path), None),
        Err(_) => {
            let encoded = PathAndQuery::try_from(encoded(&path));
            let encoded = encoded.expect("what no URI holds is encoded, and its length is checked");
            (Uri::from(encoded), Some(RawTarget(path.into())))
        }
    }
}

/// Prepares an upstream's head for a client: removes hop-by-hop fields and adds `Via`. Keeps
/// `Trailer` if the client accepts trailers, because only announced trailers are sent.
pub(crate) fn sanitize_response(
    services: &Services,
    headers: &mut HeaderMap,
    version: Version,
    trailers: bool,
) {
    let announced = if trailers { headers.remove(header::TRAILER) } else { None };
    hop_by_hop::strip(headers);
    if let Some(announced) = announced {
        headers.insert(header::TRAILER, announced);
    }
    headers.append(header::VIA, services.shared.via.entry(version));
    // The server side adds a missing `Date` with the time at which the head is sent.
}
