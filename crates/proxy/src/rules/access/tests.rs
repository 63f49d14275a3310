//! Access decisions as tables of cases.

#![allow(clippy::unwrap_used)]

use super::*;

/// Returns the machine's addresses in all cases: one private and one public, beside loopback.
fn locals() -> Locals {
    ["192.168.1.1", "203.0.113.1", "2001:db8::1"].into_iter().map(|a| a.parse().unwrap()).collect()
}

fn forward() -> Access {
    Access::new(FrontKind::Forward, locals()).own(vec![
        "127.0.0.1:3128".parse().unwrap(),
        "[::]:3129".parse().unwrap(),
        "203.0.113.77:8080".parse().unwrap(),
    ])
}

fn nets(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|n| n.parse().unwrap()).collect()
}

/// Decides on "GET host:port" or "CONNECT host:port" for a client; returns both results in short
/// form.
fn ask(access: &Access, client: &str, request: &str, address: &str) -> (String, String) {
    let (method, target) = request.split_once(' ').unwrap();
    let (host, port) = target.rsplit_once(':').unwrap();
    let method: Method = method.parse().unwrap();
    let port: u16 = port.parse().unwrap();
    let query = Query { client: client.parse().unwrap(), method: &method, host, port };
    let before = match access.before(&query) {
        Verdict::Allow => "allow".to_owned(),
        Verdict::ByAddress => "by-address".to_owned(),
        Verdict::Deny(denial) => denial.reason.to_string(),
    };
    let at = match access.at(&query, SocketAddr::new(address.parse().unwrap(), port)) {
        Ok(()) => "allow".to_owned(),
        Err(denial) => denial.reason.to_string(),
    };
    (before, at)
}

/// Client, request, address, expected result of `before` and of `at`.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

fn check(access: &Access, cases: &[Case]) {
    for (client, request, address, before, at) in cases {
        let found = ask(access, client, request, address);
        assert_eq!(found, (before.to_string(), at.to_string()), "{client} {request} at {address}");
    }
}

#[test]
fn a_forward_proxy_without_settings_serves_local_clients() {
    check(
        &forward(),
        &[
            // Clients of this machine, by any of its addresses, may go anywhere except to the proxy
            // itself.
            ("127.0.0.1", "GET a.example:80", "8.8.8.8", "allow", "allow"),
            ("::1", "GET a.example:80", "2606:4700::1", "allow", "allow"),
            ("::ffff:127.0.0.1", "GET a.example:80", "8.8.8.8", "allow", "allow"),
            ("192.168.1.1", "GET a.example:80", "8.8.8.8", "allow", "allow"),
            ("2001:db8::1", "GET a.example:80", "8.8.8.8", "allow", "allow"),
            ("127.0.0.1", "GET localhost:8000", "127.0.0.1", "allow", "allow"),
            ("127.0.0.1", "GET box.lan:80", "10.0.0.9", "allow", "allow"),
            // All other clients are refused before any name is resolved.
            ("192.168.1.2", "GET a.example:80", "8.8.8.8", "client", "client"),
            ("8.8.4.4", "GET a.example:80", "8.8.8.8", "client", "client"),
            ("2001:db8::2", "GET a.example:80", "8.8.8.8", "client", "client"),
            // CONNECT goes only to 443.
            ("127.0.0.1", "CONNECT a.example:443", "8.8.8.8", "allow", "allow"),
            ("127.0.0.1", "CONNECT a.example:25", "8.8.8.8", "connect-port", "connect-port"),
            ("127.0.0.1", "CONNECT a.example:3128", "127.0.0.1", "connect-port", "connect-port"),
        ],
    );
}

