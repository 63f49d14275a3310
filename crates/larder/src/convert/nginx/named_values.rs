//! Comparisons of fields, cookies and parameters: `$http_…`, `$cookie_…` and `$arg_…`.

use crate::convert::glob_of_regex::{Globs, globs};
use crate::convert::nginx::condition::{Alternatives, WIDER};
use crate::convert::nginx::forwarded;
use crate::convert::output::HOSTNAME;
use crate::convert::regex_of_text::escaped;
use crate::convert::rule_draft::Tests;

/// The comparison of a variable with a text or an expression.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    pub operator: &'a str,
    pub value: &'a str,
    pub case: Case,
}

/// How letters are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Exact,
    /// Texts are equal in either case, as in a `map`; expressions are exact.
    OfMap,
    /// Patterns may ignore it.
    Any,
}

impl Comparison<'_> {
    fn is_not(&self) -> bool {
        self.operator.starts_with('!')
    }

    fn is_regex(&self) -> bool {
        self.operator.contains('~')
    }

    /// Returns whether the value is a text of a `map` with letters.
    pub fn is_in_either_case(&self) -> bool {
        self.case == Case::OfMap && self.operator == "=" && self.value.contains(char::is_alphabetic)
    }

    /// Returns the value as the name of a method.
    pub fn method(&self) -> String {
        match self.case {
            Case::OfMap => self.value.to_ascii_uppercase(),
            _ => self.value.to_owned(),
        }
    }

    /// Returns whether the value is compared with the empty one.
    fn is_with_empty(&self) -> bool {
        match self.is_regex() {
            true => matches!(self.value, "^$" | "^\\s*$" | "^ *$" | "^\\s+$"),
            false => self.value.is_empty(),
        }
    }
}

/// Returns the condition of a comparison.
pub fn compare(name: &str, with: Comparison<'_>) -> Result<Alternatives, String> {
    let kinds = [("http_", "headers"), ("cookie_", "cookies"), ("arg_", "query")];
    let found = kinds.iter().find_map(|(begin, key)| Some((name.strip_prefix(begin)?, *key)));
    let (field, key) = found.ok_or_else(|| format!("the variable ${name} has no equivalent"))?;
    match key {
        "headers" if with.case != Case::Any && forwarded::is_removed(name) => {
            Err(format!("${name} {}", forwarded::REASON))
        }
        "headers" => of_field(&field.replace('_', "-"), with),
        _ if with.is_with_empty() => Ok(of_first(key, field, None, with.is_not())),
        _ if with.is_not() && !with.is_regex() && with.case == Case::Exact => {
            Ok(of_first(key, field, Some(&escaped(with.value)), true))
        }
        _ if with.case == Case::Any => by_name(key, field, with),
        _ => first_by_patterns(key, field, with),
    }
}

fn of_field(field: &str, with: Comparison<'_>) -> Result<Alternatives, String> {
    let is_not = with.is_not();
    if with.is_with_empty() {
        let test = format!("{}{field}: ~.", if is_not { "" } else { "!" });
        return Ok(Alternatives::of(Tests::one("headers", test)));
    }
    let has_case = with.value.contains(|c: char| c.is_alphabetic());
    // Patterns of fields ignore case.
    let is_same = !has_case
        || with.operator.ends_with('*')
        || match with.case {
            Case::Exact => false,
            Case::OfMap => !with.is_regex(),
            Case::Any => true,
        };
    let patterns = match with.is_regex() {
        true => globs(with.value).filter(|found| found.is_exact && is_same),
        false if with.value.contains(HOSTNAME) => Some(text(with.value)),
        false => Some(text(with.value)).filter(|_| is_same && !with.value.contains('*')),
    };
    let (texts, fits_empty) = match patterns {
        Some(patterns) => {
            let fits_empty = patterns.all.iter().any(|glob| glob.chars().all(|c| c == '*'));
            (patterns.all, fits_empty)
        }
        None if with.case == Case::Any => return by_name("headers", field, with),
        None => {
            let is_insensitive = is_same && has_case;
            let case = if is_insensitive { "(?i)" } else { "" };
            let expression = match with.is_regex() {
                true => format!("{case}{}", with.value),
                false => format!("{case}^{}$", escaped(with.value)),
            };
            let test =
                proxy::rules::request_rules::PathTest::parse(&format!("~{expression}"), false);
            let test = test.map_err(|_| "the expression is not supported")?;
            (vec![format!("~{expression}")], test.matches(b""))
        }
    };
    let tests = texts.iter().map(|text| format!("{field}: {text}"));
    let any = match is_not {
        true => {
            // A request without the field has an empty value.
            let present = fits_empty.then(|| field.to_owned());
            let all = tests.map(|test| format!("!{test}")).chain(present).collect();
            vec![Tests(vec![("headers".to_owned(), all)])]
        }
        false => {
            let absent = fits_empty.then(|| format!("!{field}"));
            tests.chain(absent).map(|test| Tests::one("headers", test)).collect()
        }
    };
    Ok(Alternatives::any_of(any))
}

