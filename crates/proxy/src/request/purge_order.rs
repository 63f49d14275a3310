//! Purge requests: their scope, read from an HTTP request, and their result.

use std::collections::BTreeMap;

use http::StatusCode;
use http::uri::Authority;
use http1::percent_encoded;
use percent_encoding::percent_decode;
use semantics::Url;
use serde_json::{Map, Value, json};

use crate::object::ban::Ban;

/// Maximum number of tags in one request.
const TAGS: usize = 1024;

/// Maximum size in bytes of a purge that is sent as a message.
pub(crate) const MESSAGE_MAX: usize = 64 << 10;

/// Scope of a purge. URLs are absolute, `http` or `https`, without user information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All variants stored for a URL.
    Url(Url),
    /// All objects whose URL begins with this one, compared byte by byte.
    Prefix(Url),
    /// All objects of a host; with a port, of that port only.
    Host(Authority),
    /// All objects that bear one of these tags.
    Tags(Vec<String>),
    /// All objects that match conditions.
    Ban(Ban),
    /// Everything that is stored.
    Everything,
}

/// A requested purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// The objects to purge.
    pub scope: Scope,
    /// True if the objects stay and count as stale instead of being removed.
    pub soft: bool,
}

/// The result of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purged {
    /// A URL's objects were removed or marked as stale.
    Found {
        /// The fronts (`forward`, or the name of a site) under which the URL was stored.
        fronts: Vec<String>,
        /// Number of objects; an object counts once with all its variants.
        objects: usize,
    },
    /// Nothing was stored for the URL. Fetches that began before the purge are not stored either.
    /// Holds a hint at the URL that may have been meant.
    Nothing(String),
    /// A purge by anything but a URL is in force; the affected objects are not counted.
    InForce,
    /// The purge cannot concern this cache; holds the reason.
    NotOurs(String),
    /// The purge is not durable, although objects may be gone from memory. Holds the reason.
    NotDurable(String),
    /// A strict fleet has not accepted the purge: only so many nodes have it.
    NoQuorum {
        /// Number of nodes that have carried it out.
        copies: usize,
    },
    /// Nothing was purged. Holds the reason, which is temporary.
    NotNow(String),
}

/// Result of a purge in a fleet: on this node and on the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeResult {
    /// The result on this node.
    pub purged: Purged,
    /// Result on the other nodes; `None` without a fleet, or if nothing was purged.
    pub spread: Option<Spread>,
    /// Result of publishing it in the stream; `None` without a stream, or if nothing was purged.
    pub stream: Option<Result<(), String>>,
}

/// Result of a purge on the other nodes of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Number of nodes that have carried out the purge durably.
    pub nodes: usize,
    /// Nodes that have not been reached, with the reason.
    pub unreached: BTreeMap<String, String>,
    /// Number of nodes that have the purge durably, this one included, if they are too few for it
    /// to be accepted.
    pub copies: Option<usize>,
}

impl PurgeResult {
    /// Returns status and body of the response. In a fleet or with a stream, finding nothing stored
    /// here is no error, because other nodes may have had the object.
    pub(crate) fn answer(&self, purge: &Purge) -> (StatusCode, Value) {
        let (status, mut told) = self.purged.answer(purge);
        if let Some(Spread { nodes, unreached, copies }) = &self.spread {
            told["fleet"] = json!({"nodes": nodes, "unreached": unreached});
            if let Some(copies) = copies {
                told["fleet"]["quorum"] = json!(false);
                told["fleet"]["copies"] = json!(copies);
            }
        }
        if let Some(published) = &self.stream {
            told["stream"] = json!({"acknowledged": published.is_ok()});
            if let Err(why) = published {
                told["stream"]["error"] = json!(why);
            }
        }
        let is_shared = self.spread.is_some() || self.stream.is_some();
        match &self.purged {
            Purged::Nothing(_) if is_shared => {
                if let Value::Object(members) = &mut told {
                    members.remove("error");
                }
                (StatusCode::OK, told)
            }
            _ => (status, told),
        }
    }
}

