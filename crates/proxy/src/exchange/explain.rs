//! Explains in words how a request is treated, decision by decision.
//!
//! An explanation runs the code of a real request, `Route` and `Plan`. It reports the rule in
//! force, the key of the object, the stored response and whether it would be used, and whether a
//! response would be stored and for how long. That response is given with the question or fetched
//! from the origin. Nothing is stored or removed, but objects that are looked up count as used.
//!
//! The origin is asked only by GET and HEAD, and only where the access rules permit it to the
//! client that requests the explanation. An explanation reaches nothing that a request could not
//! reach.

mod in_fleet;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use crate::message::scheme::Scheme;
use compression::Coding;
use fleet::lookup::Asked;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use http1::RequestHead;
use semantics::freshness::Basis;
use semantics::reuse::{AgeLimit, Cause, StalePermit};
use semantics::settings::lifetimes::StatusScope;
use semantics::vary::Vary;
use semantics::{
    ExchangeTimes, Fields, RequestFacts, ResponseDirectives, Seconds, Settings, Time, Url,
    forwarded, freshness, hop_by_hop, storability, vary,
};
use serde_json::{Value, json};
use store::{Key, LookupOptions};
use upstream::message::upgrade;

use crate::client::addresses::network;
use crate::get::collapse::{Collapse, CollapseInput};
use crate::get::fit::{Fit, FitInput, wants_events};
use crate::get::plan;
use crate::get::plan::{FetchReason, Plan};
use crate::get::vouching;
use crate::object::lookup;
use crate::object::lookup::LookupResult;
use crate::object::store::Store;
use crate::object::stored_response::StoredResponse;
use crate::observe::outcome::Bypass;
use crate::options::Options;
use crate::origin::failure::Failure;
use crate::origin::site::{Front, Site};
use crate::origin::target::Target;
use crate::peers::node::Node;
use crate::request::context::fleet_host;
use crate::request::prepare::{Prepared, described_classes, prepare, with_values};
use crate::request::request_values::{RequestValues, Requester};
use crate::request::route::Route;
use crate::request::server_choice::ServerChoice;
use crate::request::upstream_request::UpstreamRequest;
use crate::request::{route, target};
use crate::rules::access::{Query, Verdict};
use crate::rules::basic_auth::CREDENTIALS;
use crate::rules::classes::ClassValues;
use crate::rules::limits::{Limit, LimitKey};
use crate::rules::request_rules::{DECIDED_BY, Reply, Rule, Settled};
use crate::services::Services;

/// A request to explain.
#[derive(Clone, Debug)]
pub struct Question {
    method: Method,
    url: Url,
    headers: HeaderMap,
    /// Address of the client that would send it; that of this machine if not given.
    client: Option<IpAddr>,
    /// Address of the listener that it would arrive at, as configured.
    listener: Option<String>,
    /// Response that the origin might send.
    answer: Option<(StatusCode, HeaderMap)>,
    ask: bool,
}

