//! `try_files`: names in a directory, and the location that gets the other requests.

use crate::convert::nginx::backend::{index_files, is_program};
use crate::convert::nginx::last_name;
use crate::convert::nginx::location::added_fields;
use crate::convert::nginx::matching::{self, Kind, Location};
use crate::convert::nginx::replies;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::RuleDraft;

/// Ends of a path at the application that stand for the client's path or query.
const QUERIES: [&str; 4] = ["?$args", "?$query_string", "$is_args$args", "$is_args$query_string"];

/// The proxied location that gets what a directory has no file for.
pub struct Behind<'a> {
    pub scope: Scope<'a>,
    /// Path and query in place of the client's; `None` for a named location.
    target: Option<Target>,
}

struct Target {
    path: String,
    /// The query; `None` for the client's.
    query: Option<String>,
}

impl Target {
    /// Reads a path such as `/index.php?$args`.
    fn read(text: &str, scope: &Scope<'_>) -> Option<Target> {
        let kept = QUERIES.iter().find_map(|end| text.strip_suffix(end));
        let kept = kept.or_else(|| text.contains("$request_uri").then_some(text));
        let (path, query) = match (kept, text.split_once('?')) {
            (Some(path), _) => (path, None),
            (None, Some((path, query))) => (path, Some(query)),
            (None, None) => (text, Some("")),
        };
        let path = path.replace("$request_uri", "$uri");
        let is_plain = path.starts_with('/') && !path.contains(['?', '#']);
        let made = |text: &str| scope.template(text, "");
        Some(Target {
            path: is_plain.then(|| made(&path)).flatten()?,
            query: match query {
                Some(query) => Some(made(query)?),
                None => None,
            },
        })
    }

    /// Returns examples of the paths that the target can have. `is_here` tells whether the end of
    /// an example is a path of the location with `try_files`.
    fn samples(&self, is_here: impl Fn(&str) -> bool) -> Option<Vec<String>> {
        if !self.path.contains('{') {
            return Some(vec![self.path.clone()]);
        }
        let begin = self.path.strip_suffix("{path}").filter(|begin| !begin.contains('{'))?;
        let ends = ["/", "/x/", "/x/y.css"].into_iter().filter(|end| is_here(end));
        Some(ends.chain(["/x"]).map(|end| format!("{begin}{end}")).collect())
    }
}

/// Returns the location that gets what the directory of a location has no file for; `None` if
/// there is none that can be translated.
pub fn behind<'a>(location: &Scope<'a>, server: &Scope<'a>) -> Option<Behind<'a>> {
    let (last, tried) = location.own("try_files")?.args.split_last()?;
    let root = location.get("root");
    let is_odd = root.is_some_and(|root| root.arg(0).contains('$'));
    // Without a root, nginx's own directory has none of the files.
    let has_files = root.is_some() || last.starts_with('@');
    if location.own("alias").is_some() || is_odd || !has_files || tried.is_empty() {
        return None;
    }
    if last.starts_with('@') {
        let named =
            server.block().iter().find(|one| one.name == "location" && one.arg(0) == last)?;
        let scope = server.inner(named.inner());
        return scope.own("proxy_pass").is_some().then_some(Behind { scope, target: None });
    }
    let target = Target::read(last, location)?;
    let (locations, _) = matching::ordered(server.block());
    let mut found: Option<&Location<'a>> = None;
    let is_here = |path: &str| {
        let found = locations.iter().find(|one| one.matches(path));
        found.is_some_and(|one| std::ptr::eq(one.directive.inner(), location.block()))
    };
    for sample in target.samples(is_here)? {
        let one = locations.iter().find(|one| one.matches(&sample))?;
        if found.is_some_and(|found| !std::ptr::eq(found, one)) {
            return None;
        }
        found = Some(one);
    }
    let found = found.filter(|found| found.outer.is_empty() && !found.is_wider)?;
    let scope = server.inner(found.directive.inner());
    if changes_by_path(scope.block()) {
        return None;
    }
    let pass = scope.own("proxy_pass")?.arg(0);
    let has_path = pass.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '$']));
    (!has_path).then_some(Behind { scope, target: Some(target) })
}

