//! `location` blocks in an order in which the first that matches is the one that nginx takes.

use proxy::rules::request_rules::PathTest;

use crate::convert::nginx::lookaround;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::regex_of_text::escaped;
use crate::convert::rule_draft::Tests;

/// A location, with the test of its rules.
#[derive(Clone, Debug)]
pub struct Location<'a> {
    pub directive: &'a Directive,
    /// The locations around it, the outermost first.
    pub outer: Vec<&'a Directive>,
    pub kind: Kind,
    /// The path or the expression.
    pub path: String,
    pub when: Tests,
    /// The test of the location around, where both are tests of paths.
    pub any: Vec<Tests>,
    /// The test matches more paths than the location.
    pub is_wider: bool,
    /// Final, or within a final one.
    pub is_final: bool,
}

impl<'a> Location<'a> {
    /// Returns the location of the paths that no other matches.
    pub fn of_server(directive: &'a Directive) -> Location<'a> {
        let (when, any, outer) = (Tests::default(), Vec::new(), Vec::new());
        let (kind, path) = (Kind::Prefix, "/".to_owned());
        Location { directive, outer, kind, path, when, any, is_wider: false, is_final: false }
    }

    /// Returns what is in effect in the location, with what is in effect in its server.
    pub fn scope(&self, server: &Scope<'a>) -> Scope<'a> {
        let outer = self.outer.iter().fold(server.clone(), |scope, one| scope.inner(one.inner()));
        outer.inner(self.directive.inner())
    }

    /// Returns whether the rule of the location matches a path.
    pub fn matches(&self, path: &str) -> bool {
        let any = |key: &str| {
            let tests = self.when.get(key).into_iter().flatten();
            let parsed = tests.filter_map(|test| PathTest::parse(test, false).ok());
            parsed.into_iter().any(|test| test.matches(path.as_bytes()))
        };
        let is_path = self.when.get("paths").is_none() || any("paths");
        self.any.is_empty() && is_path && !any("not-paths")
    }

    /// Returns whether it is for all paths below a directory other than the root, and no other
    /// location is for some of them.
    pub fn is_whole_path(&self, all: &[Location<'_>]) -> bool {
        let is_prefix = matches!(self.kind, Kind::Prefix | Kind::Final);
        let is_inside = |other: &Location<'_>| {
            let mut outer = other.outer.iter();
            match other.kind {
                Kind::Regex if self.kind == Kind::Final => {
                    outer.any(|outer| std::ptr::eq(*outer, self.directive))
                }
                Kind::Regex => true,
                _ => other.path != self.path && other.path.starts_with(&self.path),
            }
        };
        let is_path = is_prefix && self.path.ends_with('/') && self.path != "/";
        is_path && !all.iter().any(is_inside)
    }
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
    collect(block, None, &mut all, &mut lost);
    // nginx takes the longest prefix, then the expressions within it, then those around it in
    // their order unless the prefix is final.
    let order = |location: &Location<'_>| {
        // What is within an expression comes where that does.
        let (kind, outer) = match before_regex(location) {
            Some(outer) => (Kind::Regex, outer),
            None => (location.kind, &location.outer[..]),
        };
        let mut kinds = outer.iter().map(|outer| kind_and_path(outer).0);
        let is_final = kinds.any(|kind| kind == Kind::Final);
        let around = outer.last().map(|outer| kind_and_path(outer));
        let is_within = |wanted: Kind| around.is_some_and(|(kind, _)| kind == wanted);
        let path = around.filter(|(kind, _)| matches!(kind, Kind::Prefix | Kind::Final));
        let depth = usize::MAX - path.map_or(0, |(_, path)| path.len() + 1);
        match kind {
            Kind::Exact => (0, 0),
            Kind::Regex if is_within(Kind::Exact) => (0, 0),
            Kind::Regex if is_final => (1, depth),
            Kind::Final => (2, usize::MAX - location.path.len()),
            Kind::Prefix if is_final => (2, usize::MAX - location.path.len()),
            Kind::Regex if is_within(Kind::Prefix) => (3, depth),
            Kind::Regex => (4, 0),
            Kind::Prefix => (5, usize::MAX - location.path.len()),
        }
    };
    all.sort_by_key(order);
    let prefixes: Vec<Location<'_>> = (all.iter())
        .filter(|location| matches!(location.kind, Kind::Prefix | Kind::Final))
        .cloned()
        .collect();
    for location in &mut all {
        let regex = before_regex(location);
        let own = match (location.kind, regex.and_then(|outer| outer_path(outer))) {
            (Kind::Final, _) if regex.is_none() => location.path.clone(),
            (_, Some(path)) => path.to_owned(),
            _ => continue,
        };
        // A longer prefix is for other expressions, or comes after them.
        let is_regex = regex.is_some();
        // Expressions beside a prefix are tried after those within it, unless it is final.
        let around = regex.and_then(|outer| outer.last());
        let is_beside = |prefix: &Location<'_>| {
            let is_around = |one: &&Directive| around.is_some_and(|of| std::ptr::eq(*one, *of));
            let at = prefix.outer.iter().position(is_around);
            let beside = at.map(|at| prefix.outer.get(at + 1).unwrap_or(&prefix.directive));
            beside.is_some_and(|one| kind_and_path(one).0 != Kind::Final)
        };
        let longer = (prefixes.iter())
            .filter(|prefix| is_regex || !prefix.is_final)
            .filter(|prefix| prefix.path.len() > own.len() && prefix.path.starts_with(&own))
            .filter(|prefix| !is_regex || !(is_own(location, &prefix.path) || is_beside(prefix)));
        let longer: Vec<String> = longer.map(|prefix| format!("{}*", prefix.path)).collect();
        location.when.add("not-paths", longer);
    }
    (all, lost)
}

