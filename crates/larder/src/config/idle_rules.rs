//! Finds rules that never apply: those that no request can match, and those after another rule that
//! matches every request that they match. Only the first matching rule applies.
//!
//! Guarantees: a rule reported here can be removed without effect. Not all such rules are found.

use ipnet::IpNet;
use proxy::rules::access::{Action, HostPattern, Rule};
use semantics::Pattern;

use crate::config::configuration::{Config, DEFAULT_SITE, Site};
use crate::config::request_rule::{RequestRule, Then};
use crate::config::rule_actions::RuleUpstream;
use crate::config::rule_condition::{RuleCondition, Tests};

impl Config {
    /// Returns a sentence for each rule that never applies, and for each whose statuses or other
    /// keys do not matter.
    pub fn idle_rules(&self) -> Vec<String> {
        let called = |at: usize| match &self.rules[at].name {
            Some(name) => format!("rule {name:?}"),
            None => format!("rule {}", at + 1),
        };
        let mut told = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            if let Some(why) = never_fits(rule, self) {
                told.push(format!("{} never takes effect: {why}", called(at)));
            } else if let Some(first) = self.rules[..at].iter().position(|r| takes_all_of(r, rule))
            {
                told.push(behind(&called(at), &called(first)));
            }
            if rule.actions.deny && rule.actions.guards.is_any() {
                let text = "limits and basic-auth have no effect beside deny";
                told.push(format!("{}: {text}", called(at)));
            }
            if rule.actions.guards.basic_auth.is_some() && !self.is_reverse() {
                let text = "basic-auth of a forward proxy asks with 401 as the site would, and \
                            asks nothing of tunnels: use allow or [[access]]";
                told.push(format!("{}: {text}", called(at)));
            }
            if rule.has_idle_statuses() {
                let text = "statuses has no effect without ttl, default-ttl, min-ttl, answer-set \
                            or answer-remove";
                told.push(format!("{}: {text}", called(at)));
            }
            if let Some(why) = self.idle_action(rule) {
                told.push(format!("{}: {why}", called(at)));
            }
            if let Some(why) = rule.wrong_refresh() {
                told.push(format!("{}: {why}", called(at)));
            }
            if let Some(key) = rule.loose_lifetime() {
                let text = "limits, basic-auth and allow-methods make the rule apply to any \
                            reading of a path, which a server may read as another page";
                told.push(format!("{}: {key} belongs in another rule: {text}", called(at)));
            }
            let names_paths = rule.when.is.looks_at_path() || rule.when.not.looks_at_path();
            if rule.actions.try_root.is_some() && !names_paths {
                let text = "try-root serves every file of the directory, programs and settings of \
                            the application too: name paths or not-paths";
                told.push(format!("{}: {text}", called(at)));
            }
        }
        for (at, rule) in self.access.iter().enumerate() {
            if let Some(first) = self.access[..at].iter().position(|r| admits_all_of(r, rule)) {
                let called = |at: usize| format!("access rule {}", at + 1);
                told.push(behind(&called(at), &called(first)));
            }
        }
        told
    }

    /// Returns which of the rule's keys for the origin's servers has no effect, and why.
    fn idle_action(&self, rule: &RequestRule) -> Option<String> {
        let actions = &rule.actions;
        let key = actions.first_for_servers()?;
        if actions.is_answered() {
            return Some(format!("{key} has no effect beside deny, redirect or respond"));
        }
        let servers = match actions.upstream() {
            Some(RuleUpstream::Servers(servers)) => servers.len(),
            Some(RuleUpstream::Template(_)) => 1,
            Some(RuleUpstream::Site(_)) | None => {
                let sites = self.sites.iter().map(|site| site.upstream.len());
                sites.chain(self.reverse.as_ref().map(Vec::len)).max().unwrap_or(1)
            }
        };
        (actions.next_upstream.is_some() && servers < 2)
            .then(|| "next-upstream has no effect: there is no second origin server".to_owned())
    }
}

