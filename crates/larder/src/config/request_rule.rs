//! One `[[rule]]`: the settings for some requests. Its keys, and their translation for the proxy.
//!
//! The proxy's own types check the values; this module names the key of an invalid one.

use std::sync::Arc;

use compression::Coding;
use http::{HeaderName, header};
use proxy::message::cookies::CookieFilter;
use proxy::message::header_edits::Edits;
use proxy::rules::basic_auth::CREDENTIALS;
use proxy::rules::classes;
use proxy::rules::classes::{Class, Classes};
use proxy::rules::client_edits::ClientEdits;
use proxy::rules::request_rules;
use proxy::rules::request_rules::{
    AnswerEdits, Condition, KeyPath, LocationRewrite, QuerySend, SettingsLayer,
};
use semantics::{Lifetimes, Pattern, QueryRule, Settings};

use crate::config::rule_actions::RuleActions;
use crate::config::rule_condition::{RuleCondition, Tests, Wrong, parse_all};
use crate::config::rule_response::{RuleResponse, edits};
use crate::config::rule_substitute::RuleSubstitution;
use crate::config::setting::OwnKey;
use crate::config::status_times;
use crate::config::value::Value;

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RequestRule {
    pub name: Option<String>,
    pub when: RuleCondition,
    pub then: Then,
    /// The keys that the rule states, as written.
    pub states: Vec<String>,
    pub actions: RuleActions,
    /// Entries for some of the responses.
    pub responses: Vec<RuleResponse>,
    pub bypass: bool,
    /// The keys that differ from `[caching]`.
    pub own: Vec<OwnKey<Settings>>,
    pub query_keep: Vec<String>,
    pub query_drop: Vec<String>,
    pub query_sort: bool,
    pub query_send: QuerySend,
    pub key_path: Option<String>,
    pub key_headers: Vec<String>,
    pub key_cookies: Vec<String>,
    pub key_classes: Vec<String>,
    pub cookie_keep: Vec<String>,
    pub cookie_remove: Vec<String>,
    pub key_device: bool,
    pub key_languages: Vec<String>,
    pub request_set: Vec<String>,
    pub request_remove: Vec<String>,
    pub answer_set: Vec<String>,
    pub answer_remove: Vec<String>,
    pub answer_ignore: Vec<HeaderName>,
    pub location_rewrite: Vec<String>,
    pub substitution: RuleSubstitution,
    pub client_set: Vec<String>,
    pub client_remove: Vec<String>,
    pub hide: Vec<HeaderName>,
    pub log_percent: u64,
    pub store_max: Option<u64>,
    pub answer_max: Option<u64>,
    pub refuse_upgrades: bool,
    /// `None`: as for all.
    pub compress: Option<Vec<Coding>>,
}

/// The step after a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// The rule decides.
    #[default]
    Stop,
    /// The rule adds to the next ones.
    Continue,
}

