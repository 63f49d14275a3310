//! `return`, `rewrite`, `if`, `allow` and `deny`: rules before that of a location.

use crate::config::rule_actions::is_html;
use crate::convert::cases::{both, negated};
use crate::convert::nginx::checks::{checks, is_check, refuses, turns_away};
use crate::convert::nginx::condition::{Alternatives, FILE_TESTS, Variables, note_if, of_if};
use crate::convert::nginx::limits;
use crate::convert::nginx::location::{
    Source, inherited_fields, lose_beside_ifs, own_fields, response_fields,
};
use crate::convert::nginx::lookaround;
use crate::convert::nginx::referers;
use crate::convert::nginx::scope::{ACCESS_LISTS, Scope};
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::{RuleDraft, Tests};

/// Where rules are made: the requests, names, and what is in effect.
pub struct Place<'a, 'b> {
    pub when: &'b Tests,
    pub any: &'b [Tests],
    pub name: &'b str,
    pub server_name: &'b str,
    pub scope: &'b Scope<'a>,
    pub variables: &'b Variables,
    /// True if a location is chosen by the path after a rewrite.
    pub is_server: bool,
    /// Writes the rules of the location into which a `rewrite` leads.
    pub enter: Option<Enter<'b>>,
}

/// Writes the rules for the requests of a draft, the path of which a `rewrite` changes. Returns
/// false if they stay with the rules for the path before.
pub type Enter<'b> = &'b dyn Fn(&Directive, &RuleDraft, &mut Output) -> bool;

impl Place<'_, '_> {
    pub fn rule(&self, what: &str) -> RuleDraft {
        let mut rule = RuleDraft::new(&format!("{} {what}", self.name), self.when);
        rule.any = self.any.to_vec();
        rule
    }
}

/// Records `set` of a block and of the `if` blocks in it.
pub fn collect(block: &[Directive], variables: &mut Variables) {
    for one in block {
        match one.name.as_str() {
            "server_name" => referers::names(one, variables),
            "valid_referers" => {
                let found = referers::invalid(one, variables);
                variables.insert(referers::INVALID.to_owned(), found);
            }
            _ => {}
        }
    }
    for one in block {
        match one.name.as_str() {
            "set" => {
                variables.insert(named(one), constant(one.arg(1)));
            }
            "if" => {
                note_if(one, variables);
                for set in one.inner().iter().filter(|inner| inner.name == "set") {
                    let old = variables
                        .remove(&named(set))
                        .unwrap_or_else(|| Ok(Alternatives::default()));
                    let new = old.and_then(|old| old.set(&of_if(one, variables)?, set.arg(1)));
                    variables.insert(named(set), new);
                }
            }
            _ => {}
        }
    }
}

/// Returns the truth of a value.
fn constant(value: &str) -> Result<Alternatives, String> {
    match value {
        "0" | "" => Ok(Alternatives::default()),
        value if value.contains('$') => Err("a variable has a text".to_owned()),
        value => Ok(Alternatives::of(Tests::default()).valued(value)),
    }
}

fn named(set: &Directive) -> String {
    set.arg(0).trim_start_matches('$').to_owned()
}

/// Pushes the rules of a block, in order. Returns whether a `return` ends it for all requests.
pub fn write(place: &Place<'_, '_>, out: &mut Output) -> bool {
    let mut done: Vec<String> = Vec::new();
    for one in place.scope.block() {
        match one.name.as_str() {
            "return" => {
                answer(one, place, out);
                return true;
            }
            "rewrite" => rewrite(one, place, &mut done, out),
            // What follows it is not tried.
            "break" => return false,
            "if" => condition(one, place, out),
            _ => {}
        }
    }
    false
}

