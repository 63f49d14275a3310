//! Conditions on a request: which requests a rule is for.
//!
//! A condition has lists by kind. It holds if every list that is not empty has an entry that
//! matches; of the field tests all must. Two further parts may narrow it: what must not match
//! (`not`), and alternatives of which one must hold (`any`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use net::networks::Networks;
use regex::bytes::{Regex, RegexBuilder};
use semantics::readings::UrlReading;
use semantics::scanned_path::ScannedPath;
use semantics::{Fields, Pattern};

use crate::message::cookies;
use crate::message::scheme::Scheme;
use crate::rules::access::HostPattern;
use crate::rules::classes::{ClassTest, FoundClasses};

/// Facts of a request by which a rule is chosen, except for its fields.
#[derive(Clone, Copy, Debug)]
pub struct RuleFacts<'a> {
    /// The reverse site; `None` in a forward proxy.
    pub site: Option<&'a str>,
    /// The host of the URL that the request names, in any case and without a port.
    pub host: &'a str,
    /// The path and query of that URL, in its normal form.
    pub path: ScannedPath<'a>,
    /// The method of the request.
    pub method: &'a str,
    /// The scheme of that URL.
    pub scheme: Scheme,
    /// The address of the client; of a trusted proxy's request, that of the proxy's client.
    pub client: IpAddr,
    /// The address of the listener that the client connected to, as configured; `None` if it is not
    /// known.
    pub listener: Option<&'a str>,
    /// True if the request asks for another protocol and so bypasses the cache.
    pub upgrade: bool,
    /// The classes of the request that are known already.
    pub classes: &'a FoundClasses,
}

/// Requests that a rule applies to. An empty condition holds for every request.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Names of reverse sites.
    pub sites: Vec<String>,
    /// Hosts of the URL.
    pub hosts: Vec<HostPattern>,
    /// Paths without query.
    pub paths: Vec<PathTest>,
    /// Paths with their queries.
    pub urls: Vec<PathTest>,
    /// URLs with scheme and host.
    pub absolute_urls: Vec<PathTest>,
    /// Methods; GET includes HEAD, which asks about the same object.
    pub methods: Vec<Method>,
    /// Tests of fields, all of which must succeed.
    pub headers: Vec<HeaderTest>,
    /// Schemes of the URL.
    pub schemes: Vec<Scheme>,
    /// Networks of the client.
    pub clients: Networks,
    /// Parameters of the query.
    pub query: Vec<NamedTest>,
    /// Cookies, by name.
    pub cookies: Vec<NamedTest>,
    /// Classes of the request.
    pub classes: Vec<ClassTest>,
    /// Listeners that the client connected to.
    pub listeners: Vec<ListenerTest>,
    /// Share of the clients.
    pub share: Option<Share>,
    /// Lists of which no entry may match.
    pub not: Option<Box<Condition>>,
    /// Alternatives, one of which must hold.
    pub any: Vec<Condition>,
}

/// A test of a path or of a field's value: a pattern with stars, or a regular expression.
#[derive(Clone, Debug)]
pub enum PathTest {
    /// Matches the whole text.
    Pattern(Pattern),
    /// Matches anywhere in the text, unless it is anchored.
    Regex(Regex),
}

/// A test of a field: that it is present, or that it has a value.
#[derive(Clone, Debug)]
pub struct HeaderTest {
    pub(super) name: HeaderName,
    pub(super) value: Option<PathTest>,
    pub(super) negated: bool,
}

/// A test of a query parameter or cookie: that one with such a name is there, or has such a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTest {
    name: Pattern,
    value: Option<Pattern>,
}

/// A test of the listener that a client connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerTest {
    /// Any address with this port.
    Port(u16),
    /// This address or Unix socket, as configured.
    Address(String),
}

/// A share of the clients, chosen by a digest of their address, so that a client stays in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Ten-thousandths.
    parts: u32,
}

/// Largest memory in bytes of one compiled regular expression.
const REGEX_MAX: usize = 1 << 20;

impl Condition {
    /// Returns whether the condition holds for a request, with its path and query read as
    /// `reading`; `loosely`, for rules that keep requests out: with methods in any case, and
    /// classes in any reading of their text.
    pub(super) fn holds(
        &self,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
        reading: &UrlReading<'_>,
        loosely: bool,
    ) -> bool {
        self.holds_apart_from_url(asked, fields, loosely)
            && self.holds_for_url(asked, fields, reading, loosely)
    }

