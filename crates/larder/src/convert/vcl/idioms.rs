//! The usual edits of cookies and URLs by `regsub` and `regsuball`.

use crate::convert::glob_of_regex::{alternatives, globs};
use crate::convert::url_test::PARAMETER_BEGINS;
use crate::convert::vcl::syntax::{Kind, Token};

/// Meaning of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    CookieRemove(Vec<String>),
    CookieKeep(Vec<String>),
    QueryDrop(Vec<String>),
    /// The whole query.
    QueryNone,
    QuerySort,
    /// A step of another edit.
    Step,
}

/// Steps that only tidy up before or after another edit.
const COOKIE_STEPS: [&str; 9] =
    ["; +", ";[^ ][^;]*", "^[; ]+|[; ]+$", "^;\\s*", "^; ", "; *$", "^;", ";\\s*$", "^(;|\\s)+"];
const URL_STEPS: [&str; 16] = [
    "\\#.*$",
    "#.*$",
    "^http[s]?://",
    "^https?://",
    "(\\?|\\?&|&)$",
    "[?&]+$",
    "\\?&",
    "\\?$",
    "&$",
    "(\\?|&)$",
    "\\?(&|$)",
    "\\?+$",
    "(\\?&|\\?$)",
    "[?|&]+$",
    "(\\?|\\&)$",
    "(\\?|&)\\.*$",
];

/// Returns the meaning of the value that is assigned to `Cookie`.
pub fn of_cookie(value: &[Token]) -> Option<Edit> {
    let words: Vec<&str> = value.iter().map(|token| token.text.as_str()).collect();
    if words.first() == Some(&";") {
        return Some(Edit::Step);
    }
    let (regex, with) = substitution(value)?;
    if COOKIE_STEPS.contains(&regex) {
        return Some(Edit::Step);
    }
    if let Some(inner) = regex.strip_prefix(";(").and_then(|rest| rest.strip_suffix(")=")) {
        return (with == "; \\1=")
            .then(|| Edit::CookieKeep(names(&format!("({inner})"))))
            .filter(filled);
    }
    if !with.is_empty() {
        return None;
    }
    let end = regex.find("=[^;]")?;
    let name = &regex[..end];
    let begins = ["(^|;\\s*)", "(^|; *)", "(^|; )", "(^|;\\s?)", ";\\s*", "; *", ";? ?", "^;? ?"];
    let name = begins.iter().find_map(|begin| name.strip_prefix(begin)).unwrap_or(name);
    Some(Edit::CookieRemove(names(name))).filter(filled)
}

/// Returns the meaning of the value that is assigned to `req.url`.
pub fn of_url(value: &[Token]) -> Option<Edit> {
    if value.first().is_some_and(|token| token.text == "std.querysort") {
        return Some(Edit::QuerySort);
    }
    let (regex, with) = substitution(value)?;
    if matches!(regex, "\\?.*$" | "\\?.*" | "\\?.+$") && with.is_empty() {
        return Some(Edit::QueryNone);
    }
    if URL_STEPS.contains(&regex) {
        return Some(Edit::Step);
    }
    let begins = PARAMETER_BEGINS.iter().chain(&["&", "\\?"]);
    let rest = begins.into_iter().find_map(|begin| regex.strip_prefix(begin));
    // A list of names without what is before them.
    let rest = rest.or_else(|| regex.starts_with('(').then_some(regex))?;
    let name = &rest[..rest.find('=')?];
    if !with.is_empty() && !matches!(with, "?" | "\\1") {
        return None;
    }
    Some(Edit::QueryDrop(names(name))).filter(filled)
}

/// Returns the name of the cookie whose value a substitution takes out of all cookies.
pub fn value_of_cookie(value: &[Token]) -> Option<String> {
    // A text in front is the same for all.
    let value = match value {
        [text, plus, rest @ ..] if text.kind == Kind::Text && plus.is("+") => rest,
        value => value,
    };
    let is_cookie =
        value.get(2).is_some_and(|one| one.text.eq_ignore_ascii_case("req.http.cookie"));
    let (regex, with) = substitution(value).filter(|_| is_cookie)?;
    let (name, rest) = regex.split_once("=([^;")?;
    let begins = ["^.*?", "^.*", ".*?", ".*"];
    let name = begins.iter().find_map(|begin| name.strip_prefix(begin))?;
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (is_name && with == "\\1" && !rest.contains('(')).then(|| name.to_owned())
}

/// Returns whether a value is the URL without its query.
pub fn removes_query(value: &[Token]) -> bool {
    let is_url = value.get(2).is_some_and(|one| matches!(&*one.text, "req.url" | "bereq.url"));
    is_url && of_url(value) == Some(Edit::QueryNone)
}

/// Returns whether a value is that of a host without its port.
pub fn removes_port(value: &[Token]) -> bool {
    let known = [":[0-9]+", ":[0-9]+$", ":\\d+", ":\\d+$", ":.*$", ":.*"];
    substitution(value).is_some_and(|(regex, with)| with.is_empty() && known.contains(&regex))
}

fn filled(edit: &Edit) -> bool {
    match edit {
        Edit::CookieRemove(all) | Edit::CookieKeep(all) | Edit::QueryDrop(all) => {
            !all.is_empty() && !all.iter().any(|name| name == "*")
        }
        _ => true,
    }
}

/// Returns the patterns of names that an expression stands for.
fn names(regex: &str) -> Vec<String> {
    let inner = regex.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let whole = inner.filter(|inner| alternatives(inner).is_some()).unwrap_or(regex);
    let parts: Option<Vec<String>> = alternatives(whole)
        .unwrap_or_default()
        .into_iter()
        .map(|part| Some(globs(&format!("^{part}$"))?.all))
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.concat());
    let mut parts = parts.unwrap_or_default();
    // A short pattern may be that of other names: those stay.
    parts.retain(|name| name.find('*').is_none_or(|length| length > 3));
    parts
}

/// Returns the expression and the replacement of a substitution in a single variable.
fn substitution(value: &[Token]) -> Option<(&str, &str)> {
    match value {
        [function, open, variable, _, regex, _, with, close]
            if matches!(function.text.as_str(), "regsub" | "regsuball")
                && open.is("(")
                && close.is(")")
                && variable.kind == Kind::Word
                && regex.kind == Kind::Text
                && with.kind == Kind::Text =>
        {
            Some((&regex.text, &with.text))
        }
        _ => None,
    }
}
