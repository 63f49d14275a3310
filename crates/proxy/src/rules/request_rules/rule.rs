//! One rule: the requests that it is for, and how they are treated; and several rules taken
//! together.

use std::fmt;
use std::sync::Arc;

use compression::Coding;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, header};
use ring::digest;
use semantics::device_class::DeviceClass;
use semantics::ignored_fields::IGNORED;
use semantics::settings::lifetimes::StatusPattern;
use semantics::{
    EditFields, MethodClass, QueryRule, Settings, Time, Url, disguise, freshness, ignored_fields,
    language,
};

use crate::message::cookies;
use crate::message::cookies::CookieFilter;
use crate::message::header_edits::Edits;
use crate::rules::classes::{Class, ClassValues, KEY_CLASSES};
use crate::rules::client_edits::ClientEdits;
use crate::rules::request_rules::action::Actions;
use crate::rules::request_rules::condition::{Condition, PathTest};
use crate::rules::request_rules::key_path::KeyPath;
use crate::rules::request_rules::location_rewrite;
use crate::rules::request_rules::location_rewrite::LocationRewrite;
use crate::rules::request_rules::response_rule::{DECISION, ResponseRules};
use crate::rules::request_rules::substitution::Substitution;

/// The field that tells an origin the kind of a client's device.
pub(crate) const DEVICE: HeaderName = HeaderName::from_static("x-ua-device");

/// Request field with the mark of the rule that decides the request, if that rule has conditions on
/// fields. It is part of the key, so that objects stored under such a rule answer only requests
/// that the same rule decides. It never leaves the proxy and is never accepted from a client.
pub(crate) const DECIDED_BY: HeaderName = HeaderName::from_static("x-larder-rule");

/// Request field with the cookies that are part of the key. Otherwise like [`DECIDED_BY`].
pub(crate) const KEY_COOKIES: HeaderName = HeaderName::from_static("x-larder-cookies");

/// Between the names of rules that are taken together.
pub(super) const AND: &str = " + ";

/// Name of the rule of requests that no rule matches, where one might have.
pub(super) const NONE: &str = "(none)";

/// Keys of a rule that matter to clients of one node alone.
const FOR_CLIENTS: [&str; 5] = ["client-set", "client-remove", "error-page", "hide", "log-percent"];

/// Beginnings of the keys of a rule that decide which requests are admitted.
const GUARDS: [&str; 3] = ["limit-", "basic-auth", "realm"];

/// Beginning of the key of a rule whose responses replace those stored for all clients.
const REFRESH: &str = "refresh = ";