/// Returns the condition that the first cookie or parameter with a name has a value that fits an
/// expression, or `None`: any that is not empty. nginx compares names in either case, and does not
/// decode.
pub fn of_first(key: &str, name: &str, value: Option<&str>, is_not: bool) -> Alternatives {
    let name = escaped(name);
    let is_cookie = key == "cookies";
    let (begin, end) = match is_cookie {
        true => (format!("(?:^|[;,] *)(?i:{name}) *= *"), "(?:;|$)"),
        false => (format!("[?&](?i:{name})="), "(?:&|$)"),
    };
    let is_text = value.is_some();
    let value = match value {
        Some(value) => format!("{value}{end}"),
        None if is_cookie => "[^; ]".to_owned(),
        None => "[^&]".to_owned(),
    };
    let has = format!("~{begin}{value}");
    let twice = format!("~{begin}.*{}", begin.replace("^|", "").replace("[?&]", "&"));
    // The condition holds where the value differs, or is to be empty.
    let holds = is_text != is_not;
    let test = |text: &str, holds: bool| match (is_cookie, holds) {
        (true, true) => Tests::one("headers", format!("Cookie: {text}")),
        (true, false) => Tests::one("headers", format!("!Cookie: {text}")),
        (false, true) => Tests::one("urls", text),
        (false, false) => Tests::one("not-urls", text),
    };
    // The origin server may take another one than the first.
    if holds {
        return Alternatives::of(test(&has, true));
    }
    let any = vec![test(&has, false), test(&twice, true)];
    Alternatives::any_of(any)
}

/// Returns the comparison of the first cookie or parameter with a name by patterns.
fn first_by_patterns(key: &str, name: &str, with: Comparison<'_>) -> Result<Alternatives, String> {
    let parts = patterns(with)?;
    let any_text = if key == "cookies" { "[^;]*" } else { "[^&]*" };
    let one = |glob: &String| glob.split('*').map(escaped).collect::<Vec<_>>().join(any_text);
    let all = parts.all.iter().map(one).collect::<Vec<_>>().join("|");
    let is_in_either_case =
        with.operator.ends_with('*') || (with.case == Case::OfMap && !with.is_regex());
    let value = match is_in_either_case && all.contains(char::is_alphabetic) {
        true => format!("(?i:{all})"),
        false if parts.all.len() > 1 => format!("(?:{all})"),
        false => all,
    };
    let found = of_first(key, name, Some(&value), with.is_not());
    Ok(if parts.is_exact { found } else { found.widened(WIDER) })
}

/// Returns the comparison of a cookie or parameter by patterns.
fn by_name(key: &str, field: &str, with: Comparison<'_>) -> Result<Alternatives, String> {
    let parts = patterns(with)?;
    if key == "headers" {
        let tests = parts.all.iter().map(|glob| Tests::one(key, format!("{field}: {glob}")));
        let found = Alternatives::any_of(tests.collect());
        return Ok(if parts.is_exact { found } else { found.widened(WIDER) });
    }
    let texts: Vec<String> = parts.all.iter().map(|glob| format!("{field}={glob}")).collect();
    let key = if with.is_not() { format!("not-{key}") } else { key.to_owned() };
    let found = Alternatives::of(Tests(vec![(key, texts)]));
    Ok(if parts.is_exact { found } else { found.widened(WIDER) })
}

/// Returns the patterns that a value is compared with.
fn patterns(with: Comparison<'_>) -> Result<Globs, String> {
    let parts = match with.is_regex() {
        true => globs(with.value).ok_or("the expression has no equivalent pattern")?,
        false if with.value.contains('*') => return Err("the value has a *".to_owned()),
        false => text(with.value),
    };
    if with.is_not() && !parts.is_exact { Err(WIDER.to_owned()) } else { Ok(parts) }
}

fn text(value: &str) -> Globs {
    Globs { all: vec![value.to_owned()], is_exact: true }
}
