//! One request while it is decided on: all that is known of it, in one place.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fleet::lookup::{Asked, Reach, Request};
use http::Method;
use http::header::{self, HeaderMap, HeaderValue};
use http1::RequestHead;
use message::upgrade::Upgrade;
use net::address;
use semantics::cache_key::{UrlParts, primary_of_parts};
use semantics::validators::Selected;
use semantics::{Portion, QueryRule, RequestFacts, Settings, Time, Url, connection_login};
use store::{Key, Locality, LookupOptions, Retention, Tiers};
use upstream::send::origin::{Origin, VERSION};

use crate::client::handle::Client;
use crate::client::pool::Pooled;
use crate::client::tunnel_places::TunnelPermit;
use crate::object::key::locality_at;
use crate::object::resident::KEY_MAX;
use crate::object::store::Store;
use crate::options::Options;
use crate::origin::site::Site;
use crate::origin::target::Target;
use crate::peers::asking::Asking;
use crate::peers::question::{About, Question};
use crate::request::prepare::Prepared;
use crate::request::target::{TargetPlace, is_encoded};
use crate::request::upstream_request::{FIELDS_ADDED, UpstreamRequest};
use crate::rules::access::Query;
use crate::rules::request_rules::Rule;
use crate::services::{Arrival, Services};

