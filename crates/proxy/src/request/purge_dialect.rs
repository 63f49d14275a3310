//! Purge requests in the forms that other caches and their plug-ins send.
//!
//! A request is either read exactly or refused with the reason. A field, method or pattern that
//! narrows or widens a purge is never ignored. [`PurgeDialect`] says what methods and fields mean.

use std::collections::{BTreeMap, HashSet};

use http::{HeaderMap, HeaderName, Method};
use semantics::{TagFields, Url};

use crate::object::ban::Ban;
use crate::request::purge_order::{Purge, Scope};
use crate::request::purge_pattern::{PathPattern, is_pattern, tag_choice};
use crate::rules::purge_dialect::{Meaning, PurgeDialect, PurgeField, Verb};
use crate::rules::purging::Purging;

/// Purge methods whose names contain neither `PURGE` nor `BAN`.
const OTHER_METHODS: [&str; 5] = ["REFRESH", "INVALIDATE", "FLUSH", "FLUSHALL", "XKEY"];

/// Words that mark a field name as one that selects what to purge.
const SIGNS: [&str; 28] = [
    "tag", "tags", "key", "keys", "ban", "bans", "regexp", "pattern", "prefix", "wildcard", "glob",
    "match", "flush", "clear", "refresh", "expire", "url", "urls", "uri", "path", "host", "hosts",
    "domain", "site", "pool", "group", "cache", "scope",
];
/// Substrings that mark a field name likewise.
const SIGN_PARTS: [&str; 6] = ["purge", "xkey", "regex", "invalidat", "surrogate", "cachetag"];
/// Fields that contain such a word but select nothing.
const ORDINARY: [&str; 11] = [
    "host",
    "cache-control",
    "if-match",
    "if-none-match",
    "surrogate-capability",
    "x-api-key",
    "api-key",
    "fastly-key",
    "idempotency-key",
    "x-idempotency-key",
    "x-rewrite-url",
];
/// Prefixes of the names of such fields.
const ORDINARY_BEGINS: [&str; 5] = ["sec-", "x-forwarded-", "x-original-", "x-envoy-", "x-amz"];

/// Returns whether caches use a method for purging.
pub(crate) fn is_purge(dialect: &PurgeDialect, method: &Method) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::POST) {
        return false;
    }
    let name = method.as_str().to_ascii_uppercase();
    name.contains("PURGE")
        || name.contains("BAN")
        || OTHER_METHODS.contains(&name.as_str())
        || dialect.verb(method).is_some()
}

/// Reads a purge of `url` from the request's fields. `secret` names the field of the operator's
/// secret.
///
/// # Errors
///
/// The reason for refusing the purge, and what to send instead.
pub(crate) fn read(
    method: &Method,
    url: &Url,
    (headers, secret): (&HeaderMap, Option<&HeaderName>),
    Purging { tags, dialect, .. }: &Purging,
) -> Result<Purge, String> {
    let verb = verb(dialect, method)?;
    let request = Request { headers, secret, url, tags, dialect, verb };
    let url = &request.named_url()?;
    let request = Request { url, ..request };
    request.check_fields()?;
    let mut scopes: Vec<(String, Scope)> = Vec::new();
    scopes.extend(request.tags()?);
    scopes.extend(request.pattern(!scopes.is_empty())?);
    if verb == Verb::Everything {
        scopes.push((method.to_string(), Scope::Everything));
    }
    let is_regex = request.reads_regex()?;
    if is_regex && !scopes.is_empty() {
        return Err(several(&format!("{method} with a regular expression"), &scopes[0].0));
    }
    let scope = match scopes.len() {
        0 => request.url_scope(method, is_regex)?,
        1 if verb == Verb::Url => return Err(several(method.as_str(), &scopes[0].0)),
        1 if verb != Verb::Everything && (is_pattern(url.sent()) || url.sent().ends_with('*')) => {
            return Err(several(url.sent(), &scopes[0].0));
        }
        1 => scopes.remove(0).1,
        _ => return Err(several(&scopes[0].0, &scopes[1].0)),
    };
    Ok(Purge { scope, soft: request.is_soft() })
}

fn several(one: &str, other: &str) -> String {
    format!("{one} and {other} are more than one thing to purge: expected one in each request")
}

fn verb(dialect: &PurgeDialect, method: &Method) -> Result<Verb, String> {
    dialect.verb(method).ok_or_else(|| {
        format!(
            "the method {method} is not understood, nothing was purged: send PURGE, or name it in \
             purge.methods"
        )
    })
}