#[test]
fn own_listeners_are_never_reached() {
    let access = forward().connect_ports(vec!["1-65535".parse().unwrap()]);
    for address in [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:0.0.0.0",
        "192.168.1.1",
        "203.0.113.1",
        "2001:db8::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::127.0.0.1",
    ] {
        for port in [3128, 3129, 8080] {
            for method in ["GET", "CONNECT"] {
                let request = format!("{method} x.example:{port}");
                let (_, at) = ask(&access, "127.0.0.1", &request, address);
                assert_eq!(at, "own-address", "{request} at {address}");
            }
        }
    }
    check(
        &access,
        &[
            // A listener's address counts as own even if no interface has it any longer.
            ("127.0.0.1", "GET x.example:8080", "203.0.113.77", "allow", "own-address"),
            ("127.0.0.1", "GET x.example:8080", "::ffff:203.0.113.77", "allow", "own-address"),
            // The same port on another machine is not the proxy's own.
            ("127.0.0.1", "GET x.example:3128", "8.8.8.8", "allow", "allow"),
            ("127.0.0.1", "GET x.example:3127", "127.0.0.1", "allow", "allow"),
        ],
    );
    // No rule opens them, and the reverse proxy has the same guard.
    let mut rule = Rule::new(Action::Allow);
    rule.destinations = nets(&["127.0.0.0/8"]);
    let access = forward().rules(vec![rule]);
    check(&access, &[("::1", "GET x.example:3128", "127.0.0.1", "by-address", "own-address")]);
    let reverse = Access::new(FrontKind::Reverse, locals()).own(vec!["[::1]:80".parse().unwrap()]);
    check(&reverse, &[("8.8.8.8", "GET x.example:80", "127.0.0.1", "allow", "own-address")]);
}

#[test]
fn allowed_networks_reach_only_the_public_internet() {
    let access = forward().allow(nets(&["192.168.1.0/24", "2001:db8::/32"]));
    check(
        &access,
        &[
            ("192.168.1.2", "GET a.example:80", "8.8.8.8", "by-address", "allow"),
            ("::ffff:192.168.1.2", "GET a.example:80", "8.8.8.8", "by-address", "allow"),
            ("2001:db8::2", "GET a.example:80", "2606:4700::1", "by-address", "allow"),
            ("192.168.2.2", "GET a.example:80", "8.8.8.8", "client", "client"),
            ("192.168.1.2", "CONNECT a.example:443", "8.8.8.8", "by-address", "allow"),
            ("192.168.1.2", "CONNECT a.example:22", "8.8.8.8", "connect-port", "connect-port"),
        ],
    );
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "::",
        "::1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.9",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        // Public addresses of this machine.
        "203.0.113.1",
        "2001:db8::1",
        "64:ff9b::203.0.113.1",
    ] {
        let (_, at) = ask(&access, "192.168.1.2", "GET a.example:80", address);
        assert_eq!(at, "private-address", "{address}");
        // The machine's own client is allowed to reach them.
        let (_, at) = ask(&access, "127.0.0.1", "GET a.example:80", address);
        assert_eq!(at, "allow", "{address}");
    }
}

#[test]
fn a_rule_that_names_a_network_opens_it() {
    let mut rule = Rule::new(Action::Allow);
    rule.clients = nets(&["192.168.1.0/24"]);
    rule.destinations = nets(&["10.1.0.0/16"]);
    let mut by_name = Rule::new(Action::Allow);
    by_name.clients = nets(&["192.168.1.0/24"]);
    by_name.hosts = vec![".corp.example".parse().unwrap()];
    let access = forward().rules(vec![rule, by_name]);
    check(
        &access,
        &[
            ("192.168.1.2", "GET a.corp.example:80", "10.1.2.3", "by-address", "allow"),
            ("192.168.1.2", "GET a.corp.example:80", "::ffff:10.1.2.3", "by-address", "allow"),
            ("192.168.1.2", "GET a.corp.example:80", "8.8.8.8", "by-address", "allow"),
            // A name does not open an address, because the owner of the name chooses the address.
            ("192.168.1.2", "GET a.corp.example:80", "10.2.2.3", "by-address", "private-address"),
            ("192.168.1.2", "GET a.corp.example:80", "127.0.0.1", "by-address", "private-address"),
            // A translated address is not opened by the network that it translates into.
            (
                "192.168.1.2",
                "GET a.corp.example:80",
                "64:ff9b:1::10.2.0.1",
                "by-address",
                "private-address",
            ),
            ("192.168.1.2", "GET other.example:80", "8.8.8.8", "by-address", "client"),
            ("192.168.1.3", "GET other.example:80", "10.1.0.1", "by-address", "allow"),
            ("192.168.2.3", "GET other.example:80", "10.1.0.1", "client", "client"),
        ],
    );
}