impl Question {
    /// Reads `url=URL` and, optionally, `method=`, `header=Name: value`, `client=ADDRESS`,
    /// `listener=ADDRESS`, `status=`, `answer=Name: value`, `ask=true`. The error is a sentence.
    pub(crate) fn read(query: Option<&str>) -> Result<Question, String> {
        let (mut method, mut ask, mut headers) = (Method::GET, false, HeaderMap::new());
        let (mut url, mut status, mut fields) = (None, None, HeaderMap::new());
        let (mut client, mut listener) = (None, None);
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*key {
                "url" => {
                    let read = Url::parse(&value);
                    url =
                        Some(read.map_err(|why| format!("{value:?} cannot be explained: {why}"))?);
                }
                "method" => {
                    let read = Method::from_bytes(value.as_bytes());
                    method = read.map_err(|_| format!("{value:?} is not a method"))?;
                }
                "client" => {
                    let read = value.parse::<IpAddr>();
                    client = Some(read.map_err(|_| format!("{value:?} is not an IP address"))?);
                }
                "listener" => listener = Some(value.into_owned()),
                "header" => add_field(&mut headers, &value)?,
                "answer" => add_field(&mut fields, &value)?,
                "status" => {
                    let read = value.parse::<StatusCode>();
                    status = Some(read.map_err(|_| format!("{value:?} is not a status"))?);
                }
                "ask" => {
                    let read = value.parse();
                    ask = read.map_err(|_| format!("ask is true or false, not {value}"))?;
                }
                _ => {
                    let known = "url, method, header, client, listener, status, answer and ask";
                    return Err(format!("{key:?} is unknown; known are {known}"));
                }
            }
        }
        let Some(url) = url else {
            return Err("no URL: ask for /explain?url=http://host/path".to_owned());
        };
        if ask && !matches!(method, Method::GET | Method::HEAD) {
            return Err(format!("the origin is asked by GET and HEAD only, not by {method}"));
        }
        let has_answer = status.is_some() || !fields.is_empty();
        let answer = has_answer.then(|| (status.unwrap_or(StatusCode::OK), fields));
        Ok(Question { method, url, headers, client, listener, answer, ask })
    }

    pub(crate) fn asks_origin(&self) -> bool {
        self.ask
    }

    /// Returns the request as it would arrive at this front.
    fn head(&self, front: &Front) -> RequestHead {
        let mut head = RequestHead { method: self.method.clone(), ..RequestHead::default() };
        head.fields.read_map(&self.headers);
        let (host, path) = (self.url.authority(), self.url.sent());
        match front.takes_whole_urls() {
            true => head.target.read(format!("{}://{host}{path}", self.url.scheme()), false),
            false => head.target.read(path, false),
        }
        if !head.fields.has(&http::header::HOST) {
            head.fields.push("host", host.as_bytes());
        }
        hop_by_hop::strip_named(&mut head.fields);
        head
    }
}

fn add_field(fields: &mut HeaderMap, text: &str) -> Result<(), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("expected Name: value, got {text:?}"))?;
    let name = name.trim().parse::<HeaderName>();
    let value = HeaderValue::from_str(value.trim());
    match (name, value) {
        (Ok(name), Ok(value)) => {
            fields.append(name, value);
            Ok(())
        }
        _ => Err(format!("{text:?} is not a header field")),
    }
}

/// Request and everything decided about it before the lookup.
struct ExplainedRequest<'a> {
    options: &'a Arc<Options>,
    head: &'a RequestHead,
    target: Target<'a>,
    facts: RequestFacts,
    rule: Option<Arc<Rule>>,
    classes: &'a ClassValues,
    /// Client that requests the explanation.
    client: SocketAddr,
    now: Time,
    age_limit: Option<AgeLimit>,
}