#[derive(Clone, Copy)]
struct Request<'a> {
    headers: &'a HeaderMap,
    secret: Option<&'a HeaderName>,
    url: &'a Url,
    tags: &'a TagFields,
    dialect: &'a PurgeDialect,
    verb: Verb,
}

impl Request<'_> {
    /// Returns the URL with the host that a field names.
    fn named_url(&self) -> Result<Url, String> {
        let Some((name, host)) = self.one_of(&Meaning::Host)? else { return Ok(self.url.clone()) };
        let url = Url::new(self.url.scheme(), host, self.url.sent());
        url.map_err(|_| format!("{name}: {host} is not a host, nothing was purged"))
    }

    fn is_soft(&self) -> bool {
        self.dialect.fields.iter().any(|field| {
            let value = self.headers.get(&field.name);
            value.is_some_and(|value| match field.meaning {
                Meaning::Soft => value != "0",
                Meaning::SoftTags(_) => true,
                _ => false,
            })
        })
    }

    /// Refuses fields that seem to select what to purge but are not supported.
    fn check_fields(&self) -> Result<(), String> {
        for name in self.headers.keys().map(|name| name.as_str()) {
            let is_known = self.dialect.fields.iter().any(|field| field.name == name)
                || self.carries_tags(name)
                || self.secret.is_some_and(|secret| secret == name);
            if is_known || !is_sign(name) {
                continue;
            }
            let own = self.tags.names().next().map_or("Surrogate-Key", |name| name.as_str());
            let is_of_tags = ["tag", "key", "surrogate"].iter().any(|word| name.contains(word));
            return Err(match is_of_tags {
                true => format!(
                    "{name} does not carry tags here, nothing was purged: name it in \
                     purge.tag-fields or purge.tag-lists, or send the tags in {own}"
                ),
                false => format!(
                    "the field {name} is not understood, nothing was purged: say in purge.fields \
                     what it means, or send PURGE URL, PURGE URL* for everything that begins so, \
                     or tags in {own}"
                ),
            });
        }
        Ok(())
    }

    fn carries_tags(&self, name: &str) -> bool {
        self.tags.names().any(|known| known.as_str() == name)
    }

    /// Returns the value of a field as text, if the request has it.
    fn value(&self, name: &str) -> Result<Option<&str>, String> {
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(format!("{name} is given twice: expected one value"));
        }
        let text = value.to_str().map_err(|_| format!("{name} is not ASCII text"))?;
        Ok(Some(text.trim()))
    }

    /// Returns the one field with this meaning that the request has, and its value. Two of them are
    /// an error.
    fn one_of(&self, meaning: &Meaning) -> Result<Option<(&str, &str)>, String> {
        let mut found = None;
        for name in self.dialect.names(meaning) {
            if let Some(value) = self.value(name)? {
                if let Some((other, _)) = found {
                    return Err(several(other, name));
                }
                found = Some((name, value));
            }
        }
        Ok(found)
    }

    /// Returns whether the URL is to be read as a regular expression.
    fn reads_regex(&self) -> Result<bool, String> {
        let Some((name, value)) = self.one_of(&Meaning::Method)? else { return Ok(false) };
        match value.to_ascii_lowercase().as_str() {
            "default" | "exact" => Ok(false),
            // The expression is in a field of its own.
            "ban-regex" => Ok(false),
            "regex" => Ok(true),
            _ => Err(format!(
                "{name}: {value} is not understood, nothing was purged: expected default, exact, \
                 regex or ban-regex"
            )),
        }
    }

    /// Returns the scopes of the tags in the request's fields, each with its field's name.
    fn tags(&self) -> Result<Vec<(String, Scope)>, String> {
        let mut scopes = Vec::new();
        let mut own = Vec::new();
        for name in self.tags.names() {
            for value in self.headers.get_all(name) {
                let text = std::str::from_utf8(value.as_bytes());
                let text = text.map_err(|_| format!("a tag in {name} is not UTF-8"))?;
                match self.tags_in(name.as_str(), name.as_str(), text, false) {
                    Err(_) if self.verb == Verb::Ban => {
                        scopes.push((name.to_string(), on_field(name, text)?));
                    }
                    found => own.extend(found?),
                }
            }
        }
        let is_given = |name: &&HeaderName| self.headers.contains_key(*name);
        if let Some(name) = self.tags.names().find(is_given)
            && (scopes.is_empty() || !own.is_empty())
        {
            scopes.push((name.to_string(), Scope::tags(once_each(own))?));
        }
        for field in &self.dialect.fields {
            let name = field.name.as_str();
            let (carrier, is_regex) = match &field.meaning {
                Meaning::Tags(carrier) | Meaning::SoftTags(carrier) => (carrier, false),
                Meaning::TagsRegex(carrier) => (carrier, true),
                _ => continue,
            };
            if let Some(text) = self.value(name)? {
                scopes.push((name.to_owned(), self.tags_of(name, carrier, (text, is_regex))?));
            }
        }
        Ok(scopes)
    }

    /// Returns the scope of the tags in the request field `name`, of which the response field
    /// `carrier` carries the tags. A regular expression that is not a choice of whole tags is
    /// matched with that field.
    fn tags_of(
        &self,
        name: &str,
        carrier: &HeaderName,
        (text, is_regex): (&str, bool),
    ) -> Result<Scope, String> {
        if is_regex && is_any(text) {
            return Ok(Scope::Everything);
        }
        let is_carried = self.carries_tags(carrier.as_str());
        if !is_carried && !is_regex {
            return Err(format!(
                "answers have no tags of {carrier} here, nothing was purged: name {carrier} in \
                 purge.tag-fields or purge.tag-lists"
            ));
        }
        match self.tags_in(name, carrier.as_str(), text, is_regex) {
            Ok(found) if is_carried => Scope::tags(once_each(found)),
            Err(why) if !is_regex => Err(why),
            _ => on_field(carrier, text),
        }
    }

    /// Returns the tags in a value of the request field `name`; `carrier` is the response field
    /// that carries them. A regular expression must be a choice of whole tags.
    fn tags_in(
        &self,
        name: &str,
        carrier: &str,
        text: &str,
        is_regex: bool,
    ) -> Result<Vec<String>, String> {
        if is_regex || is_pattern(text) {
            return tag_choice(text, is_regex).ok_or_else(|| {
                format!(
                    "{name}: {text} is not understood, nothing was purged: expected whole tags, \
                     such as ((^|,)tag(,|$))|((^|,)other(,|$))"
                )
            });
        }
        let tags = self.tags.of_value(carrier, text.as_bytes());
        let mut all = Vec::new();
        for tag in tags.iter().filter_map(|tag| std::str::from_utf8(tag).ok()) {
            all.push(tag.to_owned());
            // A choice of tags, if the client meant a regular expression.
            if tag.contains('|') {
                all.extend(tag.split('|').filter(|tag| !tag.is_empty()).map(str::to_owned));
            }
        }
        Ok(all)
    }

    /// Returns the conditions on response fields that do not match every value: the request field,
    /// the response field, the regular expression.
    fn conditions(&self) -> Result<Vec<(&str, &HeaderName, &str)>, String> {
        let mut found = Vec::new();
        for PurgeField { name, meaning } in &self.dialect.fields {
            let Meaning::Regex(field) = meaning else { continue };
            if let Some(value) = self.value(name.as_str())?.filter(|value| !is_any(value)) {
                found.push((name.as_str(), field, value));
            }
        }
        Ok(found)
    }

    /// Returns the scope of regular expressions on paths, hosts and fields. Beside another scope
    /// (`beside`) only expressions that match everything are permitted.
    fn pattern(&self, beside: bool) -> Result<Option<(String, Scope)>, String> {
        let path = self.one_of(&Meaning::UrlRegex)?;
        let host = self.one_of(&Meaning::HostRegex)?;
        let conditions = self.conditions()?;
        if beside {
            let conditions = conditions.iter().map(|(name, _, value)| (*name, *value));
            for (name, value) in path.into_iter().chain(host).chain(conditions) {
                if !is_any(value) {
                    return Err(several("tags", &format!("{name}: {value}")));
                }
            }
            return Ok(None);
        }
        if path.is_none() && conditions.is_empty() {
            return match host {
                Some((name, _)) => Err(format!(
                    "{name} alone is not understood, nothing was purged: send X-Url as well"
                )),
                None => Ok(None),
            };
        }
        let (name, regex) = path.unwrap_or((conditions.first().map_or("", |one| one.0), ".*"));
        let simple = PathPattern::read(regex).filter(|_| conditions.is_empty());
        let host = match host {
            Some((_, value)) if is_any(value) => Host::Any,
            Some((_, value)) => host_of(value).map_or(Host::Regex(value), Host::Name),
            None if path.is_none() => Host::Any,
            None => Host::Name(self.url.authority().to_owned()),
        };
        let scope = match (host, simple) {
            (Host::Name(host), Some(path)) => self.path_scope(&host, path)?,
            (Host::Any, Some(PathPattern::Begin(begin))) if begin == "/" => Scope::Everything,
            (host, _) => {
                let mut ban =
                    Ban { regex: (!is_any(regex)).then(|| regex.to_owned()), ..host.ban() };
                for (_, field, value) in conditions {
                    ban.fields.insert(field.to_string(), value.to_owned());
                }
                Scope::ban(ban)?
            }
        };
        Ok(Some((name.to_owned(), scope)))
    }

    /// Returns the scope of the request's own URL.
    fn url_scope(&self, method: &Method, is_regex: bool) -> Result<Scope, String> {
        let sent = self.url.sent();
        match self.verb {
            Verb::Tags => Err(format!(
                "{method} without tags, nothing was purged: expected them in {}",
                self.tags.names().next().map_or("Surrogate-Key", |name| name.as_str())
            )),
            Verb::Ban if !is_pattern(sent) && !sent.ends_with('*') => Err(
                "BAN of a plain URL means that URL to some caches, and all that have it in their \
                 names to others: nothing was purged; send PURGE URL, or PURGE URL* for \
                 everything that begins so"
                    .to_owned(),
            ),
            Verb::Purge | Verb::Url if !is_regex => self.literal(sent),
            _ => match PathPattern::read(sent) {
                Some(path) => self.path_scope(self.url.authority(), path),
                None => Scope::ban(Ban {
                    regex: Some(sent.to_owned()),
                    hosts: vec![self.url.authority().to_owned()],
                    ..Ban::default()
                }),
            },
        }
    }

    /// Returns the scope of a literal URL or, with a star at its end, of a literal prefix.
    fn literal(&self, sent: &str) -> Result<Scope, String> {
        let begin = sent.strip_suffix(".*").or_else(|| sent.strip_suffix('*'));
        let text = begin.unwrap_or(sent);
        // The URL itself may contain a star before the trailing wildcard.
        let has_star = text.strip_suffix('*').filter(|_| begin.is_some()).unwrap_or(text);
        if is_pattern(text) || has_star.contains('*') {
            return Err(format!(
                "{sent} is a pattern, nothing was purged: * stands for anything, and only at the \
                 end; send X-Purge-Method: regex if it is a regular expression, or POST /purge of \
                 the admin interface with url or glob"
            ));
        }
        match begin {
            Some(begin) => Scope::prefix(&self.at(self.url.authority(), begin)),
            None => Scope::url(&self.url.to_sent()),
        }
    }

    fn path_scope(&self, authority: &str, path: PathPattern) -> Result<Scope, String> {
        match path {
            PathPattern::Begin(begin) => Scope::prefix(&self.at(authority, &begin)),
            PathPattern::Whole(path) => Scope::url(&self.at(authority, &path)),
        }
    }

    fn at(&self, authority: &str, path: &str) -> String {
        format!("{}://{authority}{path}", self.url.scheme())
    }
}