#[test]
fn the_first_match_decides() {
    let mut deny_host = Rule::new(Action::Deny);
    deny_host.hosts = vec!["ads.example".parse().unwrap(), ".tracker.example".parse().unwrap()];
    let mut deny_network = Rule::new(Action::Deny);
    deny_network.destinations = nets(&["198.51.100.0/24"]);
    let mut deny_post = Rule::new(Action::Deny);
    deny_post.methods = vec![Method::POST];
    deny_post.ports = vec!["8000-8999".parse().unwrap()];
    let mut late = Rule::new(Action::Allow);
    late.hosts = vec!["ads.example".parse().unwrap()];
    let access = forward().rules(vec![deny_host, deny_network, deny_post, late]);
    check(
        &access,
        &[
            ("127.0.0.1", "GET ads.example:80", "8.8.8.8", "rule", "rule"),
            ("127.0.0.1", "GET ADS.example.:80", "8.8.8.8", "rule", "rule"),
            ("127.0.0.1", "GET x.ads.example:80", "8.8.8.8", "by-address", "allow"),
            ("127.0.0.1", "GET tracker.example:80", "8.8.8.8", "rule", "rule"),
            ("127.0.0.1", "GET a.b.tracker.example:80", "8.8.8.8", "rule", "rule"),
            ("127.0.0.1", "GET nottracker.example:80", "8.8.8.8", "by-address", "allow"),
            ("127.0.0.1", "GET free.example:80", "198.51.100.7", "by-address", "rule"),
            ("127.0.0.1", "GET free.example:80", "::ffff:198.51.100.7", "by-address", "rule"),
            ("127.0.0.1", "GET free.example:80", "64:ff9b::198.51.100.7", "by-address", "rule"),
            ("127.0.0.1", "POST free.example:8080", "8.8.8.8", "rule", "rule"),
            ("127.0.0.1", "POST free.example:9000", "8.8.8.8", "by-address", "allow"),
            ("127.0.0.1", "GET free.example:8080", "8.8.8.8", "by-address", "allow"),
            // The default refuses what no rule allows.
            ("8.8.4.4", "GET free.example:80", "8.8.8.8", "client", "client"),
        ],
    );
}

#[test]
fn reverse_is_open_and_guards_no_private_upstream() {
    let mut rule = Rule::new(Action::Deny);
    rule.clients = nets(&["198.51.100.0/24"]);
    let access = Access::new(FrontKind::Reverse, locals()).rules(vec![rule]);
    check(
        &access,
        &[
            ("8.8.4.4", "GET site.example:80", "10.0.0.1", "allow", "allow"),
            ("8.8.4.4", "POST site.example:80", "127.0.0.1", "allow", "allow"),
            ("198.51.100.1", "GET site.example:80", "10.0.0.1", "rule", "rule"),
        ],
    );
}

#[test]
fn addresses_of_the_machine_may_change() {
    let access = forward();
    let case = ("203.0.113.50", "GET a.example:80", "8.8.8.8");
    assert_eq!(ask(&access, case.0, case.1, case.2).0, "client");
    access.set_locals([case.0.parse().unwrap()].into_iter().collect());
    assert_eq!(ask(&access, case.0, case.1, case.2).0, "allow");
}