thread_local! {
    /// The key of the request that is decided on.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A request, its client, and what was derived from both.
pub(crate) struct RequestContext {
    pub services: Rc<Services>,
    pub client: Rc<Client>,
    pub options: Arc<Options>,
    /// Its head as the operator's rule has edited it.
    pub head: Pooled<RequestHead>,
    /// The fields of the head, once they were needed as a map.
    map: OnceCell<HeaderMap>,
    target: TargetPlace,
    pub facts: RequestFacts,
    /// When it came.
    pub came: Time,
    /// The fills that had begun by then.
    pub begun_before: Arrival,
    now: Cell<Time>,
    /// The operator's rule for it.
    pub rule: Option<Arc<Rule>>,
    /// It asks for another protocol.
    pub upgrade: Option<Rc<Upgrade>>,
    /// Its place among the tunnels, if it asks for one.
    pub place: Cell<Option<TunnelPermit>>,
    /// The question of another node that it is; `None`: it is a client's own.
    pub question: Option<Box<Question>>,
}

impl RequestContext {
    /// Makes the context of a request that has just come.
    pub fn new(
        services: &Rc<Services>,
        client: &Rc<Client>,
        options: Arc<Options>,
        head: Pooled<RequestHead>,
        prepared: Prepared,
        upgrade: Option<Rc<Upgrade>>,
    ) -> RequestContext {
        let Prepared { target, rule, identity } = prepared;
        let (came, site) = (services.clock.time(), target.site(&options.front));
        let mut facts = site.facts(&head, identity, &options.semantics);
        // Without the fields that say so: the origin answers a user.
        if client.is_logged_in() && site.vouched().is_none() {
            facts = facts.logged_in();
        }
        let now = Cell::new(came);
        let begun_before = services.arrival();
        let place = Cell::default();
        RequestContext {
            services: services.clone(),
            client: client.clone(),
            options,
            head,
            map: OnceCell::new(),
            target,
            facts,
            came,
            begun_before,
            now,
            rule,
            upgrade,
            place,
            question: None,
        }
    }

    /// Returns its target.
    pub fn target(&self) -> Target<'_> {
        self.target.target(&self.head, &self.options.front)
    }

    /// Returns the fields of its head as a map, which is made when it is needed first.
    pub fn headers(&self) -> &HeaderMap {
        self.map.get_or_init(|| self.head.fields.to_map(FIELDS_ADDED))
    }

    /// Makes it the question of another node. Where that wants nothing fetched, only what is stored
    /// answers it.
    pub fn with_question(mut self, question: Question) -> Self {
        self.facts.directives.only_if_cached |= question.reach < Reach::Origin;
        self.question = Some(Box::new(question));
        self
    }

    /// Returns who wants it, for the decisions of the fleet. A node that lags behind has been told
    /// so before.
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

    /// Returns what other nodes are asked about the object of this key, which is stored on the
    /// device here or not; `None` when none of them matters.
    pub fn asking(&self, primary: &Key, on_own_disk: bool) -> Option<Arc<Asking>> {
        let node = self.services.shared.node.as_ref()?;
        // A login concerns one connection to the origin.
        if self.client.is_logged_in() || connection_login::has_credentials(&self.head.fields) {
            return None;
        }
        let target = self.target();
        if !is_encoded(target.path) {
            // A question names it by a URI, which is another object.
            return None;
        }
        let host = fleet_host(&target).filter(|_| self.upgrade.is_none())?;
        let key = node.hash(primary.as_bytes());
        let about = About {
            key,
            scheme: target.scheme,
            authority: HeaderValue::try_from(target.authority()).ok()?,
            client: self.client.address,
            rule: self.rule.as_ref().map(|rule| rule.name.clone()),
        };
        let hot_owners = match &self.question {
            // Noted when it came.
            Some(_) => node.hot_owners(key),
            None => node.note_demand(key),
        };
        let request = Request { key, asked: self.asked(), on_own_disk, hot_owners };
        Asking::of(node, request, host, about)
    }

    /// Returns the time that decisions are made for: that of the last
    /// [`RequestContext::look_at_clock`].
    pub fn now(&self) -> Time {
        self.now.get()
    }

    /// Reads the clock again after a wait: what is found now may be younger than the request.
    pub fn look_at_clock(&self) {
        self.now.set(self.services.clock.time());
    }

    /// Returns how the store is asked: as a node that asks wants it.
    pub fn lookup_options(&self) -> LookupOptions {
        let Some(question) = &self.question else { return LookupOptions::default() };
        let memory = question.reach == Reach::Memory;
        LookupOptions {
            tiers: if memory { Tiers::Memory } else { Tiers::MemoryAndDisk },
            retention: if question.keep_copy || memory {
                Retention::Keep
            } else {
                Retention::Exclusive
            },
        }
    }

    /// Returns the store, if what is stored may be used: in a fleet by a node that has caught up
    /// with the purges of all.
    pub fn store(&self) -> Option<Store> {
        self.services.usable_store()
    }

    /// Returns the portion of a representation that the request gets: conditions and ranges are
    /// decided here alone. `length` is that of the body in bytes; without it ranges do not count.
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

    /// Returns whether it is a GET for all of a representation, whatever the client has.
    pub fn is_for_all(&self) -> bool {
        let RequestFacts { has_range, conditional, .. } = self.facts;
        self.head.method == Method::GET && !has_range && !conditional
    }

    /// Returns the settings of caching for it.
    pub fn settings(&self) -> &Settings {
        if let Some(settings) = self.site().vouched() {
            return settings;
        }
        self.rule.as_ref().map_or(&self.options.semantics, |rule| &rule.settings)
    }

    /// Makes the fields of an answer those of an origin server, where the origin vouches for it and
    /// is this program: the answer was passed on by nobody, and is of now. The server side adds
    /// the time at which the head goes out.
    pub fn make_own(&self, fields: &mut HeaderMap) {
        if self.site().vouched().is_some() {
            for name in [header::AGE, header::DATE, header::VIA, VERSION] {
                fields.remove(name);
            }
        }
    }

    /// Returns the mark of its rule, if the rule is part of the key.
    pub fn rule_mark(&self) -> Option<&HeaderValue> {
        self.rule.as_ref().and_then(|rule| rule.mark.as_ref())
    }

    /// Returns the site that it is for.
    pub fn site(&self) -> &Site {
        self.target.site(&self.options.front)
    }

    /// Returns the URL that the request names; `None` when its host or path cannot make one.
    pub fn url(&self) -> Option<Url> {
        self.target().url(&self.options.upstream)
    }

    /// Returns the key of the object that this request is about; `None` when it is too long.
    pub fn key(&self, url: &Url) -> Option<Key> {
        match &self.rule {
            Some(rule) => self.site().key(&rule.query.apply(url)),
            None => self.site().key(url),
        }
    }

    /// Returns the key of the object that the request is about: `None` when there is none,
    /// `Some(None)` when it is too long.
    pub fn primary_key(&self) -> Option<Option<Key>> {
        let key = |key: &[u8], locality| Key::new(Bytes::copy_from_slice(key), locality);
        match self.with_key(key) {
            Some(key) => Some(key),
            None => self.url().map(|url| self.key(&url)),
        }
    }

    /// Calls `take` with that key, which is written to memory that is used again. `None` where that
    /// cannot be done: the URL is not its own normal form, or its rule changes the name.
    pub fn with_key<T>(&self, take: impl FnOnce(&[u8], Locality) -> T) -> Option<T> {
        KEY.with_borrow_mut(|key| {
            let locality = self.write_key(key)?;
            Some(take(key, locality))
        })
    }

    fn write_key(&self, key: &mut Vec<u8>) -> Option<Locality> {
        let (target, site) = (self.target(), self.site());
        if self.rule.as_ref().is_some_and(|rule| rule.query != QueryRule::default()) {
            return None;
        }
        let path = match site.voucher() {
            None => target.path,
            Some(voucher) => {
                let path = target.path.split_once('?').map_or(target.path, |(path, _)| path);
                match voucher.canonical_path(path) {
                    Some(Cow::Owned(_)) => return None,
                    Some(Cow::Borrowed(_)) | None => path,
                }
            }
        };
        let (host, port) = target.place();
        let port = (port != target.scheme.default_port()).then_some(port);
        let parts = UrlParts { scheme: target.scheme.name(), host, port, path };
        let place = primary_of_parts(key, site.key_prefix(), parts)?;
        (key.len() <= KEY_MAX).then(|| locality_at(key, place))
    }

    /// Returns the URL that the request names, with the host name as it was given: without aliases.
    pub fn named_url(&self) -> Option<Url> {
        Target { aliases: None, ..self.target() }.url(&self.options.upstream)
    }

    /// Returns the keys of all that may be stored for a URL behind this request's front, in its
    /// usual spellings: at its own site, and at the one that the URL leads to, which is another
    /// where sites share a host.
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

    /// Returns the names that its site and rules give a URL behind this request's front.
    pub fn names(&self, url: &Url) -> Vec<Url> {
        self.names_at(self.site(), url)
    }

    fn names_at(&self, site: &Site, url: &Url) -> Vec<Url> {
        let url = site.aliases().one(url.clone());
        self.options.rules.names(site.name(), &url)
    }

    /// Returns the origin that this request leads to.
    pub fn destination(&self) -> Arc<dyn Origin> {
        self.target().origin(&self.options.upstream)
    }

    /// Returns the request for the origin.
    pub fn upstream_request(&self) -> UpstreamRequest {
        // A server that is asked for another protocol may compare `Host` with `Origin`; nothing of
        // it is shared.
        let named = self.target();
        let aliases = named.aliases.filter(|_| self.upgrade.is_none());
        let target = &Target { aliases, ..named };
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
        upstream_request.obey(self.rule.as_ref(), &named, &self.options);
        upstream_request
    }

    /// Returns what the access rules are asked.
    pub fn query(&self) -> Query<'_> {
        let Target { host, port, .. } = self.target();
        Query { client: self.client.address.ip(), method: &self.head.method, host, port }
    }
}

/// Returns the host that decides how a fleet treats what is asked for; `None` where other nodes are
/// asked nothing about it: nobody knows the host, or what is served is at hand.
pub(crate) fn fleet_host<'t>(target: &'t Target<'_>) -> Option<&'t str> {
    let host = target.place().0;
    (!host.is_empty() && target.site.vouched().is_none()).then(|| address::bare(host))
}