impl Purge {
    /// Reads a purge that is an object of JSON. The error is a text for its author.
    pub(crate) fn read_json(text: &[u8]) -> Result<Purge, String> {
        let mut given = Given::default();
        given.json(text)?;
        given.purge()
    }

    /// Returns the purge as an object of JSON, as [`Purge::read_json`] reads it.
    pub(crate) fn words(&self) -> Map<String, Value> {
        let (name, value) = match &self.scope {
            Scope::Url(url) => ("url", json!(url.to_sent())),
            Scope::Prefix(url) => ("prefix", json!(url.to_sent())),
            Scope::Host(host) => ("host", json!(host.as_str())),
            Scope::Tags(tags) => ("tags", json!(tags)),
            Scope::Ban(ban) => {
                let mut words = match json!(ban) {
                    Value::Object(words) => words,
                    _ => Map::new(),
                };
                words.insert("soft".to_owned(), json!(self.soft));
                return words;
            }
            Scope::Everything => ("everything", json!(true)),
        };
        Map::from_iter([(name.to_owned(), value), ("soft".to_owned(), json!(self.soft))])
    }

    /// Reads a purge from the request's query and body: one scope, and optionally `soft`. The error
    /// is a text for the client.
    pub(crate) fn read(
        query: Option<&str>,
        kind: Option<&str>,
        body: &[u8],
    ) -> Result<Purge, String> {
        let mut given = Given::default();
        given.form(query.unwrap_or_default().as_bytes())?;
        if !body.is_empty() {
            let kind = kind.unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim();
            if kind.eq_ignore_ascii_case("application/json") {
                given.json(body)?;
            } else if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
                given.form(body)?;
            } else {
                return Err(format!(
                    "a body must be application/x-www-form-urlencoded (url=URL) or \
                     application/json ({{\"url\": \"URL\"}}), not {kind:?}"
                ));
            }
        }
        given.purge()
    }
}

impl Scope {
    /// Reads the scope of one URL.
    ///
    /// # Errors
    ///
    /// The text is not a valid URL; holds the reason.
    pub fn url(text: &str) -> Result<Scope, String> {
        url(text, "a URL to purge").map(Scope::Url)
    }

    /// Reads the scope of one URL or, with `*` at its end, of a URL prefix. The admin interface,
    /// the command line and the method `PURGE` use this form.
    ///
    /// # Errors
    ///
    /// The text is not a valid URL; holds the reason.
    pub fn url_or_prefix(text: &str) -> Result<Scope, String> {
        match text.strip_suffix('*') {
            Some(begin) => Scope::prefix(begin),
            None => Scope::url(text),
        }
    }

    /// Reads the scope of a URL prefix.
    ///
    /// # Errors
    ///
    /// The text is not the beginning of a valid URL; holds the reason.
    pub fn prefix(text: &str) -> Result<Scope, String> {
        url(text, "the begin of a URL").map(Scope::Prefix)
    }

    /// Reads the scope of a host.
    ///
    /// # Errors
    ///
    /// The text is not a valid host; holds the reason.
    pub fn host(text: &str) -> Result<Scope, String> {
        let wrong =
            || format!("{text:?} is not a host to purge; expected a name or address, or host:port");
        let host: Authority = normal_host(text).parse().map_err(|_| wrong())?;
        let fine = !host.host().is_empty() && !text.contains('@') && !text.ends_with(':');
        if fine { Ok(Scope::Host(host)) } else { Err(wrong()) }
    }

    /// Creates the scope of all objects that match the conditions of a ban.
    ///
    /// # Errors
    ///
    /// A condition is not valid; holds the reason.
    pub fn ban(ban: Ban) -> Result<Scope, String> {
        for host in &ban.hosts {
            Scope::host(host)?;
        }
        ban.compiled().map_err(|why| format!("nothing was purged: {why}"))?;
        Ok(Scope::Ban(ban))
    }

