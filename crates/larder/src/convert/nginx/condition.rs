//! Conditions of nginx (`if`, `map`, variables of `proxy_cache_bypass`) as conditions of rules.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::convert::cases::{both, negated};
use crate::convert::glob_of_regex::{globs, words};
use crate::convert::nginx::classes::ClassDraft;
use crate::convert::nginx::forwarded;
use crate::convert::nginx::methods;
use crate::convert::nginx::named_values::{self, Case, Comparison};
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::HOSTNAME;
use crate::convert::regex_of_text;
use crate::convert::rule_draft::Tests;
use crate::convert::url_test;

/// Alternatives of a condition.
#[derive(Clone, Debug, Default)]
pub struct Alternatives {
    pub any: Vec<Tests>,
    /// Why they hold for other requests as well, which is good for a bypass or a denial only.
    pub wider: Option<String>,
    /// The value of a variable where it is true, if that is one for all requests.
    value: Option<String>,
    /// The class of the variable, which knows all its values.
    class: Option<Rc<ClassDraft>>,
}

impl Alternatives {
    pub fn of(test: Tests) -> Alternatives {
        Alternatives::any_of(vec![test])
    }

    pub fn any_of(any: Vec<Tests>) -> Alternatives {
        Alternatives { any, ..Alternatives::default() }
    }

    pub fn extend(&mut self, other: Alternatives) {
        for test in other.any {
            if !self.any.contains(&test) {
                self.any.push(test);
            }
        }
        self.wider = self.wider.take().or(other.wider);
    }

    pub fn widened(mut self, why: &str) -> Alternatives {
        self.wider.get_or_insert_with(|| why.to_owned());
        self
    }

    /// Returns the opposite.
    pub fn negated(&self) -> Result<Alternatives, String> {
        match &self.wider {
            Some(why) => Err(why.clone()),
            None => Ok(Alternatives { any: negated(&self.any)?, ..Alternatives::default() }),
        }
    }

    /// Returns the truth of a variable that is set to a value under a condition.
    pub fn set(self, when: &Alternatives, value: &str) -> Result<Alternatives, String> {
        match value {
            "0" | "" => {
                let any = both(&self.any, &when.negated()?.any)?;
                Ok(Alternatives { any, class: None, ..self })
            }
            text if text.contains('$') => Err("a variable has a text".to_owned()),
            text => {
                let is_one = self.any.is_empty() || self.value.as_deref() == Some(text);
                let mut all = Alternatives { class: None, ..self };
                all.extend(when.clone());
                all.value = is_one.then(|| text.to_owned());
                Ok(all)
            }
        }
    }

    /// Returns the alternatives for a variable that has become a class.
    pub fn of_class(class: &Rc<ClassDraft>) -> Result<Alternatives, String> {
        let any = class.truth()?;
        Ok(Alternatives { any, class: Some(class.clone()), ..Alternatives::default() })
    }

    /// Returns the alternatives for a variable that is also a class.
    pub fn with_class(self, class: Option<&Rc<ClassDraft>>) -> Alternatives {
        Alternatives { class: class.cloned(), ..self }
    }

    /// Returns the alternatives for a variable with a value.
    pub fn valued(mut self, value: &str) -> Alternatives {
        self.value = Some(value.to_owned());
        self
    }
}

/// Variables whose truth is known as a condition; an error says why another is not.
pub type Variables = BTreeMap<String, Result<Alternatives, String>>;

/// Returns the condition under which a value of `proxy_cache_bypass` is neither empty nor 0.
pub fn truth(text: &str, variables: &Variables) -> Result<Alternatives, String> {
    let plain = text.replace("${", "$").replace('}', "");
    let names = match plain.strip_prefix('$') {
        Some(names) => names,
        None if matches!(text, "0" | "") => return Ok(Alternatives::default()),
        None if !text.contains('$') => return Ok(Alternatives::of(Tests::default())),
        None => return Err(format!("{text} has a variable behind a text")),
    };
    // Texts that are joined are true if one of them is.
    let mut all = Alternatives::default();
    for name in names.split('$') {
        all.extend(truth_of(name, variables)?);
    }
    Ok(all)
}

