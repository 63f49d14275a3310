//! Purge requests in the forms that other caches and their plug-ins send.
//!
//! A request is either read exactly or refused with the reason. A field, method or pattern that
//! narrows or widens a purge is never ignored.

use std::collections::HashSet;

use http::{HeaderMap, HeaderName, Method};
use semantics::{TagFields, Url};

use crate::request::purge_order::{Purge, Scope};
use crate::request::purge_pattern::{PathPattern, is_pattern, tag_choice};

/// Purge methods whose names contain neither `PURGE` nor `BAN`.
const OTHER_METHODS: [&str; 5] = ["REFRESH", "INVALIDATE", "FLUSH", "FLUSHALL", "XKEY"];

/// Fields that ask for a soft purge, with any value except `0`.
const SOFT: [&str; 2] = ["soft-purge", "fastly-soft-purge"];
/// Fields that say how to read the URL.
const READING: [&str; 2] = ["x-purge-method", "x-vc-purge-method"];
/// Fields that carry a regular expression on paths.
const PATHS: [&str; 3] = ["x-purge-regex", "x-ban-url", "x-url"];
/// Fields that carry a regular expression on hosts.
const HOSTS: [&str; 2] = ["x-ban-host", "x-host"];
/// Fields that carry a regular expression, of which only `.*` is supported.
const ANY_ONLY: [&str; 2] = ["x-content-type", "x-ban-content-type"];
/// Request fields that carry tags, each with the response field that carries those tags, and
/// whether the value is a regular expression.
const TAGS_OF: [(&str, &str, bool); 3] = [
    ("x-magento-tags-pattern", "x-magento-tags", true),
    ("xkey-purge", "xkey", false),
    ("xkey-softpurge", "xkey", false),
];

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

/// Scope that a purge method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    /// The URL, or the scope that the fields name.
    Purge,
    /// The scope that the fields name, or the URL as a regular expression.
    Ban,
    Url,
    Tags,
    Everything,
}

/// Returns whether caches use a method for purging.
pub(crate) fn is_purge(method: &Method) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::POST) {
        return false;
    }
    let name = method.as_str().to_ascii_uppercase();
    name.contains("PURGE") || name.contains("BAN") || OTHER_METHODS.contains(&name.as_str())
}

/// Reads a purge of `url` from the request's fields. `secret` names the field of the operator's
/// secret, `tags` the fields that carry tags.
///
/// # Errors
///
/// The reason for refusing the purge, and what to send instead.
pub(crate) fn read(
    method: &Method,
    url: &Url,
    (headers, secret): (&HeaderMap, Option<&HeaderName>),
    tags: &TagFields,
) -> Result<Purge, String> {
    let request = Request { headers, secret, url, tags };
    let verb = verb(method)?;
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
        0 => request.url_scope(method, verb, is_regex)?,
        1 if verb == Verb::Url => return Err(several(method.as_str(), &scopes[0].0)),
        1 if verb != Verb::Everything && (is_pattern(url.sent()) || url.sent().ends_with('*')) => {
            return Err(several(url.sent(), &scopes[0].0));
        }
        1 => scopes.remove(0).1,
        _ => return Err(several(&scopes[0].0, &scopes[1].0)),
    };
    let on = |name: &&str| headers.get(*name).is_some_and(|value| value != "0");
    let soft = SOFT.iter().any(on) || headers.contains_key("xkey-softpurge");
    Ok(Purge { scope, soft })
}

fn several(one: &str, other: &str) -> String {
    format!("{one} and {other} are more than one thing to purge: expected one in each request")
}

fn verb(method: &Method) -> Result<Verb, String> {
    Ok(match method.as_str() {
        "PURGE" => Verb::Purge,
        "BAN" => Verb::Ban,
        "URIBAN" => Verb::Url,
        "PURGEKEYS" | "PURGETAGS" => Verb::Tags,
        "FULLBAN" | "PURGEALL" => Verb::Everything,
        other => {
            return Err(format!(
                "the method {other} is not understood, nothing was purged: send PURGE, BAN, \
                 URIBAN, FULLBAN, PURGEALL, PURGEKEYS or PURGETAGS"
            ));
        }
    })
}

struct Request<'a> {
    headers: &'a HeaderMap,
    secret: Option<&'a HeaderName>,
    url: &'a Url,
    tags: &'a TagFields,
}