    /// Creates the scope of all objects that bear one of these tags.
    ///
    /// # Errors
    ///
    /// There are no tags or too many, or one is empty.
    pub fn tags(tags: Vec<String>) -> Result<Scope, String> {
        if tags.is_empty() || tags.iter().any(String::is_empty) {
            return Err("a tag is empty: expected tag=TAG, one for each".to_owned());
        }
        if tags.len() > TAGS {
            return Err(format!("{} tags are too many: send at most {TAGS} at a time", tags.len()));
        }
        Ok(Scope::Tags(tags))
    }
}

fn url(text: &str, what: &str) -> Result<Url, String> {
    let expected = "expected http://host/path";
    Url::parse(text).map_err(|why| format!("{text:?} is not {what}: {why}; {expected}"))
}

/// Returns a regular expression on paths with what is beyond ASCII percent-encoded, as in stored
/// URLs.
fn ascii_regex(regex: String) -> Result<String, String> {
    if regex.is_ascii() {
        return Ok(regex);
    }
    if regex.contains('[') {
        return Err(format!(
            "regex {regex:?} has a class and characters beyond ASCII: write these percent-encoded, \
             as in URLs"
        ));
    }
    let mut encoded = String::new();
    for c in regex.chars() {
        match c.is_ascii() {
            true => encoded.push(c),
            false => {
                let bytes = percent_encoded(c.to_string().as_bytes(), |byte| byte.is_ascii());
                encoded.push_str(&format!("(?:{bytes})"));
            }
        }
    }
    Ok(encoded)
}

/// Returns `host` or `host:port` in lower case and without a dot at the end of the host.
fn normal_host(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.split_once(".:") {
        Some((host, port)) => format!("{host}:{port}"),
        None => text.strip_suffix('.').unwrap_or(&text).to_owned(),
    }
}

/// Parameters of a request, before their combination is checked.
#[derive(Default)]
struct Given {
    urls: Vec<String>,
    prefixes: Vec<String>,
    hosts: Vec<String>,
    tags: Vec<String>,
    globs: Vec<String>,
    /// Conditions of a ban besides the first of `hosts`.
    ban: Ban,
    everything: bool,
    soft: bool,
}

const EXPECTED: &str = "expected one of url=URL, prefix=URL, host=HOST, tag=TAG (may be repeated) \
     and everything=1, or the conditions of a ban (glob=GLOB or regex=REGEX, host=HOST or \
     host-regex=REGEX, field=NAME: REGEX), perhaps with soft=1";