/// The hosts that a request asks for.
enum Host<'a> {
    Any,
    Name(String),
    Regex(&'a str),
}

impl Host<'_> {
    /// Returns a ban on these hosts.
    fn ban(self) -> Ban {
        match self {
            Host::Any => Ban::default(),
            Host::Name(host) => Ban { hosts: vec![host], ..Ban::default() },
            Host::Regex(regex) => Ban { host_regex: Some(regex.to_owned()), ..Ban::default() },
        }
    }
}

/// Returns the scope of all objects of which a response field matches a regular expression.
fn on_field(name: &HeaderName, regex: &str) -> Result<Scope, String> {
    let fields = BTreeMap::from([(name.to_string(), regex.to_owned())]);
    Scope::ban(Ban { fields, ..Ban::default() })
}

/// Returns whether a field's name suggests that it selects what to purge.
fn is_sign(name: &str) -> bool {
    let is_ordinary =
        ORDINARY.contains(&name) || ORDINARY_BEGINS.iter().any(|begin| name.starts_with(begin));
    let has_word = || name.split(['-', '_']).any(|word| SIGNS.contains(&word));
    !is_ordinary && (has_word() || SIGN_PARTS.iter().any(|part| name.contains(part)))
}

fn is_any(pattern: &str) -> bool {
    pattern.trim_start_matches('^').trim_end_matches('$') == ".*"
}

/// Returns the host that a regular expression matches, if it is one. An unescaped dot counts as a
/// literal one.
fn host_of(pattern: &str) -> Option<String> {
    let anchored = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
    let host = anchored?.replace("\\.", ".").to_ascii_lowercase();
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    Some(host).filter(|host| !host.is_empty() && host.bytes().all(fine))
}

/// Removes duplicate tags and keeps the order.
fn once_each(mut tags: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    tags
}

#[cfg(test)]
mod tests;
