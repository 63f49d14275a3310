//! The operator's rules, which treat some requests differently from the rest.
//!
//! A rule states which requests it applies to (site, host, path, method, fields) and how they are
//! treated. Only the first matching rule applies, as with the access rules: the list can be read
//! from the top without remembering earlier rules. A rule inherits any setting that it omits from
//! the whole proxy.
//!
//! Rules may change the key of an object (query parameters that do not count). They must therefore
//! be applied to every name under which an object is stored, removed or purged: [`Rules::names`]
//! returns all names that a URL may have under any rule.
//!
//! The rules are compiled when they are loaded (`RuleIndex`), so that rules that do not match cost
//! a request almost nothing.

use std::sync::Arc;

use crate::message::header_edits::Edits;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, header};
use ring::digest;
use semantics::device_class::DeviceClass;
use semantics::{
    EditFields, MethodClass, Pattern, QueryRule, Settings, Time, Url, disguise, freshness, language,
};

use crate::rules::access::HostPattern;
use crate::rules::client_edits::ClientEdits;
use crate::rules::request_rules::rule_index::RuleIndex;

mod rule_index;

/// The field that tells an origin the kind of a client's device.
pub(crate) const DEVICE: HeaderName = HeaderName::from_static("x-ua-device");

/// Request field with the mark of the rule that decides the request, if that rule has conditions on
/// fields. It is part of the key, so that objects stored under such a rule answer only requests
/// that the same rule decides. It never leaves the proxy and is never accepted from a client.
pub(crate) const DECIDED_BY: HeaderName = HeaderName::from_static("x-larder-rule");

/// Removes the rule mark, which only the proxy may set, from a client's request. Applies even
/// without rules: objects stored under a removed rule may still exist.
pub(crate) fn distrust(request: &mut impl EditFields) {
    request.remove_lines(&DECIDED_BY);
}

/// All rules, in order.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Arc<Rule>>,
    index: Arc<RuleIndex>,
}

/// Facts of a request by which a rule is chosen, except for its fields.
#[derive(Clone, Copy, Debug)]
pub struct RuleFacts<'a> {
    /// The reverse site; `None` in a forward proxy.
    pub site: Option<&'a str>,
    /// The host of the URL that the request names, in any case and without a port.
    pub host: &'a str,
    /// The path and query of that URL, in its normal form.
    pub path: &'a str,
    /// The method of the request.
    pub method: &'a str,
    /// True if the request asks for another protocol and so bypasses the cache.
    pub upgrade: bool,
}

/// Conditions, and the treatment of requests that meet them.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Name for display: the configured one, or the rule's number in the list.
    pub name: String,
    /// The requests that the rule applies to.
    pub when: Condition,
    /// True if the requests bypass the cache: nothing is looked up or stored.
    pub bypass: bool,
    /// The caching settings for the requests.
    pub settings: Settings,
    /// The query parameters that name an object.
    pub query: QueryRule,
    /// The part of the query that is sent to the origin.
    pub query_send: QuerySend,
    /// True if devices are told apart by kind: `X-UA-Device` is set and part of the key.
    pub by_device: bool,
    /// The site's languages: `Accept-Language` becomes the best of them and part of the key.
    pub languages: Vec<String>,
    /// Further request fields that are part of the key.
    pub key_headers: Vec<HeaderName>,
    /// Edits of the request, made before anything else.
    pub request: Edits,
    /// Edits of the origin's response, made before anything else if the rule applies to its status
    /// ([`freshness::takes_part`]).
    pub answer: Edits,
    /// Edits of responses for clients, with those for all requests; `None` if the rule has none.
    pub client: Option<Arc<ClientEdits>>,
    /// Share of the requests that are logged, in percent.
    pub log_percent: u64,
    /// Maximum size in bytes of responses to store.
    pub store_max: Option<u64>,
    /// Maximum size in bytes of responses; larger ones are refused with 502 or cut off.
    pub answer_max: Option<u64>,
    /// True if requests that ask for another protocol are refused with 403.
    pub refuse_upgrades: bool,
    /// The rule's part of the key, if it has one. Computed by [`Rules::new`].
    pub mark: Option<HeaderValue>,
    /// Names of the fields that such a rule has conditions on, as a list for `Vary`. Computed by
    /// [`Rules::new`].
    pub condition_names: Option<HeaderValue>,
}

/// Part of a query sent to the origin with a GET or HEAD whose response may be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuerySend {
    /// The query of the key. Parameters outside the key cannot change the stored response.
    #[default]
    Key,
    /// The whole query.
    All,
}

