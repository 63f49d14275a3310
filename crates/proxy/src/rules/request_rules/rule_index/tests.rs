//! Checks compiled rules against trying each rule in turn.

use std::fmt::Write as _;

use fastrand::Rng;
use http::{HeaderName, HeaderValue};
use semantics::Settings;
use semantics::readings::UrlReading;

use super::*;
use crate::rules::request_rules::{HeaderTest, PathTest, Rules};

/// Returns the numbers of the rules that match up to the first that does not continue, by trying
/// each.
fn tried(rules: &[Rule], asked: &RuleFacts<'_>, fields: &HeaderMap) -> Vec<usize> {
    let fits = |rule: &Rule| {
        let keeps_out = rule.keeps_out() || (rule.refuse_upgrades && asked.upgrade);
        let readings = readings::readings(asked.path);
        let readings = readings::with_query(asked.path.text, &readings);
        let holds = |reading: &UrlReading<'_>| rule.when.holds(asked, fields, reading, keeps_out);
        if keeps_out { readings.iter().any(holds) } else { readings.iter().all(holds) }
    };
    let mut found = Vec::new();
    for (number, rule) in (0..).zip(rules).filter(|(_, rule)| fits(rule)) {
        found.push(number);
        if !rule.continues {
            break;
        }
    }
    found
}

/// Makes texts from few letters, so that conditions and requests match often.
struct Maker(Rng);

impl Maker {
    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.0.usize(..all.len())]
    }

    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.0.usize(..=most)).map(|_| self.one_of(pieces)).collect()
    }

    fn list<T>(&mut self, mut make: impl FnMut(&mut Maker) -> T) -> Vec<T> {
        let length = [0, 0, 0, 1, 1, 2, 4][self.0.usize(..7)];
        (0..length).map(|_| make(self)).collect()
    }

    fn host(&mut self) -> String {
        let mut host = self.one_of(&["a", "b", "A"]).to_owned();
        for _ in 0..self.0.usize(..3) {
            let _ = write!(host, ".{}", self.one_of(&["a", "b", "bb"]));
        }
        host
    }

    fn pattern(&mut self) -> Pattern {
        let text = self.text(&["a", "b", "B", "/", "*", "*", "ab", "é"], 6);
        if self.0.bool() { Pattern::new(&text) } else { Pattern::ignoring_case(&text) }
    }

    fn path_test(&mut self) -> PathTest {
        match self.0.u8(..8) {
            0 => {
                let text = self.text(&["a", "b", "/", "[ab]", ".*", "$", "^"], 4);
                PathTest::parse(&format!("~{text}"), self.0.bool()).unwrap()
            }
            1..5 => PathTest::Pattern(Pattern::new(&format!("/{}", self.pattern()))),
            _ => PathTest::Pattern(self.pattern()),
        }
    }

    fn absolute_url(&mut self) -> PathTest {
        let text = self.text(&["http://", "a", "b", "/", "[ab]", ".*", "$", "^", "."], 4);
        PathTest::parse_absolute(&format!("~{text}"), self.0.bool()).unwrap()
    }

    fn test(&mut self) -> HeaderTest {
        let name = self.one_of(&["x-a", "x-b", "cookie"]).parse().unwrap();
        let value = match self.0.u8(..8) {
            0 => Some(PathTest::parse("~^(a|b)", self.0.bool()).unwrap()),
            1..4 => Some(PathTest::Pattern(self.pattern())),
            _ => None,
        };
        HeaderTest { name, value, negated: self.0.bool() }
    }

    fn condition(&mut self, depth: usize) -> Condition {
        let deeper = depth < 2 && self.0.u8(..4) == 0;
        Condition {
            sites: self.list(|maker| maker.one_of(&["s", "S", "t"]).to_owned()),
            hosts: self.list(|maker| {
                let below = maker.one_of(&["", "."]);
                format!("{below}{}", maker.host()).parse().unwrap()
            }),
            paths: self.list(Maker::path_test),
            urls: if self.0.u8(..8) == 0 { self.list(Maker::path_test) } else { Vec::new() },
            absolute_urls: match self.0.u8(..8) {
                0 => self.list(Maker::absolute_url),
                _ => Vec::new(),
            },
            methods: self
                .list(|maker| maker.one_of(&["GET", "get", "POST", "Post"]).parse().unwrap()),
            headers: self.list(Maker::test),
            clients: match self.0.u8(..8) {
                0 => vec!["10.0.0.0/9".parse().unwrap()].into(),
                _ => Vec::new().into(),
            },
            not: deeper.then(|| Box::new(self.condition(2))),
            any: if deeper { self.list(|maker| maker.condition(depth + 1)) } else { Vec::new() },
            ..Condition::default()
        }
    }

    fn rule(&mut self, number: usize) -> Rule {
        let when = self.condition(0);
        let (bypass, refuse_upgrades) = (self.0.u8(..3) == 0, self.0.u8(..5) == 0);
        let rule = Rule::new(number.to_string(), Settings::default());
        Rule { when, bypass, refuse_upgrades, continues: self.0.bool(), ..rule }
    }

    fn fields(&mut self) -> HeaderMap {
        let line = |maker: &mut Maker| {
            let name =
                maker.one_of(&["x-a", "x-b", "cookie", "x-c"]).parse::<HeaderName>().unwrap();
            let value = maker.text(&["a", "b", "A", "/", "ab", "é"], 4);
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        self.list(line).into_iter().collect()
    }
}