/// Explains how a worker would treat a request of `client`. The error is a sentence.
pub(crate) async fn explain(
    services: &Rc<Services>,
    question: &Question,
    client: SocketAddr,
) -> Result<Value, String> {
    let options = &services.options();
    let named = Scheme::named(question.url.scheme()).unwrap_or_default();
    let mut head = question.head(&options.front);
    let here = question.client.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let scheme = target::distrust(&mut head.fields, here, named, options);
    let at = SocketAddr::new(here, client.port());
    let listener = question.listener.as_deref();
    let from = Requester { listener, ..Requester::at(at, &options.forwarded) };
    let described = described_classes(options, &head, scheme, here).map_err(|why| why.text)?;
    let prepared = prepare(&mut head, options, scheme, from).map_err(|why| why.text)?;
    let Prepared { target, rule, classes, identity, negotiated } = prepared;
    let (head, target) = (&head, target.target(&head, &options.front));
    let with_classes = rule.as_deref().map(|rule| (rule, &classes));
    let values = RequestValues::new(from, head, &target, with_classes);
    let rule = rule.as_ref().map(|rule| with_values(rule, &values));
    let facts = target.site.facts(head, identity, (&options.semantics, rule.as_deref()));
    let (now, age_limit) = (services.clock.time(), services.age_limit());
    let classes = &classes;
    let case =
        ExplainedRequest { options, head, target, facts, rule, classes, client, now, age_limit };
    let url = case.target.url(&options.upstream).ok_or("the URL's host or path is not valid")?;
    let name = case.rule.as_ref().map_or(url.clone(), |rule| rule.key_url(&url));
    let (site, key) = (case.target.site.name(), case.target.site.key(&name));
    let store = services.store();
    let route = case.route(store.is_some(), key.clone());
    let found = case.find(store, key.as_ref()).await;
    let current = match &found {
        Some(found) => vouching::vouched(case.target.site, head, found).await,
        None => None,
    };
    let plan = case.plan_on(&route, found.as_ref(), current)?;
    let (past, would) = case.would(services, plan, found.as_ref(), current);
    let mut told = json!({
        "request": format!("{} {url}", head.method),
        "site": site,
        "origin": case.origin(),
        "rule": case.rule.as_ref().filter(|rule| !rule.is_for_the_rest()).map(|rule| &rule.name),
        "rules": case.rules(),
        "classes": in_json(&described),
        "key": {
            "front": site.unwrap_or("forward"), "url": name.as_str(),
            "spelled": name.spelled().filter(|_| !name.is_keyed()),
            "parts": case.key_parts(&url, &name),
        },
        "sent": case.sent(&url, &values),
        "past_the_cache": past,
        "stored": Value::Null,
        "current": current,
        "would": would,
        "compressed": negotiated.coding.map(Coding::name),
        "denied": case.denial(),
        "limited": case.limits(options.forwarded.client(here, &head.fields)),
        "answer": Value::Null,
        "fleet": Value::Null,
    });
    if let (Some(node), Some(key)) = (&services.shared.node, &key) {
        told["fleet"] = case.add_fleet(node, key, found.as_ref(), past.is_none());
    }
    if let Some(found) = &found {
        case.add_found(found, &mut told);
    }
    told["answer"] = case.answer(services, question, past).await?;
    Ok(told)
}