fn behind(rule: &str, first: &str) -> String {
    format!("{rule} never takes effect: {first} before it matches every request that it matches")
}

/// Returns why no request matches the rule; `None` if one may.
fn never_fits(rule: &RequestRule, config: &Config) -> Option<String> {
    let odd = |path: &&String| {
        let lets_in = !rule.keeps_out() && !rule.refuse_upgrades;
        let is_read_otherwise = path.contains([';', '\\']) || path.contains("//");
        let tidied_away = lets_in && (is_read_otherwise || path.contains("/../"));
        !path.starts_with('~') && (path.contains(['?', '#']) || tidied_away)
    };
    if !rule.when.is.paths.is_empty() && rule.when.is.paths.iter().all(|path| odd(&path)) {
        let path = &rule.when.is.paths[0];
        return Some(format!(
            "no path is {path:?} in every reading: without query and path parameters, with dots \
             resolved"
        ));
    }
    let turned = |test: &String| match test.strip_prefix('!') {
        Some(rest) => rest.to_owned(),
        None => format!("!{test}"),
    };
    if let Some(test) =
        rule.when.is.headers.iter().find(|test| rule.when.is.headers.contains(&turned(test)))
    {
        return Some(format!("{test:?} and {:?} contradict each other", turned(test)));
    }
    no_host(rule, config)
}

/// Returns why no site has a host of the rule.
fn no_host(rule: &RequestRule, config: &Config) -> Option<String> {
    let for_site = |site: &&Site| {
        rule.when.is.sites.is_empty()
            || rule.when.is.sites.iter().any(|name| Some(&**name) == site.called())
    };
    let any =
        rule.when.is.sites.is_empty() || rule.when.is.sites.iter().any(|name| name == DEFAULT_SITE);
    let is_for_all = |site: &Site| site.hosts.is_empty() && !site.is_for_rules();
    let is_open = config.sites.is_empty()
        || (config.has_default_site() && any)
        || config.sites.iter().filter(for_site).any(is_for_all);
    if rule.when.is.hosts.is_empty() || is_open {
        return None;
    }
    let patterns: Vec<HostPattern> =
        rule.when.is.hosts.iter().filter_map(|host| host.parse().ok()).collect();
    let meant = |host: &&String| patterns.iter().any(|pattern| pattern.matches(host));
    let sites = || config.sites.iter().filter(for_site);
    let seen = |site: &Site| if site.is_one() { 1 } else { site.hosts.len() };
    if sites().any(|site| site.hosts.iter().take(seen(site)).any(|host| meant(&host))) {
        return None;
    }
    let alias = sites().find_map(|site| Some((site.hosts.iter().find(meant)?, &site.hosts[0])));
    Some(match alias {
        Some((host, first)) => {
            format!("{host} is an alias of {first}; name that host in rules (key-host)")
        }
        None => format!("no site has the host {:?}", rule.when.is.hosts[0]),
    })
}