#[test]
fn compiled_rules_match_like_tried_rules() {
    let seed = 7;
    let mut maker = Maker(Rng::with_seed(seed));
    let (mut found, mut requests) = (0, 0);
    for round in 0..600 {
        // Occasionally use more rules than fit into one word, and sets of many rules.
        let count = if round % 20 == 0 { 150 } else { 1 + maker.0.usize(..8) };
        let rules: Vec<Rule> = (0..count).map(|number| maker.rule(number)).collect();
        let compiled = Rules::new(rules.clone(), &Settings::default());
        for _ in 0..40 {
            let host = format!("{}{}", maker.host(), maker.one_of(&["", "."]));
            let pieces = ["a", "b", "B", "/", "ab", "%62", "..", ";", "é", "?", "+"];
            let path = format!("/{}", maker.text(&pieces, 6));
            let classes = &FoundClasses::default();
            let asked = RuleFacts {
                classes,
                site: [None, Some("s"), Some("S"), Some("u")][maker.0.usize(..4)],
                host: &host,
                path: ScannedPath::new(&path),
                method: maker.one_of(&["GET", "HEAD", "get", "head", "POST", "PUT"]),
                scheme: Scheme::Http,
                client: IpAddr::from([10, maker.0.u8(..), 0, 1]),
                listener: None,
                upgrade: maker.0.bool(),
            };
            let fields = maker.fields();
            let expected = tried(&rules, &asked, &fields);
            let is = compiled.index.find(&asked, &fields, |matched| matched.to_vecs());
            let matched: Vec<usize> = numbers(&is.rules).collect();
            assert_eq!(matched, expected, "{seed} {round}: {asked:?} {fields:?} {rules:#?}");
            let of_place = compiled.index.of_place(asked.site, asked.host, asked.path.text);
            let is_there = |number: &usize| of_place.contains(number);
            assert!(matched.iter().all(is_there), "{seed} {round}: {asked:?} {rules:#?}");
            (found, requests) = (found + usize::from(!matched.is_empty()), requests + 1);
        }
    }
    assert!((requests / 5..requests * 9 / 10).contains(&found), "{found} of {requests}");
}

#[test]
fn an_empty_list_has_no_rule() {
    let (scheme, client) = (Scheme::Http, IpAddr::from([127, 0, 0, 1]));
    let (host, path, method) = ("a", ScannedPath::new("/"), "GET");
    let (site, listener, upgrade, classes) = (None, None, false, &FoundClasses::default());
    let asked = RuleFacts { site, host, path, method, scheme, client, listener, upgrade, classes };
    assert!(Rules::default().find(&asked, &HeaderMap::new()).is_none());
    assert!(Rules::new(Vec::new(), &Settings::default()).index.of_place(None, "a", "/").is_empty());
}