/// Returns the location that gets what the directory of a location has no file for, if the rules of
/// both can state its access control.
pub fn stated_behind<'a>(
    location: &Scope<'a>,
    server: &Scope<'a>,
    out: &mut Output,
) -> Option<Behind<'a>> {
    let behind = behind(location, server)?;
    if !replies::conflicts(location, &behind.scope) {
        return Some(behind);
    }
    if let Some(tries) = location.own("try_files") {
        let reason = "the application has other access control than the files: 404 instead";
        out.lose(&tries.at, "try_files", reason);
    }
    None
}

/// Returns the scope with the `proxy_pass` of a location, or of the one behind its files.
pub fn passed<'a>(one: &Location<'a>, server: &Scope<'a>) -> Option<Scope<'a>> {
    let scope = one.scope(server);
    match scope.own("proxy_pass") {
        Some(_) => Some(scope),
        None => behind(&scope, server).map(|behind| behind.scope),
    }
}

/// Returns whether a block has tests of the path, which is no longer the client's there.
pub fn changes_by_path(block: &[Directive]) -> bool {
    const PATHS: [&str; 3] = ["$uri", "$document_uri", "$request_filename"];
    let is_path = |arg: &String| PATHS.iter().any(|path| arg.contains(path));
    block.iter().any(|one| match one.name.as_str() {
        "rewrite" => true,
        "if" => one.args.iter().any(is_path) || changes_by_path(one.inner()),
        _ => false,
    })
}

impl Behind<'_> {
    /// Adds the directory of a location to the rule for the requests that the application gets.
    pub fn add_files(&self, location: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
        let Some(tries) = location.own("try_files") else { return };
        if added_fields(location) != added_fields(&self.scope) {
            let reason = "files have the fields of the application's responses";
            out.lose(&tries.at, "add_header, expires", reason);
        }
        if let Some(target) = &self.target {
            rule.set("set-path", text(&target.path));
            match target.query.as_deref() {
                Some("") => rule.add("remove-query", "*"),
                Some(query) => rule.set("set-query", text(query)),
                None => {}
            }
        }
        let tried = &tries.args[..tries.args.len() - 1];
        let mut names = names(tries, tried, "{path}", location, out);
        as_rewritten(&mut names, location, tries, out);
        if names.iter().any(|name| name.ends_with('/')) {
            let reason = "the application gets requests for directories without an index file, in \
                          place of a 403";
            out.note(&tries.at, "try_files $uri/", reason);
            index(location, tries, out);
        }
        // The path as a file, unless the application gets another one.
        if names != ["{path}"] || rule.has("set-path") || rule.has("add-prefix") {
            rule.set("try-files", list(&names));
        }
    }
}

/// Adds the names that a location without an application tries in its directory. Returns false if
/// they have no equivalent.
pub fn add_names(
    location: &Scope<'_>,
    one: &Location<'_>,
    root: &mut String,
    rule: &mut RuleDraft,
    out: &mut Output,
) -> bool {
    let Some(path) = path_below(location, one, root) else { return false };
    let mut names = match location.own("try_files") {
        Some(tries) => {
            let end = tries.args.len() - 1;
            // A path at the end that no application gets is a file.
            let is_path = !tries.args[end].starts_with(['=', '@']);
            let is_file = is_path && last_name::is_file_of(location, &tries.args[end]);
            if is_path && !is_file {
                out.lose(&tries.at, "try_files", &last_name::elsewhere(&tries.args[end]));
            } else if tries.args[end].starts_with('@') {
                let reason = format!("{} has no equivalent: 404 instead", tries.args[end]);
                out.lose(&tries.at, "try_files", &reason);
            } else if !is_file && tries.args[end] != "=404" {
                out.lose(&tries.at, "try_files", &format!("{}: 404 instead", tries.args[end]));
            }
            let end = if is_file { end + 1 } else { end };
            names(tries, &tries.args[..end], &path, location, out)
        }
        None if one.kind == Kind::Exact && !one.path.ends_with('/') => vec![path],
        None => vec![path.clone(), format!("{path}/")],
    };
    as_rewritten(&mut names, location, one.directive, out);
    if names.iter().any(|name| name.ends_with('/')) {
        index(location, one.directive, out);
    }
    if names != ["{path}"] {
        rule.set("try-files", list(&names));
    }
    true
}