/// Conditions, and the treatment of requests that meet them.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Name for display: the configured one, or the rule's number in the list.
    pub name: String,
    /// Name of the rule and a digest of what it states, by which other nodes know it. Computed by
    /// `Rule::identified`.
    pub id: String,
    /// The requests that the rule applies to.
    pub when: Condition,
    /// True if the requests bypass the cache: nothing is looked up or stored.
    pub bypass: bool,
    /// True if later rules are tried too, and taken together with this one (`Rule::then`).
    pub continues: bool,
    /// The keys that the rule states, as `key = value`, for display.
    pub states: Vec<String>,
    /// The caching settings for the requests.
    pub settings: Settings,
    /// The changes that the rule makes to the settings of earlier rules.
    pub layer: SettingsLayer,
    /// The query parameters that name an object.
    pub query: QueryRule,
    /// The path in the key, if it is not that of the URL.
    pub key_path: Option<Arc<KeyPath>>,
    /// The part of the query that is sent to the origin.
    pub query_send: QuerySend,
    /// True if devices are told apart by kind: `X-UA-Device` is set and part of the key.
    pub by_device: bool,
    /// The site's languages: `Accept-Language` becomes the best of them and part of the key.
    pub languages: Vec<String>,
    /// Further request fields that are part of the key.
    pub key_headers: Vec<HeaderName>,
    /// Names of cookies that are part of the key.
    pub key_cookies: Vec<String>,
    /// Classes that are part of the key.
    pub key_classes: Vec<Arc<Class>>,
    /// Classes among the variables of the rule, and those of the key.
    pub classes: Vec<Arc<Class>>,
    /// Edits of the request, made before anything else.
    pub request: Edits,
    /// Cookies that are removed from the request.
    pub cookies: CookieFilter,
    /// Edits of the origin's response, made before anything else.
    pub answer: Vec<AnswerEdits>,
    /// Fields of the origin's response that are ignored, whatever its status
    /// ([`semantics::ignored_fields`]).
    pub ignored: Vec<HeaderName>,
    /// Changes of URLs in the origin's response, whatever its status.
    pub locations: Vec<LocationRewrite>,
    /// Texts replaced in the bodies of responses; `None` if there are none.
    pub substitution: Option<Arc<Substitution>>,
    /// Entries for some of the responses; `None` if there are no such entries.
    pub responses: Option<Arc<ResponseRules>>,
    /// The actions on the requests themselves; `None` if there are none.
    pub actions: Option<Arc<Actions>>,
    /// Paths of the condition, whose stars and groups the variables `{capture.N}` stand for. Of
    /// several rules, those of the last one that uses such variables.
    pub paths: Vec<PathTest>,
    /// True if the rule has texts with `{capture.N}`.
    pub uses_captures: bool,
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
    /// The codings in which responses are compressed; `None`: those of the whole proxy.
    pub compress: Option<Vec<Coding>>,
    /// The rule's part of the key, if it has one. Computed by `Rule::marked`.
    pub mark: Option<HeaderValue>,
    /// True if requests of the same place may have a mark. Then the mark, or that there is none, is
    /// part of the key.
    pub is_by_mark: bool,
    /// Names of the fields that the choice of the rule depends on, as a list for `Vary`.
    pub condition_names: Option<HeaderValue>,
    /// The rules that were taken together; none for a single rule.
    pub parts: Vec<Arc<Rule>>,
}

/// Edits of responses with some statuses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerEdits {
    /// The statuses, as in [`Lifetimes::statuses`](semantics::Lifetimes::statuses).
    pub statuses: Option<Vec<StatusPattern>>,
    /// The edits.
    pub edits: Edits,
}

/// A response of the origin that a rule settles.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// Its status.
    pub status: StatusCode,
    /// The status of the stored response that it confirms if it is a 304.
    pub confirms: StatusCode,
    /// The fields of that response, if one was asked about.
    pub confirmed: Option<&'a HeaderMap>,
}

impl Settled<'_> {
    fn is_304(&self) -> bool {
        self.status == StatusCode::NOT_MODIFIED
    }

    /// Returns the status that the rule is applied to.
    pub fn status(&self) -> StatusCode {
        if self.is_304() { self.confirms } else { self.status }
    }

    /// Returns whether the response has what entries look at. A 304 alone has not: the decision on
    /// the response that it is about stands.
    fn can_be_decided(&self) -> bool {
        !self.is_304() || self.confirmed.is_some()
    }
}

/// Changes to caching settings.
#[derive(Clone)]
pub struct SettingsLayer(Arc<dyn Fn(&mut Settings) + Send + Sync>);

impl SettingsLayer {
    /// Creates a layer from the function that applies it.
    pub fn new(apply: impl Fn(&mut Settings) + Send + Sync + 'static) -> SettingsLayer {
        SettingsLayer(Arc::new(apply))
    }
}

impl Default for SettingsLayer {
    fn default() -> SettingsLayer {
        SettingsLayer::new(|_| {})
    }
}

impl fmt::Debug for SettingsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SettingsLayer")
    }
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

