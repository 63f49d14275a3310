//! Checks compiled access rules against trying each rule in turn.

use fastrand::Rng;
use ipnet::IpNet;

use super::*;

fn contains(networks: &[IpNet], ip: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&ip))
}

fn matches_head(rule: &Rule, query: &Query<'_>) -> bool {
    let client = address::canonical(query.client);
    let is_for = |method: &Method| match rule.action {
        Action::Deny => method.as_str().eq_ignore_ascii_case(query.method.as_str()),
        Action::Allow => method == query.method,
    };
    (rule.clients.is_empty() || contains(&rule.clients, client))
        && (rule.methods.is_empty() || rule.methods.iter().any(is_for))
        && (rule.hosts.is_empty() || rule.hosts.iter().any(|host| host.matches(query.host)))
        && (rule.ports.is_empty() || rule.ports.iter().any(|ports| ports.contains(query.port)))
}

fn matches_address(rule: &Rule, ip: IpAddr) -> bool {
    rule.destinations.is_empty()
        || match rule.action {
            Action::Deny => address::faces(ip).any(|face| contains(&rule.destinations, face)),
            Action::Allow => contains(&rule.destinations, address::canonical(ip)),
        }
}

/// Returns the matches of a head as (allowed, by address, decided), by trying each rule.
fn tried_heads(rules: &[Rule], query: &Query<'_>) -> (bool, bool, bool) {
    let (mut allowed, mut by_address) = (false, false);
    for rule in rules.iter().filter(|rule| matches_head(rule, query)) {
        allowed |= rule.action == Action::Allow;
        if rule.destinations.is_empty() {
            return (allowed, by_address, true);
        }
        by_address = true;
    }
    (allowed, by_address, false)
}

const ADDRESSES: [&str; 8] = [
    "10.0.0.1",
    "10.0.1.1",
    "10.1.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "2001:db8::1",
    "2001:db8:1::1",
    "192.0.2.1",
];

const NETWORKS: [&str; 8] = [
    "10.0.0.0/8",
    "10.0.0.0/16",
    "10.0.0.1/32",
    "10.1.0.0/16",
    "0.0.0.0/0",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "64:ff9b::/96",
];

struct Maker(Rng);

impl Maker {
    fn one_of<T: std::str::FromStr<Err: std::fmt::Debug>>(&mut self, all: &[&str]) -> T {
        all[self.0.usize(..all.len())].parse().unwrap()
    }

    fn list<T: std::str::FromStr<Err: std::fmt::Debug>>(&mut self, all: &[&str]) -> Vec<T> {
        let length = [0, 0, 0, 1, 2, 3][self.0.usize(..6)];
        (0..length).map(|_| self.one_of(all)).collect()
    }

    fn rule(&mut self) -> Rule {
        Rule {
            action: if self.0.bool() { Action::Allow } else { Action::Deny },
            clients: self.list(&NETWORKS),
            methods: self.list(&["GET", "get", "POST"]),
            hosts: self.list(&["a", ".a", "b.a", ".b.a", "c"]),
            destinations: self.list(&NETWORKS),
            ports: self.list(&["80", "80-81", "81-65535", "1-443", "443"]),
        }
    }
}

#[test]
fn compiled_rules_match_like_tried_rules() {
    let seed = 7;
    let mut maker = Maker(Rng::with_seed(seed));
    for round in 0..600 {
        let count = if round % 20 == 0 { 150 } else { 1 + maker.0.usize(..8) };
        let rules: Vec<Rule> = (0..count).map(|_| maker.rule()).collect();
        let index = AccessIndex::new(&rules);
        for _ in 0..40 {
            let method: Method = maker.one_of(&["GET", "get", "POST", "PUT"]);
            let host: String = maker.one_of(&["a", "A.", "b.a", "c.b.a", "c", "cc"]);
            let (client, ip) = (maker.one_of(&ADDRESSES), maker.one_of(&ADDRESSES));
            let port = maker.one_of(&["1", "79", "80", "81", "443", "444", "65535"]);
            let query = Query { client, method: &method, host: &host, port };
            let context = || format!("{seed} {round}: {query:?} {ip} {rules:#?}");

            let HeadMatches { allowed, by_address, decided } = index.head_matches(&query);
            let expected = tried_heads(&rules, &query);
            assert_eq!((allowed, by_address, decided), expected, "{}", context());

            let first = |rule: &Rule| matches_head(rule, &query) && matches_address(rule, ip);
            let expected = rules.iter().position(first);
            let found = index.find(&query, ip);
            assert_eq!(found.as_ref().map(|found| found.number), expected, "{}", context());
            if let (Some(found), Some(expected)) = (found, expected) {
                let rule = &rules[expected];
                assert_eq!(found.action, rule.action);
                let is_named = index.names_network_of(&found, ip);
                assert_eq!(is_named, contains(&rule.destinations, ip), "{}", context());
            }
        }
    }
}
