//! The operator's rules, by which some requests are treated differently from the rest.
//!
//! A rule says which requests it is for (site, host, path, method, fields) and how they are
//! treated. Of all rules the first that fits applies, and no other, as with the access rules: the
//! list can be read from the top without remembering earlier rules. A setting that a rule leaves
//! out is that of the whole proxy.
//!
//! Rules may change the key of an object (parameters that do not count), so they must be applied
//! for every name under which something is stored, removed or purged: [`Rules::names`] returns all
//! names that a URL may have under any rule.
//!
//! The rules are compiled when they are loaded (`RuleIndex`), so that those that do not fit a
//! request cost it next to nothing.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, header};
use message::header_edits::Edits;
use ring::digest;
use semantics::device_class::DeviceClass;
use semantics::{
    EditFields, MethodClass, Pattern, QueryRule, Settings, Time, Url, disguise, freshness, language,
};

use crate::rules::access::HostPattern;
use crate::rules::request_rules::rule_index::RuleIndex;

mod rule_index;

/// The field that tells an origin the kind of a client's device.
pub(crate) const DEVICE: HeaderName = HeaderName::from_static("x-ua-device");

/// The field of a request that holds the mark of the rule which decides it, where that rule has
/// conditions on fields: part of the key, so that what is stored under such a rule answers only
/// requests that the same rule decides. It never leaves the proxy, and is never taken from a
/// client.
pub(crate) const DECIDED_BY: HeaderName = HeaderName::from_static("x-larder-rule");

/// Removes from a client's request what only the proxy says of rules. Also without any rule: what
/// was stored under one that is gone may still be there.
pub(crate) fn distrust(request: &mut impl EditFields) {
    request.remove_lines(&DECIDED_BY);
}

/// All rules, in their order.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Arc<Rule>>,
    index: Arc<RuleIndex>,
}

/// The facts of a request that a rule is chosen by, but for its fields.
#[derive(Clone, Copy, Debug)]
pub struct RuleQuery<'a> {
    /// The reverse site; `None` on a forward proxy.
    pub site: Option<&'a str>,
    /// The host of the URL that the request names, in any case and without a port.
    pub host: &'a str,
    /// The path and query of that URL, in its normal form.
    pub path: &'a str,
    /// The method.
    pub method: &'a str,
    /// It asks for another protocol, and so passes the cache.
    pub upgrade: bool,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name for people: the configured one, or its number in the list.
    pub name: String,
    /// The requests that it is for.
    pub when: Condition,
    /// They pass the cache: nothing is looked up and nothing stored.
    pub bypass: bool,
    /// The settings of caching for them.
    pub settings: Settings,
    /// The parameters that name an object.
    pub query: QueryRule,
    /// The part of the query that the origin is sent.
    pub query_send: QuerySend,
    /// Tell apart kinds of devices: `X-UA-Device` is set and part of the key.
    pub by_device: bool,
    /// The site's languages: `Accept-Language` becomes the best of them and part of the key.
    pub languages: Vec<String>,
    /// Further request fields that are part of the key.
    pub key_headers: Vec<HeaderName>,
    /// Edits of the request, made before anything else.
    pub request: Edits,
    /// Edits of the origin's answer, made before anything else, if its status takes part
    /// ([`freshness::takes_part`]).
    pub answer: Edits,
    /// Larger answers are not stored. Bytes.
    pub store_max: Option<u64>,
    /// Larger answers are refused with 502, or cut. Bytes.
    pub answer_max: Option<u64>,
    /// Requests that ask for another protocol are refused with 403.
    pub refuse_upgrades: bool,
    /// The rule's part of the key, if it has one; made by [`Rules::new`].
    pub mark: Option<HeaderValue>,
    /// The names of the fields that such a rule has conditions on, as in `Vary`; made by
    /// [`Rules::new`].
    pub condition_names: Option<HeaderValue>,
}

/// The part of a query that the origin is sent with a GET or HEAD whose response may be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuerySend {
    /// The query of the key: what is not in the key cannot change what is stored under it.
    #[default]
    Key,
    /// The whole query.
    All,
}

/// The requests that a rule is for. An empty list means any.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Names of reverse sites.
    pub sites: Vec<String>,
    /// Hosts of the URL.
    pub hosts: Vec<HostPattern>,
    /// Paths without query.
    pub paths: Vec<Pattern>,
    /// Methods; GET means HEAD as well, which asks about the same object.
    pub methods: Vec<Method>,
    /// All of these must hold.
    pub headers: Vec<HeaderTest>,
}