/// Requests that a rule applies to. An empty list matches every request.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Names of reverse sites.
    pub sites: Vec<String>,
    /// Hosts of the URL.
    pub hosts: Vec<HostPattern>,
    /// Paths without query.
    pub paths: Vec<Pattern>,
    /// Methods; GET includes HEAD, which asks about the same object.
    pub methods: Vec<Method>,
    /// Conditions on fields, all of which must hold.
    pub headers: Vec<HeaderTest>,
}

/// A condition on a field: that it is present, or that it has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTest {
    name: HeaderName,
    value: Option<Pattern>,
    negated: bool,
}

impl Rules {
    /// Compiles these rules, in this order.
    pub fn new(list: Vec<Rule>) -> Rules {
        let marked = |rule: Rule| {
            let mark = rule.compute_mark();
            let condition_names = mark.as_ref().and_then(|_| rule.when.field_names());
            Arc::new(Rule { mark, condition_names, ..rule })
        };
        Rules::compiled(list.into_iter().map(marked).collect())
    }

    fn compiled(list: Vec<Arc<Rule>>) -> Rules {
        Rules { index: Arc::new(RuleIndex::new(&list)), list }
    }

    /// Adds these request fields to the key of every object. Requests that no rule of the operator
    /// matches get a rule with this `name` and the settings `base`.
    pub fn with_key_fields(mut self, name: &str, fields: &[HeaderName], base: &Settings) -> Rules {
        if fields.is_empty() {
            return self;
        }
        self.list.push(Arc::new(Rule::new(name.to_owned(), base.clone())));
        for rule in &mut self.list {
            Arc::make_mut(rule).key_headers.extend_from_slice(fields);
        }
        Rules::compiled(self.list)
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the rule of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Rule>> {
        self.list.iter().find(|rule| rule.name == name)
    }

    /// Returns whether a rule depends on [`RuleFacts::upgrade`].
    pub fn look_at_upgrades(&self) -> bool {
        self.index.looks_at_upgrades()
    }

    /// Returns the first rule that matches a request with these fields, each given with the value
    /// of one line.
    pub fn find<'f>(
        &self,
        asked: RuleFacts<'_>,
        fields: impl Iterator<Item = (&'f str, &'f [u8])>,
    ) -> Option<&Arc<Rule>> {
        self.list.get(self.index.find(asked, fields)?)
    }

