//! Tests of the rules alone: which rule is found, and how it changes fields and names.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use semantics::scanned_path::ScannedPath;
use semantics::{Lifetime, Lifetimes, Pattern, QueryRule, Time};

use super::*;
use crate::message::header_edits::Edits;
use crate::message::scheme::Scheme;
use crate::rules::classes::{ClassValues, FoundClasses};

fn path(text: &str) -> PathTest {
    PathTest::parse(text, false).unwrap()
}

fn rule(name: &str) -> Rule {
    Rule::new(name.to_owned(), Settings::default())
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let line = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    lines.iter().map(line).collect()
}

/// Returns the facts of a request of a client on this machine.
fn asked(classes: &FoundClasses) -> RuleFacts<'_> {
    RuleFacts {
        site: None,
        host: "h",
        path: ScannedPath::new("/"),
        method: "GET",
        scheme: Scheme::Http,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        listener: Some("[::]:8080"),
        upgrade: false,
        classes,
    }
}

fn found(rules: &Rules, site: Option<&str>, method: &Method, text: &str) -> Option<String> {
    let (url, fields) = (url(text), fields(&[("cookie", "Session=1"), ("x-a", "b")]));
    let (host, path) = (host(&url), ScannedPath::new(url.path_and_query()));
    let method = method.as_str();
    let classes = FoundClasses::default();
    let asked = RuleFacts { site, host, path, method, ..asked(&classes) };
    let rule = rules.find(&asked, &fields).filter(|rule| !rule.is_for_the_rest());
    rule.map(|rule| rule.name.clone())
}

#[test]
fn the_first_matching_rule_decides() {
    let when = |when: Condition, name: &str| Rule { when, ..rule(name) };
    let paths = |text: &str| vec![path(text)];
    let rules = Rules::new(
        vec![
            when(Condition { paths: paths("/a/b/*"), ..Condition::default() }, "deep"),
            when(Condition { paths: paths("/a/*"), ..Condition::default() }, "wide"),
            when(
                Condition { hosts: vec![".x.example".parse().unwrap()], ..Default::default() },
                "x",
            ),
            when(Condition { sites: vec!["shop".to_owned()], ..Condition::default() }, "shop"),
            when(Condition { methods: vec![Method::GET], ..Condition::default() }, "get"),
        ],
        &Settings::default(),
    );
    for (site, method, text, expected) in [
        (None, Method::GET, "http://h/a/b/c", Some("deep")),
        (None, Method::GET, "http://h/a/b/x/..//c?q", Some("deep")),
        (None, Method::GET, "http://h/%61/b/", Some("deep")),
        (None, Method::GET, "http://h/a/x/../b/", Some("wide")),
        (None, Method::GET, "http://h/x/%2e%2e/a/b/", Some("get")),
        (None, Method::GET, "http://h/a/x", Some("wide")),
        (None, Method::GET, "http://w.X.example:81/", Some("x")),
        (Some("shop"), Method::POST, "http://h/", Some("shop")),
        (None, Method::GET, "http://h/", Some("get")),
        (None, Method::HEAD, "http://h/", Some("get")),
        (Some("blog"), Method::POST, "http://[::1]:8/", None),
    ] {
        let found = found(&rules, site, &method, text);
        assert_eq!(found.as_deref(), expected, "{method} {text}");
    }
}

#[test]
fn a_rule_that_bypasses_the_cache_covers_every_spelling() {
    let when = |path: &str| Condition { paths: vec![self::path(path)], ..Condition::default() };
    let in_any_case = |path: &str| Condition {
        paths: vec![PathTest::parse(path, true).unwrap()],
        ..Condition::default()
    };
    let rules = Rules::new(
        vec![
            Rule { when: when("/account/*"), bypass: true, ..rule("account") },
            Rule { when: in_any_case("/private/*"), bypass: true, ..rule("private") },
            Rule { when: when("/static/*"), ..rule("static") },
        ],
        &Settings::default(),
    );
    for (path, expected) in [
        ("/account/x", Some("account")),
        ("/static/x", Some("static")),
        ("/static/../account/x", Some("account")),
        ("/static/%2e%2e%2faccount/x", Some("account")),
        ("/account/%2e%2e%2fstatic/x", Some("account")),
        ("/other/%2e%2e%2fstatic/x", None),
        ("/other/../static/x", None),
        ("/static/..;/account/x", Some("account")),
        ("/account;a=b/x", Some("account")),
        ("/static\\..\\account\\x", Some("account")),
        ("/static/..%5caccount/x", Some("account")),
        ("/static%2fx/../account/x", Some("account")),
        ("/static;a=b/x", None),
        ("/static/x;a=b", Some("static")),
        ("/Account/x", None),
        ("/STATIC/../Private/x", Some("private")),
    ] {
        let found = found(&rules, None, &Method::GET, &format!("http://h{path}"));
        assert_eq!(found.as_deref(), expected, "{path}");
    }
}