/// Returns whether every request that matches `second` matches `first`.
fn takes_all_of(first: &RequestRule, second: &RequestRule) -> bool {
    // All conditions are named, so that a new one is not forgotten here.
    let RuleCondition { is, not, paths_ignore_case, share, any } = &first.when;
    let Tests { sites, hosts, paths, urls, methods, headers, schemes, clients, .. } = is;
    let Tests { query, cookies, classes, listeners, absolute_urls, .. } = is;
    let RuleCondition { is: other, .. } = &second.when;
    // A rule that admits requests to the cache must match all readings of a path; one that keeps
    // them out must match any. The same holds for the case of a method.
    let keeps_out = first.keeps_out() || (first.refuse_upgrades && !second.keeps_out());
    let lets_in = !second.keeps_out() && !second.refuse_upgrades;
    let is_read_alike = keeps_out || lets_in;
    let method = |one: &String, other: &String| one == other || (one == "GET" && other == "HEAD");
    let same_case = *paths_ignore_case || !second.when.paths_ignore_case;
    let network = |one: &IpNet, other: &IpNet| one.contains(other);
    first.then == Then::Stop
        && !(first.when.is_long() && second.when.is_long())
        && (!is.looks_at_path() || (is_read_alike && same_case))
        && (methods.is_empty() || is_read_alike)
        && within(sites, &other.sites, |one, other| one == other)
        && within(hosts, &other.hosts, |one, other| host(one, other))
        && within(paths, &other.paths, |one, other| path(one, other))
        && within(urls, &other.urls, |one, other| path(one, other))
        && within(absolute_urls, &other.absolute_urls, |one, other| path(one, other))
        && within(methods, &other.methods, method)
        && within(schemes, &other.schemes, |one, other| one == other)
        && within(clients, &other.clients, network)
        && within(query, &other.query, |one, other| one == other)
        && within(classes, &other.classes, |one, other| one == other)
        && within(cookies, &other.cookies, |one, other| one == other)
        && within(listeners, &other.listeners, |one, other| one == other)
        && headers.iter().all(|test| other.headers.contains(test))
        && (share.is_none() || *share == second.when.share)
        && (*not == Tests::default() || *not == second.when.not)
        && (any.is_empty() || *any == second.when.any)
}

/// Returns whether every client request that matches `second` matches `first`, for access rules.
fn admits_all_of(first: &Rule, second: &Rule) -> bool {
    let network = |one: &IpNet, other: &IpNet| one.contains(other);
    // A refusal applies to a method in any case, a permission only to the exact case.
    let same_case = first.action == Action::Deny || second.action == Action::Allow;
    within(&first.clients, &second.clients, network)
        && within(&first.methods, &second.methods, |one, other| same_case && one == other)
        && within(&first.hosts, &second.hosts, HostPattern::covers)
        && within(&first.destinations, &second.destinations, network)
        && within(&first.ports, &second.ports, |one, other| one == other)
}

/// Returns whether the list `second` is within `first`. One entry of a list must match; an empty
/// list matches anything.
fn within<T>(first: &[T], second: &[T], takes: impl Fn(&T, &T) -> bool) -> bool {
    let taken = |other: &T| first.iter().any(|one| takes(one, other));
    first.is_empty() || (!second.is_empty() && second.iter().all(taken))
}

/// Returns whether one path pattern matches everything that another does, as far as that is easy to
/// see: the other is a plain path that it matches, or the other begins with the text before its
/// final and only `*`.
fn path(one: &str, other: &str) -> bool {
    let (begin, rest) = one.split_once('*').unwrap_or((one, "none"));
    let (known, is_pattern) = match other.split_once('*') {
        Some((known, _)) => (known, true),
        None => (other, false),
    };
    if one.starts_with('~') || other.starts_with('~') {
        return one == other;
    }
    one == other
        || (rest.is_empty() && known.starts_with(begin))
        || (!is_pattern && Pattern::new(one).matches(other.as_bytes()))
}

/// Returns whether one host pattern matches everything that another does.
fn host(one: &str, other: &str) -> bool {
    let read = |text: &str| text.parse::<HostPattern>().ok();
    read(one).zip(read(other)).is_some_and(|(one, other)| one.covers(&other))
}

#[cfg(test)]
mod tests {
    use crate::config::file::File;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    fn told(text: &str) -> Vec<String> {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        loaded.unwrap_or_else(|problems| panic!("{problems}")).config.idle_rules()
    }

    /// Returns whether the second of two rules with these keys is reported as never applying.
    fn is_idle(first: &str, second: &str) -> bool {
        !told(&format!("[[rule]]\n{first}\n[[rule]]\n{second}\n")).is_empty()
    }