impl Rule {
    /// Creates a rule that changes nothing.
    pub fn new(name: String, settings: Settings) -> Rule {
        Rule {
            id: name.clone(),
            name,
            when: Condition::default(),
            bypass: false,
            continues: false,
            states: Vec::new(),
            settings,
            layer: SettingsLayer::default(),
            query: QueryRule::default(),
            key_path: None,
            query_send: QuerySend::Key,
            by_device: false,
            languages: Vec::new(),
            key_headers: Vec::new(),
            key_cookies: Vec::new(),
            key_classes: Vec::new(),
            classes: Vec::new(),
            request: Edits::default(),
            cookies: CookieFilter::default(),
            answer: Vec::new(),
            ignored: Vec::new(),
            locations: Vec::new(),
            substitution: None,
            responses: None,
            actions: None,
            paths: Vec::new(),
            uses_captures: false,
            client: None,
            log_percent: 100,
            store_max: None,
            answer_max: None,
            refuse_upgrades: false,
            compress: None,
            mark: None,
            is_by_mark: false,
            condition_names: None,
            parts: Vec::new(),
        }
    }

    /// Returns the rule with its id.
    pub(super) fn identified(self) -> Rule {
        let is_for_clients =
            |state: &&String| FOR_CLIENTS.iter().chain(&GUARDS).any(|key| state.starts_with(*key));
        let states: Vec<_> = self.states.iter().filter(|state| !is_for_clients(state)).collect();
        let mut told = format!("{:?} {} {states:?}", self.when, self.continues);
        // Tables of their own are not in `states` as a whole.
        if let Some(responses) = &self.responses {
            told.push_str(responses.digest());
        }
        if let Some(substitution) = &self.substitution {
            told.push_str(&substitution.told());
        }
        let is_capture = |text: &str| text.contains("{capture.");
        let uses_captures = is_capture(&told) || self.states.iter().any(|text| is_capture(text));
        let digest = digest_of(told.as_bytes());
        let digest = digest.to_str().ok().and_then(|hex| hex.get(..12)).unwrap_or_default();
        Rule { id: format!("{}#{digest}", self.name), uses_captures, ..self }
    }

    /// Returns the rule with its part of the key: a digest of the conditions, if they look at what
    /// the key does not contain. `changes_query` is true if a rule changes the query of the key. A
    /// rule with other conditions counts as another rule, whatever its name.
    pub(super) fn marked(self, changes_query: bool) -> Rule {
        let answers = self.actions.as_ref().is_some_and(|of| of.is_answered());
        let keeps_key =
            |state: &String| GUARDS.iter().chain([&REFRESH]).any(|key| state.starts_with(*key));
        // Guards do not change responses, and `refresh` replaces them for all clients: neither
        // needs a key of its own.
        let changes_key =
            !self.continues || self.states.is_empty() || !self.states.iter().all(keeps_key);
        let needs_mark = !self.bypass && !answers && changes_key;
        if !needs_mark || !self.when.looks_past_key(changes_query) {
            return self;
        }
        let mark = Some(digest_of(format!("{:?}", self.when).as_bytes()));
        let mut names = Vec::new();
        self.when.add_names(&mut names);
        Rule { mark, is_by_mark: true, condition_names: listed(names.iter()), ..self }
    }