impl Given {
    fn form(&mut self, text: &[u8]) -> Result<(), String> {
        if percent_decode(text).decode_utf8().is_err() {
            return Err("the parameters are not UTF-8: nothing else can be named".to_owned());
        }
        for (name, value) in form_urlencoded::parse(text) {
            self.take(&name, value.into_owned())?;
        }
        Ok(())
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "url" => self.urls.push(value),
            "prefix" => self.prefixes.push(value),
            "host" => self.hosts.push(value),
            "tag" => self.tags.push(value),
            "glob" => self.globs.push(value),
            "regex" => once(name, &mut self.ban.regex, ascii_regex(value)?)?,
            "host-regex" => once(name, &mut self.ban.host_regex, value)?,
            "field" => {
                let (field, regex) = value
                    .split_once(':')
                    .ok_or_else(|| format!("field={value:?}: expected NAME: REGEX"))?;
                self.field(field.trim(), regex.trim())?;
            }
            "everything" => self.everything = truth(name, &value)?,
            "soft" => self.soft = truth(name, &value)?,
            _ => {
                return Err(format!(
                    "unknown parameter {name:?}; {EXPECTED}, with & and % in values escaped"
                ));
            }
        }
        Ok(())
    }

    fn field(&mut self, name: &str, regex: &str) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        match self.ban.fields.insert(name.clone(), regex.to_owned()) {
            None => Ok(()),
            Some(_) => Err(format!("{name} is given twice: expected one condition for a field")),
        }
    }

    fn json(&mut self, body: &[u8]) -> Result<(), String> {
        let expected = "expected an object such as {\"url\": \"URL\"} or \
             {\"tags\": [\"TAG\"], \"soft\": true}";
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| format!("the body is not JSON: {error}; {expected}"))?;
        let Value::Object(members) = value else { return Err(expected.to_owned()) };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("everything", Value::Bool(yes)) => self.everything = yes,
                ("soft", Value::Bool(yes)) => self.soft = yes,
                ("tags", Value::Array(tags)) => {
                    for tag in tags {
                        let Value::String(tag) = tag else { return Err(expected.to_owned()) };
                        self.tags.push(tag);
                    }
                }
                ("hosts", Value::Array(hosts)) => {
                    for host in hosts {
                        let Value::String(host) = host else { return Err(expected.to_owned()) };
                        self.hosts.push(host);
                    }
                }
                ("fields", Value::Object(fields)) => {
                    for (name, regex) in fields {
                        let Value::String(regex) = regex else { return Err(expected.to_owned()) };
                        self.field(&name, &regex)?;
                    }
                }
                (
                    "url" | "prefix" | "host" | "tag" | "glob" | "regex" | "host-regex" | "field",
                    Value::String(text),
                ) => self.take(&name, text)?,
                _ => return Err(format!("{name:?} or its value is not known; {expected}")),
            }
        }
        Ok(())
    }

    fn purge(self) -> Result<Purge, String> {
        let is_ban = self.ban != Ban::default() || !self.globs.is_empty() || self.hosts.len() > 1;
        if is_ban {
            return self.purge_by_ban();
        }
        let lists = [&self.urls, &self.prefixes, &self.hosts];
        let ones = lists.iter().map(|list| list.len()).sum::<usize>();
        match ones + usize::from(!self.tags.is_empty()) + usize::from(self.everything) {
            0 => {
                return Err(format!(
                    "no URL, and nothing else to purge: {EXPECTED}, e.g. \
                     curl --data-urlencode url=http://example.com/ http://127.0.0.1:3129/purge"
                ));
            }
            1 => {}
            _ => return Err(format!("more than one thing to purge: {EXPECTED} in each request")),
        }
        let first = |list: &[String]| list.first().cloned().unwrap_or_default();
        let scope = match lists.map(|list| list.is_empty()) {
            [false, ..] => Scope::url_or_prefix(&first(&self.urls)),
            [_, false, _] => Scope::prefix(&first(&self.prefixes)),
            [.., false] => Scope::host(&first(&self.hosts)),
            _ if self.everything => Ok(Scope::Everything),
            _ => Scope::tags(self.tags),
        }?;
        Ok(Purge { scope, soft: self.soft })
    }

    fn purge_by_ban(self) -> Result<Purge, String> {
        let Given { urls, prefixes, hosts, tags, globs, mut ban, everything, soft } = self;
        let others = urls.len() + prefixes.len() + tags.len() + usize::from(everything);
        if others > 0 || globs.len() > 1 || (!globs.is_empty() && ban.regex.is_some()) {
            return Err(format!("more than one thing to purge: {EXPECTED} in each request"));
        }
        for glob in globs {
            if !glob.starts_with('/') && (!hosts.is_empty() || ban.host_regex.is_some()) {
                return Err(format!("glob {glob:?} names a host: expected no other"));
            }
            ban.add_glob(&glob)?;
        }
        ban.hosts = ban.hosts.iter().chain(&hosts).map(|host| normal_host(host)).collect();
        Ok(Purge { scope: Scope::ban(ban)?, soft })
    }
}

/// Sets a parameter that may be given once.
fn once(name: &str, place: &mut Option<String>, value: String) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is given twice: expected one")),
    }
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(format!("{name}={value:?}: expected 1 or 0")),
    }
}