    #[test]
    fn a_rule_after_one_that_matches_all_its_requests_never_applies() {
        let behind = told("[[rule]]\nttl = '1m'\n[[rule]]\nname = 'x'\npaths = ['/a']\nttl = '1h'");
        assert_eq!(
            behind,
            ["rule \"x\" never takes effect: rule 1 before it matches every request that it \
              matches"]
        );
        for (first, second) in [
            ("paths = ['/a*']", "paths = ['/ab', '/a/b']"),
            ("paths = ['/a*', '/b']", "paths = ['/a*']\nmethods = ['GET']"),
            ("paths = ['/*']", "paths = ['/a/*']"),
            ("paths = ['*']", "paths = ['/a/*.css', '/b']"),
            ("urls = ['/a*']", "urls = ['/a?b=*']"),
            ("paths = ['/a/*']", "paths = ['/a/b/*']"),
            ("hosts = ['.a.test']", "hosts = ['.b.a.test', 'a.test']"),
            ("methods = ['GET']", "methods = ['HEAD']"),
            ("headers = ['Cookie']", "headers = ['Accept', 'Cookie']"),
        ] {
            assert!(is_idle(first, second), "{first}: {second}");
        }
        for (first, second) in [
            ("paths = ['/a']", "paths = ['/a*']"),
            ("paths = ['/a*']", "paths = ['/ab', '/b']"),
            ("paths = ['/a*b']", "paths = ['/a*']"),
            ("paths = ['/a/b*']", "paths = ['/a/*']"),
            ("paths = ['/a*']", ""),
            ("urls = ['/a*']", "paths = ['/a']"),
            ("absolute-urls = ['http://a/*']", "absolute-urls = ['https://a/b']"),
            ("hosts = ['a.test']", "hosts = ['.a.test']"),
            ("headers = ['Cookie']", "headers = ['!Cookie']"),
            ("headers = ['Cookie']", ""),
            ("paths = ['/a*']", "paths = ['/ab']\nbypass = true"),
            ("paths = ['/a*']", "paths = ['/ab']\nrefuse-upgrades = true"),
            ("methods = ['HEAD']", "methods = ['GET']"),
            ("methods = ['GET']", "methods = ['GET']\nbypass = true"),
            ("paths = ['/a']", "paths = ['/a']\npaths-ignore-case = true"),
        ] {
            assert!(!is_idle(first, second), "{first}: {second}");
        }
    }

    #[test]
    fn a_rule_that_matches_no_request_never_applies() {
        let one = |keys: &str| told(&format!("[[rule]]\n{keys}\n"));
        assert!(one("paths = ['/a?b=c']")[0].contains("without query"));
        assert!(one("paths = ['/a;b']")[0].contains("never takes effect"));
        assert!(one("paths = ['/a;b']\nbypass = true").is_empty());
        assert!(one("paths = ['/a//b']")[0].contains("never takes effect"));
        assert!(one("headers = ['Cookie', '!Cookie']")[0].contains("contradict each other"));
        assert!(one("paths = ['/a?b', '/c']").is_empty());
        let site = |more: &str, keys: &str| {
            told(&format!(
                "[[site]]\nhosts = ['www.test', 'localhost']\nupstream = 'http://a'\n{more}\n\
                 [[rule]]\n{keys}\n"
            ))
        };
        assert!(site("", "hosts = ['localhost']")[0].contains("an alias of www.test"));
        assert!(site("key-host = 'client'", "hosts = ['localhost']").is_empty());
        assert!(site("", "hosts = ['.test']").is_empty());
        assert!(site("", "hosts = ['other.test']")[0].contains("no site has the host"));
        assert!(one("hosts = ['other.test']").is_empty(), "a forward proxy reaches all");
    }

