//! Context of one request: everything known about it while it is decided on.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use compression::Coding;
use fleet::lookup::{Asked, Reach, Request};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use http1::RequestHead;
use net::address;
use semantics::cache_key;
use semantics::cache_key::{UrlParts, UrlPlace, primary_of_parts};
use semantics::compressed::BODY_ID;
use semantics::scanned_path::ScannedPath;
use semantics::validators::Selected;
use semantics::{
    MethodClass, Portion, RequestFacts, Settings, Time, Url, compressed, connection_login,
};
use store::{Key, LookupOptions, Retention, Tiers};
use upstream::message::upgrade::Upgrade;
use upstream::send::origin::{Origin, VERSION};

use crate::client::handle::Client;
use crate::client::pool::Pooled;
use crate::message::trace_context::TraceContext;
use crate::object::key::locality_at;
use crate::object::resident::KEY_MAX;
use crate::object::store::Store;
use crate::options::Options;
use crate::origin::site::Site;
use crate::origin::target::Target;
use crate::peers::asking::Asking;
use crate::peers::question::{About, Question};
use crate::request::held::Held;
use crate::request::negotiated::Negotiated;
use crate::request::prepare::Prepared;
use crate::request::request_values::{RequestValues, Requester, ResponseValues};
use crate::request::server_choice::ServerChoice;
use crate::request::target::{TargetPlace, is_encoded};
use crate::request::upstream_request::{FIELDS_ADDED, UpstreamRequest};
use crate::rules::access::Query;
use crate::rules::classes::ClassValues;
use crate::rules::client_edits::{ClientEdits, FilledEdits};
use crate::rules::request_rules::Rule;
use crate::services::{Arrival, Services};