impl Purged {
    /// Returns status and body of the response: how the purge was understood, and its result.
    pub(crate) fn answer(&self, purge: &Purge) -> (StatusCode, Value) {
        let mut told = purge.words();
        let status = match self {
            Purged::Found { fronts, objects } => {
                let done = if purge.soft { "outdated" } else { "removed" };
                told.insert(done.to_owned(), json!(fronts));
                told.insert("objects".to_owned(), json!(objects));
                StatusCode::OK
            }
            Purged::InForce => {
                told.insert("objects".to_owned(), Value::Null);
                StatusCode::OK
            }
            Purged::Nothing(hint) => {
                told.insert("error".to_owned(), json!("nothing was stored"));
                told.insert("objects".to_owned(), json!(0));
                told.insert("hint".to_owned(), json!(hint));
                StatusCode::NOT_FOUND
            }
            Purged::NotOurs(why) => {
                told.insert("error".to_owned(), json!(why));
                StatusCode::BAD_REQUEST
            }
            Purged::NotDurable(why) => {
                let why = format!("removed from memory, but not durably: {why}; send it again");
                told.insert("error".to_owned(), json!(why));
                StatusCode::SERVICE_UNAVAILABLE
            }
            Purged::NoQuorum { copies } => {
                let why = format!(
                    "carried out at {copies} nodes, too few for the fleet to accept it \
                     (purge.consistency is strict); send it again"
                );
                told.insert("error".to_owned(), json!(why));
                StatusCode::SERVICE_UNAVAILABLE
            }
            Purged::NotNow(why) => {
                told.insert("error".to_owned(), json!(format!("not purged: {why}")));
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        (status, Value::Object(told))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_is_published_as_it_is_read() {
        let url = |text: &str| Url::parse(text).unwrap();
        for scope in [
            Scope::Url(url("http://a.example/x?y=%C3%A9&z")),
            Scope::Prefix(url("https://a.example/x/")),
            Scope::Host("a.example:81".parse().unwrap()),
            Scope::Tags(vec!["red".to_owned(), "blue \"sky\"".to_owned()]),
            Scope::Ban(Ban {
                regex: Some("^/\\d+$".to_owned()),
                host_regex: Some("x".to_owned()),
                hosts: vec!["a.example:81".to_owned()],
                fields: BTreeMap::from([("content-type".to_owned(), "^image/".to_owned())]),
            }),
            Scope::Ban(Ban { hosts: vec!["a".to_owned(), "b".to_owned()], ..Ban::default() }),
            Scope::Everything,
        ] {
            let purge = Purge { scope, soft: true };
            let text = Value::Object(purge.words()).to_string();
            assert_eq!(Purge::read_json(text.as_bytes()), Ok(purge), "{text}");
        }
    }

    #[test]
    fn equal_names_mean_the_same() {
        let read = |text: &str| Purge::read_json(text.as_bytes()).unwrap();
        for (one, other) in [
            (r#"{"url": "http://a.example./\u00fc"}"#, r#"{"url": "http://a.example/%C3%BC"}"#),
            (r#"{"host": "A.example.:81"}"#, r#"{"host": "a.example:81"}"#),
            (r#"{"glob": "http://a.example./*"}"#, r#"{"glob": "http://a.example/*"}"#),
            (r#"{"glob": "/\u00fc*"}"#, r#"{"glob": "/%C3%BC*"}"#),
            (r#"{"regex": "^/\u00fc+"}"#, r#"{"regex": "^/(?:%C3%BC)+"}"#),
        ] {
            assert_eq!(read(one), read(other));
        }
        assert!(Purge::read_json(r#"{"regex": "[\u00fc]"}"#.as_bytes()).is_err());
    }

    #[test]
    fn the_answer_says_whether_the_stream_has_the_purge() {
        let purge = Purge { scope: Scope::url("http://a.example/").unwrap(), soft: false };
        let told = |stream| {
            let purged = Purged::Nothing("a hint".to_owned());
            let (status, told) = PurgeResult { purged, spread: None, stream }.answer(&purge);
            (status.as_u16(), told["error"].is_null(), told["stream"].clone())
        };
        assert_eq!(told(None), (404, false, Value::Null));
        assert_eq!(told(Some(Ok(()))), (200, true, json!({"acknowledged": true})));
        let late = json!({"acknowledged": false, "error": "late"});
        assert_eq!(told(Some(Err("late".to_owned()))), (200, true, late));
    }
}