#[test]
fn refusals_say_how_to_allow_the_request() {
    let query = Query {
        client: "::ffff:198.51.100.7".parse().unwrap(),
        method: &Method::GET,
        host: "a.example",
        port: 80,
    };
    let Verdict::Deny(denial) = forward().before(&query) else { panic!("not denied") };
    assert!(denial.text.contains("198.51.100.7 is not one"), "{}", denial.text);
    assert!(denial.text.contains("--allow 198.51.100.7"), "{}", denial.text);
    // A client must not learn an address that it may not reach.
    let access = forward().allow(nets(&["198.51.100.0/24"]));
    let denial = access.at(&query, "10.9.8.7:80".parse().unwrap()).unwrap_err();
    assert!(!denial.text.contains("10.9.8.7"), "{}", denial.text);
}

#[test]
fn patterns_are_checked() {
    for text in [
        "",
        ".",
        "a..b",
        "*.example.com",
        "a b",
        "10.0.0.1",
        "[::1]",
        "::1",
        "10.0.0.0/8",
        "example.com:80",
        "exa\nmple",
        "..a",
    ] {
        let error = text.parse::<HostPattern>().unwrap_err().to_string();
        assert!(error.contains("expected a name"), "{text}: {error}");
    }
    for text in ["", "0", "65536", "-1", "9-8", "80-", "http", "80 81"] {
        assert!(text.parse::<PortRange>().is_err(), "{text}");
    }
    assert!("8000-8001".parse::<PortRange>().unwrap().contains(8001));
    assert!(!"8000-8001".parse::<PortRange>().unwrap().contains(8002));
    assert!("Example.COM.".parse::<HostPattern>().unwrap().matches("example.com"));
}

#[test]
fn denials_ignore_method_case_and_permissions_do_not() {
    let methods = vec![Method::DELETE];
    let deny = Rule { methods: methods.clone(), ..Rule::new(Action::Deny) };
    let denied = Access::new(FrontKind::Reverse, locals()).rules(vec![deny]);
    let allow = Rule { methods, ..Rule::new(Action::Allow) };
    let allowed =
        Access::new(FrontKind::Reverse, locals()).rules(vec![allow, Rule::new(Action::Deny)]);
    let to = "8.8.8.8";
    check(
        &denied,
        &[
            (to, "DELETE a.example:80", to, "rule", "rule"),
            (to, "Delete a.example:80", to, "rule", "rule"),
            (to, "GET a.example:80", to, "allow", "allow"),
        ],
    );
    check(
        &allowed,
        &[
            (to, "DELETE a.example:80", to, "allow", "allow"),
            (to, "delete a.example:80", to, "rule", "rule"),
        ],
    );
}

#[test]
fn redirects_lead_to_private_addresses_only_by_a_rule() {
    let allow = Rule {
        hosts: vec!["blobs.test".parse().unwrap()],
        destinations: nets(&["10.0.0.0/8"]),
        ..Rule::new(Action::Allow)
    };
    let access = Access::new(FrontKind::Reverse, locals()).rules(vec![allow]);
    let at = |host, address: &str| {
        let client = "127.0.0.1".parse().unwrap();
        let query = Query { client, method: &Method::GET, host, port: 80 };
        access.at_named(&query, SocketAddr::new(address.parse().unwrap(), 80)).is_ok()
    };
    for (host, address, expected) in [
        ("cdn.test", "198.51.100.7", true),
        ("cdn.test", "127.0.0.1", false),
        ("cdn.test", "169.254.169.254", false),
        ("cdn.test", "::ffff:169.254.169.254", false),
        ("cdn.test", "64:ff9b::a9fe:a9fe", false),
        ("cdn.test", "fd00::1", false),
        ("cdn.test", "192.168.1.1", false),
        ("cdn.test", "203.0.113.1", false),
        ("cdn.test", "10.0.0.1", false),
        ("blobs.test", "10.0.0.1", true),
        ("blobs.test", "127.0.0.1", false),
    ] {
        assert_eq!(at(host, address), expected, "{host} {address}");
    }
}