fn condition(one: &Directive, place: &Place<'_, '_>, out: &mut Output) {
    let mut acts: Vec<&Directive> = one
        .inner()
        .iter()
        .filter(|inner| !matches!(inner.name.as_str(), "set" | "break"))
        .collect();
    if acts.is_empty() {
        return;
    }
    let what = format!("if {}", one.args.join(" "));
    let found = match of_if(one, place.variables) {
        Ok(found) => found,
        Err(why) if acts.iter().any(|act| turns_away(act)) && !why.starts_with(FILE_TESTS) => {
            out.lose(&one.at, &what, &format!("{why}: denied to all"));
            return deny(place, &[], &[], out);
        }
        Err(why) => return out.lose(&one.at, &what, &why),
    };
    if let Some(why) = &found.wider {
        out.lose(&one.at, &what, why);
        // What else it does is for fewer requests.
        acts.retain(|act| turns_away(act));
        if acts.is_empty() {
            return;
        }
    }
    if found.any.iter().any(Tests::adds_head) {
        out.note(&one.at, &what, "GET includes HEAD in a rule");
    }
    if acts.iter().any(|act| act.name == "add_header") {
        added_fields(one, &found, place, out);
    }
    let scope = place.scope.inner(one.inner());
    for test in &found.any {
        let (when, any) = match place.when.and(test) {
            Some(when) => (when, place.any.to_vec()),
            None if place.any.is_empty() => (place.when.clone(), vec![test.clone()]),
            None => {
                out.lose(&one.at, &what, "too many conditions of one kind");
                continue;
            }
        };
        let inner = Place { when: &when, any: &any, scope: &scope, ..*place };
        let mut done = Vec::new();
        for act in &acts {
            match act.name.as_str() {
                // The redirect is for fewer requests than the tests are.
                _ if found.wider.is_some() && !refuses(act) => deny(&inner, &[], &[], out),
                "return" => answer(act, &inner, out),
                "rewrite" => rewrite(act, &inner, &mut done, out),
                // The file may refuse requests.
                "include" => deny(&inner, &[], &[], out),
                "deny" if act.arg(0) == "all" => deny(&inner, &[], &[], out),
                "access_log" if act.arg(0) == "off" => {
                    let mut rule = inner.rule("not logged");
                    rule.continues = true;
                    rule.set("log-percent", "0");
                    rule.push(out);
                }
                "add_header" => {}
                name => out.lose(&act.at, name, "not translated within an if"),
            }
        }
    }
}

/// Pushes the rules of `add_header` within an `if`. They hold unless a later `if` of the location
/// does, whose directives hold then.
fn added_fields(one: &Directive, found: &Alternatives, place: &Place<'_, '_>, out: &mut Output) {
    let what = format!("if {}", one.args.join(" "));
    let all = match decides(one, &found.any, place) {
        Ok(all) => all,
        Err(why) => return out.lose(&one.at, &what, &format!("add_header: {why}")),
    };
    let added = place.scope.added(&["add_header"]);
    if !added.is_empty() && !matches!(outside_ifs(place), Some(Ok(_))) {
        let reason = "the fields that the location adds are sent as well";
        out.lose(&one.at, &what, reason);
    }
    let scope = place.scope.alone(one.inner());
    for test in all {
        let Some(when) = place.when.and(&test) else {
            out.lose(&one.at, &what, "too many conditions of one kind");
            continue;
        };
        let mut rule = Place { when: &when, ..*place }.rule("if");
        rule.continues = true;
        response_fields(&scope, Source::If, place.server_name, &mut rule, out);
        rule.push(out);
    }
}

/// Returns the requests for which an `if` holds and no later one of the location.
fn decides(one: &Directive, found: &[Tests], place: &Place<'_, '_>) -> Result<Vec<Tests>, String> {
    let block = place.scope.block().iter();
    let later = block.skip_while(|other| other.at != one.at).skip(1);
    let mut all = found.to_vec();
    for other in later.filter(|other| other.name == "if") {
        all = both(&all, &of_if(other, place.variables)?.negated()?.any)?;
    }
    Ok(all)
}

/// Returns the requests for which no `if` with `add_header` of a proxied location decides on the
/// fields, `None` if it has no such `if`.
fn outside_ifs(place: &Place<'_, '_>) -> Option<Result<Vec<Tests>, String>> {
    place.scope.own("proxy_pass")?;
    let adds = |one: &&Directive| {
        one.name == "if" && one.inner().iter().any(|act| act.name == "add_header")
    };
    let ifs: Vec<&Directive> = place.scope.block().iter().filter(adds).collect();
    let without = |all: Vec<Tests>, one: &Directive| {
        let found = of_if(one, place.variables)?;
        match &found.wider {
            Some(why) => Err(why.clone()),
            None => both(&all, &negated(&decides(one, &found.any, place)?)?),
        }
    };
    let all = ifs.iter().try_fold(vec![Tests::default()], |all, one| without(all, one));
    let fits = |all: &Vec<Tests>| place.any.is_empty() || all.is_empty();
    let all = all.and_then(|all| fits(&all).then_some(all).ok_or("too many conditions".to_owned()));
    (!ifs.is_empty()).then_some(all)
}