/// Returns the response to a GET after the rule has edited it.
fn settled(
    rule: &Rule,
    path: &str,
    status: u16,
    lines: &[(&'static str, &'static str)],
) -> HeaderMap {
    let mut answer = fields(lines);
    let status = StatusCode::from_u16(status).unwrap();
    let of = Settled { status, confirms: status, confirmed: None };
    rule.settle(path, of, &mut answer, Time::from_unix(0));
    answer
}

fn with_ttl(name: &str) -> Rule {
    let fixed = Some(Lifetime::Same(semantics::Seconds::new(60)));
    let lifetimes = Lifetimes { fixed, ..Lifetimes::default() };
    Rule::new(name.to_owned(), Settings { lifetimes, ..Settings::default() })
}

#[test]
fn a_rule_that_bypasses_the_cache_covers_every_method_case() {
    let when = |method| Condition { methods: vec![method], ..Condition::default() };
    let rules = Rules::new(
        vec![
            Rule { when: when(Method::GET), bypass: true, ..rule("out") },
            Rule { when: when(Method::POST), ..rule("in") },
        ],
        &Settings::default(),
    );
    for (method, expected) in [
        ("GET", Some("out")),
        ("HEAD", Some("out")),
        ("get", Some("out")),
        ("head", Some("out")),
        ("POST", Some("in")),
        ("post", None),
    ] {
        let method = method.parse().unwrap();
        let found = found(&rules, None, &method, "http://h/");
        assert_eq!(found.as_deref(), expected, "{method}");
    }
}

#[test]
fn a_page_under_the_name_of_a_file_gets_no_lifetime() {
    let lines = &[("content-type", "text/html"), ("cache-control", "public")];
    for (rule, path, status, expected) in [
        (with_ttl("longer"), "/account/x.css", 200, "no-store"),
        (with_ttl("longer"), "/account/", 200, "public"),
        (with_ttl("longer"), "/account/x.css", 404, "public"),
        (rule("plain"), "/account/x.css", 200, "public"),
    ] {
        let answer = settled(&rule, path, status, lines);
        assert_eq!(answer["cache-control"], expected, "{} {path} {status}", rule.name);
    }
}

#[test]
fn responses_are_edited_by_status() {
    let set = ["Cache-Control: public, max-age=604800".to_owned()];
    let answer = Edits::new(&set, &["Expires".to_owned()]).unwrap();
    let answer = vec![AnswerEdits { statuses: None, edits: answer }];
    let files = Rule { answer, key_headers: vec![header::ACCEPT], ..with_ttl("files") };
    let (short, none) = (("cache-control", "max-age=1"), ("x-a", "b"));
    for (status, line, is_edited) in [
        (200, none, true),
        (206, short, true),
        (304, none, true),
        (301, none, true),
        (302, short, true),
        (302, none, false),
        (307, none, false),
        (401, short, false),
        (404, short, false),
        (503, none, false),
    ] {
        let answer = settled(&files, "/", status, &[line]);
        let told = answer.get("cache-control").is_some_and(|line| line == "public, max-age=604800");
        assert_eq!(told, is_edited, "{status} {line:?}");
        assert_eq!(answer["vary"], "accept", "{status}");
    }
}

#[test]
fn field_conditions_are_tested() {
    for (test, expected) in [
        ("Cookie", true),
        ("!Cookie", false),
        ("cookie: *session=*", true),
        ("!cookie: *session=*", false),
        ("cookie: other=*", false),
        ("!cookie: other=*", true),
        ("x-none", false),
        ("!x-none", true),
        ("!x-none: *", true),
    ] {
        let headers = vec![test.parse().unwrap()];
        let when = Condition { headers, ..Condition::default() };
        let rules = Rules::new(vec![Rule { when, ..rule("it") }], &Settings::default());
        let is_found = found(&rules, None, &Method::GET, "http://h/").is_some();
        assert_eq!(is_found, expected, "{test}");
    }
    assert!("a b: c".parse::<HeaderTest>().is_err());
    assert!("".parse::<HeaderTest>().is_err());
}

