//! Variables that `set` gives one text, in place of which the text stands.

use std::collections::BTreeMap;

use crate::convert::nginx::syntax::Directive;

/// Directives in whose arguments variables are replaced. Others compare them.
const WITH_TEXTS: [&str; 11] = [
    "proxy_pass",
    "proxy_set_header",
    "proxy_redirect",
    "proxy_cache_key",
    "add_header",
    "return",
    "root",
    "alias",
    "sub_filter",
    "try_files",
    "subs_filter",
];

/// Texts by the name of the variable.
type Texts = BTreeMap<String, String>;

/// Replaces variables that a single `set` outside of an `if` gives a text.
pub fn expand(block: &mut [Directive]) {
    within(block, &Texts::new());
}

/// Returns how often `set` occurs for a variable in a block and the blocks in it.
fn sets(block: &[Directive], variable: &str) -> usize {
    let is_set = |one: &Directive| one.name == "set" && one.arg(0) == variable;
    block.iter().map(|one| usize::from(is_set(one)) + sets(one.inner(), variable)).sum()
}

fn within(block: &mut [Directive], around: &Texts) {
    let texts = texts_of(block, around);
    let handed = handed_on(block, &texts);
    for one in block.iter_mut() {
        if WITH_TEXTS.contains(&one.name.as_str()) {
            one.args.iter_mut().for_each(|arg| *arg = replaced(arg, &texts));
        }
        let handed = handed.iter().find(|(name, _)| one.name == "location" && one.arg(0) == name);
        if let Some(inner) = one.block.as_mut() {
            let mut known = constant(&texts);
            let groups = one.args.get(1).filter(|_| one.args[0].starts_with('~'));
            known.extend(groups.map(|regex| named_groups(regex)).unwrap_or_default());
            known.extend(handed.map(|(_, texts)| texts.clone()).unwrap_or_default());
            within(inner, &known);
        }
    }
}

/// Returns the texts of a block, with those around it.
fn texts_of(block: &[Directive], around: &Texts) -> Texts {
    let mut texts = around.clone();
    // Until the request is passed on, these change what other variables stand for.
    let changes = block.iter().any(|one| matches!(one.name.as_str(), "if" | "rewrite"));
    for set in block.iter().filter(|one| one.name == "set") {
        let name = set.arg(0).trim_start_matches('$');
        let text = replaced(set.arg(1), &texts);
        if sets(block, set.arg(0)) == 1 && !(text.contains('$') && changes) {
            texts.insert(name.to_owned(), text);
        }
    }
    texts
}

/// Returns the texts that hold in a location or `if` within: it may have another path, and groups
/// of its own.
fn constant(texts: &Texts) -> Texts {
    let known = texts.iter().filter(|(_, text)| !text.contains('$'));
    known.map(|(name, text)| (name.clone(), text.clone())).collect()
}

/// Returns how often a block leads to a named location.
fn mentions(block: &[Directive], name: &str) -> usize {
    let is_last = |one: &Directive| {
        one.name != "location" && one.args.last().is_some_and(|last| last == name)
    };
    block.iter().map(|one| usize::from(is_last(one)) + mentions(one.inner(), name)).sum()
}

/// Returns the texts that the one location with `try_files` in front of a named location hands on
/// to it, groups of its expression included, by name.
fn handed_on(block: &[Directive], texts: &Texts) -> Vec<(String, Texts)> {
    let last = |one: &Directive| {
        let tries = one.inner().iter().find(|one| one.name == "try_files")?;
        tries.args.last().cloned()
    };
    let all = block.iter().filter(|one| one.name == "location");
    all.filter_map(|one| Some((last(one)?, texts_of(one.inner(), &constant(texts)))))
        .filter(|(last, _)| mentions(block, last) == 1)
        .collect()
}

/// Returns the named groups of an expression, each with the variable that has its number.
fn named_groups(regex: &str) -> Texts {
    let (mut count, mut in_list, mut found) = (0, false, Texts::new());
    let mut rest = regex;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or(""),
            '[' => in_list = true,
            ']' => in_list = false,
            '(' if !in_list => {
                let name = rest.strip_prefix("?P<").or_else(|| rest.strip_prefix("?<"));
                let name = name.filter(|name| !name.starts_with(['=', '!']));
                count += usize::from(name.is_some() || !rest.starts_with('?'));
                if let Some((name, _)) = name.and_then(|name| name.split_once('>')) {
                    found.insert(name.to_owned(), format!("${{{count}}}"));
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns an argument with the texts in place of their variables.
fn replaced(arg: &str, texts: &Texts) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), arg);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, end) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, at + name.len() + 3),
            None => {
                let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
                (&after[..end], at + 1 + end)
            }
        };
        out.push_str(texts.get(name).map_or(&rest[at..end], String::as_str));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}
