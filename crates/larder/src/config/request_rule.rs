//! One `[[rule]]`: the settings for some requests. Its keys, and their translation for the proxy.
//!
//! The proxy's own types check the values; this module names the key of an invalid one.

use compression::Coding;
use http::Method;
use proxy::message::header_edits::Edits;
use proxy::rules::request_rules;
use proxy::rules::request_rules::QuerySend;
use semantics::{Lifetimes, Pattern, QueryRule, Settings};

use crate::config::setting::OwnKey;
use crate::config::status_times;

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RequestRule {
    pub name: Option<String>,
    pub sites: Vec<String>,
    pub hosts: Vec<String>,
    pub paths: Vec<String>,
    pub paths_ignore_case: bool,
    pub methods: Vec<String>,
    pub headers: Vec<String>,
    pub bypass: bool,
    /// The keys that differ from `[caching]`.
    pub own: Vec<OwnKey<Settings>>,
    pub query_keep: Vec<String>,
    pub query_drop: Vec<String>,
    pub query_sort: bool,
    pub query_send: QuerySend,
    pub key_headers: Vec<String>,
    pub key_device: bool,
    pub key_languages: Vec<String>,
    pub request_set: Vec<String>,
    pub request_remove: Vec<String>,
    pub answer_set: Vec<String>,
    pub answer_remove: Vec<String>,
    pub store_max: Option<u64>,
    pub answer_max: Option<u64>,
    pub refuse_upgrades: bool,
    /// `None`: as for all.
    pub compress: Option<Vec<Coding>>,
}

/// A problem of a rule: the key, and a sentence.
pub type Wrong = (&'static str, String);

impl RequestRule {
    /// Returns the rule as the proxy uses it. `number` counts from 1; `base` applies where the rule
    /// has no value.
    pub fn to_proxy(&self, number: usize, base: &Settings) -> Result<request_rules::Rule, Wrong> {
        let name = self.name.clone().unwrap_or_else(|| format!("rule {number}"));
        Ok(request_rules::Rule {
            when: self.condition()?,
            bypass: self.bypass,
            query: QueryRule {
                keep: patterns(&self.query_keep),
                drop: patterns(&self.query_drop),
                sorted: self.query_sort,
            },
            query_send: self.query_send,
            by_device: self.key_device,
            languages: self.languages()?,
            key_headers: parse_all("key-headers", &self.key_headers)?,
            request: edits("request-set", &self.request_set, &self.request_remove)?,
            answer: edits("answer-set", &self.answer_set, &self.answer_remove)?,
            store_max: self.store_max,
            answer_max: self.answer_max,
            refuse_upgrades: self.refuse_upgrades,
            compress: self.compress.clone(),
            ..request_rules::Rule::new(name, self.settings(base)?)
        })
    }

    /// Returns whether the rule names statuses, but has no setting that they apply to.
    pub fn has_idle_statuses(&self) -> bool {
        let has = |key: &str| self.own.iter().any(|own| own.key == key);
        let edits = !self.answer_set.is_empty() || !self.answer_remove.is_empty();
        let applies = edits || ["ttl", "default-ttl", "min-ttl"].into_iter().any(has);
        has("statuses") && !applies
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

    fn condition(&self) -> Result<request_rules::Condition, Wrong> {
        let odd = self.paths.iter().find(|path| !path.starts_with(['/', '*']));
        if let Some(path) = odd {
            let text = format!("expected a path that begins with / or *, got {path:?}");
            return Err(("paths", text));
        }
        let methods = self.methods.iter().map(|name| {
            Method::from_bytes(name.as_bytes()).map_err(|error| ("methods", error.to_string()))
        });
        Ok(request_rules::Condition {
            sites: self.sites.clone(),
            hosts: parse_all("hosts", &self.hosts)?,
            paths: match self.paths_ignore_case {
                true => self.paths.iter().map(|text| Pattern::ignoring_case(text)).collect(),
                false => patterns(&self.paths),
            },
            methods: methods.collect::<Result<_, _>>()?,
            headers: parse_all("headers", &self.headers)?,
        })
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

fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

fn parse_all<T: std::str::FromStr<Err: ToString>>(
    key: &'static str,
    texts: &[String],
) -> Result<Vec<T>, Wrong> {
    let parse = |text: &String| text.parse::<T>().map_err(|error| (key, error.to_string()));
    texts.iter().map(parse).collect()
}

/// Returns the edits of the key `set` and of the corresponding key for removals.
fn edits(set: &'static str, fields: &[String], names: &[String]) -> Result<Edits, Wrong> {
    let remove = if set == "request-set" { "request-remove" } else { "answer-remove" };
    Edits::new(&[], names).map_err(|why| (remove, why))?;
    Edits::new(fields, names).map_err(|why| (set, why))
}
