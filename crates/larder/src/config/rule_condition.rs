//! The condition of a `[[rule]]`: its keys, those for what must not match (`not-…`), and the
//! alternatives of `any`; and their translation for the proxy.

use http::Method;
use ipnet::IpNet;
use proxy::message::scheme::Scheme;
use proxy::rules::classes::Classes;
use proxy::rules::request_rules::{Condition, HeaderTest, ListenerTest, PathTest};

use crate::config::listen_addr::ListenAddr;

/// A problem of a rule: the key, and a sentence.
pub type Wrong = (&'static str, String);

/// Lists of what may match, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Tests {
    pub sites: Vec<String>,
    pub hosts: Vec<String>,
    pub paths: Vec<String>,
    pub urls: Vec<String>,
    pub absolute_urls: Vec<String>,
    pub methods: Vec<String>,
    pub headers: Vec<String>,
    pub schemes: Vec<String>,
    pub clients: Vec<IpNet>,
    pub query: Vec<String>,
    pub cookies: Vec<String>,
    pub classes: Vec<String>,
    pub listeners: Vec<String>,
}

/// The condition of a rule, or one of its alternatives.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RuleCondition {
    pub is: Tests,
    pub not: Tests,
    pub paths_ignore_case: bool,
    pub share: Option<String>,
    pub any: Vec<RuleCondition>,
}

impl RuleCondition {
    /// Returns the condition as the proxy uses it.
    pub fn to_proxy(&self, classes: &Classes) -> Result<Condition, Wrong> {
        let not = match self.not == Tests::default() {
            true => None,
            false => {
                Some(Box::new(self.not.to_proxy(&NOT_KEYS, self.paths_ignore_case, classes)?))
            }
        };
        let share = self.share.as_ref().map(|text| text.parse());
        let any = self.any.iter().map(|one| one.to_proxy(classes).map_err(of_alternative));
        Ok(Condition {
            share: share.transpose().map_err(|why| ("share", why))?,
            not,
            any: any.collect::<Result<_, _>>()?,
            ..self.is.to_proxy(&KEYS, self.paths_ignore_case, classes)?
        })
    }

    /// Returns whether a list is so long that comparing it with another takes time.
    pub fn is_long(&self) -> bool {
        let Tests { sites, hosts, paths, urls, clients, query, cookies, .. } = &self.is;
        let counts = [sites.len(), hosts.len(), paths.len(), urls.len(), clients.len()];
        let others = [query.len(), cookies.len(), self.is.absolute_urls.len()];
        counts.into_iter().chain(others).any(|count| count > 1_000)
    }

    /// Returns the names of the classes that the condition looks at.
    pub fn class_names(&self) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> = self.any.iter().flat_map(RuleCondition::class_names).collect();
        let own = self.is.classes.iter().chain(&self.not.classes);
        all.extend(own.filter_map(|text| text.split('=').next()).map(str::trim));
        all.into_iter()
    }

    /// Returns every text list of sites, for the check that the sites exist.
    pub fn sites(&self) -> Vec<&String> {
        self.names(&|tests| &tests.sites)
    }

    /// Returns all names of listeners, for the check that the listeners exist.
    pub fn listeners(&self) -> Vec<&String> {
        self.names(&|tests| &tests.listeners)
    }

    fn names(&self, of: &impl Fn(&Tests) -> &Vec<String>) -> Vec<&String> {
        let any = self.any.iter().flat_map(|one| one.names(of));
        of(&self.is).iter().chain(of(&self.not)).chain(any).collect()
    }
}

/// Names the key of a problem in an alternative.
fn of_alternative((key, why): Wrong) -> Wrong {
    if key == "any" { (key, why) } else { ("any", format!("{key}: {why}")) }
}

/// The names of keys whose texts are parsed here.
struct Keys {
    hosts: &'static str,
    paths: &'static str,
    urls: &'static str,
    absolute_urls: &'static str,
    methods: &'static str,
    headers: &'static str,
    query: &'static str,
    cookies: &'static str,
    classes: &'static str,
}

const KEYS: Keys = Keys {
    hosts: "hosts",
    paths: "paths",
    urls: "urls",
    absolute_urls: "absolute-urls",
    methods: "methods",
    headers: "headers",
    query: "query",
    cookies: "cookies",
    classes: "classes",
};

const NOT_KEYS: Keys = Keys {
    hosts: "not-hosts",
    paths: "not-paths",
    urls: "not-urls",
    absolute_urls: "not-absolute-urls",
    methods: "not-methods",
    headers: "not-headers",
    query: "not-query",
    cookies: "not-cookies",
    classes: "not-classes",
};

impl Tests {
    /// Returns whether a list looks at the path, which may have several readings.
    pub fn looks_at_path(&self) -> bool {
        let Tests { paths, urls, absolute_urls, .. } = self;
        !(paths.is_empty() && urls.is_empty() && absolute_urls.is_empty())
    }

    fn to_proxy(
        &self,
        keys: &Keys,
        ignores_case: bool,
        classes: &Classes,
    ) -> Result<Condition, Wrong> {
        let paths = |key, texts: &[String], parse: fn(&str, bool) -> _| {
            let parse = |text: &String| parse(text, ignores_case);
            texts.iter().map(parse).collect::<Result<_, _>>().map_err(|why| (key, why))
        };
        let method = |name: &String| {
            Method::from_bytes(name.as_bytes()).map_err(|error| (keys.methods, error.to_string()))
        };
        Ok(Condition {
            sites: self.sites.clone(),
            hosts: parse_all(keys.hosts, &self.hosts)?,
            paths: paths(keys.paths, &self.paths, PathTest::parse)?,
            urls: paths(keys.urls, &self.urls, PathTest::parse)?,
            absolute_urls: paths(
                keys.absolute_urls,
                &self.absolute_urls,
                PathTest::parse_absolute,
            )?,
            methods: self.methods.iter().map(method).collect::<Result<_, _>>()?,
            headers: parse_all::<HeaderTest>(keys.headers, &self.headers)?,
            // The kind of the setting admits no other word.
            schemes: self.schemes.iter().filter_map(|name| Scheme::named(name)).collect(),
            clients: self.clients.clone().into(),
            query: parse_all(keys.query, &self.query)?,
            cookies: parse_all(keys.cookies, &self.cookies)?,
            classes: (self.classes.iter().map(|text| classes.test(text)).collect::<Result<_, _>>())
                .map_err(|why| (keys.classes, why))?,
            // The kind of the setting admits nothing else.
            listeners: self.listeners.iter().filter_map(|text| listener(text)).collect(),
            ..Condition::default()
        })
    }
}

/// Parses the name of a listener: a port, or its address.
pub fn listener(text: &str) -> Option<ListenerTest> {
    match text.parse::<u16>() {
        Ok(port) => Some(ListenerTest::Port(port)),
        Err(_) => text.parse().ok().map(|at: ListenAddr| ListenerTest::Address(at.to_string())),
    }
}

/// Parses the texts of a key.
pub fn parse_all<T: std::str::FromStr<Err: ToString>>(
    key: &'static str,
    texts: &[String],
) -> Result<Vec<T>, Wrong> {
    let parse = |text: &String| text.parse::<T>().map_err(|error| (key, error.to_string()));
    texts.iter().map(parse).collect()
}
