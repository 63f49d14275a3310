//! `types` and `default_type`.

use std::collections::BTreeMap;

use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::{Directive, walk};
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::RuleDraft;

/// The type of a file without a known extension.
const UNKNOWN: &str = "application/octet-stream";

/// Types of nginx without `default_type`.
const DEFAULT: &str = "text/plain";

/// Statuses of responses with a file: 206 and 304 follow 200.
const OF_FILES: [&str; 1] = ["200"];

/// Writes the types of all files that are not the usual ones.
pub fn general(block: &[Directive], out: &mut Output) {
    let own = block.iter().filter(|one| one.name == "types");
    let mut chosen = Vec::new();
    for types in own {
        let is_usual_file = types.at.file.to_string().ends_with("mime.types");
        for (extension, kind) in entries(&[types]) {
            let usual = usual(extension);
            let is_known = usual == kind || (is_usual_file && usual != UNKNOWN);
            // Browsers must not run what nginx sends as another type.
            if !is_known || (is_usual_file && is_active(&usual) && !is_active(kind)) {
                chosen.push(format!("{extension}={kind}"));
            }
        }
    }
    if !chosen.is_empty() {
        out.set("files.media-types", list(&chosen));
    }
    let default = block.iter().find(|one| one.name == "default_type");
    if let Some(kind) = default.map(|one| one.arg(0)).filter(|kind| *kind != UNKNOWN) {
        out.set("files.default-type", text(kind));
    }
    for server in block.iter().filter(|one| one.name == "server") {
        of_server(server, out);
    }
}

/// Reports the types of a server, and those of files before an application.
fn of_server(server: &Directive, out: &mut Output) {
    let mut has_files = false;
    walk(server.inner(), &mut |one| has_files |= matches!(one.name.as_str(), "root" | "alias"));
    let is_type = |one: &&Directive| matches!(one.name.as_str(), "types" | "default_type");
    for one in server.inner().iter().filter(is_type).filter(|_| has_files) {
        out.lose(&one.at, &one.name, "files of all sites have the usual media types");
    }
    walk(server.inner(), &mut |location| {
        let tries = location.inner().iter().find(|one| one.name == "try_files");
        let last = tries.and_then(|one| one.args.last()).filter(|last| !last.starts_with('='));
        if location.name == "location" && last.is_some() {
            for one in location.inner().iter().filter(is_type) {
                let reason = "files before an application have the usual media types";
                out.lose(&one.at, &one.name, reason);
            }
        }
    });
}

/// Adds the types of the files of a location that has some of its own.
pub fn of_location(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
    let outer = scope.of_server();
    let (types, default) = (scope.all(&["types"]), scope.arg("default_type").unwrap_or(DEFAULT));
    let is_same = scope.shares(&["types"], &outer) && same_entries(&types, &outer.all(&["types"]));
    let at = scope.get("types").or(scope.get("default_type"));
    if is_same {
        if scope.arg("default_type") != outer.arg("default_type")
            && let Some(one) = scope.get("default_type")
        {
            of_unknown(one, default, rule, out);
        }
        return;
    }
    if let Some(at) = at.filter(|_| scope.is_on("autoindex")) {
        out.lose(&at.at, "types", "listings of directories have the type of files");
    }
    // The type by Larder, and that of nginx.
    let mut wanted: BTreeMap<String, &str> = BTreeMap::new();
    let mut is_lost = false;
    for (extension, kind) in entries(&types) {
        let usual = usual(extension);
        is_lost |= usual == UNKNOWN && kind != default;
        is_lost |= wanted.insert(usual, kind).is_some_and(|other| other != kind);
    }
    if let Some(at) = at.filter(|_| is_lost) {
        out.lose(&at.at, "types", "some have other extensions than Larder knows: default_type");
    }
    wanted.remove(UNKNOWN);
    for (usual, kind) in wanted.iter().filter(|(usual, kind)| *usual != *kind) {
        set(&[format!("Content-Type: {usual}*")], kind, rule);
    }
    let others: Vec<String> =
        wanted.keys().map(|usual| format!("!Content-Type: {usual}*")).collect();
    set(&others, default, rule);
}

/// Sets the type of files whose names have no known extension.
fn of_unknown(one: &Directive, kind: &str, rule: &mut RuleDraft, out: &mut Output) {
    let known = out.get("files.default-type").map_or(UNKNOWN, |known| known.trim_matches('"'));
    let test = format!("Content-Type: {known}*");
    let paths = rule.when.get("paths").map(Vec::as_slice).unwrap_or_default();
    let is_file = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        !path.contains('*') && !path.starts_with('~') && !name.contains('.')
    };
    if paths.is_empty() || !paths.iter().all(is_file) {
        if is_active(kind) {
            let reason = "files without a known extension have the default type of all";
            return out.lose(&one.at, "default_type", reason);
        }
        out.note(&one.at, "default_type", &format!("of all files that are {known} otherwise"));
    }
    set(&[test], kind, rule);
}

fn set(headers: &[String], kind: &str, rule: &mut RuleDraft) {
    let mut conditions = format!("statuses = {}", list(&OF_FILES));
    if !headers.is_empty() {
        conditions.push_str(&format!(", headers = {}", list(headers)));
    }
    rule.client_set_if(&conditions, &format!("Content-Type: {kind}"));
}

fn entries<'a>(types: &[&'a Directive]) -> Vec<(&'a str, &'a str)> {
    let all = types.iter().flat_map(|one| one.inner());
    let of = |one: &'a Directive| one.args.iter().map(|ext| (ext.as_str(), one.name.as_str()));
    all.flat_map(of).collect()
}

fn same_entries(one: &[&Directive], other: &[&Directive]) -> bool {
    entries(one) == entries(other) && one.is_empty() == other.is_empty()
}

/// Returns the type that Larder gives files with an extension, without parameters.
fn usual(extension: &str) -> String {
    let kind = files::usual_type_of(std::path::Path::new(&format!("a.{extension}")));
    kind.split(';').next().unwrap_or_default().to_owned()
}

/// Returns whether browsers run what is in files of a type.
fn is_active(kind: &str) -> bool {
    kind.contains("html") || kind.contains("xml") || kind.contains("javascript")
}