/// Returns whether a path is that of a location around it.
fn is_own(location: &Location<'_>, path: &str) -> bool {
    location.outer.iter().any(|outer| kind_and_path(outer).1 == path)
}

/// Returns the locations around the outermost expression that a location is, or is within.
fn before_regex<'l, 'a>(location: &'l Location<'a>) -> Option<&'l [&'a Directive]> {
    let is_regex = |outer: &&Directive| kind_and_path(outer).0 == Kind::Regex;
    match location.outer.iter().position(is_regex) {
        Some(at) => Some(&location.outer[..at]),
        None => (location.kind == Kind::Regex).then_some(&location.outer),
    }
}

/// Returns the path of the innermost of these locations, if it is one by prefix.
fn outer_path<'a>(outer: &[&'a Directive]) -> Option<&'a str> {
    let (kind, path) = kind_and_path(outer.last()?);
    matches!(kind, Kind::Prefix | Kind::Final).then_some(path)
}

/// Reads the locations of a block, and those within them.
fn collect<'a>(
    block: &'a [Directive],
    around: Option<&Location<'a>>,
    all: &mut Vec<Location<'a>>,
    lost: &mut Vec<(&'a Directive, &'static str)>,
) {
    for one in block.iter().filter(|one| one.name == "location") {
        let location = read(one).map(|location| match around {
            Some(around) => within(location, around),
            None => location,
        });
        match location {
            Ok(location) => {
                let is_last = matches!(location.kind, Kind::Regex | Kind::Exact);
                let at = all.len();
                all.push(location.clone());
                collect(one.inner(), Some(&location), all, lost);
                if is_last {
                    // What is within it comes before it.
                    all[at..].rotate_left(1);
                }
            }
            Err(why) => lost.push((one, why)),
        }
    }
}

/// Adds the test of the location around.
fn within<'a>(location: Location<'a>, around: &Location<'a>) -> Location<'a> {
    let mut outer = around.outer.clone();
    outer.push(around.directive);
    let is_path = matches!(location.kind, Kind::Prefix | Kind::Final | Kind::Exact);
    let is_implied = around.when.0.is_empty()
        || (is_path
            && matches!(around.kind, Kind::Prefix | Kind::Final)
            && location.path.starts_with(&around.path));
    let is_final = location.is_final || around.is_final;
    let mut is_wider = location.is_wider || around.is_wider;
    let (mut when, mut any) = (location.when.clone(), around.any.clone());
    if !is_implied && when.0.is_empty() {
        when = around.when.clone();
    } else if !is_implied {
        // A rule has two tests of paths.
        is_wider |= !any.is_empty();
        any = vec![around.when.clone()];
    }
    Location { outer, when, any, is_final, is_wider, ..location }
}

pub fn kind_and_path(one: &Directive) -> (Kind, &str) {
    match one.arg(0) {
        "=" => (Kind::Exact, one.arg(1)),
        "^~" => (Kind::Final, one.arg(1)),
        "~" | "~*" => (Kind::Regex, one.arg(1)),
        path if path.starts_with('@') => (Kind::Exact, path),
        path => match (path.strip_prefix('~'), path.strip_prefix('='), path.strip_prefix("^~")) {
            (Some(_), _, _) => (Kind::Regex, path.trim_start_matches(['~', '*'])),
            (_, Some(path), _) => (Kind::Exact, path),
            (_, _, Some(path)) => (Kind::Final, path),
            _ => (Kind::Prefix, path),
        },
    }
}

fn read(one: &Directive) -> Result<Location<'_>, &'static str> {
    let (kind, path) = kind_and_path(one);
    if path.starts_with('@') {
        return Err("a named location is not reached: requests are not passed on within");
    }
    let mut is_wider = false;
    let when = match kind {
        Kind::Regex => {
            let case = if one.arg(0).starts_with("~*") { "(?i)" } else { "" };
            let is_good = |regex: &str| {
                let test = format!("~{case}{regex}");
                let parsed = PathTest::parse(&test, false);
                parsed.is_ok().then(|| Tests::one("paths", test))
            };
            let exact = is_good(path).or_else(|| is_good(&lookaround::expanded(path)?));
            is_wider = exact.is_none();
            exact
                .or_else(|| is_good(&lookaround::stripped(path)))
                // All paths, so that what it refuses stays refused.
                .unwrap_or_default()
        }
        _ if !path.starts_with('/') => return Err("expected a path that begins with /"),
        Kind::Exact if path.contains('*') => Tests::one("paths", format!("~^{}$", escaped(path))),
        _ if path.contains('*') => Tests::one("paths", format!("~^{}", escaped(path))),
        Kind::Exact => Tests::one("paths", path),
        _ if path == "/" => Tests::default(),
        _ => Tests::one("paths", format!("{path}*")),
    };
    let path = path.to_owned();
    let is_final = kind == Kind::Final;
    let (outer, any) = (Vec::new(), Vec::new());
    Ok(Location { directive: one, outer, kind, path, when, any, is_wider, is_final })
}