    /// Returns whether that holds of the condition which does not look at the URL.
    pub(super) fn holds_apart_from_url(
        &self,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
        loosely: bool,
    ) -> bool {
        let Condition { sites, hosts, methods, headers, .. } = self;
        (sites.is_empty() || is_for_site(sites, asked))
            && (hosts.is_empty() || is_for_host(hosts, asked))
            && (methods.is_empty() || is_for_method(methods, asked.method, loosely))
            && headers.iter().all(|test| test.holds(fields))
            && self.rest_holds(asked, fields, loosely)
    }

    /// Returns whether the rest holds, which may look at the URL.
    pub(super) fn holds_for_url(
        &self,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
        reading: &UrlReading<'_>,
        loosely: bool,
    ) -> bool {
        let Condition { paths, urls, absolute_urls, not, any, .. } = self;
        (paths.is_empty() || is_for_path(paths, reading.path))
            && (urls.is_empty() || is_for_path(urls, &reading.url))
            && (absolute_urls.is_empty() || is_for_absolute_url(absolute_urls, asked, reading))
            && not.as_ref().is_none_or(|not| !not.meets(asked, fields, reading, !loosely))
            && (any.is_empty() || any.iter().any(|one| one.holds(asked, fields, reading, loosely)))
    }

    /// Returns whether any entry of any list matches, methods in their exact case; `loosely` as in
    /// [`Condition::holds`], for classes alone.
    fn meets(
        &self,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
        reading: &UrlReading<'_>,
        loosely: bool,
    ) -> bool {
        is_for_site(&self.sites, asked)
            || is_for_host(&self.hosts, asked)
            || is_for_path(&self.paths, reading.path)
            || is_for_path(&self.urls, &reading.url)
            || is_for_absolute_url(&self.absolute_urls, asked, reading)
            || is_for_method(&self.methods, asked.method, false)
            || self.headers.iter().any(|test| test.holds(fields))
            || self.schemes.contains(&asked.scheme)
            || self.clients.contain(asked.client)
            || is_for_query(&self.query, asked.path.text)
            || has_cookie(&self.cookies, fields)
            || is_of_class(&self.classes, asked, fields, loosely)
            || is_for_listener(&self.listeners, asked)
            || self.share.is_some_and(|share| share.includes(asked.client))
    }

    /// Returns whether the lists hold that no index covers.
    fn rest_holds(&self, asked: &RuleFacts<'_>, fields: &impl Fields, loosely: bool) -> bool {
        (self.schemes.is_empty() || self.schemes.contains(&asked.scheme))
            && (self.clients.is_empty() || self.clients.contain(asked.client))
            && (self.query.is_empty() || is_for_query(&self.query, asked.path.text))
            && (self.cookies.is_empty() || has_cookie(&self.cookies, fields))
            && (self.classes.is_empty() || is_of_class(&self.classes, asked, fields, loosely))
            && (self.listeners.is_empty() || is_for_listener(&self.listeners, asked))
            && self.share.is_none_or(|share| share.includes(asked.client))
    }

    /// Returns what is left of the condition if lists of sites, hosts, methods, field tests by
    /// patterns, and paths that are all patterns are checked elsewhere; `None` if nothing is.
    pub(super) fn rest(&self) -> Option<Condition> {
        // What must not match, and alternatives, look at the same reading of the path.
        let is_done = self.patterns().is_some() && self.parts().next().is_none();
        let paths = if is_done { Vec::new() } else { self.paths.clone() };
        let rest = Condition {
            sites: Vec::new(),
            hosts: Vec::new(),
            methods: Vec::new(),
            headers: self.headers.iter().filter(|test| test.is_regex()).cloned().collect(),
            paths,
            ..self.clone()
        };
        let Condition { paths, urls, headers, schemes, clients, query, .. } = &rest;
        let Condition { cookies, classes, listeners, share, not, any, absolute_urls, .. } = &rest;
        let is_empty = (paths.is_empty() && urls.is_empty() && absolute_urls.is_empty())
            && (headers.is_empty()
                && schemes.is_empty()
                && clients.is_empty()
                && query.is_empty()
                && cookies.is_empty())
            && (classes.is_empty() && listeners.is_empty())
            && (share.is_none() && not.is_none() && any.is_empty());
        (!is_empty).then_some(rest)
    }