impl ExplainedRequest<'_> {
    /// Returns why the request passes the cache, if it does, and what would be done, in words.
    fn would(
        &self,
        services: &Services,
        plan: Plan,
        found: Option<&LookupResult>,
        current: Option<bool>,
    ) -> (Option<&'static str>, String) {
        if let Some(words) = self.action() {
            return (None, words);
        }
        let (plan, joined) = match found {
            Some(found) => self.collapse(services, plan, found),
            None => (plan, None),
        };
        let past = if let Plan::Pass(why) = plan { Some(why.name()) } else { None };
        let asks_about = found.is_some_and(|found| self.asks_about(found));
        let would = joined.unwrap_or_else(|| match in_words_of_voucher(&plan, current) {
            Some(words) => words.to_owned(),
            None => in_words(&plan, asks_about),
        });
        (past, would)
    }

    /// Describes the response that the rule itself gives.
    fn action(&self) -> Option<String> {
        let actions = self.rule.as_ref()?.actions.as_ref()?;
        if actions.deny {
            return Some("refuse it with 403 (deny)".to_owned());
        }
        if actions.basic_auth.is_some() && !self.head.fields.has(&CREDENTIALS) {
            return Some("ask for a name and a password with 401 (basic-auth)".to_owned());
        }
        if !actions.allows(&self.head.method) {
            return Some("refuse it with 405 (allow-methods)".to_owned());
        }
        if matches!(self.server(), ServerChoice::Refused) {
            return Some("refuse it with 403 (allowed-hosts)".to_owned());
        }
        match actions.reply.as_ref()? {
            Reply::Redirect(status, _) => Some(format!("answer with {status} (redirect)")),
            Reply::Respond(status, ..) => Some(format!("answer with {status} (respond)")),
        }
    }

    /// Lists the limits that count the request, and by what.
    fn limits(&self, client: IpAddr) -> Vec<String> {
        let actions = self.rule.as_ref().and_then(|rule| rule.actions.as_ref());
        let limits = actions.map(|actions| &actions.limits[..]).unwrap_or_default();
        let by = |limit: &Limit| match &limit.terms.by {
            LimitKey::Client => format!("client {}", network(client)),
            LimitKey::Header(name) if self.head.fields.has(name) => format!("header {name}"),
            LimitKey::Header(_) => format!("client {}", network(client)),
            LimitKey::Site => "site".to_owned(),
            LimitKey::Rule => "rule".to_owned(),
            LimitKey::Request => "request".to_owned(),
        };
        limits.iter().map(|limit| format!("by {} ({})", by(limit), limit.terms.rule)).collect()
    }

    /// Lists the rules that match, in order, and what each states.
    fn rules(&self) -> Value {
        let Some(rule) = &self.rule else { return json!([]) };
        let parts = if rule.parts.is_empty() { std::slice::from_ref(rule) } else { &rule.parts };
        let parts = parts.iter().filter(|rule| !rule.is_for_the_rest());
        let told = parts.map(|rule| json!({ "name": rule.name, "states": rule.states }));
        told.collect()
    }

    /// Lists the parts of the key that differ from the `url` of the request, or that the rule adds,
    /// each with the reason.
    fn key_parts(&self, url: &Url, name: &Url) -> Vec<String> {
        let mut parts = Vec::new();
        let (host, named) = (self.target.place().0, self.target.host);
        if !host.eq_ignore_ascii_case(named) {
            parts.push(format!("host {host}, of which {named} is an alias (key-host)"));
        }
        let split = |url: &'_ Url| {
            let (path, query) = url.path_and_query().split_once('?').unzip();
            let path = path.unwrap_or(url.path_and_query()).to_owned();
            (path, query.unwrap_or("none").to_owned())
        };
        let (path, query) = split(name);
        if name.is_keyed() {
            parts.push(format!("path {path} (key-path)"));
        }
        if query != split(url).1 {
            parts.push(format!("query {query} (query-keep, query-drop, query-sort)"));
        }
        let Some(rule) = &self.rule else { return parts };
        for (field, key) in rule.key_fields() {
            if field == DECIDED_BY {
                parts.push(format!("which rules decide ({key})"));
                continue;
            }
            let value = vary::normalised(&self.head.fields, &field);
            let value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
            parts.push(match value {
                Some(value) => format!("{field}: {value} ({key})"),
                None => format!("without {field} ({key})"),
            });
        }
        parts
    }

    /// Returns the site whose origin would serve the request.
    fn origin_site(&self) -> &Site {
        self.options.origin_site(self.target.site, self.rule.as_deref())
    }

    /// Returns the values of the request as sent by the client that requests the explanation.
    fn values(&self) -> RequestValues<'_> {
        let from = Requester::at(self.client, &self.options.forwarded);
        let with_classes = self.rule.as_deref().map(|rule| (rule, self.classes));
        RequestValues::new(from, self.head, &self.target, with_classes)
    }

    /// Returns the server that the request names, if its rule lets it.
    fn server(&self) -> ServerChoice {
        ServerChoice::of(self.rule.as_deref(), &self.values(), &self.target, self.options)
    }

    /// Returns the origin that would serve the request; `None` if none may.
    fn origin(&self) -> Option<String> {
        let limits = &self.options.upstream;
        match self.server() {
            ServerChoice::Configured => {
                let target = Target { site: self.origin_site(), ..self.target };
                Some(target.origin(limits).to_string())
            }
            ServerChoice::Named(server) => Some(server.endpoint(limits).to_string()),
            ServerChoice::Refused => None,
        }
    }

    /// Returns what is stored for the request.
    async fn find(&self, store: Option<Store>, key: Option<&Key>) -> Option<LookupResult> {
        let options = LookupOptions::default();
        lookup::find(&store?, key?, &self.head.method, &self.head.fields, options).await
    }

    fn settings(&self) -> &Settings {
        if let Some(settings) = self.target.site.vouched() {
            return settings;
        }
        self.rule.as_ref().map_or(&self.options.semantics, |rule| &rule.settings)
    }

    /// Returns path and query as sent to the origin: those of `url`, with the changes that the rule
    /// makes.
    fn sent(&self, url: &Url, values: &RequestValues<'_>) -> String {
        let rewrites = self.rule.as_ref().filter(|rule| rule.rewrites_query(&self.head.method));
        let url = &rewrites.map_or(url.clone(), |rule| rule.query.apply(url));
        match self.rule.as_ref().and_then(|rule| rule.actions.as_ref()) {
            Some(actions) if !actions.rewrites.is_empty() => {
                actions.rewritten(url.path_and_query(), values)
            }
            _ => url.sent().to_owned(),
        }
    }

    /// Returns the name of a lifetime setting in the configuration.
    fn setting(&self, key: &str, settings: &Settings) -> String {
        let general = self.options.semantics.lifetimes.errors;
        match &self.rule {
            // A rule without this setting inherits the general one.
            Some(rule) if key != "error-ttl" || settings.lifetimes.errors != general => {
                format!("{key} of {}", rule.name)
            }
            _ => format!("caching.{key}"),
        }
    }

    /// Returns why the access rules deny the request, as far as that is known without the
    /// destination's address.
    fn denial(&self) -> Option<String> {
        let query = Query {
            client: self.client.ip(),
            method: &self.head.method,
            host: self.target.host,
            port: self.target.port,
        };
        match self.options.access.before(&query) {
            Verdict::Deny(denial) => Some(denial.text.trim_end().to_owned()),
            Verdict::Allow | Verdict::ByAddress => None,
        }
    }

    fn route(&self, has_store: bool, key: Option<Key>) -> Route {
        let kind = (&self.head.method, self.head.version);
        let asked = route::RouteInput {
            facts: &self.facts,
            fields: &self.head.fields,
            rule: self.rule.as_deref(),
            upgrades: upgrade::asked_by(kind, false, &self.head.fields, false).is_some(),
            has_body: false,
            has_store,
        };
        asked.route(|| Some(key))
    }

    /// Returns the plan of a request on this route.
    fn plan_on(
        &self,
        route: &Route,
        found: Option<&LookupResult>,
        vouched: Option<bool>,
    ) -> Result<Plan, String> {
        Ok(match route {
            Route::Cache(_) => {
                found.map_or(Plan::Pass(Bypass::LongUrl), |found| self.plan(found, vouched))
            }
            Route::Pass(why) | Route::Write(why) => Plan::Pass(*why),
            Route::Refuse => Plan::Refuse(None),
            Route::BadUrl => return Err("the URL's host or path is not valid".to_owned()),
        })
    }

    fn plan(&self, found: &LookupResult, vouched: Option<bool>) -> Plan {
        let (rule, settings) = (self.rule.as_deref(), self.settings());
        let (facts, now, age_limit) = (&self.facts, self.now, self.age_limit);
        plan::PlanInput { facts, rule, settings, now, age_limit, vouched }.plan(found).0
    }

    /// Returns the plan in view of the running fills and, if the request would join one, a
    /// description of that.
    fn collapse(
        &self,
        services: &Services,
        plan: Plan,
        found: &LookupResult,
    ) -> (Plan, Option<String>) {
        let (key, validates) = match (&plan, found) {
            (Plan::Validate { .. }, LookupResult::Stored(stored)) => (&stored.key, true),
            (Plan::Fetch(_), LookupResult::Stored(stored)) => (&stored.key, false),
            (Plan::Fetch(_), LookupResult::Nothing { key, .. }) => (key, false),
            _ => return (plan, None),
        };
        let (options, facts, settings) = (self.options, &self.facts, self.settings());
        let (arrived, now) = (self.now, self.now);
        let rule_mark = self.rule.as_ref().and_then(|rule| rule.mark.as_ref());
        let asked = Asked::ByClient;
        let begun_before = services.arrival();
        let fit = FitInput {
            services,
            options,
            facts,
            settings,
            arrived,
            begun_before,
            now,
            asked,
            rule_mark,
            wants_events: wants_events(&self.head.fields),
        };
        let followed = match fit.running(key) {
            Some(Fit::Follow(head)) => Some(head),
            _ => None,
        };
        if facts.is_head && followed.is_none() {
            return (plan, None);
        }
        match (CollapseInput::of(&fit, key, validates).decide(), followed) {
            (Collapse::Bypass(why), _) => (Plan::Pass(why), None),
            (Collapse::Share, Some(head)) => (plan, Some(in_words_of_fill(head))),
            _ => (plan, None),
        }
    }

    /// Returns whether the origin would get a conditional request. A HEAD is forwarded unchanged,
    /// and where redirects are followed there are no conditions.
    fn asks_about(&self, found: &LookupResult) -> bool {
        let actions = self.rule.as_ref().and_then(|rule| rule.actions.as_ref());
        let follows = actions.is_some_and(|actions| actions.follow.is_some());
        match found {
            LookupResult::Stored(stored) if !self.facts.is_head && !follows => {
                stored.make_conditional(&mut HeaderMap::new())
            }
            _ => false,
        }
    }

    /// Describes the fleet's part in serving the object; null if it has none.
    fn add_fleet(
        &self,
        node: &Node,
        key: &Key,
        found: Option<&LookupResult>,
        is_cached: bool,
    ) -> Value {
        let Some(host) = fleet_host(&self.target) else { return Value::Null };
        let stored = match found {
            Some(LookupResult::Stored(stored)) => Some(&**stored),
            _ => None,
        };
        in_fleet::tell(node, key, host, stored, is_cached)
    }

    /// Adds the lookup result to the explanation.
    fn add_found(&self, found: &LookupResult, told: &mut Value) {
        let marker = match found {
            LookupResult::Stored(stored) => stored.marker.as_ref(),
            LookupResult::Nothing { marker, .. } => marker.as_ref(),
        };
        let chosen = |name: &HeaderName| {
            let value = vary::normalised(&self.head.fields, name);
            let value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
            (name.to_string(), Value::from(value))
        };
        if let Some(marker) = marker {
            told["key"]["fields"] = marker.names().iter().map(chosen).collect();
        }
        if let LookupResult::Stored(stored) = found {
            told["stored"] = describe(stored, self.now);
        }
    }

    /// Returns the response to explain, the given one or the origin's own, and a word for which.
    async fn response(
        &self,
        services: &Rc<Services>,
        question: &Question,
        requested: Time,
    ) -> Result<Option<(&'static str, StatusCode, HeaderMap)>, String> {
        Ok(match &question.answer {
            Some((status, headers)) => {
                let mut headers = headers.clone();
                if let Some(rule) = &self.rule {
                    let of = Settled { status: *status, confirms: *status, confirmed: None };
                    rule.settle(self.target.path.text, of, &mut headers, requested);
                }
                Some(("given", *status, headers))
            }
            None if question.ask => {
                if let Some(denial) = self.denial() {
                    return Err(denial);
                }
                if let Some(words) = self.action() {
                    return Err(format!("the origin is not asked: the proxy would {words}"));
                }
                let (client, options) = (self.client, self.options);
                let site = self.origin_site();
                let target = &Target { site, ..self.target };
                let mut upstream_request =
                    UpstreamRequest::new(services, client, options, self.head, target);
                let (rule, values) = (self.rule.as_ref(), self.values());
                upstream_request.apply_rule(rule, &values, &self.target, options);
                upstream_request.follow_redirects(options, self.head, &self.target, &self.facts);
                upstream_request.interim = None;
                let response =
                    upstream_request.run(services, self.options, None).await.map_err(in_short)?;
                let (head, _body) = response.into_parts();
                Some(("origin", head.status, head.headers))
            }
            None => None,
        })
    }

    /// Explains how a response would be treated. `past` is why the request passes the cache, if
    /// it does.
    async fn answer(
        &self,
        services: &Rc<Services>,
        question: &Question,
        past: Option<&'static str>,
    ) -> Result<Value, String> {
        let requested = services.clock.time();
        let Some((from, status, headers)) = self.response(services, question, requested).await?
        else {
            return Ok(Value::Null);
        };
        let times = ExchangeTimes { requested, received: services.clock.time() };
        let decided = self.rule.as_ref().and_then(|rule| rule.decided(status, &headers));
        let decided = decided.filter(|_| self.target.site.vouched().is_none());
        let settings = decided.as_ref().map_or(self.settings(), |rule| &rule.settings);
        let facts = RequestFacts { class: self.facts.class, ..self.facts.of_get() };
        let judged = storability::judge(&facts, status, &headers, times, settings);
        let directives = ResponseDirectives::parse(&headers, settings);
        let received = times.received;
        let target = facts.target;
        let freshness =
            freshness::lifetime(target, status, &headers, &directives, received, settings);
        let set = freshness::setting(target, status, &headers, &directives, received, settings)
            .map(|key| self.setting(key, settings));
        let inapplicable =
            freshness::inapplicable(target, status, &headers, &directives, received, settings);
        let vary = Vary::of(&headers);
        let tells_apart = forwarded::tells_clients_apart(&self.options.forwarded.add, &vary);
        let bypassed = self.rule.as_ref().is_some_and(|rule| rule.bypass);
        let why = judged.err().map(|why| why.name());
        let why = why.or(tells_apart.then_some("varies-by-client"));
        let why = why.or(past).or(bypassed.then_some("rule"));
        let vary = match vary {
            Vary::None => Vec::new(),
            Vary::Names(names) => names.iter().map(ToString::to_string).collect(),
            Vary::Star => vec!["*".to_owned()],
        };
        Ok(json!({
            "from": from,
            "status": status.as_u16(),
            "stored": why.is_none(),
            "why": why,
            "lifetime": freshness.lifetime.get(),
            "lifetime_from": set.unwrap_or_else(|| basis(freshness.basis).to_owned()),
            "not_applied": self.not_applied(status, &headers, &inapplicable),
            "responses": self.entries(&headers),
            "vary": vary,
        }))
    }

    /// Lists the entries of the rule's `responses` that apply to a response with these fields, by
    /// number from 1.
    fn entries(&self, headers: &HeaderMap) -> Vec<usize> {
        let responses = self.rule.as_ref().and_then(|rule| rule.responses.as_ref());
        responses.map_or_else(Vec::new, |responses| responses.numbers(headers))
    }

    /// Lists the rule's lifetimes (`names`) and edits that do not apply to a response because of
    /// its status; `None` if all apply. `headers` are the fields after the edits.
    fn not_applied(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        names: &[&str],
    ) -> Option<String> {
        let rule = self.rule.as_ref()?;
        let mut edited = headers.clone();
        rule.answer.iter().for_each(|answer| answer.edits.apply(&mut edited));
        // Edits are idempotent: those that were applied change nothing when applied again.
        let edits = (edited != *headers).then_some("the edits");
        let verb = if names.len() == 1 && edits.is_none() { "does" } else { "do" };
        let names: Vec<&str> = names.iter().copied().chain(edits).collect();
        let unless_stated = match rule.settings.lifetimes.scope_of(status) {
            StatusScope::Stated => " without a stated lifetime",
            StatusScope::Nothing | StatusScope::All => "",
        };
        let names = names.join(" and ");
        let words = || format!("{names} {verb} not apply to {}{unless_stated}", status.as_u16());
        (!names.is_empty()).then(words)
    }
}