/// A condition on a field: it is there, or it has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTest {
    name: HeaderName,
    value: Option<Pattern>,
    negated: bool,
}

impl Rules {
    /// Makes the list of these rules, in this order.
    pub fn new(list: Vec<Rule>) -> Rules {
        let marked = |rule: Rule| {
            let mark = rule.made_mark();
            let condition_names = mark.as_ref().and_then(|_| rule.when.field_names());
            Arc::new(Rule { mark, condition_names, ..rule })
        };
        Rules::compiled(list.into_iter().map(marked).collect())
    }

    fn compiled(list: Vec<Arc<Rule>>) -> Rules {
        Rules { index: Arc::new(RuleIndex::new(&list)), list }
    }

    /// Makes these request fields part of the key of every object. `base` is the settings of
    /// requests that no rule of the operator is for: they get a rule of this `name`.
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

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the rule of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Rule>> {
        self.list.iter().find(|rule| rule.name == name)
    }

    /// Returns whether a rule depends on [`RuleQuery::upgrade`].
    pub fn look_at_upgrades(&self) -> bool {
        self.index.looks_at_upgrades()
    }

    /// Returns the rule for a request with these fields, each with the value of one line: the first
    /// that fits.
    pub fn find<'f>(
        &self,
        asked: RuleQuery<'_>,
        fields: impl Iterator<Item = (&'f str, &'f [u8])>,
    ) -> Option<&Arc<Rule>> {
        self.list.get(self.index.find(asked, fields)?)
    }

    /// Returns every name that the object of `url` may have been stored under: rules whose methods
    /// or fields are not known here may each have given it another one.
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
    /// Makes a rule that changes nothing.
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
            store_max: None,
            answer_max: None,
            refuse_upgrades: false,
            mark: None,
            condition_names: None,
        }
    }

    /// Sets the fields of a request that the rule sets, after those that it removes
    /// ([`Edits::remove`]) are gone.
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

    /// Returns the mark of a rule that is part of the key: it is chosen by the request's fields,
    /// which the key does not have otherwise. The mark is a digest of its conditions: a rule that
    /// has others is another one, whatever it is called.
    fn made_mark(&self) -> Option<HeaderValue> {
        if self.when.headers.is_empty() || self.bypass {
            return None;
        }
        let conditions = format!("{:?}", self.when);
        let digest = digest::digest(&digest::SHA256, conditions.as_bytes());
        let hex =
            digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        HeaderValue::try_from(hex).ok()
    }

    /// Puts the mark of the rule into a request that it decides, where it is part of the key.
    pub(crate) fn mark(&self, request: &mut impl EditFields) {
        if let Some(mark) = &self.mark {
            request.set_line(&DECIDED_BY, mark);
        }
    }

    /// Returns whether a field of the request is the rule's, not the client's.
    pub(crate) fn sets(&self, name: &HeaderName) -> bool {
        self.request.sets(name)
    }

    /// Returns whether the origin is sent another query than the client's: that of the key.
    /// Requests that pass the cache, and methods that are not cached, are sent whole.
    pub fn rewrites_query(&self, method: &Method) -> bool {
        self.query_send == QuerySend::Key
            && !self.bypass
            && MethodClass::of(method) == MethodClass::Cacheable
            && self.query != QueryRule::default()
    }

    /// Returns the request fields that are part of the key, whatever the origin says.
    pub fn key_names(&self) -> impl Iterator<Item = HeaderName> {
        let rule = self.mark.is_some().then_some(DECIDED_BY);
        let device = self.by_device.then_some(DEVICE);
        let language = (!self.languages.is_empty()).then_some(header::ACCEPT_LANGUAGE);
        let added = rule.into_iter().chain(device).chain(language);
        added.chain(self.key_headers.iter().cloned())
    }

    /// Edits the head of an origin's answer as the rule requires: the fields of the key are in
    /// `Vary` from here on. A page under the name of a file is for its client only ([`disguise`]).
    /// `status` is that of the stored answer that a 304 confirms.
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

    /// Edits the fields of an answer if its status takes part. Returns whether it does.
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

    /// Replaces the fields in `Vary` that only the proxy knows by those that they follow from, for
    /// the caches of clients: the kind of a device by `User-Agent`, the rule by the fields that it
    /// is chosen by.
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

    /// Returns what [`Rule::unfold_vary`] puts in place of a line of `Vary`, if anything.
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

    /// Reads `Name` (it is there), `Name: pattern` (a line of it fits, without regard to case), or
    /// one of them behind a `!` (it is not so).
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