    /// Returns every name that the object of `url` may have been stored under. Each rule for its
    /// host and path contributes a name, because the method and fields of the request are unknown
    /// here.
    pub fn names(&self, site: Option<&str>, url: &Url) -> Vec<Url> {
        let mut names = vec![url.clone()];
        for number in self.index.of_place(site, host(url), url.path_and_query()) {
            let name = self.list[number].query.apply(url);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl Rule {
    /// Creates a rule that changes nothing.
    pub fn new(name: String, settings: Settings) -> Rule {
        Rule {
            name,
            when: Condition::default(),
            bypass: false,
            settings,
            query: QueryRule::default(),
            query_send: QuerySend::Key,
            by_device: false,
            languages: Vec::new(),
            key_headers: Vec::new(),
            request: Edits::default(),
            answer: Edits::default(),
            client: None,
            log_percent: 100,
            store_max: None,
            answer_max: None,
            refuse_upgrades: false,
            mark: None,
            condition_names: None,
        }
    }

    /// Sets the request fields of this rule. Fields that it removes ([`Edits::remove`]) must
    /// already be gone.
    pub fn prepare(&self, fields: &mut impl EditFields) {
        self.request.set(fields);
        self.mark(fields);
        if self.by_device {
            let class = HeaderValue::from_static(DeviceClass::of(fields).name());
            fields.set_line(&DEVICE, &class);
        }
        let best = language::best(fields, &self.languages);
        if let Some(Ok(best)) = best.map(HeaderValue::from_str) {
            fields.set_line(&header::ACCEPT_LANGUAGE, &best);
        }
    }

    /// Returns the rule's mark if it is part of the key: request fields select such a rule, and the
    /// key does not contain them otherwise. The mark is a digest of the conditions, so a rule with
    /// other conditions counts as another rule, whatever its name.
    fn compute_mark(&self) -> Option<HeaderValue> {
        if self.when.headers.is_empty() || self.bypass {
            return None;
        }
        let conditions = format!("{:?}", self.when);
        let digest = digest::digest(&digest::SHA256, conditions.as_bytes());
        let hex =
            digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        HeaderValue::try_from(hex).ok()
    }

    /// Puts the rule's mark into a request that it decides, if the mark is part of the key.
    pub(crate) fn mark(&self, request: &mut impl EditFields) {
        if let Some(mark) = &self.mark {
            request.set_line(&DECIDED_BY, mark);
        }
    }

    /// Returns whether the rule sets this request field to a value without variables, which is not
    /// the client's.
    pub(crate) fn sets(&self, name: &HeaderName) -> bool {
        self.request.sets_fixed(name)
    }

    /// Returns whether the origin gets the key's query instead of the client's. Requests that
    /// bypass the cache, and methods that are not cached, keep the whole query.
    pub fn rewrites_query(&self, method: &Method) -> bool {
        self.query_send == QuerySend::Key
            && !self.bypass
            && MethodClass::of(method) == MethodClass::Cacheable
            && self.query != QueryRule::default()
    }

    /// Returns the request fields that are part of the key regardless of the origin's `Vary`.
    pub fn key_names(&self) -> impl Iterator<Item = HeaderName> {
        let rule = self.mark.is_some().then_some(DECIDED_BY);
        let device = self.by_device.then_some(DEVICE);
        let language = (!self.languages.is_empty()).then_some(header::ACCEPT_LANGUAGE);
        let added = rule.into_iter().chain(device).chain(language);
        added.chain(self.key_headers.iter().cloned())
    }

    /// Edits the head of an origin's response as the rule requires, and adds the key's fields to
    /// `Vary`. A page under the name of a file gets `no-store` if the rule would lengthen its
    /// lifetime ([`disguise`]). `status` is that of the stored response if a 304 confirms one.
    pub fn settle(&self, path: &str, status: StatusCode, fields: &mut HeaderMap, received: Time) {
        let takes_part = self.edit(status, fields, received);
        let lengthens = self.settings.lifetimes.lengthen(status, takes_part);
        let kind = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        if lengthens && disguise::is_disguised(path, kind) {
            fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        for name in self.key_names() {
            fields.append(header::VARY, HeaderValue::from(name));
        }
    }

    /// Edits the fields of a response if the rule applies to its status. Returns whether it does.
    pub fn edit(&self, status: StatusCode, fields: &mut HeaderMap, received: Time) -> bool {
        let takes_part = freshness::takes_part(status, fields, received, &self.settings);
        if takes_part {
            self.answer.apply(fields);
        }
        takes_part
    }

    /// Returns whether [`Rule::unfold_vary`] changes anything.
    pub(crate) fn unfolds_vary(&self) -> bool {
        self.by_device || self.mark.is_some()
    }

    /// Replaces fields in `Vary` that only the proxy knows by the client's fields that they derive
    /// from, for caches further downstream: the device kind by `User-Agent`, the rule mark by the
    /// fields that the rule tests.
    pub fn unfold_vary(&self, fields: &mut HeaderMap) {
        if !self.unfolds_vary() {
            return;
        }
        for (_, line) in fields.iter_mut().filter(|(name, _)| *name == header::VARY) {
            if let Some(unfolded) = self.unfolded(line.as_bytes()) {
                *line = unfolded;
            }
        }
    }

    /// Returns the replacement by [`Rule::unfold_vary`] for a line of `Vary`, if there is one.
    pub(crate) fn unfolded(&self, line: &[u8]) -> Option<HeaderValue> {
        let is = |known: &HeaderName| line.eq_ignore_ascii_case(known.as_str().as_bytes());
        match () {
            () if is(&DEVICE) => Some(HeaderValue::from_name(header::USER_AGENT)),
            () if is(&DECIDED_BY) => self.condition_names.clone(),
            () => None,
        }
    }
}

impl Condition {
    /// Returns the names of the fields that it tests, as a list.
    fn field_names(&self) -> Option<HeaderValue> {
        let names: Vec<&str> = self.headers.iter().map(|test| test.name.as_str()).collect();
        HeaderValue::try_from(names.join(", ")).ok()
    }
}

/// Returns the host of a URL without its port.
pub(crate) fn host(url: &Url) -> &str {
    let authority = url.authority();
    match authority.rfind(':') {
        Some(at) if !authority.ends_with(']') => &authority[..at],
        _ => authority,
    }
}

impl std::str::FromStr for HeaderTest {
    type Err = String;

    /// Parses `Name` (the field is present) or `Name: pattern` (a line of it matches, ignoring
    /// case); a leading `!` negates the condition.
    fn from_str(text: &str) -> Result<HeaderTest, String> {
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, value) = match rest.split_once(':') {
            Some((name, value)) => (name, Some(Pattern::ignoring_case(value.trim()))),
            None => (rest, None),
        };
        let name = name.trim().parse().map_err(|_| {
            format!("expected \"Name\", \"Name: pattern\" or one of them behind !, got {text:?}")
        })?;
        Ok(HeaderTest { name, value, negated })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
