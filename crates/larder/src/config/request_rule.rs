//! One `[[rule]]`: what is done otherwise for some requests. Its keys, and what the proxy makes of
//! them.
//!
//! The proxy's own types check what a text can mean; here it is said which key was wrong.

use std::time::Duration;

use http::Method;
use proxy::message::header_edits::Edits;
use proxy::rules::request_rules;
use semantics::{Lifetimes, Pattern, QueryRule, Seconds, Settings};

use crate::config::setting::{Field, Take};
use crate::config::settings::YEARS;
use crate::config::value::Kind;

/// The keys of a `[[rule]]` table.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RequestRule {
    pub name: Option<String>,
    pub sites: Vec<String>,
    pub hosts: Vec<String>,
    pub paths: Vec<String>,
    pub methods: Vec<String>,
    pub headers: Vec<String>,
    pub bypass: bool,
    pub ttl: Option<Duration>,
    pub default_ttl: Option<Duration>,
    pub min_ttl: Option<Duration>,
    pub max_ttl: Option<Duration>,
    pub error_ttl: Option<Duration>,
    pub stale_while_revalidate: Option<Duration>,
    pub stale_if_error: Option<Duration>,
    pub stale_when_unreachable: Option<Duration>,
    pub keep: Option<Duration>,
    pub refresh_ahead: Option<u8>,
    pub validate_neighbours: Option<u8>,
    pub query_keep: Vec<String>,
    pub query_drop: Vec<String>,
    pub query_sort: bool,
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
}