    #[test]
    fn statuses_that_do_not_matter_are_named() {
        let one = |keys: &str| told(&format!("[[rule]]\nstatuses = ['404']\n{keys}\n"));
        assert_eq!(
            one("max-ttl = '1s'"),
            ["rule 1: statuses has no effect without ttl, default-ttl, min-ttl, answer-set or \
              answer-remove"]
        );
        for keys in ["ttl = '1s'", "default-ttl = '1s'", "min-ttl = '1s'", "answer-set = ['A: b']"]
        {
            assert!(one(keys).is_empty(), "{keys}");
        }
    }

    #[test]
    fn keys_for_servers_that_do_not_matter_are_named() {
        let one = |keys: &str| told(&format!("reverse = 'http://a'\n[[rule]]\n{keys}\n"));
        assert_eq!(
            one("next-upstream = ['http-404']"),
            ["rule 1: next-upstream has no effect: there is no second origin server"]
        );
        assert!(one("try-root = '/srv'")[0].contains("serves every file"));
        assert!(one("try-root = '/srv'\nnot-paths = ['*.php']").is_empty());
        let text = "rule 1: follow-redirects has no effect beside deny, redirect or respond";
        assert_eq!(one("follow-redirects = 1\nrespond = '200 x'"), [text]);
        let text = "rule 1: head-timeout has no effect beside deny, redirect or respond";
        assert_eq!(one("head-timeout = '1s'\ndeny = true"), [text]);
        for keys in [
            "next-upstream = ['http-404']\nupstream = ['http://b', 'http://c']",
            "head-timeout = '1s'",
        ] {
            assert!(one(keys).is_empty(), "{keys}");
        }
    }

    #[test]
    fn a_refresh_for_some_clients_stands_alone() {
        let one = |keys: &str| told(&format!("[[rule]]\nrefresh = true\n{keys}\n"));
        assert!(one("cookies = ['a']\nthen = 'continue'")[0].contains("choose them by clients"));
        assert!(one("headers = ['X-A']")[0].contains("stores apart"));
        assert!(one("headers = ['X-A']\nttl = '1h'\nthen = 'continue'")[0].contains("apart"));
        assert!(one("headers = ['X-A']\nthen = 'continue'").is_empty());
        assert!(one("paths = ['/a']\nttl = '1h'").is_empty());
    }

    #[test]
    fn access_rules_are_looked_at_as_well() {
        let all = told("[[access]]\naction = 'deny'\n[[access]]\naction = 'allow'\nports = [80]");
        assert!(all[0].starts_with("access rule 2 never takes effect: access rule 1"), "{all:?}");
        let net = "[[access]]\naction = 'deny'\nclients = ['10.0.0.0/8']\n\
                   [[access]]\naction = 'allow'\nclients = ['10.1.0.0/16']\n\
                   [[access]]\naction = 'allow'\nclients = ['192.168.0.0/16']";
        let told = told(net);
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn a_rule_that_refuses_all_needs_no_limits() {
        let told = told("[[rule]]\ndeny = true\nlimit-rate = '1/s'");
        assert_eq!(told, ["rule 1: limits and basic-auth have no effect beside deny"]);
    }

    #[test]
    fn a_forward_proxy_cannot_ask_for_passwords() {
        let users = concat!("@", env!("CARGO_MANIFEST_DIR"), "/tests/http/users");
        let rule = |front: &str| told(&format!("{front}\n[[rule]]\nbasic-auth = '{users}'"));
        assert!(rule("")[0].starts_with("rule 1: basic-auth of a forward proxy asks with 401"));
        assert_eq!(rule("reverse = 'http://a'"), Vec::<String>::new());
    }

    #[test]
    fn lifetimes_belong_in_rules_for_one_reading_of_a_path() {
        let rule = |rest: &str| told(&format!("[[rule]]\npaths = ['/x*']\nttl = '1h'\n{rest}"));
        assert_eq!(rule("query-sort = true"), Vec::<String>::new());
        let told = rule("limit-rate = '1/s'");
        assert!(told[0].starts_with("rule 1: ttl belongs in another rule: "), "{told:?}");
    }
}
