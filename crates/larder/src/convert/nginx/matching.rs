//! `location` blocks in an order in which the first that matches is the one that nginx takes.

use crate::convert::nginx::syntax::Directive;
use crate::convert::rule_draft::Tests;

/// A location, with the test of its rules.
#[derive(Clone, Debug)]
pub struct Location<'a> {
    pub directive: &'a Directive,
    pub kind: Kind,
    /// The path or the expression.
    pub path: String,
    pub when: Tests,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Exact,
    /// `^~`: no expression is tried.
    Final,
    Regex,
    Prefix,
}

/// Returns the locations in their order, and those that have no equivalent.
pub fn ordered(block: &[Directive]) -> (Vec<Location<'_>>, Vec<(&Directive, &'static str)>) {
    let (mut all, mut lost) = (Vec::new(), Vec::new());
    for one in block.iter().filter(|one| one.name == "location") {
        match read(one) {
            Ok(location) => all.push(location),
            Err(why) => lost.push((one, why)),
        }
    }
    // nginx takes the longest prefix, then the expressions in their order unless the prefix is
    // final.
    let order = |location: &Location<'_>| match location.kind {
        Kind::Exact => (0, 0),
        Kind::Final => (1, usize::MAX - location.path.len()),
        Kind::Regex => (2, 0),
        Kind::Prefix => (3, usize::MAX - location.path.len()),
    };
    all.sort_by_key(order);
    let prefixes: Vec<String> = all
        .iter()
        .filter(|location| location.kind == Kind::Prefix)
        .map(|location| location.path.clone())
        .collect();
    for location in all.iter_mut().filter(|location| location.kind == Kind::Final) {
        // A longer prefix that is not final comes after the expressions.
        let longer = prefixes
            .iter()
            .filter(|path| path.len() > location.path.len() && path.starts_with(&location.path));
        location.when.add("not-paths", longer.map(|path| format!("{path}*")));
    }
    (all, lost)
}

fn read(one: &Directive) -> Result<Location<'_>, &'static str> {
    let (kind, path) = match one.arg(0) {
        "=" => (Kind::Exact, one.arg(1)),
        "^~" => (Kind::Final, one.arg(1)),
        "~" | "~*" => (Kind::Regex, one.arg(1)),
        path if path.starts_with('@') => (Kind::Exact, path),
        path => match (path.strip_prefix("~*"), path.strip_prefix('~'), path.strip_prefix('=')) {
            (Some(_), _, _) | (None, Some(_), _) => {
                (Kind::Regex, path.trim_start_matches(['~', '*']))
            }
            (None, None, Some(path)) => (Kind::Exact, path),
            _ => (Kind::Prefix, path),
        },
    };
    if path.starts_with('@') {
        return Err("a named location is not reached: requests are not passed on within");
    }
    let ignores_case = one.arg(0).starts_with("~*");
    let when = match kind {
        Kind::Regex => {
            let regex = if ignores_case { format!("(?i){path}") } else { path.to_owned() };
            let test = format!("~{regex}");
            if proxy::rules::request_rules::PathTest::parse(&test, false).is_err() {
                return Err("the expression is not supported (lookaround, backreference)");
            }
            Tests::one("paths", test)
        }
        _ if !path.starts_with('/') || path.contains('*') => {
            return Err("expected a path that begins with / and has no *");
        }
        Kind::Exact => Tests::one("paths", path),
        _ if path == "/" => Tests::default(),
        _ => Tests::one("paths", format!("{path}*")),
    };
    Ok(Location { directive: one, kind, path: path.to_owned(), when })
}