#[test]
fn every_possible_name_of_an_object_is_returned() {
    let query = |patterns: &[&str]| QueryRule {
        drop: patterns.iter().map(|pattern| Pattern::new(pattern)).collect(),
        ..QueryRule::default()
    };
    let only = |text: &str| Condition { paths: vec![path(text)], ..Condition::default() };
    let with_cookie = Condition { headers: vec!["cookie".parse().unwrap()], ..only("/a/*") };
    let rules = Rules::new(
        vec![
            Rule { when: only("/b/*"), query: query(&["*"]), ..rule("elsewhere") },
            Rule { when: with_cookie, query: query(&["u"]), ..rule("cookie") },
            Rule { query: query(&["v"]), ..rule("rest") },
        ],
        &Settings::default(),
    );
    let names = rules.names(None, &url("http://h/a/x?u=1&v=2&w=3"));
    let names: Vec<_> = names.iter().map(Url::path_and_query).collect();
    assert_eq!(names, ["/a/x?u=1&v=2&w=3", "/a/x?v=2&w=3", "/a/x?u=1&w=3"]);
    assert_eq!(Rules::default().names(None, &url("http://h/?a")).len(), 1);
}

#[test]
fn the_origin_is_sent_the_query_of_the_key() {
    let query = QueryRule { sorted: true, ..QueryRule::default() };
    let by_key = Rule { query, ..rule("sorted") };
    assert!(by_key.rewrites_query(&Method::GET) && by_key.rewrites_query(&Method::HEAD));
    assert!(!by_key.rewrites_query(&Method::POST));
    assert!(!Rule { bypass: true, ..by_key.clone() }.rewrites_query(&Method::GET));
    assert!(!Rule { query_send: QuerySend::All, ..by_key }.rewrites_query(&Method::GET));
    assert!(!rule("none").rewrites_query(&Method::GET));
}

#[test]
fn key_fields_are_normalized() {
    let by_kind = Rule {
        by_device: true,
        languages: vec!["en".to_owned(), "de".to_owned()],
        key_headers: vec![HeaderName::from_static("x-currency")],
        ..rule("kinds")
    };
    let mut request = fields(&[
        ("user-agent", "Mozilla/5.0 (iPhone) Mobile"),
        ("x-ua-device", "a client's own word"),
        ("accept-language", "fr, de-CH;q=0.5"),
    ]);
    by_kind.prepare(&mut request, &ClassValues::default());
    assert_eq!(request["x-ua-device"], "mobile");
    assert_eq!(request["accept-language"], "de");
    let mut answer = settled(&by_kind, "/", 200, &[("vary", "accept-encoding")]);
    let vary = |fields: &HeaderMap| -> Vec<String> {
        fields.get_all("vary").iter().map(|line| line.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(vary(&answer), ["accept-encoding", "x-ua-device", "accept-language", "x-currency"]);
    by_kind.unfold_vary(&mut answer);
    assert_eq!(vary(&answer), ["accept-encoding", "user-agent", "accept-language", "x-currency"]);
}

#[test]
fn a_rule_may_be_for_a_listener() {
    let only = |listeners: Vec<ListenerTest>| Condition { listeners, ..Condition::default() };
    let not = Condition { not: Some(Box::new(only(vec![ListenerTest::Port(80)]))), ..only(vec![]) };
    let unix = only(vec![ListenerTest::Address("unix:/s".to_owned())]);
    let rules = Rules::new(
        vec![
            Rule { when: unix, ..rule("socket") },
            Rule { when: only(vec![ListenerTest::Port(8080)]), ..rule("port") },
            Rule { when: not, ..rule("other") },
        ],
        &Settings::default(),
    );
    let found = |listener: Option<&str>| {
        let classes = FoundClasses::default();
        let asked = RuleFacts { listener, ..asked(&classes) };
        let found = rules.find(&asked, &HeaderMap::new());
        let found = found.filter(|rule| !rule.is_for_the_rest());
        found.map_or("none".to_owned(), |rule| {
            assert!(rule.is_by_mark, "objects are those of the listener");
            rule.name.clone()
        })
    };
    assert_eq!(found(Some("unix:/s")), "socket");
    assert_eq!(found(Some("[::]:8080")), "port");
    assert_eq!(found(Some("127.0.0.1:8080")), "port");
    assert_eq!(found(Some("127.0.0.1:80")), "none");
    assert_eq!(found(Some("127.0.0.1:18080")), "other");
    assert_eq!(found(None), "other");
}
