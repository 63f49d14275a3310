//! Checks compiled rules against trying each rule in turn.

use std::borrow::Cow;
use std::fmt::Write as _;

use fastrand::Rng;
use semantics::Settings;

use super::*;
use crate::rules::request_rules::{Condition, HeaderTest, Rules};

type Lines = Vec<(String, Vec<u8>)>;

/// Returns the number of the first rule that matches, by trying each.
fn tried(rules: &[Rule], asked: RuleFacts<'_>, lines: &Lines) -> Option<usize> {
    rules.iter().position(|rule| {
        let keeps_out = rule.bypass || (rule.refuse_upgrades && asked.upgrade);
        is_for_place(rule, asked, keeps_out)
            && is_for_method(&rule.when, asked.method, keeps_out)
            && rule.when.headers.iter().all(|test| holds(test, lines))
    })
}

fn is_for_place(rule: &Rule, asked: RuleFacts<'_>, in_any_reading: bool) -> bool {
    let Condition { sites, hosts, paths, .. } = &rule.when;
    let is_for_path = |path: &Cow<'_, [u8]>| {
        paths.is_empty() || paths.iter().any(|pattern| pattern.matches(path))
    };
    let readings = readings::readings(asked.path);
    let fits_path = match in_any_reading {
        true => readings.iter().any(is_for_path),
        false => readings.iter().all(is_for_path),
    };
    fits_path
        && (sites.is_empty() || sites.iter().any(|site| Some(site.as_str()) == asked.site))
        && (hosts.is_empty() || hosts.iter().any(|pattern| pattern.matches(asked.host)))
}

fn is_for_method(when: &Condition, method: &str, any_case: bool) -> bool {
    let asks = |name: &str| match any_case {
        true => name.eq_ignore_ascii_case(method),
        false => name == method,
    };
    let names = |one: &Method| asks(one.as_str()) || (*one == Method::GET && asks("HEAD"));
    when.methods.is_empty() || when.methods.iter().any(names)
}

fn holds(test: &HeaderTest, lines: &Lines) -> bool {
    let fits = |(name, value): &(String, Vec<u8>)| {
        name.eq_ignore_ascii_case(test.name.as_str())
            && test.value.as_ref().is_none_or(|pattern| pattern.matches(value))
    };
    lines.iter().any(fits) != test.negated
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

    fn path_pattern(&mut self) -> Pattern {
        match self.0.bool() {
            true => Pattern::new(&format!("/{}", self.pattern())),
            false => self.pattern(),
        }
    }

    fn test(&mut self) -> HeaderTest {
        let name = self.one_of(&["x-a", "x-b", "cookie"]).parse().unwrap();
        let value = self.0.bool().then(|| self.pattern());
        HeaderTest { name, value, negated: self.0.bool() }
    }

    fn rule(&mut self, number: usize) -> Rule {
        let when = Condition {
            sites: self.list(|maker| maker.one_of(&["s", "S", "t"]).to_owned()),
            hosts: self.list(|maker| {
                let below = maker.one_of(&["", "."]);
                format!("{below}{}", maker.host()).parse().unwrap()
            }),
            paths: self.list(Maker::path_pattern),
            methods: self
                .list(|maker| maker.one_of(&["GET", "get", "POST", "Post"]).parse().unwrap()),
            headers: self.list(Maker::test),
        };
        let (bypass, refuse_upgrades) = (self.0.u8(..3) == 0, self.0.u8(..5) == 0);
        let rule = Rule::new(number.to_string(), Settings::default());
        Rule { when, bypass, refuse_upgrades, ..rule }
    }

    fn lines(&mut self) -> Lines {
        let line = |maker: &mut Maker| {
            let name = maker.one_of(&["x-a", "X-B", "x-b", "Cookie", "x-c"]).to_owned();
            (name, maker.text(&["a", "b", "A", "/", "ab", "é"], 4).into_bytes())
        };
        self.list(line)
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
        let compiled = Rules::new(rules.clone());
        for _ in 0..40 {
            let host = format!("{}{}", maker.host(), maker.one_of(&["", "."]));
            let pieces = ["a", "b", "B", "/", "ab", "%62", "..", ";", "é", "?"];
            let path = format!("/{}", maker.text(&pieces, 6));
            let asked = RuleFacts {
                site: [None, Some("s"), Some("S"), Some("u")][maker.0.usize(..4)],
                host: &host,
                path: &path,
                method: maker.one_of(&["GET", "HEAD", "get", "head", "POST", "PUT"]),
                upgrade: maker.0.bool(),
            };
            let lines = maker.lines();
            let fields = lines.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
            let expected = tried(&rules, asked, &lines);
            let name = expected.map(|number| rules[number].name.as_str());
            let is = compiled.find(asked, fields).map(|rule| rule.name.as_str());
            assert_eq!(is, name, "{seed} {round}: {asked:?} {lines:?} {rules:#?}");
            let of_place: Vec<usize> =
                (0..count).filter(|number| is_for_place(&rules[*number], asked, true)).collect();
            let all = compiled.index.of_place(asked.site, asked.host, asked.path);
            assert_eq!(all, of_place, "{seed} {round}: {asked:?} {rules:#?}");
            (found, requests) = (found + usize::from(is.is_some()), requests + 1);
        }
    }
    assert!((requests / 4..requests * 9 / 10).contains(&found), "{found} of {requests}");
}

#[test]
fn an_empty_list_has_no_rule() {
    let asked = RuleFacts { site: None, host: "a", path: "/", method: "GET", upgrade: false };
    assert!(Rules::default().find(asked, std::iter::empty()).is_none());
    assert!(Rules::new(Vec::new()).index.of_place(None, "a", "/").is_empty());
}