impl RequestRule {
    /// Returns the name of the rule; `number` counts from 1.
    pub fn called(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("rule {number}"))
    }

    /// Returns a key that lengthens lifetimes although the rule applies to any reading of its
    /// URLs, because others of its keys do.
    pub fn loose_lifetime(&self) -> Option<&'static str> {
        let RuleActions { guards, allow_methods, .. } = &self.actions;
        let is_loose = guards.is_any() || !allow_methods.is_empty();
        let lengthens = |key: &&str| ["ttl", "default-ttl", "min-ttl"].contains(key);
        let key = self.own.iter().map(|own| own.key).find(lengthens);
        key.filter(|_| is_loose && self.when.is.looks_at_path())
    }

    /// Returns the rule as the proxy uses it. `number` counts from 1; `base` applies where the rule
    /// has no value.
    pub fn to_proxy(
        &self,
        number: usize,
        base: &Settings,
        classes: &Classes,
    ) -> Result<request_rules::Rule, Wrong> {
        let name = self.called(number);
        let settings = self.settings(base)?;
        let when = self.when.to_proxy(classes)?;
        let own = self.own.clone();
        Ok(request_rules::Rule {
            paths: when.paths.clone(),
            continues: self.then == Then::Continue,
            states: self.states.clone(),
            layer: SettingsLayer::new(move |settings| OwnKey::apply_all(&own, settings)),
            bypass: self.bypass,
            query: QueryRule {
                keep: kept(&self.query_keep),
                drop: patterns(&self.query_drop),
                sorted: self.query_sort,
            },
            key_path: self.key_path(&when)?,
            query_send: self.query_send,
            by_device: self.key_device,
            languages: self.languages()?,
            key_headers: parse_all("key-headers", &self.key_headers)?,
            request: self.request_edits()?,
            key_cookies: cookie_names("key-cookies", &self.key_cookies, &['*'])?,
            key_classes: self.key_classes(classes)?,
            classes: named("classes", self.class_names().iter(), classes)?,
            cookies: CookieFilter {
                keep: kept(&cookie_names("cookie-keep", &self.cookie_keep, &[])?),
                remove: patterns(&cookie_names("cookie-remove", &self.cookie_remove, &[])?),
            },
            answer: self.answer_edits(&settings)?,
            ignored: self.answer_ignore.clone(),
            locations: self.locations()?,
            substitution: self.substitution.to_proxy()?,
            responses: RuleResponse::all_to_proxy(&self.responses)?,
            actions: self.actions.to_proxy(&name)?,
            client: self.client_edits()?,
            log_percent: self.log_percent,
            store_max: self.store_max,
            answer_max: self.answer_max,
            refuse_upgrades: self.refuse_upgrades,
            compress: self.compress.clone(),
            when,
            ..request_rules::Rule::new(name, settings)
        })
    }

    fn key_path(&self, when: &Condition) -> Result<Option<Arc<KeyPath>>, Wrong> {
        let Some(text) = &self.key_path else { return Ok(None) };
        let key_path = KeyPath::parse(text, &when.paths).map_err(|why| ("key-path", why))?;
        Ok(Some(Arc::new(key_path)))
    }

    /// Returns the edits of the request. Credentials of the proxy replace those of the client, and
    /// credentials for the proxy itself are taken out, so that the response is that of any client.
    fn request_edits(&self) -> Result<Edits, Wrong> {
        let is_authorization = |line: &String| {
            let name = line.split(':').next().unwrap_or_default();
            name.trim().eq_ignore_ascii_case("authorization")
        };
        let mut remove = self.request_remove.clone();
        if self.actions.credentials.is_some() {
            if self.request_set.iter().any(is_authorization) {
                let text = "expected either credentials or Authorization in request-set";
                return Err(("credentials", text.to_owned()));
            }
            remove.push("Authorization".to_owned());
        }
        let own = edits("request-set", &self.request_set, &remove)?;
        if self.actions.guards.basic_auth.is_none() {
            return Ok(own);
        }
        let set = format!("{CREDENTIALS}: {{header.authorization}}");
        Ok(edits("request-set", &[set], &["authorization".to_owned()])?.then(&own))
    }

    fn client_edits(&self) -> Result<Option<Arc<ClientEdits>>, Wrong> {
        let new = |set, remove| ClientEdits::new(set, remove, &self.hide);
        new(&[], &self.client_remove).map_err(|why| ("client-remove", why))?;
        let edits =
            new(&self.client_set, &self.client_remove).map_err(|why| ("client-set", why))?;
        let edits = edits.with_pages(self.actions.pages()?);
        // Entries add their edits to those of the rule.
        let has_more = self.responses.iter().any(RuleResponse::edits_for_clients);
        Ok(Some(Arc::new(edits)).filter(|edits| !edits.is_empty() || has_more))
    }

    /// Returns whether the rule keeps requests or responses from the cache, or requests from the
    /// origin, and so is for every reading of a path.
    pub fn keeps_out(&self) -> bool {
        self.bypass || self.never_stores() || self.actions.keeps_out()
    }

    /// Returns whether the origin gets no cookies.
    pub fn removes_cookies(&self) -> bool {
        let is_removed = |text: &String| {
            Pattern::ignoring_case(text).matches(header::COOKIE.as_str().as_bytes())
        };
        self.cookie_keep.is_empty() || self.request_remove.iter().any(is_removed)
    }

    /// Returns whether the rule has `store = false`.
    pub fn never_stores(&self) -> bool {
        self.own.iter().any(|own| (own.key, &own.value) == ("store", &Value::Bool(false)))
    }

    /// Returns why the responses of a rule with `refresh = true` are not what all clients should
    /// get.
    pub fn wrong_refresh(&self) -> Option<&'static str> {
        if !self.own.iter().any(|own| (own.key, &own.value) == ("refresh", &Value::Bool(true))) {
            return None;
        }
        let Tests { headers, cookies, query, clients, listeners, classes, .. } = &self.when.is;
        let is_personal = |test: &String| {
            let name = test.split(':').next().unwrap_or_default().trim();
            ["cookie", "authorization"].iter().any(|known| name.eq_ignore_ascii_case(known))
        };
        let counts = [headers, cookies, query, listeners, classes].map(Vec::len);
        let looks_past_key = counts.iter().sum::<usize>() + clients.len() > 0;
        let is_alone = self.then == Then::Continue
            && self
                .states
                .iter()
                .all(|state| ["refresh = ", "limit-"].iter().any(|key| state.starts_with(key)));
        let of_person =
            |tests: &Tests| !tests.cookies.is_empty() || tests.headers.iter().any(is_personal);
        let mut all = std::iter::once(&self.when).chain(&self.when.any);
        if self.bypass {
            return Some("bypass = true leaves refresh without effect: remove one of them");
        }
        if all.any(|when| of_person(&when.is) || of_person(&when.not)) {
            return Some(
                "refresh stores for all clients what the origin server sends to those with a \
                 cookie or credentials: choose them by clients",
            );
        }
        (looks_past_key && !is_alone).then_some(
            "refresh stores apart from what other clients get: put it into a rule of its own \
             with then = \"continue\"",
        )
    }

    /// Returns whether the rule adds names to objects of the requests of other rules.
    pub fn adds_names(&self) -> bool {
        let is_whole = self.query_keep == ["*"] && self.query_drop.is_empty() && !self.query_sort;
        self.then == Then::Continue && (!is_whole || self.key_path.is_some())
    }

    /// Returns whether the rule names statuses, but has no setting that they apply to.
    pub fn has_idle_statuses(&self) -> bool {
        let has = |key: &str| self.own.iter().any(|own| own.key == key);
        let edits = !self.answer_set.is_empty() || !self.answer_remove.is_empty();
        let applies = edits || ["ttl", "default-ttl", "min-ttl"].into_iter().any(has);
        has("statuses") && !applies
    }

    fn answer_edits(&self, settings: &Settings) -> Result<Vec<AnswerEdits>, Wrong> {
        let edits = edits("answer-set", &self.answer_set, &self.answer_remove)?;
        let statuses = settings.lifetimes.statuses.clone();
        Ok(if edits.is_empty() { Vec::new() } else { vec![AnswerEdits { statuses, edits }] })
    }

    fn locations(&self) -> Result<Vec<LocationRewrite>, Wrong> {
        let parse =
            |text: &String| LocationRewrite::parse(text).map_err(|why| ("location-rewrite", why));
        self.location_rewrite.iter().map(parse).collect()
    }

    /// Returns the classes of the key: those that `key-classes` names, and those that decide what
    /// the origin is asked or what is stored. One that the rest of the key determines is left out.
    fn key_classes(&self, classes: &Classes) -> Result<Vec<Arc<Class>>, Wrong> {
        let mut all = named("key-classes", self.key_classes.iter(), classes)?;
        for class in named("request-set", self.origin_class_names().iter(), classes)? {
            if !all.iter().any(|known| known.name() == class.name()) {
                all.push(class);
            }
        }
        all.retain(|class| class.looks_past_key());
        Ok(all)
    }

    fn languages(&self) -> Result<Vec<String>, Wrong> {
        let is_tag = |tag: &String| {
            !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        match self.key_languages.iter().find(|tag| !is_tag(tag)) {
            Some(tag) => Err(("key-languages", format!("expected a language, got {tag:?}"))),
            None => Ok(self.key_languages.clone()),
        }
    }

    fn settings(&self, base: &Settings) -> Result<Settings, Wrong> {
        let lists = self.own.iter().filter(|own| matches!(own.key, "ttl" | "default-ttl"));
        for own in lists {
            if let Some(why) = status_times::problem(&own.value) {
                return Err((own.key, why));
            }
        }
        let settings = OwnKey::lay_over(&self.own, base.clone());
        if let Some(statuses) = &settings.lifetimes.statuses {
            let misnamed = statuses.iter().find_map(|status| status_times::misnamed(*status));
            let none = || statuses.is_empty().then(|| "expected at least one".to_owned());
            if let Some(why) = misnamed.or_else(none) {
                return Err(("statuses", why));
            }
        }
        let Lifetimes { min, max, .. } = settings.lifetimes;
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return Err(("min-ttl", "expected no more than max-ttl".to_owned()));
        }
        Ok(settings)
    }
}

/// Returns the names of cookies under a key. With `=` or `excluded` characters they would match no
/// cookie.
fn cookie_names(
    key: &'static str,
    names: &[String],
    excluded: &[char],
) -> Result<Vec<String>, Wrong> {
    let is_wrong =
        |c: char| matches!(c, '=' | ';') || c.is_ascii_whitespace() || excluded.contains(&c);
    match names.iter().find(|name| name.contains(is_wrong)) {
        Some(name) => Err((key, format!("expected the name of a cookie, got {name:?}"))),
        None => Ok(names.to_vec()),
    }
}

/// Returns the classes of these names. `key` is where they are used.
fn named<'n>(
    key: &'static str,
    names: impl Iterator<Item = &'n String>,
    classes: &Classes,
) -> Result<Vec<Arc<Class>>, Wrong> {
    let found = |name: &String| {
        let class = classes.named(name).cloned();
        class.ok_or_else(|| (key, classes::unknown(name)))
    };
    names.map(found).collect()
}

fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

/// Returns the patterns of what is kept, as a list of lists: none if everything is.
fn kept(texts: &[String]) -> Vec<Vec<Pattern>> {
    if texts == ["*"] { Vec::new() } else { vec![patterns(texts)] }
}