thread_local! {
    /// Scratch buffer for the key of the request.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A request, its client, and the facts derived from both.
pub(crate) struct RequestContext {
    pub services: Rc<Services>,
    pub client: Rc<Client>,
    pub options: Arc<Options>,
    /// The head as edited by the operator's rule.
    pub head: Pooled<RequestHead>,
    /// Map of the head's fields, built on first use.
    map: OnceCell<HeaderMap>,
    target: TargetPlace,
    pub facts: RequestFacts,
    pub arrived: Time,
    /// Number of fills that had begun when the request arrived.
    pub begun_before: Arrival,
    now: Cell<Time>,
    pub rule: Option<Arc<Rule>>,
    /// The classes that the rule uses.
    pub classes: ClassValues,
    /// The protocol upgrade that the request asks for.
    pub upgrade: Option<Rc<Upgrade>>,
    /// The permits of the request, until its response takes them.
    pub held: Cell<Option<Box<Held>>>,
    /// Id of the request, if a setting needs it.
    pub id: Option<HeaderValue>,
    /// Span of the request, if it is traced.
    pub trace: Option<Box<TraceContext>>,
    /// Question of another node that this request carries; `None` for a client's own request.
    pub question: Option<Box<Question>>,
    /// The coding in which the client gets responses that are compressed here.
    pub negotiated: Negotiated,
}

impl RequestContext {
    /// Creates the context of a request that has just arrived.
    pub fn new(
        services: &Rc<Services>,
        client: &Rc<Client>,
        options: Arc<Options>,
        head: Pooled<RequestHead>,
        prepared: Prepared,
        upgrade: Option<Rc<Upgrade>>,
    ) -> RequestContext {
        let Prepared { target, rule, classes, identity, mut negotiated } = prepared;
        let (arrived, site) = (services.clock.time(), target.site(&options.front));
        let mut facts = site.facts(&head, identity, (&options.semantics, rule.as_deref()));
        // Later requests on an authenticated connection carry no credentials, but the origin still
        // answers for that user.
        if client.is_logged_in() && site.vouched().is_none() {
            facts = facts.logged_in();
        }
        negotiated.coding = negotiated.coding.filter(|_| !facts.directives.no_transform);
        let now = Cell::new(arrived);
        let begun_before = services.arrival();
        let held = Cell::default();
        RequestContext {
            services: services.clone(),
            client: client.clone(),
            options,
            head,
            map: OnceCell::new(),
            target,
            facts,
            arrived,
            begun_before,
            now,
            rule,
            classes,
            upgrade,
            held,
            id: None,
            trace: None,
            question: None,
            negotiated,
        }
    }

    pub fn target(&self) -> Target<'_> {
        self.target.target(&self.head, &self.options.front)
    }

    /// Returns the head's fields as a map, built on first use.
    pub fn headers(&self) -> &HeaderMap {
        self.map.get_or_init(|| self.head.fields.to_map(FIELDS_ADDED))
    }

    /// Turns the request into another node's question. If that node forbids a fetch, only stored
    /// responses answer it.
    pub fn with_question(mut self, question: Question) -> Self {
        self.facts.directives.only_if_cached |= question.reach < Reach::Origin;
        self.question = Some(Box::new(question));
        self
    }

    /// Returns the requesting client or node, for the fleet's decisions. `behind` is always false:
    /// a question is refused earlier if this node has missed purges.
    pub fn asked(&self) -> Asked {
        match &self.question {
            None => Asked::ByClient,
            Some(question) => Asked::ByPeer {
                from: question.from.clone(),
                reach: question.reach,
                keep_copy: question.keep_copy,
                hops: question.hops,
                behind: false,
            },
        }
    }

    /// Returns the plan for asking other nodes about the object of this key; `None` if no node is
    /// relevant. `on_own_disk` says whether this node's device has the object.
    pub fn asking(&self, primary: &Key, on_own_disk: bool) -> Option<Arc<Asking>> {
        let node = self.services.shared.node.as_ref()?;
        // A login belongs to one connection to the origin.
        if self.client.is_logged_in() || connection_login::has_credentials(&self.head.fields) {
            return None;
        }
        let target = self.target();
        if !is_encoded(target.path) {
            // A URI in the question would name another object.
            return None;
        }
        let host = fleet_host(&target).filter(|_| self.upgrade.is_none())?;
        let key = node.hash(primary.as_bytes());
        let about = About {
            key,
            scheme: target.scheme,
            authority: HeaderValue::try_from(target.authority()).ok()?,
            client: self.client.address,
            rule: self.rule.as_ref().map(|rule| rule.id.clone()),
            classes: self.classes.word(),
            uri: self.uri_before_rewrites(),
        };
        let hot_owners = match &self.question {
            // Demand was counted when the question arrived.
            Some(_) => node.hot_owners(key),
            None => node.note_demand(key),
        };
        let request = Request { key, asked: self.asked(), on_own_disk, hot_owners };
        Asking::of(node, request, host, about)
    }

    /// Returns the time that decisions are made for: the last reading by
    /// [`RequestContext::look_at_clock`].
    pub fn now(&self) -> Time {
        self.now.get()
    }

    /// Reads the clock again after a wait, because a response found now may be younger than the
    /// request.
    pub fn look_at_clock(&self) {
        self.now.set(self.services.clock.time());
    }

    /// Returns the options for lookups of the object of this key in the store, as the asking node
    /// requires.
    pub fn lookup_options(&self, primary: &Key) -> LookupOptions {
        let Some(question) = &self.question else { return LookupOptions::default() };
        let memory = question.reach == Reach::Memory;
        LookupOptions {
            tiers: if memory { Tiers::Memory } else { Tiers::MemoryAndDisk },
            retention: if memory || self.keeps_for_peer(question, primary) {
                Retention::Keep
            } else {
                Retention::Exclusive
            },
        }
    }

    /// Returns whether this node keeps in memory what another one asks for: by the class of the
    /// document if this node knows it, else as the other one says.
    fn keeps_for_peer(&self, question: &Question, primary: &Key) -> bool {
        let node = self.services.shared.node.as_ref();
        let Some(node) = node.filter(|node| node.depends_on_answers()) else {
            return question.keep_copy;
        };
        if question.reach < Reach::Origin {
            return question.keep_copy;
        }
        let host = address::bare(self.target().place().0);
        node.with_known(node.hash(primary.as_bytes()), host, |facts| {
            match facts.size.is_some() || facts.content_type.is_some() {
                true => node.policy(facts).copies.at_owner(),
                false => question.keep_copy,
            }
        })
    }

    /// Returns the store, if there is one.
    pub fn store(&self) -> Option<Store> {
        self.services.store()
    }

    /// Returns the portion of a representation that the request gets. Conditions and ranges are
    /// decided only here. `length` is the body's length in bytes; without it ranges are ignored.
    pub fn portion(&self, selected: &Selected<'_>, length: Option<u64>) -> Portion {
        let selected = match self.site().vouched() {
            Some(_) => selected.vouched(self.now()),
            None => *selected,
        };
        Portion::of(
            &self.facts,
            &self.head.method,
            &self.head.fields,
            &selected,
            length,
            self.now(),
        )
    }

    /// Returns whether the request is a GET for a whole representation, without conditions.
    pub fn is_for_all(&self) -> bool {
        let RequestFacts { has_range, conditional, .. } = self.facts;
        self.head.method == Method::GET && !has_range && !conditional
    }

    /// Returns the caching settings for the request.
    pub fn settings(&self) -> &Settings {
        if let Some(settings) = self.site().vouched() {
            return settings;
        }
        self.rule.as_ref().map_or(&self.options.semantics, |rule| &rule.settings)
    }

    /// Returns the caching settings for a response with this head.
    pub fn settings_for(&self, status: StatusCode, fields: &HeaderMap) -> Cow<'_, Settings> {
        if self.site().vouched().is_none()
            && let Some(rule) = self.rule.as_ref().and_then(|rule| rule.decided(status, fields))
        {
            return Cow::Owned(rule.settings);
        }
        Cow::Borrowed(self.settings())
    }

    /// Makes the fields of a response those of an origin server if the origin vouches for it. Such
    /// an origin is this program, so no hop passed the response on and it has no age. The server
    /// side adds a `Date` when the head is sent.
    ///
    /// Of a response that may be sent compressed, caches further downstream must know that.
    pub fn make_own(&self, fields: &mut HeaderMap) {
        if fields.remove(BODY_ID).is_some() {
            compressed::vary_by_coding(fields);
        }
        if self.site().vouched().is_some() {
            for name in [header::AGE, header::DATE, header::VIA, VERSION] {
                fields.remove(name);
            }
        }
    }

    /// Returns the rule's mark, if the rule is part of the key.
    pub fn rule_mark(&self) -> Option<&HeaderValue> {
        self.rule.as_ref().and_then(|rule| rule.mark.as_ref())
    }

    pub fn site(&self) -> &Site {
        self.target.site(&self.options.front)
    }

    /// Returns the URL that the request names; `None` if its host or path makes no valid one.
    pub fn url(&self) -> Option<Url> {
        self.target().url(&self.options.upstream)
    }

    /// Returns the key of the object at `url` under the request's site and rule; `None` when it is
    /// too long.
    pub fn key(&self, url: &Url) -> Option<Key> {
        match &self.rule {
            Some(rule) => self.site().key(&rule.key_url(url)),
            None => self.site().key(url),
        }
    }

    /// Returns the key of the requested object: `None` if there is no valid URL, `Some(None)` if
    /// the key is too long.
    pub fn primary_key(&self) -> Option<Option<Key>> {
        let key =
            |key: &[u8], place| Key::new(Bytes::copy_from_slice(key), locality_at(key, place));
        match self.with_key(key) {
            Some(key) => Some(key),
            None => self.url().map(|url| self.key(&url)),
        }
    }

    /// Calls `take` with the key of the requested object, written into a reused buffer, and the
    /// place of the URL in it. Returns `None` if that is not possible: the URL is not in normal
    /// form, or the key is longer than `KEY_MAX`.
    pub fn with_key<T>(&self, take: impl FnOnce(&[u8], UrlPlace) -> T) -> Option<T> {
        KEY.with_borrow_mut(|key| {
            let place = self.write_key(key)?;
            Some(take(key, place))
        })
    }

    fn write_key(&self, key: &mut Vec<u8>) -> Option<UrlPlace> {
        let (target, site) = (self.target(), self.site());
        let path = match site.voucher() {
            None => target.path,
            Some(voucher) => {
                let path = target.path.without_query();
                match voucher.canonical_path(path.text) {
                    Some(Cow::Owned(_)) => return None,
                    Some(Cow::Borrowed(_)) | None => path,
                }
            }
        };
        let (host, port) = target.place();
        let named;
        let path = match &self.rule {
            Some(rule) if rule.key_path.is_some() => return None,
            Some(rule) if path.has_query() && !rule.query.is_default() => {
                named = rule.query.apply_to(path.text);
                // What was left out must have been in normal form too.
                match named.len() == path.text.len() && matches!(named, Cow::Borrowed(_)) {
                    true => path,
                    false if cache_key::is_normal(host, path) => ScannedPath::new(&named),
                    false => return None,
                }
            }
            _ => path,
        };
        let port = (port != target.scheme.default_port()).then_some(port);
        let parts = UrlParts { scheme: target.scheme.name(), host, port, path };
        let place = primary_of_parts(key, site.key_prefix(), parts)?;
        (key.len() <= KEY_MAX).then_some(place)
    }

    /// Returns the URL that the request names, with the host name as given, before aliases apply.
    pub fn named_url(&self) -> Option<Url> {
        Target { aliases: None, ..self.target() }.url(&self.options.upstream)
    }

    /// Returns the keys of all objects that may be stored for a URL behind this request's front, in
    /// its usual spellings: at the request's own site, and at the site that the URL leads to, which
    /// differs where sites share a host.
    pub fn keys(&self, url: &Url) -> Vec<Key> {
        let other = self.options.front.site_of_url(url);
        let other = other.filter(|site| site.name() != self.site().name());
        let sites = [Some(self.site()), other].into_iter().flatten();
        let spellings = url.spellings();
        let keys = |site: &Site| -> Vec<Key> {
            let names = spellings.iter().flat_map(|url| self.names_at(site, url));
            names.filter_map(|name| site.key(&name)).collect()
        };
        sites.flat_map(keys).collect()
    }

    /// Returns the names that the request's site and the rules give a URL behind its front.
    pub fn names(&self, url: &Url) -> Vec<Url> {
        self.names_at(self.site(), url)
    }

    fn names_at(&self, site: &Site, url: &Url) -> Vec<Url> {
        let url = site.aliases().one(url.clone());
        self.options.rules.names(site.name(), &url)
    }

    /// Returns the origin that serves the request.
    pub fn destination(&self) -> Arc<dyn Origin> {
        let limits = &self.options.upstream;
        match self.server_choice() {
            ServerChoice::Named(server) => Arc::new(server.endpoint(limits)),
            ServerChoice::Configured | ServerChoice::Refused => {
                Target { site: self.origin_site(), ..self.target() }.origin(limits)
            }
        }
    }

    /// Returns the server that the request names, if its rule lets it.
    pub fn server_choice(&self) -> ServerChoice {
        ServerChoice::of(self.rule.as_deref(), &self.values(), &self.target(), &self.options)
    }

    /// Returns the site whose origin serves the request.
    pub fn origin_site(&self) -> &Site {
        self.options.origin_site(self.site(), self.rule.as_deref())
    }

    /// Returns the maximum size in bytes of the request's body, if there is one.
    pub fn max_body(&self) -> Option<u64> {
        self.rule.as_ref()?.actions.as_ref()?.max_body
    }

    pub fn upstream_request(&self) -> UpstreamRequest {
        // Aliases do not apply to upgrades: the server may compare `Host` with `Origin`, and no
        // upgrade is shared.
        let named = self.target();
        let aliases = named.aliases.filter(|_| self.upgrade.is_none());
        let target = &Target { aliases, site: self.origin_site(), ..named };
        let make = match self.question {
            Some(_) => UpstreamRequest::passed_on,
            None => UpstreamRequest::new,
        };
        let mut upstream_request =
            make(&self.services, self.client.address, &self.options, &self.head, target);
        upstream_request.pinned = self.client.login.as_ref().map(Rc::downgrade);
        if let Some(upgrade) = &self.upgrade {
            upstream_request.ask_for(upgrade.clone());
        }
        if let (Some(name), Some(id)) = (&self.options.request_id.field, &self.id) {
            upstream_request.set_id(name, id);
        }
        if self.question.is_none() {
            self.options.tracing.set(self.trace.as_deref(), &mut upstream_request.headers);
        }
        let (rule, values) = (self.rule.as_ref(), self.values());
        upstream_request.apply_rule(rule, &values, &named, &self.options);
        upstream_request.listener.clone_from(&self.client.link.listener);
        upstream_request.follow_redirects(&self.options, &self.head, &named, &self.facts);
        self.use_own_tags(&mut upstream_request.headers);
        upstream_request
    }

    /// Returns path and query of the request's object if the origin is asked for others.
    fn uri_before_rewrites(&self) -> Option<Uri> {
        let rule = self.rule.as_ref()?;
        rule.actions.as_ref().filter(|actions| !actions.rewrites.is_empty())?;
        let url = self.url()?;
        let url = if rule.rewrites_query(&self.head.method) { rule.query.apply(&url) } else { url };
        url.sent().parse().ok()
    }

    /// Returns the values of the request for variables.
    pub fn values(&self) -> RequestValues<'_> {
        let tls = self.client.link.tls.as_ref();
        let forwarded = &self.options.forwarded;
        let listener = self.client.link.listener.as_deref();
        let (client, id, trace) = (self.client.address, self.id.as_ref(), self.trace.as_deref());
        let from = Requester { client, forwarded, tls, listener, id, trace };
        let rule = self.rule.as_deref().map(|rule| (rule, &self.classes));
        RequestValues::new(from, &self.head, &self.target(), rule)
    }

    /// Returns the edits of responses for the client; `None` if there are none, or if another node
    /// asks.
    pub fn client_edits(&self) -> Option<&Arc<ClientEdits>> {
        let of_rule = self.rule.as_ref().and_then(|rule| rule.client.as_ref());
        of_rule.or(self.options.client_edits.as_ref()).filter(|_| self.question.is_none())
    }

    /// Returns the edits of a response for the client, with the values of their variables.
    /// `decision` returns the value of the response's
    /// [`DECISION`](crate::rules::request_rules::DECISION).
    pub fn filled_edits<'d>(
        &self,
        response: ResponseValues,
        decision: impl FnOnce() -> Option<&'d [u8]>,
    ) -> Option<FilledEdits> {
        let edits = self.client_edits()?;
        let responses = self.rule.as_ref().and_then(|rule| rule.responses.as_ref());
        let decided = responses
            .filter(|responses| responses.edit_for_clients())
            .and_then(|responses| responses.client_edits(decision()?, Some(edits)));
        let edits = decided.as_ref().unwrap_or(edits);
        Some(edits.fill(|| RequestValues { response: Some(response), ..self.values() }))
    }

    /// Replaces the entity tags of compressed forms in a request to the origin by its own.
    fn use_own_tags(&self, headers: &mut HeaderMap) {
        if let Some(coding) = self.negotiated.coding {
            return compressed::ask_with_own_tags(headers, coding.name());
        }
        let is_read = MethodClass::of(&self.head.method) == MethodClass::Cacheable;
        if !is_read && !self.options.codings(self.rule.as_deref()).is_empty() {
            compressed::change_by_own_tags(headers, &Coding::ALL.map(Coding::name));
        }
    }

    /// Returns the query that the access rules check.
    pub fn query(&self) -> Query<'_> {
        let Target { host, port, .. } = self.target();
        Query { client: self.client.address.ip(), method: &self.head.method, host, port }
    }
}

/// Returns the host by which the fleet treats the target. `None` means that other nodes are not
/// asked: the target names no host, or its files are local.
pub(crate) fn fleet_host<'t>(target: &'t Target<'_>) -> Option<&'t str> {
    let host = target.place().0;
    (!host.is_empty() && target.site.vouched().is_none()).then(|| address::bare(host))
}