/// Pushes the fields that a location adds where no `if` of it adds others. Returns false if it has
/// no such `if`.
pub fn fields_outside_ifs(
    place: &Place<'_, '_>,
    source: Source,
    rule: &mut RuleDraft,
    out: &mut Output,
) -> bool {
    let Some(Ok(any)) = outside_ifs(place) else { return false };
    inherited_fields(place.scope, source, rule, out);
    lose_beside_ifs(place.scope, out);
    if !any.is_empty() {
        let mut fields = Place { any: &any, ..*place }.rule("fields");
        fields.continues = true;
        own_fields(place.scope, Source::If, place.server_name, &mut fields, out);
        if !fields.is_empty() {
            fields.push(out);
        }
    }
    true
}

/// Pushes the rule of a `return`.
fn answer(one: &Directive, place: &Place<'_, '_>, out: &mut Output) {
    let (status, rest) = match one.arg(0).parse::<u16>() {
        Ok(status) => (status, one.args.get(1)),
        Err(_) => (302, one.args.first()),
    };
    let what = format!("return {status}");
    let path = rest.and_then(|rest| own_path(status, rest));
    let rest = path.as_ref().or(rest);
    if rest.is_some_and(|rest| rest.contains("$http_host")) {
        out.note(&one.at, &what, "the host without its port");
    }
    let value = rest.map(|rest| place.scope.template(rest, place.server_name));
    if let (301 | 302 | 303 | 307 | 308, Some(None)) = (status, &value)
        && let Some(url) = rest.and_then(|rest| rest.strip_suffix("$is_args$args"))
        && let Some(url) = place.scope.template(url, place.server_name)
    {
        return with_query(status, &url, place, out);
    }
    let mut rule = place.rule("return");
    match (status, value) {
        (_, Some(None)) => {
            out.lose(&one.at, &what, "a variable has no equivalent: answered with 500");
            rule.set("respond", text("500 Internal Server Error"));
        }
        (301 | 302 | 303 | 307 | 308, Some(Some(url))) => {
            rule.set("redirect", text(&format!("{status} {url}")));
        }
        (403, None) => rule.set("deny", "true"),
        (444, _) => {
            out.lose(&one.at, &what, "the connection is not closed: answered with 403");
            rule.set("deny", "true");
        }
        (status, body) => {
            let body = body.flatten().unwrap_or_else(|| reason(status));
            let body = if body.starts_with('@') { format!(" {body}") } else { body };
            if !(200..600).contains(&status) {
                return out.lose(&one.at, &what, "no such status");
            }
            let kind = place.scope.arg("default_type").unwrap_or("text/plain");
            let is_other = kind != "text/plain" && !kind.ends_with("octet-stream");
            if rest.is_some() && (is_other || (is_html(&body) && kind != "text/html")) {
                rule.add("client-set", format!("Content-Type: {}", braced(kind)));
            }
            rule.set("respond", text(&format!("{status} {body}")));
        }
    }
    response_fields(place.scope, Source::Rule(status), place.server_name, &mut rule, out);
    rule.push(out);
}

/// Returns the path of a redirect to the host and port of the request, which a redirect to a path
/// leaves as they are.
fn own_path(status: u16, url: &str) -> Option<String> {
    let rest = url.strip_prefix("$scheme://")?;
    let path = rest
        .strip_prefix("$http_host")
        .or_else(|| rest.strip_prefix("$host:$server_port"))
        .filter(|path| matches!(status, 301 | 302 | 303 | 307 | 308) && path.starts_with('/'))?;
    let is_plain = path.as_bytes().get(1).is_none_or(u8::is_ascii_alphanumeric);
    is_plain.then(|| path.to_owned())
}

/// Pushes the rules of a redirect that keeps the query, if there is one.
fn with_query(status: u16, url: &str, place: &Place<'_, '_>, out: &mut Output) {
    for (key, query) in queries(String::new(), true, true) {
        let mut rule = place.rule("return");
        let mark = if query.is_empty() { "" } else { "?" };
        key.into_iter().for_each(|key| rule.when.add(key, ["*".to_owned()]));
        rule.set("redirect", text(&format!("{status} {url}{mark}{query}")));
        response_fields(place.scope, Source::Rule(status), place.server_name, &mut rule, out);
        rule.push(out);
    }
}

