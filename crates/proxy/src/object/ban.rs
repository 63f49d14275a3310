//! Bans: purges of all stored responses whose URL, host and fields match regular expressions.
//!
//! The text of a ban is JSON, which stores keep, fleets send, and the admin interface reads.

use std::collections::BTreeMap;

use http::HeaderName;
use http1::percent_encoded;
use regex::bytes::{Regex, RegexBuilder};
use semantics::{cache_key, meta};
use serde::{Deserialize, Serialize};
use store::Pattern;

use crate::object::purge_labels::{without_port, without_scheme};

/// Maximum memory in bytes of one compiled regular expression.
const REGEX_MAX: usize = 64 << 10;
/// Maximum depth of a regular expression.
const NESTING_MAX: u32 = 50;

/// Conditions on stored responses, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Ban {
    /// Regular expression that matches anywhere in the path with its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Regular expression that matches anywhere in the host. Case does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_regex: Option<String>,
    /// Hosts, with or without a port. One of them, or `host_regex`, must match if any is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Response fields, of each of which one line must match the regular expression.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

impl Ban {
    /// Adds the condition that a glob stands for: on the path with its query if it begins with `/`,
    /// or on the whole URL. `*` stands for any text.
    ///
    /// # Errors
    ///
    /// It begins with neither `/` nor `http://` or `https://`.
    pub fn add_glob(&mut self, glob: &str) -> Result<(), String> {
        let rest = ["http://", "https://"].iter().find_map(|scheme| glob.strip_prefix(scheme));
        let path = match rest {
            None if glob.starts_with('/') => glob,
            None => {
                return Err(format!("glob {glob:?}: expected /path or http://host/path, with *"));
            }
            Some(rest) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                match host.contains('*') {
                    true => self.host_regex = Some(regex_of(host)),
                    false => self.hosts.push(host.to_ascii_lowercase()),
                }
                if path.is_empty() { "/" } else { path }
            }
        };
        self.regex = Some(regex_of(&percent_encoded(path.as_bytes(), |byte| byte.is_ascii())));
        Ok(())
    }

    /// Reads the text of a ban; `None` if it is not one, or has conditions that are not known here.
    pub fn read(text: &[u8]) -> Option<ReadBan> {
        serde_json::from_slice::<Ban>(text).ok()?.compiled().ok()
    }

    /// Returns the text of the ban.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Compiles the regular expressions.
    ///
    /// # Errors
    ///
    /// One of them is not valid or takes too much memory, or a field has no valid name.
    pub fn compiled(&self) -> Result<ReadBan, String> {
        let fields = self.fields.iter().map(|(name, regex)| match name.parse::<HeaderName>() {
            Ok(_) => Ok((name.clone(), compiled(name, regex, false)?)),
            Err(_) => Err(format!("{name:?} is not the name of a field")),
        });
        let part = |what, regex: &Option<String>, any_case| {
            regex.as_ref().map(|regex| compiled(what, regex, any_case)).transpose()
        };
        Ok(ReadBan {
            path: part("the URL", &self.regex, false)?,
            host: part("the host", &self.host_regex, true)?,
            hosts: self.hosts.clone(),
            fields: fields.collect::<Result<_, String>>()?,
        })
    }
}

/// Returns the anchored regular expression that a glob stands for.
fn regex_of(glob: &str) -> String {
    let parts: Vec<String> = glob.split('*').map(regex::escape).collect();
    format!("^{}$", parts.join(".*"))
}

fn compiled(what: &str, regex: &str, any_case: bool) -> Result<Regex, String> {
    if regex.is_empty() {
        return Err(format!("the regular expression for {what} is empty: expected .* for any"));
    }
    let mut builder = RegexBuilder::new(regex);
    builder.unicode(false).case_insensitive(any_case).nest_limit(NESTING_MAX);
    builder.size_limit(REGEX_MAX).dfa_size_limit(REGEX_MAX);
    builder.build().map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim();
        format!("{regex:?} is not a regular expression that is supported for {what}: {why}")
    })
}

/// A ban with its regular expressions compiled.
#[derive(Debug)]
pub struct ReadBan {
    path: Option<Regex>,
    host: Option<Regex>,
    hosts: Vec<String>,
    fields: Vec<(String, Regex)>,
}