fn truth_of(name: &str, variables: &Variables) -> Result<Alternatives, String> {
    if let Some(known) = variables.get(name) {
        return known.clone();
    }
    if !is_name(name) {
        return Err(format!("a text with ${name} has no equivalent"));
    }
    let one = |key, value: &str| Ok(Alternatives::of(Tests::one(key, value)));
    if let Some(cookie) = name.strip_prefix("cookie_") {
        return Ok(named_values::of_first("cookies", cookie, None, true));
    }
    if forwarded::is_removed(name) {
        return Err(format!("${name} {}", forwarded::REASON));
    }
    if let Some(field) = name.strip_prefix("http_") {
        return one("headers", &field.replace('_', "-"));
    }
    if let Some(parameter) = name.strip_prefix("arg_") {
        return Ok(named_values::of_first("query", parameter, None, true));
    }
    match name {
        "args" | "query_string" | "is_args" => one("query", "*"),
        _ => Err(format!("the variable ${name} has no equivalent")),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Why an `if` on a file is lost; it is not about who asks.
pub const FILE_TESTS: &str = "tests of files have no equivalent";

/// Returns the name under which the condition of an `if` stands among the variables; it is none of
/// nginx.
fn name_of_if(directive: &Directive) -> String {
    format!("if {directive:p}")
}

/// Records the condition of an `if` with the values that variables have there.
pub fn note_if(directive: &Directive, variables: &mut Variables) {
    let name = name_of_if(directive);
    variables.remove(&name);
    let found = of_if(directive, variables);
    variables.insert(name, found);
}

/// Returns the condition of an `if`, with the values of variables where it stands.
pub fn of_if(directive: &Directive, variables: &Variables) -> Result<Alternatives, String> {
    if let Some(known) = variables.get(&name_of_if(directive)) {
        return known.clone();
    }
    let joined = directive.args.join("\u{1}");
    let inner = joined.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or("expected a condition in parentheses")?;
    let parts: Vec<&str> = inner.split('\u{1}').filter(|part| !part.is_empty()).collect();
    let of = |operator, value| Comparison { operator, value, case: Case::Exact };
    match parts[..] {
        [variable] if is_field(variable, variables) => compare(variable, of("!=", ""), variables),
        [variable] if variable.starts_with('$') => truth(variable, variables),
        [variable, operator @ ("=" | "!=")] => compare(variable, of(operator, ""), variables),
        [variable, operator, value] => compare(variable, of(operator, value), variables),
        _ => Err(FILE_TESTS.to_owned()),
    }
}

/// Returns whether a variable is a field of the request.
fn is_field(variable: &str, variables: &Variables) -> bool {
    let name = variable.strip_prefix('$').filter(|name| !variables.contains_key(*name));
    name.is_some_and(|name| name.starts_with("http_") && is_name(name))
}

/// Returns the condition of a comparison.
pub fn compare(
    variable: &str,
    with: Comparison<'_>,
    variables: &Variables,
) -> Result<Alternatives, String> {
    let Comparison { operator, value, .. } = with;
    let name = variable.strip_prefix('$').ok_or("expected a variable")?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    if !is_name(name) {
        return Err(format!("a text with ${name} has no equivalent"));
    }
    let is_not = operator.starts_with('!');
    let is_regex = operator.contains('~');
    if !matches!(operator, "=" | "!=" | "~" | "~*" | "!~" | "!~*") {
        return Err(format!("the operator {operator} has no equivalent"));
    }
    let value = if value == "$hostname" { HOSTNAME } else { value };
    let with = Comparison { value, ..with };
    if !is_regex && value.contains('$') {
        return Err("a comparison of two variables has no equivalent".to_owned());
    }
    let is_path = matches!(name, "uri" | "document_uri" | "request_uri");
    if with.is_in_either_case() && (is_path || variables.contains_key(name)) {
        let value = &format!("^{}$", regex_of_text::escaped(value));
        let with = Comparison { operator: "~*", value, case: Case::Exact };
        return compare(variable, with, variables);
    }
    if let Some(known) = variables.get(name) {
        let known = known.clone()?;
        let has_value = known.value.as_deref() == Some(value);
        return match (is_regex, is_not, value) {
            (false, true, "0" | "") => Ok(known),
            (false, false, "0" | "") => known.negated(),
            (false, false, _) if has_value => Ok(known),
            (false, true, _) if has_value => known.negated(),
            _ => match &known.class {
                Some(class) => class.compare(operator, value).map(Alternatives::of),
                None => Err(format!("only the truth of ${name} is known")),
            },
        };
    }
    let not = |key: &str| if is_not { format!("not-{key}") } else { key.to_owned() };
    match name {
        "request_method" if is_regex => methods::of_regex(operator, value),
        "request_method" => Ok(Alternatives::of(Tests::one(&not("methods"), with.method()))),
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
        _ if forwarded::is_scheme(name) => stated_scheme(value, is_regex, is_not),
        _ => named_values::compare(name, with),
    }
}

/// Comparisons of the scheme that a proxy in front states, which is that of the request.
fn stated_scheme(value: &str, is_regex: bool, is_not: bool) -> Result<Alternatives, String> {
    let schemes = if is_regex { words(value) } else { Some(vec![value.to_owned()]) };
    let schemes: Vec<String> = match schemes {
        Some(schemes) if !schemes.iter().any(String::is_empty) => schemes,
        _ if is_regex && value.trim_end_matches('$') == "https" => vec!["https".to_owned()],
        _ => return Err(format!("$http_x_forwarded_proto {}", forwarded::REASON)),
    };
    let of = |is_https: bool| schemes.iter().any(|one| (one == "https") == is_https);
    let scheme = match (of(true), of(false)) {
        (true, false) if is_not => "http",
        (true, false) => "https",
        (false, true) if is_not => "https",
        (false, true) => "http",
        _ => return Err("the scheme is http or https".to_owned()),
    };
    Ok(Alternatives::of(Tests::one("schemes", scheme)))
}

fn path(name: &str, operator: &str, value: &str, key: &str) -> Result<Alternatives, String> {
    if name == "request_uri" {
        return url(operator, value);
    }
    let test = match operator.trim_start_matches('!') {
        "=" if value.contains('*') || !value.starts_with('/') => {
            return Err("no path can be equal to it".to_owned());
        }
        "=" => value.to_owned(),
        "~" => format!("~{value}"),
        _ => format!("~(?i){value}"),
    };
    if let Some(why) = wrong_path(&test) {
        return Err(why);
    }
    Ok(Alternatives::of(Tests::one(key, test)))
}

/// Returns why a test of a path is refused.
fn wrong_path(test: &str) -> Option<String> {
    let wrong = proxy::rules::request_rules::PathTest::parse(test, false).is_err();
    wrong.then(|| "the expression is not supported".to_owned())
}

/// Comparisons of path and query together.
fn url(operator: &str, value: &str) -> Result<Alternatives, String> {
    let found = match operator.trim_start_matches('!') {
        "=" => {
            let (path, query) = value.split_once('?').map_or((value, None), |(p, q)| (p, Some(q)));
            if path.contains('*') || !path.starts_with('/') {
                return Err("no path can be equal to it".to_owned());
            }
            let mut test = Tests::one("paths", path);
            test.add(if query.is_some() { "query" } else { "not-query" }, ["*".to_owned()]);
            let found = Alternatives::of(test);
            if query.is_some() { found.widened("the query is not compared") } else { found }
        }
        "~" => Alternatives::of(url_test::of(value)?),
        _ => Alternatives::of(url_test::of(&format!("(?i){value}"))?),
    };
    if operator.starts_with('!') { found.negated() } else { Ok(found) }
}

/// `$args ~ name=`: parameters.
fn parameters(value: &str, is_regex: bool, is_not: bool) -> Result<Alternatives, String> {
    let parts = if is_regex { globs(value) } else { None };
    let parts = parts.ok_or("only single parameters of the query can be compared")?;
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
    let why = "compared with the names of parameters";
    match is_not {
        true => Err(why.to_owned()),
        false => Ok(Alternatives::of(Tests(vec![("query".to_owned(), names)])).widened(why)),
    }
}

/// Why a condition by patterns holds for other requests as well.
pub const WIDER: &str = "the patterns match more than the expression";

/// Returns the truth of a variable that a `map` sets.
pub fn of_map(directive: &Directive, variables: &Variables) -> Result<Alternatives, String> {
    let source = directive.arg(0);
    let is_true = |entry: &Directive| !matches!(entry.arg(0), "" | "0");
    let entries: Vec<&Directive> =
        directive.inner().iter().filter(|one| !is_option(&one.name)).collect();
    if directive.inner().iter().any(|one| one.name == "include") {
        return Err("a map with files has no equivalent".to_owned());
    }
    let default = entries.iter().find(|one| one.name == "default");
    let default = default.is_some_and(|one| is_true(one));
    let has_expressions = entries.iter().any(|one| one.name.starts_with('~'));
    let mut all = Alternatives::default();
    let mut values: Vec<&str> = Vec::new();
    for entry in entries {
        if is_true(entry) {
            values.push(entry.arg(0));
        }
        if entry.name == "default" {
            continue;
        }
        if is_true(entry) == default && !has_expressions {
            continue;
        }
        if is_true(entry) == default {
            // It takes requests from the entries behind it.
            return Err("the map has exceptions".to_owned());
        }
        if entry.arg(0).contains('$') {
            return Err("the map has values with variables".to_owned());
        }
        let key = entry.name.as_str();
        let (operator, value) = match (key.strip_prefix("~*"), key.strip_prefix('~')) {
            (Some(rest), _) => ("~*", rest),
            (None, Some(rest)) => ("~", rest),
            (None, None) => ("=", key.strip_prefix('\\').unwrap_or(key)),
        };
        let with = Comparison { operator, value, case: Case::OfMap };
        all.extend(compare(source, with, variables)?);
    }
    values.dedup();
    let found = if default { all.negated()? } else { all };
    match values[..] {
        [] => Err("the map is never true".to_owned()),
        [value] => Ok(found.valued(value)),
        _ => Ok(found),
    }
}

fn is_option(name: &str) -> bool {
    matches!(name, "hostnames" | "volatile")
}
