//! The condition of a `[[rule]]`: its keys, those for what must not match (`not-…`), and the
//! alternatives of `any`; and their translation for the proxy.

use http::Method;
use ipnet::IpNet;
use proxy::message::scheme::Scheme;
use proxy::rules::classes::Classes;
use proxy::rules::request_rules::{Condition, HeaderTest, PathTest};

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
    pub methods: Vec<String>,
    pub headers: Vec<String>,
    pub schemes: Vec<String>,
    pub clients: Vec<IpNet>,
    pub query: Vec<String>,
    pub cookies: Vec<String>,
    pub classes: Vec<String>,
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
        counts.into_iter().chain([query.len(), cookies.len()]).any(|count| count > 1_000)
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
        let any = self.any.iter().flat_map(RuleCondition::sites);
        self.is.sites.iter().chain(&self.not.sites).chain(any).collect()
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
    methods: "not-methods",
    headers: "not-headers",
    query: "not-query",
    cookies: "not-cookies",
    classes: "not-classes",
};

impl Tests {
    fn to_proxy(
        &self,
        keys: &Keys,
        ignores_case: bool,
        classes: &Classes,
    ) -> Result<Condition, Wrong> {
        let paths = |key, texts: &[String]| {
            let parse = |text: &String| PathTest::parse(text, ignores_case);
            texts.iter().map(parse).collect::<Result<_, _>>().map_err(|why| (key, why))
        };
        let method = |name: &String| {
            Method::from_bytes(name.as_bytes()).map_err(|error| (keys.methods, error.to_string()))
        };
        Ok(Condition {
            sites: self.sites.clone(),
            hosts: parse_all(keys.hosts, &self.hosts)?,
            paths: paths(keys.paths, &self.paths)?,
            urls: paths(keys.urls, &self.urls)?,
            methods: self.methods.iter().map(method).collect::<Result<_, _>>()?,
            headers: parse_all::<HeaderTest>(keys.headers, &self.headers)?,
            // The kind of the setting admits no other word.
            schemes: self.schemes.iter().filter_map(|name| Scheme::named(name)).collect(),
            clients: self.clients.clone().into(),
            query: parse_all(keys.query, &self.query)?,
            cookies: parse_all(keys.cookies, &self.cookies)?,
            classes: (self.classes.iter().map(|text| classes.test(text)).collect::<Result<_, _>>())
                .map_err(|why| (keys.classes, why))?,
            ..Condition::default()
        })
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