    /// Returns the patterns of the paths; `None` if one is a regular expression.
    pub(super) fn patterns(&self) -> Option<Vec<&Pattern>> {
        let patterns = self.paths.iter().map(|test| match test {
            PathTest::Pattern(pattern) => Some(pattern),
            PathTest::Regex(_) => None,
        });
        patterns.collect()
    }

    /// Returns the condition without what a purge by URL does not know: method, fields, client. It
    /// holds wherever the whole condition does.
    pub(super) fn of_place(&self) -> Condition {
        let not = self.not.as_ref().map(|not| {
            let Condition { sites, hosts, paths, .. } = (**not).clone();
            Box::new(Condition { sites, hosts, paths, ..Condition::default() })
        });
        Condition {
            sites: self.sites.clone(),
            hosts: self.hosts.clone(),
            paths: self.paths.clone(),
            not,
            any: self.any.iter().map(Condition::of_place).collect(),
            ..Condition::default()
        }
    }

    /// Returns whether the condition looks at parts of a request that are not in the key of its
    /// object: fields, cookies, the client, the listener. The query is among them, since a rule
    /// may take parameters out of the key; a whole URL only if one does, which `changes_query`
    /// tells.
    pub(super) fn looks_past_key(&self, changes_query: bool) -> bool {
        let Condition { headers, clients, query, cookies, listeners, share, .. } = self;
        let looks_at_query = !(self.urls.is_empty() && self.absolute_urls.is_empty());
        let is_empty = headers.is_empty()
            && (clients.is_empty() && query.is_empty() && cookies.is_empty())
            && (listeners.is_empty() && share.is_none());
        !is_empty
            || (changes_query && looks_at_query)
            || self.classes.iter().any(|test| test.class().looks_past_key())
            || self.parts().any(|part| part.looks_past_key(changes_query))
    }

    /// Returns whether the condition looks at path and query together.
    pub(super) fn looks_at_url(&self) -> bool {
        let is_of_urls = !(self.urls.is_empty() && self.absolute_urls.is_empty());
        is_of_urls || self.parts().any(Condition::looks_at_url)
    }

    /// Returns whether the condition looks at what is not known of a redirect's target: the
    /// listener, and classes by the client's own fields.
    pub(super) fn looks_past_redirects(&self) -> bool {
        !self.listeners.is_empty()
            || self.classes.iter().any(|test| test.class().looks_past_key())
            || self.parts().any(Condition::looks_past_redirects)
    }

    /// Returns whether the condition looks at the client's address.
    pub(super) fn looks_at_client(&self) -> bool {
        !self.clients.is_empty()
            || self.share.is_some()
            || self.classes.iter().any(|test| test.class().looks_at_client())
            || self.parts().any(Condition::looks_at_client)
    }

    fn parts(&self) -> impl Iterator<Item = &Condition> {
        self.not.iter().map(|not| &**not).chain(&self.any)
    }

    /// Adds the names of the fields that the condition looks at, for `Vary`: `*` stands for the
    /// client's address.
    pub(super) fn add_names(&self, names: &mut Vec<HeaderValue>) {
        let mut add = |name: HeaderValue| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        for test in &self.headers {
            add(HeaderValue::from_name(test.name.clone()));
        }
        if !self.cookies.is_empty() {
            add(HeaderValue::from_static("cookie"));
        }
        // Of what a client sends, this is the nearest to the port.
        if !self.listeners.is_empty() {
            add(HeaderValue::from_name(http::header::HOST));
        }
        if !self.clients.is_empty() || self.share.is_some() {
            add(HeaderValue::from_static("*"));
        }
        self.classes.iter().for_each(|test| test.class().add_names(names));
        self.parts().for_each(|part| part.add_names(names));
    }
}

fn is_for_site(sites: &[String], asked: &RuleFacts<'_>) -> bool {
    sites.iter().any(|site| Some(site.as_str()) == asked.site)
}