/// What is wrong with a rule: the key, and a sentence.
pub type Wrong = (&'static str, String);

impl RequestRule {
    /// The rule as the proxy uses it; `number` counts from 1, `base` is what holds where it says
    /// nothing.
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
            by_device: self.key_device,
            languages: self.languages()?,
            key_headers: parse_all("key-headers", &self.key_headers)?,
            request: edits("request-set", &self.request_set, &self.request_remove)?,
            answer: edits("answer-set", &self.answer_set, &self.answer_remove)?,
            store_max: self.store_max,
            answer_max: self.answer_max,
            refuse_upgrades: self.refuse_upgrades,
            ..request_rules::Rule::new(name, self.settings(base)?)
        })
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
            paths: patterns(&self.paths),
            methods: methods.collect::<Result<_, _>>()?,
            headers: parse_all("headers", &self.headers)?,
        })
    }

    fn settings(&self, base: &Settings) -> Result<Settings, Wrong> {
        if let (Some(min), Some(max)) = (self.min_ttl, self.max_ttl)
            && min > max
        {
            return Err(("min-ttl", "expected no more than max-ttl".to_owned()));
        }
        let seconds = |time: Option<Duration>| time.map(|time| Seconds::new(time.as_secs()));
        let or = |time, base| seconds(time).unwrap_or(base);
        Ok(Settings {
            lifetimes: Lifetimes {
                fixed: seconds(self.ttl),
                unsaid: seconds(self.default_ttl),
                min: seconds(self.min_ttl),
                max: seconds(self.max_ttl),
                errors: seconds(self.error_ttl).or(base.lifetimes.errors),
            },
            stale_while_revalidate: or(self.stale_while_revalidate, base.stale_while_revalidate),
            stale_if_error: or(self.stale_if_error, base.stale_if_error),
            stale_when_unreachable: or(self.stale_when_unreachable, base.stale_when_unreachable),
            keep: seconds(self.keep).or(base.keep),
            refresh_ahead_percent: self.refresh_ahead.unwrap_or(base.refresh_ahead_percent),
            validate_neighbours: self.validate_neighbours.unwrap_or(base.validate_neighbours),
            ..base.clone()
        })
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

/// Edits of the keys `set` and, said with the same key, what is to be removed.
fn edits(set: &'static str, fields: &[String], names: &[String]) -> Result<Edits, Wrong> {
    let remove = if set == "request-set" { "request-remove" } else { "answer-remove" };
    Edits::new(&[], names).map_err(|why| (remove, why))?;
    Edits::new(fields, names).map_err(|why| (set, why))
}

type RuleField = Field<RequestRule>;

const LIFETIME: Kind = Kind::Time(Duration::ZERO, YEARS);
const PATTERNS: Kind = Kind::List(&Kind::Text("a text in which * stands for anything"));
const FIELDS: Kind = Kind::List(&Kind::Text("\"Name: value\""));
const FIELD_NAMES: Kind = Kind::List(&Kind::Text("a field's name, * for anything"));

/// The keys of a `[[rule]]` table, in the order of the documentation.
pub const RULE: &[Field<RequestRule>] = &[
    RuleField::new(
        "name",
        Kind::Text("a name"),
        &["none"],
        |r, v| r.name = Take::take(v),
        "What `larder explain` and messages call it. \"none\" is its number in the file.",
    )
    .word("none")
    .live(),
    RuleField::new(
        "sites",
        Kind::List(&Kind::Text("the name of a site")),
        &[],
        |r, v| r.sites = Take::take(v),
        "Sites of a reverse proxy that it is for, by name; `reverse` makes one that is called \
         \"default\". None: any.",
    )
    .live(),
    RuleField::new(
        "hosts",
        Kind::List(&Kind::HostPattern),
        &[],
        |r, v| r.hosts = Take::take(v),
        "Hosts of the URL; a leading dot includes all names below; none: any.",
    )
    .live(),
    RuleField::new(
        "paths",
        PATTERNS,
        &[],
        |r, v| r.paths = Take::take(v),
        "Paths without query, in which * stands for anything, such as /static/* or *.css; none: \
         any. They are held against the path as a server reads it that decodes it, resolves dots \
         and takes slashes in a row for one.",
    )
    .live(),
    RuleField::new(
        "methods",
        Kind::List(&Kind::Method),
        &[],
        |r, v| r.methods = Take::take(v),
        "Request methods; GET includes HEAD; none: any.",
    )
    .live(),
    RuleField::new(
        "headers",
        Kind::List(&Kind::Text("\"Name\", \"Name: value\" with * for anything, or !")),
        &[],
        |r, v| r.headers = Take::take(v),
        "What must hold of the request's fields, all of it: \"Cookie\" (it is there), \"Cookie: \
         *session=*\" (a line of it fits, without regard to case), or one of them behind a `!` \
         (it does not).",
    )
    .live(),
    RuleField::new(
        "bypass",
        Kind::Bool,
        &["false"],
        |r, v| r.bypass = Take::take(v),
        "Send them past the cache: nothing is looked up, nothing is stored.",
    )
    .live(),
    RuleField::new(
        "ttl",
        LIFETIME,
        &["auto"],
        |r, v| r.ttl = Take::take(v),
        "How long answers below 400 are fresh, whatever the origin server says; its no-store, \
         private, no-cache and must-revalidate still count (`answer-remove` takes them away). \
         \"auto\" is what the origin server says.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "default-ttl",
        LIFETIME,
        &["auto"],
        |r, v| r.default_ttl = Take::take(v),
        "How long answers below 400 are fresh for which the origin server says nothing. \"auto\" \
         is a guess (`caching.heuristic-percent`).",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "min-ttl",
        LIFETIME,
        &["auto"],
        |r, v| r.min_ttl = Take::take(v),
        "The shortest time that answers below 400 are fresh. \"auto\": no bound.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "max-ttl",
        LIFETIME,
        &["auto"],
        |r, v| r.max_ttl = Take::take(v),
        "The longest time that answers below 400 are fresh. \"auto\": no bound.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "error-ttl",
        LIFETIME,
        &["auto"],
        |r, v| r.error_ttl = Take::take(v),
        "How long answers from 400 on are fresh for which the origin server says nothing. \"auto\" \
         is `caching.error-ttl`.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "stale-while-revalidate",
        LIFETIME,
        &["auto"],
        |r, v| r.stale_while_revalidate = Take::take(v),
        "In place of `caching.stale-while-revalidate`, which \"auto\" is.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "stale-if-error",
        LIFETIME,
        &["auto"],
        |r, v| r.stale_if_error = Take::take(v),
        "In place of `caching.stale-if-error`, which \"auto\" is.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "stale-when-unreachable",
        LIFETIME,
        &["auto"],
        |r, v| r.stale_when_unreachable = Take::take(v),
        "In place of `caching.stale-when-unreachable`, which \"auto\" is.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "keep",
        LIFETIME,
        &["auto"],
        |r, v| r.keep = Take::take(v),
        "In place of `caching.keep`, which \"auto\" is.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "refresh-ahead",
        Kind::Int(0, 90),
        &["auto"],
        |r, v| r.refresh_ahead = Take::take(v),
        "In place of `caching.refresh-ahead`, which \"auto\" is.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "validate-neighbours",
        Kind::Int(0, 64),
        &["auto"],
        |r, v| r.validate_neighbours = Take::take(v),
        "In place of `caching.validate-neighbours`, which \"auto\" is: for what is validated, and \
         0 also keeps answers from being validated as neighbours.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "query-keep",
        PATTERNS,
        &["*"],
        |r, v| r.query_keep = Take::take(v),
        "Names of the query parameters that are part of the key; an empty list: none. The origin \
         server is always sent the whole query.",
    )
    .live(),
    RuleField::new(
        "query-drop",
        PATTERNS,
        &[],
        |r, v| r.query_drop = Take::take(v),
        "Names of query parameters that are not part of the key, such as utm_*.",
    )
    .live(),
    RuleField::new(
        "query-sort",
        Kind::Bool,
        &["false"],
        |r, v| r.query_sort = Take::take(v),
        "Sort the query parameters in the key by name, so that their order does not matter.",
    )
    .live(),
    RuleField::new(
        "key-headers",
        Kind::List(&Kind::Header),
        &[],
        |r, v| r.key_headers = Take::take(v),
        "Request fields that are part of the key as if each answer had them in its Vary.",
    )
    .live(),
    RuleField::new(
        "key-device",
        Kind::Bool,
        &["false"],
        |r, v| r.key_device = Take::take(v),
        "Tell apart phones, tablets, desktops and bots by User-Agent: the origin server is sent \
         X-UA-Device with one of the words mobile, tablet, desktop and bot, and what it answers is \
         stored once for each.",
    )
    .live(),
    RuleField::new(
        "key-languages",
        Kind::List(&Kind::Text("a language such as en or pt-BR")),
        &[],
        |r, v| r.key_languages = Take::take(v),
        "The languages of the site, the usual one first: the origin server is sent the best of \
         them as Accept-Language, and what it answers is stored once for each.",
    )
    .live(),
    RuleField::new(
        "request-set",
        FIELDS,
        &[],
        |r, v| r.request_set = Take::take(v),
        "Fields that are set in the request before anything looks at it.",
    )
    .live(),
    RuleField::new(
        "request-remove",
        FIELD_NAMES,
        &[],
        |r, v| r.request_remove = Take::take(v),
        "Fields that are removed from the request before anything looks at it.",
    )
    .live(),
    RuleField::new(
        "answer-set",
        FIELDS,
        &[],
        |r, v| r.answer_set = Take::take(v),
        "Fields that are set in the origin server's answer before anything looks at it.",
    )
    .live(),
    RuleField::new(
        "answer-remove",
        FIELD_NAMES,
        &[],
        |r, v| r.answer_remove = Take::take(v),
        "Fields that are removed from the origin server's answer before anything looks at it, such \
         as Set-Cookie.",
    )
    .live(),
    RuleField::new(
        "store-max",
        Kind::Size(0, 1 << 50),
        &["auto"],
        |r, v| r.store_max = Take::take(v),
        "Larger answers are passed on and not stored. \"auto\" is `store.max-object`.",
    )
    .word("auto")
    .live(),
    RuleField::new(
        "answer-max",
        Kind::Size(0, 1 << 50),
        &["none"],
        |r, v| r.answer_max = Take::take(v),
        "Larger answers are refused with 502, or cut where the origin server does not say how long \
         they are.",
    )
    .word("none")
    .live(),
    RuleField::new(
        "refuse-upgrades",
        Kind::Bool,
        &["false"],
        |r, v| r.refuse_upgrades = Take::take(v),
        "Answer requests that ask for another protocol (Upgrade, WebSocket) with 403; otherwise \
         they are passed on. With `paths` it holds for the path as sent and as a server reads it.",
    )
    .live(),
];