/// Returns the path below the directory that `$uri` stands for, and for an `alias` of one file
/// makes `root` its directory.
fn path_below(location: &Scope<'_>, one: &Location<'_>, root: &mut String) -> Option<String> {
    if location.own("alias").is_none() {
        return Some("{path}".to_owned());
    }
    let paths = one.when.get("paths").filter(|_| one.any.is_empty());
    match one.kind {
        Kind::Prefix | Kind::Final if one.path == "/" && root.ends_with('/') => {
            Some("{path}".to_owned())
        }
        Kind::Prefix | Kind::Final if one.path.ends_with('/') && root.ends_with('/') => {
            let is_plain = paths.is_some_and(|paths| *paths == [format!("{}*", one.path)]);
            is_plain.then(|| "/{capture.1}".to_owned())
        }
        Kind::Exact if !root.ends_with('/') => {
            let (directory, name) = root.rsplit_once('/')?;
            let name = format!("/{}", braced(name));
            *root = if directory.is_empty() { "/".to_owned() } else { directory.to_owned() };
            Some(name)
        }
        _ => None,
    }
}

/// Leaves the path as a file, which is then the rewritten one, where a `rewrite` changes it.
fn as_rewritten(names: &mut Vec<String>, scope: &Scope<'_>, at: &Directive, out: &mut Output) {
    let is_redirect = |one: &Directive| matches!(one.arg(2), "permanent" | "redirect");
    let is_rewritten = scope.all(&["rewrite"]).iter().any(|one| !is_redirect(one));
    let is_of_path = |name: &String| name.contains("{path}");
    if is_rewritten && *names != ["{path}"] && names.iter().all(is_of_path) {
        out.lose(&at.at, "rewrite", "of the rewritten path only the file is tried");
        *names = vec!["{path}".to_owned()];
    }
}

/// Returns the names of a rule for those of `try_files`; `path` is that of `$uri`.
fn names(
    tries: &Directive,
    tried: &[String],
    path: &str,
    scope: &Scope<'_>,
    out: &mut Output,
) -> Vec<String> {
    let mut all = Vec::new();
    for name in tried {
        let (begin, end) = name.split_once("$uri").unwrap_or((name, ""));
        let is_of_uri = name.contains("$uri");
        let made = match is_of_uri {
            true => scope.template(begin, "").zip(scope.template(end, "")),
            false => scope.template(begin, "").map(|begin| (begin, String::new())),
        };
        let made = made.map(|(begin, end)| match is_of_uri {
            true => format!("{}{path}{end}", begin.trim_end_matches('/')),
            false => begin,
        });
        let is_file = |made: &String| {
            let is_path = made.starts_with('/') || made.starts_with("{path}");
            let is_program = made.split(['/', '{']).any(is_program);
            let is_odd = made.contains(['?', '#', ' ']) || made.contains("{uri}");
            is_path && !is_program && !is_odd
        };
        match made.filter(is_file) {
            Some(made) => all.push(made),
            None => {
                let reason = format!("{name} is not tried: the next, or 404 instead");
                out.lose(&tries.at, "try_files", &reason);
            }
        }
    }
    all
}

/// Sets the index files, which are those of all directories of rules.
fn index(scope: &Scope<'_>, at: &Directive, out: &mut Output) {
    let all = match scope.get("index") {
        Some(index) => list(&index_files(index, out)),
        None => list(&["index.html"]),
    };
    match out.get("files.index") {
        Some(other) if *other != all => {
            let reason = "is one for all directories of rules: another value was taken";
            out.lose(&at.at, "index", reason);
        }
        Some(_) => {}
        None => out.set("files.index", all),
    }
}