fn is_for_host(hosts: &[HostPattern], asked: &RuleFacts<'_>) -> bool {
    hosts.iter().any(|pattern| pattern.matches(asked.host))
}

fn is_for_listener(tests: &[ListenerTest], asked: &RuleFacts<'_>) -> bool {
    asked.listener.is_some_and(|listener| tests.iter().any(|test| test.matches(listener)))
}

fn is_for_path(paths: &[PathTest], path: &[u8]) -> bool {
    paths.iter().any(|test| test.matches(path))
}

fn is_for_absolute_url(
    tests: &[PathTest],
    asked: &RuleFacts<'_>,
    reading: &UrlReading<'_>,
) -> bool {
    if tests.is_empty() {
        return false;
    }
    let host = asked.host.strip_suffix('.').unwrap_or(asked.host).to_ascii_lowercase();
    let url = [asked.scheme.name(), "://", &host].concat();
    is_for_path(tests, &[url.as_bytes(), &reading.url].concat())
}

fn is_for_method(methods: &[Method], asked: &str, any_case: bool) -> bool {
    let asks = |name: &str| match any_case {
        true => name.eq_ignore_ascii_case(asked),
        false => name == asked,
    };
    methods.iter().any(|one| asks(one.as_str()) || (*one == Method::GET && asks("HEAD")))
}

fn is_for_query(tests: &[NamedTest], path: &str) -> bool {
    let Some((_, query)) = path.split_once('?').filter(|_| !tests.is_empty()) else {
        return false;
    };
    form_urlencoded::parse(query.as_bytes())
        .any(|(name, value)| tests.iter().any(|test| test.fits(name.as_bytes(), value.as_bytes())))
}

fn has_cookie(tests: &[NamedTest], fields: &impl Fields) -> bool {
    !tests.is_empty()
        && cookies::pairs(fields)
            .any(|(name, value)| tests.iter().any(|test| test.fits(name, value)))
}

fn is_of_class(
    tests: &[ClassTest],
    asked: &RuleFacts<'_>,
    fields: &impl Fields,
    loosely: bool,
) -> bool {
    tests.iter().any(|test| test.holds(asked, fields, loosely))
}

impl PathTest {
    /// Returns whether the test matches a path, or a path and query.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            PathTest::Pattern(pattern) => pattern.matches(path),
            PathTest::Regex(regex) => regex.is_match(path),
        }
    }

    /// Returns the captures of a path, as ranges: of a pattern the texts of its stars, of a regular
    /// expression its groups, both numbered from 1. `None` if the path does not match.
    pub(super) fn captures(&self, path: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
        match self {
            PathTest::Pattern(pattern) => pattern.captures(path),
            PathTest::Regex(regex) => {
                let found = regex.captures(path)?;
                let groups = found.iter().skip(1);
                Some(groups.map(|group| group.map_or(0..0, |group| group.range())).collect())
            }
        }
    }

    /// Returns the number of captures that every path which matches has.
    pub(super) fn capture_count(&self) -> usize {
        match self {
            PathTest::Pattern(pattern) => pattern.as_str().matches('*').count(),
            PathTest::Regex(regex) => regex.captures_len() - 1,
        }
    }

    /// Parses a path: a pattern that begins with `/` or `*`, or a regular expression after `~`.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse(text: &str, ignores_case: bool) -> Result<PathTest, String> {
        PathTest::beginning(&["/", "*"], "a path that begins with /, *", text, ignores_case)
    }

    /// Parses a URL with scheme and host, otherwise like [`PathTest::parse`].
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse_absolute(text: &str, ignores_case: bool) -> Result<PathTest, String> {
        let begins = ["http://", "https://", "*"];
        PathTest::beginning(
            &begins,
            "a URL that begins with http://, https://, *",
            text,
            ignores_case,
        )
    }

    fn beginning(
        begins: &[&str],
        expected: &str,
        text: &str,
        ignores_case: bool,
    ) -> Result<PathTest, String> {
        if let Some(expression) = text.strip_prefix('~') {
            let mut builder = RegexBuilder::new(expression);
            // Word boundaries between characters of Unicode take much longer to find.
            builder.unicode(!expression.is_ascii());
            builder.case_insensitive(ignores_case).size_limit(REGEX_MAX).dfa_size_limit(REGEX_MAX);
            let regex = builder.build().map_err(|error| {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim();
                format!("expected a regular expression after ~, got {text:?}: {why}")
            })?;
            return Ok(PathTest::Regex(regex));
        }
        match begins.iter().any(|begin| text.starts_with(begin)) {
            true if ignores_case => Ok(PathTest::Pattern(Pattern::ignoring_case(text))),
            true => Ok(PathTest::Pattern(Pattern::new(text))),
            false => Err(format!("expected {expected} or ~, got {text:?}")),
        }
    }
}