fn reason(status: u16) -> String {
    if matches!(status, 204 | 205 | 304) {
        return String::new();
    }
    let status = http::StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or_default().to_owned()
}

/// Pushes the rules of a `rewrite`; `done` has the expressions of those before it that end the
/// rewriting.
fn rewrite(one: &Directive, place: &Place<'_, '_>, done: &mut Vec<String>, out: &mut Output) {
    let (regex, target, flag) = (one.arg(0), one.arg(1), one.arg(2));
    let test = format!("~{regex}");
    if proxy::rules::request_rules::PathTest::parse(&test, false).is_err() {
        let reason = "the expression is not supported: denied to what it may match";
        out.lose(&one.at, "rewrite", reason);
        return deny_paths(&format!("~{}", lookaround::stripped(regex)), place, out);
    }
    let is_url = ["http://", "https://", "$scheme"].iter().any(|begin| target.starts_with(begin));
    let status = match flag {
        "permanent" => Some(301),
        _ if is_url || flag == "redirect" => Some(302),
        _ => None,
    };
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let made = |text, name| place.scope.template(text, name);
    let parts = (made(path, place.server_name), made(query.unwrap_or_default(), ""));
    let (Some(path), Some(own)) = parts else {
        out.lose(&one.at, "rewrite", "a variable has no equivalent: denied to what it matches");
        return deny_paths(&test, place, out);
    };
    let Some((when, any)) = beside_paths(place) else {
        out.lose(&one.at, "rewrite", "too many conditions of one kind: denied to all");
        return deny(place, &[], &[], out);
    };
    // With `break` the location stays that of the path before.
    let enter = place.enter.filter(|_| place.is_server || flag != "break");
    let keeps = !query.is_some_and(|query| query.is_empty() || query.ends_with('?'));
    let own = own.trim_end_matches('?').to_owned();
    for (key, query) in queries(own, keeps, status.is_some()) {
        let mut when = when.clone();
        when.add("paths", [test.clone()]);
        when.add("not-paths", done.clone());
        if let Some(key) = key {
            when.add(key, ["*".to_owned()]);
        }
        let mut rule = RuleDraft::new(&format!("{} rewrite", place.name), &when);
        rule.any.clone_from(&any);
        match status {
            Some(status) => {
                let mark = if query.is_empty() { "" } else { "?" };
                rule.set("redirect", text(&format!("{status} {path}{mark}{query}")));
                let source = Source::Rule(status);
                response_fields(place.scope, source, place.server_name, &mut rule, out);
            }
            None => {
                rule.set("set-path", text(&path));
                match (query.is_empty(), keeps) {
                    (false, _) => rule.set("set-query", text(&query)),
                    (true, false) => rule.add("remove-query", "*"),
                    (true, true) => {}
                }
                if enter.is_some_and(|enter| enter(one, &rule, out)) {
                    continue;
                }
                rule.continues = true;
            }
        }
        rule.push(out);
    }
    if matches!(flag, "last" | "break") {
        done.push(test);
    } else if status.is_none() {
        out.lose(&one.at, "rewrite", "further rewrites see the path before this one");
    }
}

/// Returns the requests of a place as conditions beside which paths can be tested.
fn beside_paths(place: &Place<'_, '_>) -> Option<(Tests, Vec<Tests>)> {
    let Some(paths) = place.when.get("paths") else {
        return Some((place.when.clone(), place.any.to_vec()));
    };
    let mut when = place.when.clone();
    when.0.retain(|(key, _)| key != "paths");
    let any = vec![Tests(vec![("paths".to_owned(), paths.clone())])];
    place.any.is_empty().then_some((when, any))
}

/// Denies the paths that match an expression, all if they cannot be stated.
fn deny_paths(test: &str, place: &Place<'_, '_>, out: &mut Output) {
    let is_known = proxy::rules::request_rules::PathTest::parse(test, false).is_ok();
    let Some((mut when, any)) = beside_paths(place).filter(|_| is_known) else {
        return deny(place, &[], &[], out);
    };
    when.add("paths", [test.to_owned()]);
    deny(&Place { when: &when, any: &any, ..*place }, &[], &[], out);
}

