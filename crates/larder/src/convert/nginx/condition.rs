//! Conditions of nginx (`if`, `map`, variables of `proxy_cache_bypass`) as conditions of rules.

use std::collections::BTreeMap;

use crate::convert::glob_of_regex::{globs, words};
use crate::convert::nginx::syntax::Directive;
use crate::convert::rule_draft::Tests;

/// Alternatives of a condition, and a sentence where they hold for other requests as well.
#[derive(Clone, Debug, Default)]
pub struct Alternatives {
    pub any: Vec<Tests>,
    pub note: Option<String>,
}

impl Alternatives {
    pub fn of(test: Tests) -> Alternatives {
        Alternatives { any: vec![test], note: None }
    }

    pub fn extend(&mut self, other: Alternatives) {
        for test in other.any {
            if !self.any.contains(&test) {
                self.any.push(test);
            }
        }
        self.note = self.note.take().or(other.note);
    }

    fn noted(mut self, note: &str) -> Alternatives {
        self.note.get_or_insert_with(|| note.to_owned());
        self
    }
}

/// Variables whose truth is known as a condition; an error says why another is not.
pub type Variables = BTreeMap<String, Result<Alternatives, String>>;

/// Returns the condition under which a value of `proxy_cache_bypass` is neither empty nor 0.
pub fn truth(text: &str, variables: &Variables) -> Result<Alternatives, String> {
    let Some(name) = text.strip_prefix('$') else {
        return Err(format!("{text} is the same for all requests"));
    };
    let name = name.trim_start_matches('{').trim_end_matches('}');
    if let Some(known) = variables.get(name) {
        return known.clone();
    }
    let one = |key, value: &str| Ok(Alternatives::of(Tests::one(key, value)));
    if let Some(cookie) = name.strip_prefix("cookie_") {
        return one("cookies", cookie);
    }
    if let Some(field) = name.strip_prefix("http_") {
        return one("headers", &field.replace('_', "-"));
    }
    if let Some(parameter) = name.strip_prefix("arg_") {
        return one("query", parameter);
    }
    match name {
        "args" | "query_string" | "is_args" => one("query", "*"),
        _ => Err(format!("the variable ${name} has no equivalent")),
    }
}

/// Returns the condition of an `if`.
pub fn of_if(directive: &Directive, variables: &Variables) -> Result<Alternatives, String> {
    let joined = directive.args.join("\u{1}");
    let inner = joined.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or("expected a condition in parentheses")?;
    let parts: Vec<&str> = inner.split('\u{1}').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [variable] if variable.starts_with('$') => truth(variable, variables),
        [variable, operator @ ("=" | "!=")] => compare(variable, operator, "", variables),
        [variable, operator, value] => compare(variable, operator, value, variables),
        _ => Err("tests of files have no equivalent".to_owned()),
    }
}

/// Returns the condition of a comparison.
pub fn compare(
    variable: &str,
    operator: &str,
    value: &str,
    variables: &Variables,
) -> Result<Alternatives, String> {
    let name = variable.strip_prefix('$').ok_or("expected a variable")?;
    let is_not = operator.starts_with('!');
    let is_regex = operator.contains('~');
    if !matches!(operator, "=" | "!=" | "~" | "~*" | "!~" | "!~*") {
        return Err(format!("the operator {operator} has no equivalent"));
    }
    if let Some(known) = variables.get(name) {
        return match (is_regex, is_not, value) {
            (false, false, "1") | (false, true, "0" | "") => known.clone(),
            _ => Err(format!("only the truth of ${name} is known")),
        };
    }
    let not = |key: &str| if is_not { format!("not-{key}") } else { key.to_owned() };
    match name {
        "request_method" => method(value, is_regex, is_not),
        "args" | "query_string" | "is_args" if !is_regex && value.is_empty() => {
            let key = if is_not { "query" } else { "not-query" };
            Ok(Alternatives::of(Tests::one(key, "*")))
        }
        "args" | "query_string" => parameters(value, is_regex, is_not),
        "host" | "http_host" | "server_name" => {
            let hosts = if is_regex { words(value) } else { Some(vec![value.to_owned()]) };
            let hosts = hosts.ok_or("hosts are compared as names, not as expressions")?;
            Ok(Alternatives::of(Tests(vec![(not("hosts"), hosts)])))
        }
        "scheme" if !is_regex => Ok(Alternatives::of(Tests::one(&not("schemes"), value))),
        "https" if !is_regex && matches!(value, "on" | "") => {
            let scheme = if (value == "on") == is_not { "http" } else { "https" };
            Ok(Alternatives::of(Tests::one("schemes", scheme)))
        }
        "remote_addr" if !is_regex => Ok(Alternatives::of(Tests::one(&not("clients"), value))),
        "uri" | "document_uri" | "request_uri" => path(name, operator, value, &not("paths")),
        _ => named(name, operator, value),
    }
}