impl ListenerTest {
    /// Returns whether the test matches the address of a listener.
    pub fn matches(&self, listener: &str) -> bool {
        match self {
            ListenerTest::Port(port) => {
                listener.parse::<SocketAddr>().is_ok_and(|address| address.port() == *port)
            }
            ListenerTest::Address(address) => address == listener,
        }
    }
}

impl HeaderTest {
    /// Returns whether the value is compared with a regular expression.
    pub(super) fn is_regex(&self) -> bool {
        matches!(self.value, Some(PathTest::Regex(_)))
    }

    pub(super) fn holds(&self, fields: &impl Fields) -> bool {
        let fits = |line: &[u8]| self.value.as_ref().is_none_or(|value| value.matches(line));
        fields.lines(&self.name).any(fits) != self.negated
    }
}

impl FromStr for HeaderTest {
    type Err = String;

    /// Parses `Name` (the field is present), `Name: pattern` (a line of it matches, ignoring case)
    /// or `Name: ~expression`; a leading `!` negates the condition.
    fn from_str(text: &str) -> Result<HeaderTest, String> {
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, value) = match rest.split_once(':') {
            Some((name, value)) => (name, Some(value.trim())),
            None => (rest, None),
        };
        let value = value.map(|value| match value.starts_with('~') {
            true => PathTest::parse(value, false),
            false => Ok(PathTest::Pattern(Pattern::ignoring_case(value))),
        });
        let value = value.transpose()?;
        let name = name.trim().parse().map_err(|_| {
            format!("expected \"Name\", \"Name: pattern\" or one of them behind !, got {text:?}")
        })?;
        Ok(HeaderTest { name, value, negated })
    }
}

impl NamedTest {
    fn fits(&self, name: &[u8], value: &[u8]) -> bool {
        self.name.matches(name) && self.value.as_ref().is_none_or(|known| known.matches(value))
    }
}

impl FromStr for NamedTest {
    type Err = String;

    /// Parses `name` or `name=value`; `*` stands for anything in both.
    fn from_str(text: &str) -> Result<NamedTest, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Pattern::new(value))),
            None => (text, None),
        };
        match name.trim() {
            "" => Err(format!("expected \"name\" or \"name=value\", got {text:?}")),
            name => Ok(NamedTest { name: Pattern::new(name), value }),
        }
    }
}

impl Share {
    /// Returns whether a client is in the share.
    fn includes(self, client: IpAddr) -> bool {
        let part = match client {
            IpAddr::V4(v4) => Share::part_of(&v4.octets()),
            // One client often has a whole /64.
            IpAddr::V6(v6) => Share::part_of(&v6.octets()[..8]),
        };
        part < self.parts
    }

    /// Returns the share in ten-thousandths.
    pub(crate) fn parts(self) -> u32 {
        self.parts
    }

    /// Returns the part, from 0 to 9999, that these bytes fall into: a digest, FNV-1a.
    pub(crate) fn part_of(bytes: &[u8]) -> u32 {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        u32::try_from((hash ^ (hash >> 32)) % 10_000).unwrap_or(0)
    }
}

impl FromStr for Share {
    type Err = String;

    /// Parses a percentage such as `5%` or `0.5%`.
    fn from_str(text: &str) -> Result<Share, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to 10000"
            )]
            Some(percent) => Ok(Share { parts: (percent * 100.0).round() as u32 }),
            None => Err(format!("expected a share from 0% to 100%, got {text:?}")),
        }
    }
}

impl fmt::Display for PathTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathTest::Pattern(pattern) => pattern.fmt(f),
            PathTest::Regex(regex) => write!(f, "~{regex}"),
        }
    }
}
