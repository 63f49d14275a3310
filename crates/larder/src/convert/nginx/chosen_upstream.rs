//! `proxy_pass` whose variable chooses among `upstream` blocks: a rule for each of its values.

use proxy::rules::request_rules::PathTest;

use crate::convert::nginx::backend::{self, Servers, Upstreams};
use crate::convert::nginx::named_backend::variable;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::{Directive, walk};
use crate::convert::output::Output;

/// Replaces the entries of maps whose value is a part of the path that names an `upstream` block,
/// by one for each block.
pub fn expand(block: &mut [Directive]) {
    let mut all = Vec::new();
    walk(block, &mut |one| all.push(one));
    // A resolver finds servers of other names as well.
    if all.iter().any(|one| one.name == "resolver") {
        return;
    }
    let names: Vec<String> = (all.iter())
        .filter(|one| one.name == "upstream")
        .map(|one| one.arg(0).to_owned())
        .collect();
    let chosen: Vec<String> = (all.iter())
        .filter(|one| one.name == "proxy_pass")
        .filter_map(|one| name_in(one.arg(0)).map(|name| format!("${name}")))
        // Elsewhere, other values than the names of blocks count as well.
        .filter(|name| !is_used_elsewhere(&all, name))
        .collect();
    let is_chosen = |one: &&mut Directive| one.name == "map" && chosen.contains(&one.args[1]);
    for map in block.iter_mut().filter(|one| one.args.len() == 2).filter(is_chosen) {
        let Some(entries) = map.block.take() else { continue };
        let expanded = entries.into_iter().flat_map(|one| {
            let made = by_name(&one, &names);
            if made.is_empty() { vec![one] } else { made }
        });
        map.block = Some(expanded.collect());
    }
}

/// Returns whether a variable is used other than as a server.
fn is_used_elsewhere(all: &[&Directive], variable: &str) -> bool {
    let braced = format!("${{{}}}", &variable[1..]);
    all.iter().any(|one| {
        let is_own = one.name == "map" && one.args.get(1).is_some_and(|name| name == variable);
        let mentions = |arg: &String| arg.contains(variable) || arg.contains(&braced);
        one.name != "proxy_pass" && !is_own && one.args.iter().any(mentions)
    })
}

/// Returns the entries of the names that an entry such as `~^/([^/]+)/ $1` can yield.
fn by_name(entry: &Directive, names: &[String]) -> Vec<Directive> {
    let group = ["([^/]+)/", "([^/]*)/"].into_iter().find_map(|group| entry.name.split_once(group));
    let Some((before, after)) = group.filter(|_| entry.arg(0) == "$1") else { return Vec::new() };
    // The group is one part of the path, and the same whatever follows.
    let start = before.strip_prefix("~^").unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_');
    if !start.ends_with('/') || !start.chars().all(is_plain) {
        return Vec::new();
    }
    let is_name = |name: &&String| name.chars().all(|c| is_plain(c) && c != '/');
    let made = names.iter().filter(is_name).map(|name| Directive {
        name: format!("~^{start}{name}/{after}"),
        args: vec![name.clone()],
        ..entry.clone()
    });
    made.filter(|one| PathTest::parse(&one.name, false).is_ok()).collect()
}

/// Returns the variable that is the whole name of a server.
fn name_in(target: &str) -> Option<&str> {
    let path = target.strip_suffix("$request_uri").unwrap_or(target);
    let (before, name, after) = variable(path)?;
    (before.is_empty() && (after.is_empty() || after.starts_with('/'))).then_some(name)
}

/// Returns the servers for each value of the class that a target names, if one of the values is an
/// `upstream` block: the test of the class, and the servers.
pub fn choices(
    pass: &Directive,
    scope: &Scope<'_>,
    upstreams: &Upstreams<'_>,
    out: &mut Output,
) -> Option<Vec<(String, Servers)>> {
    let target = pass.arg(0);
    let name = name_in(target)?;
    let values = scope.class_values(name).filter(|_| scope.partial(name).is_none())?;
    if !values.iter().any(|value| upstreams.contains_key(value.as_str())) {
        return None;
    }
    let mut all = Vec::new();
    for value in values.iter().filter(|value| !value.is_empty()) {
        let named = target.replace(&format!("${{{name}}}"), value);
        let named = named.replace(&format!("${name}"), value);
        let one = Directive { args: vec![named], ..pass.clone() };
        all.push((format!("{name}={value}"), backend::servers(&one, scope, upstreams, out)?));
    }
    Some(all)
}