/// Returns the query of a rewritten URL: nginx adds the client's, if there is one. The key is that
/// of the condition.
pub fn queries(own: String, keeps: bool, is_redirect: bool) -> Vec<(Option<&'static str>, String)> {
    if !keeps || (own.is_empty() && !is_redirect) {
        return vec![(None, own)];
    }
    let both = match own.is_empty() {
        true => "{query}".to_owned(),
        false => format!("{own}&{{query}}"),
    };
    vec![(Some("query"), both), (Some("not-query"), own)]
}

/// Pushes the rules of `allow` and `deny`, and of what asks who the client is. Returns whether
/// no client is allowed.
pub fn access(place: &Place<'_, '_>, out: &mut Output) -> bool {
    for one in checks(place.scope) {
        if one.name == "auth_basic" && limits::password(one, place, out) {
            continue;
        }
        let reason = match one.name.as_str() {
            "include" => "the file may refuse requests: denied to all",
            _ => "users are not asked who they are: denied to all",
        };
        out.lose(&one.at, &one.name, reason);
        deny(place, &[], &[], out);
        return true;
    }
    let mut allowed: Vec<String> = Vec::new();
    for one in place.scope.all(&ACCESS_LISTS) {
        let network = one.arg(0);
        if network == "unix:" {
            out.lose(&one.at, &one.name, "clients of Unix sockets have no address");
            continue;
        }
        match (one.name.as_str(), network) {
            ("allow", "all") => return false,
            ("allow", network) => allowed.push(network.to_owned()),
            (_, "all") => {
                deny(place, &[], &allowed, out);
                return allowed.is_empty();
            }
            (_, network) => deny(place, &[network.to_owned()], &allowed, out),
        }
    }
    false
}

/// Returns whether one rule cannot state the access control of a location and of the location that
/// gets its other requests: that inherits what the first one replaces, or the passwords differ.
pub fn conflicts(location: &Scope<'_>, behind: &Scope<'_>) -> bool {
    let is_on = |scope: &Scope<'_>, name| scope.arg(name).is_some_and(|value| value != "off");
    let is_replaced = |names: &[&str]| {
        let is_inherited = names.iter().all(|name| behind.own(name).is_none());
        is_inherited && !location.shares(names, behind)
    };
    let denies = behind.all(&ACCESS_LISTS).iter().any(|one| one.name == "deny");
    let has_password = is_on(behind, "auth_basic");
    let is_evaded = |check: &&Directive| is_replaced(&[&check.name]);
    (denies && is_replaced(&ACCESS_LISTS))
        || checks(behind).iter().filter(|check| check.name != "auth_basic").any(is_evaded)
        || match is_on(location, "auth_basic") {
            true => has_password && !location.shares(&["auth_basic_user_file"], behind),
            false => has_password && is_replaced(&["auth_basic"]),
        }
}

/// Pushes the rule of `limit_except`.
pub fn except(one: &Directive, place: &Place<'_, '_>, out: &mut Output) {
    let mut when = place.when.clone();
    when.add("not-methods", one.args.iter().cloned());
    let name = format!("{} limit_except", place.name);
    let scope = Scope::default().inner(one.inner());
    access(&Place { when: &when, name: &name, scope: &scope, ..*place }, out);
    for inner in one.inner().iter().filter(|inner| {
        !ACCESS_LISTS.contains(&inner.name.as_str())
            && !is_check(&inner.name)
            && inner.name != "auth_basic_user_file"
    }) {
        out.lose(&inner.at, &inner.name, "not translated within limit_except");
    }
}

fn deny(place: &Place<'_, '_>, clients: &[String], except: &[String], out: &mut Output) {
    let mut rule = place.rule("access");
    rule.when.add("clients", clients.iter().cloned());
    rule.when.add("not-clients", except.iter().cloned());
    rule.set("deny", "true");
    rule.push(out);
}

/// Pushes a rule that refuses all requests.
pub fn refuse(place: &Place<'_, '_>, response: &str, out: &mut Output) {
    let mut rule = place.rule("refused");
    rule.set("respond", text(response));
    rule.push(out);
}

/// Pushes a rule that answers in place of an application that is not served.
pub fn unserved(one: &Directive, place: &Place<'_, '_>, out: &mut Output) {
    let reason = "applications are served over HTTP only: answered with 501";
    out.lose(&one.at, &one.name, reason);
    let mut rule = place.rule(&one.name);
    rule.set("respond", text(&format!("501 Not converted: {}", braced(&one.name))));
    rule.push(out);
}