    /// Returns this rule and a later one taken together. Where both state a value, that of the
    /// later one holds; lists and edits add up, in the order of the rules.
    pub(super) fn then(self: &Arc<Rule>, later: &Arc<Rule>) -> Rule {
        let mut settings = self.settings.clone();
        (later.layer.0)(&mut settings);
        let mut parts = if self.parts.is_empty() { vec![self.clone()] } else { self.parts.clone() };
        parts.push(later.clone());
        let languages = if later.languages.is_empty() { &self.languages } else { &later.languages };
        let mut key_headers = self.key_headers.clone();
        let added = later.key_headers.iter().filter(|name| !self.key_headers.contains(name));
        key_headers.extend(added.cloned());
        let mut key_cookies = self.key_cookies.clone();
        let added = later.key_cookies.iter().filter(|name| !self.key_cookies.contains(name));
        key_cookies.extend(added.cloned());
        let key_classes = union(&self.key_classes, &later.key_classes);
        let send_all = [self.query_send, later.query_send].contains(&QuerySend::All);
        let marks: Vec<&[u8]> =
            [self, later].iter().filter_map(|rule| Some(rule.mark.as_ref()?.as_bytes())).collect();
        Rule {
            name: format!("{}{AND}{}", self.name, later.name),
            id: format!("{}{AND}{}", self.id, later.id),
            when: Condition::default(),
            bypass: self.bypass || later.bypass,
            continues: later.continues,
            states: Vec::new(),
            settings,
            layer: SettingsLayer::default(),
            query: self.query.then(&later.query),
            key_path: later.key_path.as_ref().or(self.key_path.as_ref()).cloned(),
            query_send: if send_all { QuerySend::All } else { QuerySend::Key },
            by_device: self.by_device || later.by_device,
            languages: languages.clone(),
            key_headers,
            key_cookies,
            key_classes,
            classes: union(&self.classes, &later.classes),
            request: self.request.then(&later.request),
            cookies: self.cookies.then(&later.cookies),
            answer: [&self.answer[..], &later.answer].concat(),
            ignored: [&self.ignored[..], &later.ignored].concat(),
            locations: [&self.locations[..], &later.locations].concat(),
            substitution: later.substitution.as_ref().or(self.substitution.as_ref()).cloned(),
            responses: match (&self.responses, &later.responses) {
                (Some(ours), Some(theirs)) => ours.then(theirs),
                (ours, theirs) => ours.as_ref().or(theirs.as_ref()).cloned(),
            },
            actions: match (&self.actions, &later.actions) {
                (Some(ours), Some(theirs)) => Some(Arc::new(ours.then(theirs))),
                (ours, theirs) => ours.as_ref().or(theirs.as_ref()).cloned(),
            },
            paths: self.paths_with(later).clone(),
            uses_captures: self.uses_captures || later.uses_captures,
            client: match (&self.client, &later.client) {
                (Some(ours), Some(theirs)) => Some(Arc::new(ours.then(theirs))),
                (ours, theirs) => ours.as_ref().or(theirs.as_ref()).cloned(),
            },
            log_percent: self.log_percent.min(later.log_percent),
            store_max: later.store_max.or(self.store_max),
            answer_max: later.answer_max.or(self.answer_max),
            refuse_upgrades: self.refuse_upgrades || later.refuse_upgrades,
            compress: later.compress.as_ref().or(self.compress.as_ref()).cloned(),
            mark: (!marks.is_empty()).then(|| digest_of(&marks.concat())),
            is_by_mark: self.is_by_mark || later.is_by_mark,
            condition_names: self.names_with(later),
            parts,
        }
    }

    /// Returns this rule for requests that `other` might have matched and did not.
    pub(super) fn without(&self, other: &Rule) -> Rule {
        Rule { is_by_mark: true, condition_names: self.names_with(other), ..self.clone() }
    }

    /// Returns the paths for the captures of both. A rule without texts that use them must not
    /// change those of another, since the key may not tell whether it matched.
    fn paths_with<'r>(&'r self, later: &'r Rule) -> &'r Vec<PathTest> {
        let keeps_ours = self.uses_captures || later.paths.is_empty();
        if keeps_ours && !later.uses_captures { &self.paths } else { &later.paths }
    }

    fn names_with(&self, other: &Rule) -> Option<HeaderValue> {
        let names = |rule: &Rule| rule.condition_names.clone();
        match (names(self), names(other)) {
            (Some(ours), Some(theirs)) if ours != theirs => listed([ours, theirs].iter()),
            (ours, theirs) => ours.or(theirs),
        }
    }

    /// Returns whether this is the rule of requests that no rule matches, where one might have.
    pub fn is_for_the_rest(&self) -> bool {
        self.name == NONE
    }