impl Request<'_> {
    /// Refuses fields that seem to select what to purge but are not supported.
    fn check_fields(&self) -> Result<(), String> {
        for name in self.headers.keys().map(|name| name.as_str()) {
            let is_known = [&SOFT[..], &READING, &PATHS, &HOSTS, &ANY_ONLY]
                .iter()
                .any(|names| names.contains(&name))
                || TAGS_OF.iter().any(|(known, ..)| *known == name)
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
                    "the field {name} is not understood, nothing was purged: send PURGE URL, \
                     PURGE URL* for everything that begins so, or tags in {own}"
                ),
            });
        }
        for name in ANY_ONLY {
            if self.value(name)?.is_some_and(|value| !is_any(value)) {
                return Err(format!(
                    "{name} is understood only as .*, nothing was purged: answers are not \
                     selected by their type; mark them with tags"
                ));
            }
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

    /// Returns the one field of `names` that the request has, and its value. Two of them are an
    /// error.
    fn one_of<'n>(&self, names: &[&'n str]) -> Result<Option<(&'n str, &str)>, String> {
        let mut found = None;
        for name in names {
            if let Some(value) = self.value(name)? {
                if let Some((other, _)) = found {
                    return Err(several(other, name));
                }
                found = Some((*name, value));
            }
        }
        Ok(found)
    }

    /// Returns whether the URL is to be read as a regular expression.
    fn reads_regex(&self) -> Result<bool, String> {
        let Some((name, value)) = self.one_of(&READING)? else { return Ok(false) };
        match value.to_ascii_lowercase().as_str() {
            "default" | "exact" => Ok(false),
            "regex" => Ok(true),
            _ => Err(format!(
                "{name}: {value} is not understood, nothing was purged: expected default, exact \
                 or regex"
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
                own.extend(self.tags_in(name.as_str(), name.as_str(), text, false)?);
            }
        }
        if let Some(name) = self.tags.names().find(|name| self.headers.contains_key(*name)) {
            scopes.push((name.to_string(), Scope::tags(once_each(own))?));
        }
        for (name, carrier, is_regex) in TAGS_OF {
            let Some(text) = self.value(name)? else { continue };
            if is_regex && is_any(text) {
                scopes.push((name.to_owned(), Scope::Everything));
                continue;
            }
            if !self.carries_tags(carrier) {
                return Err(format!(
                    "answers have no tags of {carrier} here, nothing was purged: name {carrier} \
                     in purge.tag-fields or purge.tag-lists"
                ));
            }
            let found = self.tags_in(name, carrier, text, is_regex)?;
            scopes.push((name.to_owned(), Scope::tags(once_each(found))?));
        }
        Ok(scopes)
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

    /// Returns the scope of a regular expression on paths. Beside another scope (`beside`) only an
    /// expression that matches every URL is permitted.
    fn pattern(&self, beside: bool) -> Result<Option<(String, Scope)>, String> {
        let path = self.one_of(&PATHS)?;
        let host = self.one_of(&HOSTS)?;
        if beside {
            for (name, value) in path.into_iter().chain(host) {
                if !is_any(value) {
                    return Err(several("tags", &format!("{name}: {value}")));
                }
            }
            return Ok(None);
        }
        let Some((name, value)) = path else {
            return match host {
                Some((name, _)) => Err(format!(
                    "{name} alone is not understood, nothing was purged: send X-Url as well"
                )),
                None => Ok(None),
            };
        };
        let path = path_of(name, value)?;
        let named = self.url.authority();
        let host = match host {
            Some((_, value)) if is_any(value) => None,
            Some((name, value)) => Some(host_of(name, value)?),
            None => Some(named.to_owned()),
        };
        let scope = match (host, path) {
            (Some(host), path) => self.path_scope(&host, path)?,
            (None, PathPattern::Begin(begin)) if begin == "/" => Scope::Everything,
            (None, _) => {
                return Err(format!(
                    "{name}: {value} for any host is not understood, nothing was purged: send \
                     X-Host: ^{named}$, one host in each request"
                ));
            }
        };
        Ok(Some((name.to_owned(), scope)))
    }

    /// Returns the scope of the request's own URL.
    fn url_scope(&self, method: &Method, verb: Verb, is_regex: bool) -> Result<Scope, String> {
        let sent = self.url.sent();
        match verb {
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
            _ => self.path_scope(self.url.authority(), path_of("the URL", sent)?),
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
                 end; a URL that is called so is purged by POST /purge of the admin interface"
            ));
        }
        match begin {
            Some(begin) => Scope::prefix(&self.at(self.url.authority(), begin)),
            None => Scope::url(self.url.as_str()),
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

fn path_of(name: &str, pattern: &str) -> Result<PathPattern, String> {
    PathPattern::read(pattern).ok_or_else(|| {
        format!(
            "{name}: {pattern} is a regular expression that is not carried out, nothing was \
             purged: expected a path with .* at its end (a dot of its own as \\.), or ^path$"
        )
    })
}

/// Returns the host that a regular expression matches. An unescaped dot counts as a literal one.
fn host_of(name: &str, pattern: &str) -> Result<String, String> {
    let anchored = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
    let host = anchored.map(|host| host.replace("\\.", "."));
    let is_host = |host: &String| {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        !host.is_empty() && host.bytes().all(fine)
    };
    host.filter(is_host).ok_or_else(|| {
        format!(
            "{name}: {pattern} is not understood, nothing was purged: expected one host as \
             ^www\\.example\\.com$, or .*"
        )
    })
}

/// Removes duplicate tags and keeps the order.
fn once_each(mut tags: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    tags
}

#[cfg(test)]
mod tests;