/// Returns the names and values of classes, with what matched.
fn in_json(classes: &[(String, String, String)]) -> Value {
    let mut told = Vec::new();
    for (name, value, by) in classes {
        told.push(json!({ "name": name, "value": value, "by": by }));
    }
    told.into()
}

fn in_short(failure: Failure) -> String {
    match failure {
        Failure::Denied(denial) => denial.text.trim_end().to_owned(),
        Failure::Failed(_, text) | Failure::Request(_, text) => text,
    }
}

fn describe(stored: &StoredResponse, now: Time) -> Value {
    let packed = stored.head.packed();
    let headers: Vec<String> = stored
        .head
        .stored()
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    json!({
        "status": packed.status().as_u16(),
        "length": stored.length(),
        "in": match stored.entry.source() {
            store::Source::Ram => "memory",
            store::Source::Disk => "device",
        },
        "in_parts": stored.sparse.is_some(),
        "age": packed.age(now).get(),
        "lifetime": packed.lifetime().get(),
        "headers": headers,
    })
}

/// Describes joining a running fetch. `head` is the age of its head and the permit to use it if
/// stale; `None` if the fetch has no head yet.
fn in_words_of_fill(head: Option<(Seconds, Option<StalePermit>)>) -> String {
    match head {
        None => "join the running fetch: its response has not arrived yet".to_owned(),
        Some((age, None)) => format!("join the running fetch: fresh, {} s old", age.get()),
        Some((_, Some(permit))) => {
            format!("join the running fetch: stale, which {} permits", permit_name(permit))
        }
    }
}