fn method(value: &str, is_regex: bool, is_not: bool) -> Result<Alternatives, String> {
    let methods = if is_regex { words(value) } else { Some(vec![value.to_owned()]) };
    let methods = methods.ok_or("methods are compared as names, not as expressions")?;
    let key = if is_not { "not-methods" } else { "methods" };
    let has = |name: &str| methods.iter().any(|method| method == name);
    let note = has("GET") && !has("HEAD");
    let found = Alternatives::of(Tests(vec![(key.to_owned(), methods.clone())]));
    Ok(if note { found.noted("GET includes HEAD in a rule") } else { found })
}

fn path(name: &str, operator: &str, value: &str, key: &str) -> Result<Alternatives, String> {
    let test = match operator.trim_start_matches('!') {
        "=" if value.contains('*') || !value.starts_with('/') => {
            return Err("no path can be equal to it".to_owned());
        }
        "=" => value.to_owned(),
        "~" => format!("~{value}"),
        _ => format!("~(?i){value}"),
    };
    let found = Alternatives::of(Tests::one(key, test));
    Ok(match name {
        "request_uri" => found.noted("compared with the path, without the query"),
        _ => found,
    })
}

/// `$args ~ name=`: parameters.
fn parameters(value: &str, is_regex: bool, is_not: bool) -> Result<Alternatives, String> {
    let parts = if is_regex { globs(value) } else { None };
    let parts = parts.ok_or("only single parameters of the query can be compared")?;
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut names = Vec::new();
    for glob in &parts.all {
        let name = glob.trim_matches('*').trim_end_matches('=');
        if !is_name(name) {
            return Err("only single parameters of the query can be compared".to_owned());
        }
        names.push(format!("*{name}*"));
        if !glob.ends_with("=*") {
            return Err("only names of parameters can be compared".to_owned());
        }
    }
    let key = if is_not { "not-query" } else { "query" };
    let found = Alternatives::of(Tests(vec![(key.to_owned(), names)]));
    Ok(found.noted("compared with the names of parameters"))
}

/// Comparisons of `$http_…`, `$cookie_…` and `$arg_…`.
fn named(name: &str, operator: &str, value: &str) -> Result<Alternatives, String> {
    let is_not = operator.starts_with('!');
    let is_regex = operator.contains('~');
    let kinds = [("http_", "headers"), ("cookie_", "cookies"), ("arg_", "query")];
    let found = kinds.iter().find_map(|(begin, key)| Some((name.strip_prefix(begin)?, *key)));
    let (field, key) = found.ok_or_else(|| format!("the variable ${name} has no equivalent"))?;
    let field = if key == "headers" { field.replace('_', "-") } else { field.to_owned() };
    if value.is_empty() && !is_regex {
        let test = match (is_not, key) {
            (true, _) => Tests::one(key, field),
            (false, "headers") => Tests::one(key, format!("!{field}")),
            (false, _) => Tests::one(&format!("not-{key}"), field),
        };
        return Ok(Alternatives::of(test));
    }
    let parts = match is_regex {
        true => globs(value).ok_or("the expression has no equivalent pattern")?,
        false if value.contains('*') => return Err("the value has a *".to_owned()),
        false => {
            crate::convert::glob_of_regex::Globs { all: vec![value.to_owned()], is_exact: true }
        }
    };
    let join = if key == "headers" { ": " } else { "=" };
    let texts: Vec<String> = parts.all.iter().map(|glob| format!("{field}{join}{glob}")).collect();
    let any = match (key, is_not) {
        ("headers", true) => {
            vec![Tests(vec![(key.to_owned(), texts.iter().map(|t| format!("!{t}")).collect())])]
        }
        ("headers", false) => texts.iter().map(|text| Tests::one(key, text.as_str())).collect(),
        (_, true) => vec![Tests(vec![(format!("not-{key}"), texts)])],
        (_, false) => vec![Tests(vec![(key.to_owned(), texts)])],
    };
    let found = Alternatives { any, note: None };
    Ok(match parts.is_exact {
        true => found,
        false => found.noted("the patterns match more than the expression"),
    })
}

/// Returns the truth of a variable that a `map` sets.
pub fn of_map(directive: &Directive, variables: &Variables) -> Result<Alternatives, String> {
    let source = directive.arg(0);
    let mut all = Alternatives::default();
    for entry in directive.inner() {
        let is_true = !matches!(entry.arg(0), "" | "0");
        match (entry.name.as_str(), is_true) {
            ("hostnames" | "volatile", _) => {}
            ("default", false) => {}
            ("default", true) => return Err("the map's default holds for most requests".to_owned()),
            (_, false) => return Err("the map has exceptions".to_owned()),
            (key, true) => {
                let (operator, value) = match (key.strip_prefix("~*"), key.strip_prefix('~')) {
                    (Some(rest), _) => ("~*", rest),
                    (None, Some(rest)) => ("~", rest),
                    (None, None) => ("=", key),
                };
                all.extend(compare(source, operator, value, variables)?);
            }
        }
    }
    if all.any.is_empty() { Err("the map is never true".to_owned()) } else { Ok(all) }
}