    /// Returns the name of the rule, unless it is that of requests that no rule matches.
    pub(crate) fn shown_name(&self) -> Option<&str> {
        (!self.is_for_the_rest()).then_some(&self.name)
    }

    /// Returns whether the rule keeps requests or responses from the cache, or requests from the
    /// origin. Such a rule is for every spelling of a path and of a method.
    pub(super) fn keeps_out(&self) -> bool {
        self.bypass
            || !self.settings.store
            || self.actions.as_ref().is_some_and(|actions| actions.keeps_out())
    }

    /// Returns whether requests with this method may be answered from the cache or the origin.
    pub(crate) fn lets_through(&self, method: &Method) -> bool {
        let allows = |actions: &Arc<Actions>| !actions.is_answered() && actions.allows(method);
        !self.bypass && self.actions.as_ref().is_none_or(allows)
    }

    /// Returns what the star or group of this number, from 1, stands for in a path without query.
    pub(crate) fn capture<'p>(&self, path: &'p str, number: usize) -> Option<&'p str> {
        let captures = self.paths.iter().find_map(|test| test.captures(path.as_bytes()))?;
        path.get(captures.get(number.checked_sub(1)?)?.clone())
    }

    /// Removes the request fields and cookies that this rule removes.
    pub fn remove(&self, fields: &mut impl EditFields) {
        self.request.remove(fields);
        self.cookies.apply(fields);
    }

    /// Sets the request fields of this rule. Fields that it removes ([`Rule::remove`]) must already
    /// be gone.
    pub(crate) fn prepare(&self, fields: &mut impl EditFields, classes: &ClassValues) {
        self.request.set(fields);
        self.mark(fields, classes);
        if self.by_device {
            let class = HeaderValue::from_static(DeviceClass::of(fields).name());
            fields.set_line(&DEVICE, &class);
        }
        let best = language::best(fields, &self.languages);
        if let Some(Ok(best)) = best.map(HeaderValue::from_str) {
            fields.set_line(&header::ACCEPT_LANGUAGE, &best);
        }
    }

    /// Puts the rule's mark, and the cookies and classes of the key, into a request that it
    /// decides.
    pub(crate) fn mark(&self, request: &mut impl EditFields, classes: &ClassValues) {
        if !self.key_classes.is_empty() {
            request.set_line(&KEY_CLASSES, &classes.key(&self.key_classes));
        }
        if !self.key_cookies.is_empty() {
            let named = cookies::named(request, &self.key_cookies);
            request.set_line(&KEY_COOKIES, &named);
        }
        if let Some(mark) = &self.mark {
            request.set_line(&DECIDED_BY, mark);
        }
    }

    /// Returns whether the rule sets this request field to a value without variables, which is not
    /// the client's.
    pub(crate) fn sets(&self, name: &HeaderName) -> bool {
        self.request.sets_fixed(name)
    }

    /// Returns whether objects are stored under the URL of the request.
    pub(crate) fn is_named_by_url(&self) -> bool {
        self.query.is_default() && self.key_path.is_none()
    }

    /// Returns the URL under which the object of `url` is stored.
    pub(crate) fn key_url(&self, url: &Url) -> Url {
        let url = self.query.apply(url);
        match &self.key_path {
            Some(key_path) => key_path.apply(&url).into_owned(),
            None => url,
        }
    }

    /// Returns whether the origin gets the key's query instead of the client's. Requests that
    /// bypass the cache, and methods that are not cached, keep the whole query.
    pub fn rewrites_query(&self, method: &Method) -> bool {
        self.query_send == QuerySend::Key
            && !self.bypass
            && MethodClass::of(method) == MethodClass::Cacheable
            && !self.query.is_default()
    }

    /// Returns the request fields that are part of the key regardless of the origin's `Vary`.
    pub fn key_names(&self) -> impl Iterator<Item = &HeaderName> {
        static OWN: [HeaderName; 5] =
            [DECIDED_BY, DEVICE, header::ACCEPT_LANGUAGE, KEY_COOKIES, KEY_CLASSES];
        let are_used = [
            self.is_by_mark,
            self.by_device,
            !self.languages.is_empty(),
            !self.key_cookies.is_empty(),
            !self.key_classes.is_empty(),
        ];
        let used = OWN.iter().zip(are_used).filter(|(_, is_used)| *is_used);
        used.map(|(name, _)| name).chain(&self.key_headers)
    }

    /// Returns the fields of [`Rule::key_names`] with the keys of the rule that put them there.
    pub(crate) fn key_fields(&self) -> Vec<(HeaderName, &'static str)> {
        let key = |name: &HeaderName| {
            let key = match () {
                () if name == DECIDED_BY => "conditions of rules",
                () if name == DEVICE && self.by_device => "key-device",
                () if name == header::ACCEPT_LANGUAGE && !self.languages.is_empty() => {
                    "key-languages"
                }
                () if name == KEY_COOKIES => "key-cookies",
                () if name == KEY_CLASSES => "key-classes",
                () => "key-headers",
            };
            (name.clone(), key)
        };
        self.key_names().map(key).collect()
    }

    /// Edits the head of an origin's response as the rule requires, and adds the key's fields to
    /// `Vary`. A page under the name of a file gets `no-store` if the rule would lengthen its
    /// lifetime ([`disguise`]). Decides on the entries for responses, and notes the decision and
    /// the ignored fields.
    pub fn settle(&self, path: &str, of: Settled<'_>, fields: &mut HeaderMap, received: Time) {
        let (status, mut decided) = (of.status(), None);
        if let Some(responses) = self.responses.as_ref().filter(|_| of.can_be_decided()) {
            fields.insert(DECISION, responses.decide(status, fields, of.confirmed));
            decided = self.decided(status, fields);
        }
        let rule = decided.as_ref().unwrap_or(self);
        let kind = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_disguised = disguise::is_disguised(path, kind);
        if self.responses.is_none() || of.can_be_decided() {
            rule.note_ignored(of.is_304(), is_disguised, fields);
        }
        location_rewrite::rewrite(&self.locations, fields);
        let takes_part = rule.edit(status, fields, received);
        if is_disguised && rule.settings.lifetimes.lengthen(status, takes_part) {
            fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        for name in self.key_names() {
            fields.append(header::VARY, HeaderValue::from(name.clone()));
        }
    }

    /// Notes the ignored fields in a response. A 304 also says that there are none. No field of a
    /// page under the name of a file is ignored, since that could lengthen its lifetime.
    fn note_ignored(&self, is_304: bool, is_disguised: bool, fields: &mut HeaderMap) {
        let names = if is_disguised { &[] } else { &self.ignored[..] };
        if is_304 || !names.is_empty() {
            fields.insert(IGNORED, ignored_fields::value_of(names, self.key_names()));
        }
    }

    /// Edits the fields of a response if the rule applies to its status. Returns whether its
    /// lifetimes do.
    pub fn edit(&self, status: StatusCode, fields: &mut HeaderMap, received: Time) -> bool {
        let takes_part = freshness::takes_part(status, fields, received, &self.settings);
        let applies = |statuses: &Option<Vec<StatusPattern>>| {
            if *statuses == self.settings.lifetimes.statuses {
                return takes_part;
            }
            let mut settings = self.settings.clone();
            settings.lifetimes.statuses.clone_from(statuses);
            freshness::takes_part(status, fields, received, &settings)
        };
        let applying: Vec<&Edits> = (self.answer.iter())
            .filter(|answer| applies(&answer.statuses))
            .map(|answer| &answer.edits)
            .collect();
        // What the operator sets is not ignored.
        let is_set = |name: &&HeaderName| applying.iter().any(|edits| edits.sets(name));
        let (own, left): (Vec<_>, Vec<_>) = self.ignored.iter().partition(is_set);
        if !own.is_empty() && fields.get(IGNORED).is_some_and(|names| !names.is_empty()) {
            let left: Vec<HeaderName> = left.into_iter().cloned().collect();
            fields.insert(IGNORED, ignored_fields::value_of(&left, self.key_names()));
        }
        applying.into_iter().for_each(|edits| edits.apply(fields));
        takes_part
    }

    /// Returns the names of the client's fields that the choice of the rule depends on, as a list.
    pub(crate) fn choice_names(&self) -> Option<HeaderValue> {
        let mut names = Vec::new();
        let parts = if self.parts.is_empty() { &[] } else { &self.parts[..] };
        self.when.add_names(&mut names);
        parts.iter().for_each(|part| part.when.add_names(&mut names));
        listed(names.iter()).or_else(|| self.condition_names.clone())
    }

    /// Returns whether [`Rule::unfold_vary`] changes anything.
    pub(crate) fn unfolds_vary(&self) -> bool {
        self.by_device
            || self.is_by_mark
            || !self.key_cookies.is_empty()
            || !self.key_classes.is_empty()
    }

    /// Returns whether the rule or its classes look at the client's address.
    pub(super) fn looks_at_client(&self) -> bool {
        self.when.looks_at_client() || self.classes.iter().any(|class| class.looks_at_client())
    }

    /// Returns the names of the client's fields that the classes of the key depend on, as a list.
    fn class_names(&self) -> Option<HeaderValue> {
        let mut names = Vec::new();
        self.key_classes.iter().for_each(|class| class.add_names(&mut names));
        listed(names.iter())
    }

    /// Replaces fields in `Vary` that only the proxy knows by the client's fields that they derive
    /// from, for caches further downstream: the device kind by `User-Agent`, the rule mark by the
    /// fields that the rule tests, classes by the fields that they read.
    pub fn unfold_vary(&self, fields: &mut HeaderMap) {
        if !self.unfolds_vary() {
            return;
        }
        let lines = fields.get_all(header::VARY).iter();
        let lines = lines.map(|line| self.unfolded(line.as_bytes()).unwrap_or(line.clone()));
        let lines: Vec<HeaderValue> = lines.filter(|line| !line.is_empty()).collect();
        fields.remove(header::VARY);
        for line in lines {
            fields.append(header::VARY, line);
        }
    }

    /// Returns the replacement by [`Rule::unfold_vary`] for a line of `Vary`, if there is one; an
    /// empty one for a line that is left out.
    pub(crate) fn unfolded(&self, line: &[u8]) -> Option<HeaderValue> {
        let is = |known: &HeaderName| line.eq_ignore_ascii_case(known.as_str().as_bytes());
        match () {
            () if is(&DEVICE) => Some(HeaderValue::from_name(header::USER_AGENT)),
            () if is(&KEY_COOKIES) => Some(HeaderValue::from_name(header::COOKIE)),
            () if is(&KEY_CLASSES) => {
                Some(self.class_names().unwrap_or(HeaderValue::from_static("")))
            }
            () if is(&DECIDED_BY) => self.condition_names.clone(),
            () => None,
        }
    }
}

/// Returns the classes of both lists, each once.
fn union(one: &[Arc<Class>], other: &[Arc<Class>]) -> Vec<Arc<Class>> {
    let added = other.iter().filter(|class| !one.iter().any(|known| Arc::ptr_eq(known, class)));
    one.iter().chain(added).cloned().collect()
}

/// Returns a digest as 32 hexadecimal digits.
pub(super) fn digest_of(bytes: &[u8]) -> HeaderValue {
    let digest = digest::digest(&digest::SHA256, bytes);
    let hex: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(hex).unwrap_or(HeaderValue::from_static("rule"))
}

/// Returns the names in these lists as one field value, each once; `None` if there are none.
fn listed<'a>(lists: impl Iterator<Item = &'a HeaderValue>) -> Option<HeaderValue> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b',')) {
        let name = name.trim_ascii();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { None } else { HeaderValue::try_from(names.join(&b", "[..])).ok() }
}