/// Describes a plan where the origin vouches for its responses. `current` is the origin's verdict.
fn in_words_of_voucher(plan: &Plan, current: Option<bool>) -> Option<&'static str> {
    match (plan, current?) {
        (Plan::Serve { .. }, true) => Some("answer from the cache: the origin says it is current"),
        (Plan::Validate { .. } | Plan::Fetch(_), false) => {
            Some("ask the origin: it says that the stored response is not current")
        }
        _ => None,
    }
}

/// Describes a plan. `conditional` says whether a validation can be conditional.
fn in_words(plan: &Plan, conditional: bool) -> String {
    match plan {
        Plan::Serve { age, stale: None } => {
            format!("answer from the cache: fresh, {} s old", age.get())
        }
        Plan::Serve { stale: Some(permit), .. } => {
            format!("answer from the cache: stale, which {} permits", permit_name(*permit))
        }
        Plan::Validate { cause, .. } => {
            let how = if conditional { "with a condition" } else { "for a new answer" };
            format!("ask the origin {how}: {}", in_words_of_cause(*cause))
        }
        Plan::Fetch(FetchReason::Nothing) => "ask the origin".to_owned(),
        Plan::Fetch(FetchReason::OlderKey) => {
            "ask the origin: the stored response has another key than one stored now".to_owned()
        }
        Plan::Fetch(FetchReason::Outlived) => {
            "ask the origin: the stored response is stale beyond the permitted time".to_owned()
        }
        Plan::Fetch(FetchReason::Identified) => {
            "ask the origin: the stored response is not for clients that identify themselves"
                .to_owned()
        }
        Plan::Pass(why) => format!("pass it on ({})", why.name()),
        Plan::Refuse(None) => "answer 504: nothing is stored, and only-if-cached".to_owned(),
        Plan::Refuse(Some(cause)) => {
            format!("answer 504: {}, and only-if-cached", in_words_of_cause(*cause))
        }
    }
}

