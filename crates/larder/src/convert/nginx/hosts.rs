//! The requests that each server answers, by host, port and scheme.

use crate::convert::nginx::checks::{checks, refuses};
use crate::convert::nginx::matching;
use crate::convert::nginx::scope::{ACCESS_LISTS, Scope};
use crate::convert::nginx::server_block::Server;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::Output;
use crate::convert::regex_of_text::escaped;
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::vcl::host_test;

/// Returns the requests that a server answers, in parts of which each is one condition. nginx takes
/// whole names before wildcards, and longer wildcards before shorter ones.
pub fn parts(server: &Server<'_>, all: &[Server<'_>]) -> Vec<Tests> {
    let (mut names, mut others) = (server.names.clone(), of_others(server, all));
    add_domains(server, &mut names, &mut others);
    let own: Vec<String> = names.iter().chain(&server.below).cloned().collect();
    let is_taken = |host: &String| others.iter().any(|other| covers(other, host));
    let narrower = |hosts: &[String]| {
        let is_within = |other: &&String| hosts.iter().any(|host| covers(host, other));
        others.iter().filter(is_within).cloned().collect::<Vec<_>>()
    };
    let mut parts: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    if own.iter().any(is_taken) {
        if !names.is_empty() {
            parts.push((names, Vec::new()));
        }
        for host in &server.below {
            let mut not = narrower(std::slice::from_ref(host));
            not.extend(own.iter().filter(|own| covers(host, own)).cloned());
            parts.push((vec![host.clone()], not));
        }
        if server.is_default {
            parts.push((Vec::new(), [others, own].concat()));
        }
    } else if server.is_default && server.not_default_at.is_empty() {
        parts.push((Vec::new(), others));
    } else if server.is_default {
        if !own.is_empty() {
            parts.push((own.clone(), narrower(&server.below)));
        }
        parts.push((Vec::new(), [others, own].concat()));
    } else {
        parts.push((own, narrower(&server.below)));
    }
    parts.into_iter().map(|(hosts, not)| requests(server, all, hosts, not)).collect()
}

/// Returns whether a rule's `.example.com` includes another host, or a longer wildcard.
fn covers(wildcard: &str, host: &str) -> bool {
    is_below(host, wildcard) || wildcard.strip_prefix('.') == Some(host)
}

/// Returns whether `*.example.com` of nginx includes a host, or a longer wildcard.
fn is_below(host: &str, wildcard: &str) -> bool {
    wildcard.starts_with('.') && host.len() > wildcard.len() && host.ends_with(wildcard)
}

/// Adds the domains of wildcards, which nginx does not include, to the names of the server that
/// answers for them, or to those of others.
fn add_domains(server: &Server<'_>, names: &mut Vec<String>, others: &mut Vec<String>) {
    let all: Vec<String> =
        [&server.names, &server.below, &*others].into_iter().flatten().cloned().collect();
    for domain in all.iter().filter_map(|host| host.strip_prefix('.')) {
        let domain = domain.to_owned();
        if all.contains(&domain) || names.contains(&domain) || others.contains(&domain) {
            continue;
        }
        let around = all.iter().filter(|host| is_below(&domain, host));
        let is_own = match around.max_by_key(|host| host.len()) {
            Some(wildcard) => server.below.contains(wildcard),
            None => server.is_default,
        };
        if is_own { names.push(domain) } else { others.push(domain) }
    }
}

/// Returns the hosts that other servers at the same addresses name.
fn of_others(server: &Server<'_>, all: &[Server<'_>]) -> Vec<String> {
    let is_other = |other: &&Server<'_>| !std::ptr::eq(other.directive, server.directive);
    let is_everywhere = server.not_here(all).is_empty();
    let claimed = all.iter().filter(is_other).filter(|other| match is_everywhere {
        true => server.shares_scheme(other),
        false => server.shares_address(other),
    });
    let mut names: Vec<String> = claimed.flat_map(|other| other.hosts().cloned()).collect();
    names.retain(|name| !server.hosts().any(|own| own == name));
    names.sort();
    names.dedup();
    names
}