impl ReadBan {
    /// Returns whether the conditions on hosts match an authority.
    pub(crate) fn matches_host(&self, authority: &str) -> bool {
        let names = [authority, without_port(authority)];
        let is_named = |name: &&str| self.hosts.iter().any(|host| host == name);
        match &self.host {
            None => self.hosts.is_empty() || names.iter().any(is_named),
            Some(regex) => {
                names.iter().any(|name| is_named(name) || regex.is_match(name.as_bytes()))
            }
        }
    }

    fn matches_path(&self, url: &str, spelled: Option<&str>) -> bool {
        let Some(regex) = &self.path else { return true };
        regex.is_match(url.as_bytes())
            || spelled.is_some_and(|spelled| regex.is_match(spelled.as_bytes()))
    }
}

impl Pattern for ReadBan {
    fn matches(&self, key: &[u8], meta: &[u8]) -> bool {
        let Some(described) = cache_key::describe(key) else { return false };
        let url = without_scheme(described.url);
        let (authority, path) = url.split_at(url.find('/').unwrap_or(url.len()));
        let has = |name: &str, regex: &Regex| {
            meta::fields(meta).any(|(known, value)| {
                known.eq_ignore_ascii_case(name.as_bytes()) && regex.is_match(value)
            })
        };
        self.matches_host(authority)
            && self.matches_path(path, described.spelled)
            && self.fields.iter().all(|(name, regex)| has(name, regex))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use semantics::Url;

    use super::*;
    use crate::object::key::primary_key;

    fn is_banned(ban: &Ban, url: &str) -> bool {
        let key = primary_key("site site", &Url::parse(url).unwrap()).unwrap();
        Ban::read(&ban.text()).unwrap().matches(key.as_bytes(), b"")
    }

    #[test]
    fn a_ban_matches_url_and_host() {
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect();
        let path = |regex: &str| Ban { regex: Some(regex.to_owned()), ..Ban::default() };
        let host = |regex: &str| Ban { host_regex: Some(regex.to_owned()), ..Ban::default() };
        for (ban, matched, other) in [
            (path("\\.jpg$"), "http://a/x.jpg", "http://a/x.jpg?1"),
            (path("^/n/[0-9]+(\\?|$)"), "https://a:81/n/7?x", "http://a/n/x"),
            (host("^www\\.a\\."), "http://www.a.example/", "http://www-a.example/"),
            (host("^A:81$"), "http://a:81/", "http://a/"),
            (Ban { hosts: hosts(&["b", "a"]), ..path("x") }, "http://a:81/x", "http://c/x"),
            (Ban { hosts: hosts(&["a:81"]), ..Ban::default() }, "http://a:81/x", "http://a/x"),
            (Ban { hosts: hosts(&["c"]), ..host("^b$") }, "http://c/", "http://a/"),
        ] {
            assert!(is_banned(&ban, matched) && !is_banned(&ban, other), "{ban:?}");
        }
    }

    #[test]
    fn a_glob_matches_all_of_a_url() {
        for (glob, matched, other) in [
            ("/a/*.jpg", "http://h/a/b/c.jpg", "http://h/x/a/c.jpg"),
            ("/a.b*", "http://h/a.b?c", "http://h/axb"),
            ("http://H/*/x", "https://h/a/x", "http://i/a/x"),
            ("http://*.h/a", "http://b.h/a", "http://h/a"),
            ("http://h", "http://h/", "http://h/a"),
        ] {
            let mut ban = Ban::default();
            ban.add_glob(glob).unwrap();
            assert!(is_banned(&ban, matched) && !is_banned(&ban, other), "{glob}");
        }
        assert!(Ban::default().add_glob("a*").is_err());
    }

    #[test]
    fn expressions_that_cannot_be_matched_in_linear_time_and_little_memory_are_refused() {
        let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        for regex in ["(", "", "(a)\\1", "a(?=b)", "((a{1,999}){1,999}){1,999}", &deep] {
            let ban = Ban { regex: Some(regex.to_owned()), ..Ban::default() };
            let why = ban.compiled().unwrap_err();
            assert!(why.contains("the URL"), "{why}");
            assert!(Ban::read(&ban.text()).is_none(), "{regex}");
        }
        let fields = BTreeMap::from([("a b".to_owned(), "x".to_owned())]);
        assert!(Ban { fields, ..Ban::default() }.compiled().is_err());
        assert!(Ban::read(b"{\"regex\": \"x\", \"status\": 200}").is_none());
    }
}