/// Returns the directive that permits a stale response.
fn permit_name(permit: StalePermit) -> &'static str {
    match permit {
        StalePermit::MaxStale => "max-stale",
        StalePermit::WhileRevalidate => "stale-while-revalidate",
    }
}

/// Describes why a stored response is not used.
fn in_words_of_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::NoCache => "the stored response has no-cache",
        Cause::RequestNoCache => "the request has no-cache",
        Cause::Expired => "the stored response is stale",
        Cause::RequestMaxAge => "the stored response is older than the request's max-age",
        Cause::RequestMinFresh => {
            "the stored response is fresh for less than the request's min-fresh"
        }
    }
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::SMaxAge => "s-maxage",
        Basis::MaxAge => "max-age",
        Basis::Expires => "expires",
        Basis::Heuristic => "heuristic",
        Basis::Operator | Basis::ErrorTtl => "configuration",
        Basis::Vouched => "origin",
        Basis::Nothing => "nothing",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read() {
        let query = "url=http://a/b%3Fc&method=HEAD&header=Cookie:+x&header=A:b&status=404\
                     &listener=[::]:80&answer=Cache-Control:+max-age%3D5";
        let question = Question::read(Some(query)).unwrap();
        assert_eq!(question.url.as_str(), "http://a/b?c");
        assert_eq!((question.method, question.headers.len()), (Method::HEAD, 2));
        assert_eq!(question.listener.as_deref(), Some("[::]:80"));
        let (status, fields) = question.answer.unwrap();
        assert_eq!(
            (status.as_u16(), &fields["cache-control"]),
            (404, &"max-age=5".parse().unwrap())
        );
    }

    #[test]
    fn invalid_parameters_are_named() {
        for (query, word) in [
            ("", "no URL"),
            ("url=/x", "scheme"),
            ("url=http://a/&header=x", "Name: value"),
            ("url=http://a/&header=a b:x", "a b:x"),
            ("url=http://a/&status=7", "status"),
            ("url=http://a/&ask=maybe", "maybe"),
            ("url=http://a/&method=G+T", "method"),
            ("url=http://a/&method=DELETE&ask=true", "GET and HEAD only"),
            ("uri=http://a/", "uri"),
        ] {
            let error = Question::read(Some(query)).unwrap_err();
            assert!(error.contains(word), "{query}: {error}");
        }
    }
}