/// Returns the requests for some hosts, or for all but some, at the addresses of a server.
fn requests(
    server: &Server<'_>,
    all: &[Server<'_>],
    hosts: Vec<String>,
    not_hosts: Vec<String>,
) -> Tests {
    let mut when = Tests::default();
    let not_here = server.not_here(all);
    // Elsewhere another server answers for hosts that no server names.
    let is_here = |address: &str| {
        !hosts.is_empty() || !server.not_default_at.iter().any(|one| one == address)
    };
    let is_part = hosts.is_empty() && !server.not_default_at.is_empty();
    if !not_here.is_empty() || is_part {
        let own = |address: &str| server.addresses.iter().any(|(own, _)| own == address);
        let addresses = server.addresses.iter().map(|(address, _)| address);
        let mut addresses: Vec<String> = addresses.filter(|one| is_here(one)).cloned().collect();
        addresses.dedup();
        when.add("listeners", addresses);
        // A port stands for all addresses, of which a server may have one for itself.
        let is_within = |address: &&&str| {
            address.rsplit_once(':').is_some_and(|(_, port)| own(port)) && !own(address)
        };
        let within = not_here.iter().filter(is_within);
        when.add("not-listeners", within.map(|address| (*address).to_owned()));
    }
    when.add("hosts", hosts);
    when.add("not-hosts", not_hosts);
    let has_both = all.iter().any(|one| one.http) && all.iter().any(|one| one.https);
    if has_both && !(server.http && server.https) && not_here.is_empty() {
        let scheme = if server.https { "https" } else { "http" };
        when.add("schemes", [scheme.to_owned()]);
    }
    when
}

/// Writes denials for what a server's address keeps out in nginx.
pub fn close_ports(server: &Server<'_>, all: &[Server<'_>], out: &mut Output) {
    let name = server.called();
    // Its site would answer at the other addresses, too.
    let has_site = !server.is_default && server.hosts().next().is_some();
    let lacks_host = |address: &&str| {
        let at = all.iter().filter(|other| other.addresses.iter().any(|(one, _)| one == address));
        let hosts: Vec<&String> = at.flat_map(Server::hosts).collect();
        has_site && server.hosts().any(|host| !hosts.contains(&host))
    };
    let ports: Vec<&str> = server.not_here(all).into_iter().filter(lacks_host).collect();
    if !ports.is_empty() {
        let reason = "denied: nginx has the default server answer";
        server.lose(&format!("{name} at {}", ports.join(", ")), reason, out);
        let mut other = Tests::default();
        other.add("hosts", server.hosts().cloned());
        other.add("listeners", ports.into_iter().map(str::to_owned));
        deny(RuleDraft::new(&format!("{name} elsewhere"), &other), out);
    }
}

/// Writes denials for the hosts of a server with restrictions that only names without an equivalent
/// lead to: the default server would answer for them without these.
pub fn close_lost(server: &Server<'_>, all: &[Server<'_>], http: &Scope<'_>, out: &mut Output) {
    let scope = http.inner(server.block());
    let root = server
        .block()
        .iter()
        .filter(|one| one.name == "location" && one.args.last().is_some_and(|path| path == "/"));
    let mut scopes = root.map(|one| scope.inner(one.inner())).chain([scope.clone()]);
    if server.is_default || !scopes.any(|scope| is_restricted(&scope)) {
        return;
    }
    for (name, _) in &server.odd {
        let domain = name.strip_prefix('*').unwrap_or(name);
        if server.below.iter().any(|below| below == domain) {
            continue;
        }
        let found = match (name.strip_prefix('~'), name.strip_suffix('*')) {
            (Some(regex), _) => host_test::of(regex, false).ok(),
            (_, Some(begin)) => host_test::of(&format!("^{}", escaped(begin)), false).ok(),
            _ => None,
        };
        let what = format!("server_name {name}");
        let Some(mut when) = found else {
            let reason = "the default server answers, without the restrictions of this one";
            server.lose(&what, reason, out);
            continue;
        };
        server.lose(&what, "denied: the server restricts its requests", out);
        when.add("not-hosts", all.iter().flat_map(|other| other.hosts().cloned()));
        deny(RuleDraft::new(&format!("{} {name}", server.called()), &when), out);
    }
}

/// Returns whether requests are refused in a scope.
fn is_restricted(scope: &Scope<'_>) -> bool {
    let is_refusal = |one: &Directive| refuses(one) || one.inner().iter().any(refuses);
    let is_own = |one: &&Directive| matches!(one.name.as_str(), "if" | "return" | "limit_except");
    !checks(scope).is_empty()
        || scope.all(&ACCESS_LISTS).iter().any(|one| one.name == "deny")
        || scope.block().iter().filter(is_own).any(is_refusal)
}

/// Writes denials for what a server asks client certificates of.
pub fn ask_certificates(server: &Server<'_>, scope: &Scope<'_>, when: &Tests, out: &mut Output) {
    match scope.get("ssl_verify_client").map(|one| (one, one.arg(0))) {
        None | Some((_, "off")) => {}
        Some((one, "on")) if server.https => {
            out.lose(&one.at, "ssl_verify_client", "clients have no certificates: denied to all");
            let mut rule = RuleDraft::new(&format!("{} certificate", server.called()), when);
            if rule.when.get("schemes").is_none() {
                rule.when.add("schemes", ["https".to_owned()]);
            }
            deny(rule, out);
        }
        Some((one, _)) => {
            out.lose(&one.at, "ssl_verify_client", "client certificates are not asked for");
        }
    }
}

fn deny(mut rule: RuleDraft, out: &mut Output) {
    rule.set("deny", "true");
    rule.push(out);
}

/// Returns whether the requests for a path that another server with a host of this one gets, at
/// another address, are for the other server's origin servers or directory.
pub fn shares_path(server: &Server<'_>, all: &[Server<'_>], path: &str) -> bool {
    let is_other = |other: &&Server<'_>| !std::ptr::eq(other.directive, server.directive);
    let shares_name =
        |other: &&Server<'_>| other.names.iter().any(|name| server.names.contains(name));
    let returns = |block: &[Directive]| block.iter().any(|one| one.name == "return");
    let example = format!("{path}x");
    all.iter().filter(is_other).filter(shares_name).any(|other| {
        let (locations, _) = matching::ordered(other.block());
        let found = locations.iter().find(|one| one.matches(&example));
        !returns(other.block()) && !found.is_some_and(|one| returns(one.directive.inner()))
    })
}
