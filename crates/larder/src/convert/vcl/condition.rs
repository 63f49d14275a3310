//! Conditions of VCL as alternatives of tests, which `&&`, `||` and `!` combine.

use std::collections::BTreeMap;

use crate::convert::nginx::condition::compare;
use crate::convert::rule_draft::{RESPONSE_HEADERS, Tests, is_headers};
use crate::convert::vcl::syntax::{Kind, Token};

/// Alternatives, each a list of tests that must all hold. Empty: never.
pub type Cases = Vec<Tests>;

/// Most alternatives of a condition.
const MOST: usize = 64;
/// Depth of nested parentheses.
const DEPTH_MAX: usize = 32;

/// Key of a test of the response's status, which becomes a key of the rule.
pub const STATUS: &str = "statuses";

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Networks by the name of their list.
pub type Acls = BTreeMap<String, Vec<String>>;

/// Reads a condition; collects notes about tests that are not exact.
pub struct Parser<'a> {
    pub tokens: &'a [Token],
    pub acls: &'a Acls,
    pub notes: Vec<String>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub fn new(tokens: &'a [Token], acls: &'a Acls) -> Parser<'a> {
        Parser { tokens, acls, notes: Vec::new(), at: 0, depth: 0 }
    }

    pub fn parse(&mut self) -> Result<Cases, String> {
        let cases = self.alternatives()?;
        match self.tokens.get(self.at) {
            None => Ok(cases),
            Some(token) => Err(format!("{} has no equivalent", token.text)),
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is = self.tokens.get(self.at).is_some_and(|token| token.is(sign));
        self.at += usize::from(is);
        is
    }

    fn alternatives(&mut self) -> Result<Cases, String> {
        let mut all = self.sequence()?;
        while self.takes("||") {
            all.extend(self.sequence()?);
        }
        merge(&mut all);
        Ok(all)
    }

    fn sequence(&mut self) -> Result<Cases, String> {
        let mut all = self.single()?;
        while self.takes("&&") {
            all = both(&all, &self.single()?)?;
        }
        Ok(all)
    }

    fn single(&mut self) -> Result<Cases, String> {
        if self.takes("!") {
            return negated(&self.single()?);
        }
        if self.takes("(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err("nested too deeply".to_owned());
            }
            let inner = self.alternatives()?;
            self.depth -= 1;
            return if self.takes(")") { Ok(inner) } else { Err("expected )".to_owned()) };
        }
        let name = self.tokens.get(self.at).filter(|token| token.kind == Kind::Word);
        let name = name.ok_or("an expression has no equivalent")?.text.clone();
        self.at += 1;
        if name == "std.integer" {
            return self.size();
        }
        let operators = ["==", "!=", "~", "!~", ">=", "<=", ">", "<"];
        let operator = operators.into_iter().find(|sign| self.takes(sign));
        let Some(operator) = operator else { return presence(&name) };
        let value = self.tokens.get(self.at).ok_or("expected a value")?.clone();
        self.at += 1;
        if self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::Text) {
            return Err("joined texts have no equivalent".to_owned());
        }
        self.test(&name, operator, &value)
    }

    fn test(&mut self, name: &str, operator: &str, value: &Token) -> Result<Cases, String> {
        let text = value.text.as_str();
        match name {
            "client.ip" => {
                let networks = self.acls.get(text).ok_or("expected the name of an acl")?;
                let key = if operator.starts_with('!') { "not-clients" } else { "clients" };
                Ok(vec![Tests(vec![(key.to_owned(), networks.clone())])])
            }
            "beresp.status" | "resp.status" => statuses(operator, text),
            _ if name.starts_with("beresp.http.") => self.field_of_response(name, operator, text),
            "req.url" | "bereq.url" => self.url(operator, text),
            _ => {
                let theirs = variable(name).ok_or_else(|| format!("{name} has no equivalent"))?;
                let operator = match operator {
                    "==" => "=",
                    "~" | "!~" | "!=" => operator,
                    _ => return Err(format!("{operator} has no equivalent")),
                };
                let found = compare(&theirs, operator, text, &BTreeMap::new())?;
                self.notes.extend(found.note);
                Ok(found.any)
            }
        }
    }

    /// A test of a field of the response.
    fn field_of_response(
        &mut self,
        name: &str,
        operator: &str,
        text: &str,
    ) -> Result<Cases, String> {
        let field = name.trim_start_matches("beresp.http.").to_ascii_lowercase();
        let theirs = format!("$http_{}", field.replace('-', "_"));
        let operator = if operator == "==" { "=" } else { operator };
        if theirs.ends_with("http_host") || !["=", "!=", "~", "!~"].contains(&operator) {
            return Err(format!("{name} {operator} has no equivalent"));
        }
        let found = compare(&theirs, operator, text, &BTreeMap::new())?;
        self.notes.extend(found.note);
        Ok(found.any.into_iter().map(of_response).collect())
    }

    /// `std.integer(beresp.http.Content-Length, 0) > 1000`, behind the first word.
    fn size(&mut self) -> Result<Cases, String> {
        let why = "only the Content-Length of the response is compared as a number";
        let is_length = self.takes("(")
            && self
                .tokens
                .get(self.at)
                .is_some_and(|token| token.text.eq_ignore_ascii_case("beresp.http.content-length"));
        let end = self.tokens[self.at..].iter().position(|token| token.is(")"));
        let end = end.filter(|_| is_length).ok_or(why)?;
        self.at += end + 1;
        let sign = [">=", ">"].into_iter().find(|sign| self.takes(sign)).ok_or(why)?;
        let number = self.tokens.get(self.at).and_then(|token| token.text.parse::<u64>().ok());
        let number = number.ok_or(why)?;
        self.at += 1;
        let more_than = if sign == ">" { number } else { number.saturating_sub(1) };
        Ok(vec![Tests::one("responses.larger-than", format!("\"{more_than}\""))])
    }

    fn url(&mut self, operator: &str, text: &str) -> Result<Cases, String> {
        let is_not = operator.starts_with('!');
        let key = if is_not { "not-paths" } else { "paths" };
        match operator {
            "==" | "!=" if text.contains(['?', '*']) || !text.starts_with('/') => {
                Err("a URL with a query is not compared".to_owned())
            }
            "==" => Ok(vec![Tests(vec![
                ("paths".to_owned(), vec![text.to_owned()]),
                ("not-query".to_owned(), vec!["*".to_owned()]),
            ])]),
            "!=" => Ok(vec![Tests::one(key, text), Tests::one("query", "*")]),
            "~" | "!~" if text.contains("\\?") => Err("queries are not compared".to_owned()),
            "~" | "!~" => {
                let test = format!("~{text}");
                if proxy::rules::request_rules::PathTest::parse(&test, false).is_err() {
                    return Err("the expression is not supported".to_owned());
                }
                let body = text.trim_end_matches(".*");
                let is_exact = body.starts_with('^')
                    && !body.contains('$')
                    && !body.contains("[^")
                    && !body.replace("\\.", "").contains('.');
                if !is_exact {
                    self.notes.push("compared with the path, without the query".to_owned());
                }
                Ok(vec![Tests::one(key, test)])
            }
            _ => Err(format!("{operator} has no equivalent")),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    let name = name.strip_prefix("be").unwrap_or(name);
    match name {
        "req.method" => Some("$request_method".to_owned()),
        _ => match name.strip_prefix("req.http.")?.to_ascii_lowercase().as_str() {
            "host" => Some("$host".to_owned()),
            field => Some(format!("$http_{}", field.replace('-', "_"))),
        },
    }
}

/// Makes tests of request fields tests of the response's.
fn of_response(tests: Tests) -> Tests {
    let named =
        |(key, values)| (if key == "headers" { RESPONSE_HEADERS.to_owned() } else { key }, values);
    Tests(tests.0.into_iter().map(named).collect())
}

fn presence(name: &str) -> Result<Cases, String> {
    if let Some(field) = name.strip_prefix("beresp.http.") {
        return Ok(vec![Tests::one(RESPONSE_HEADERS, field)]);
    }
    match name.strip_prefix("be").unwrap_or(name).strip_prefix("req.http.") {
        Some(field) => Ok(vec![Tests::one("headers", field)]),
        None if name == "true" => Ok(vec![Tests::default()]),
        None => Err(format!("{name} has no equivalent")),
    }
}

fn statuses(operator: &str, text: &str) -> Result<Cases, String> {
    let number: u16 = text.parse().map_err(|_| "expected a status")?;
    let list: Vec<String> = match (operator, number) {
        ("==", _) => vec![number.to_string()],
        (">=", 200 | 300 | 400 | 500) => {
            CLASSES[usize::from(number / 100 - 2)..].iter().map(|one| (*one).to_owned()).collect()
        }
        ("<", 300 | 400 | 500) => {
            CLASSES[..usize::from(number / 100 - 2)].iter().map(|one| (*one).to_owned()).collect()
        }
        _ => return Err("expected a status, or a class of statuses".to_owned()),
    };
    Ok(vec![Tests(vec![(STATUS.to_owned(), list)])])
}

/// Joins alternatives of one and the same list.
fn merge(all: &mut Cases) {
    let mut merged: Cases = Vec::new();
    for one in std::mem::take(all) {
        let single = |test: &Tests| match test.0.as_slice() {
            [(key, _)] if !is_headers(key) && !key.starts_with("not-") => Some(key.clone()),
            _ => None,
        };
        let key = single(&one);
        match merged.iter_mut().find(|other| key.is_some() && single(other) == key) {
            Some(other) => other.0[0].1.extend(one.0[0].1.clone()),
            None => merged.push(one),
        }
    }
    *all = merged;
}

/// Returns the alternatives of both conditions together.
pub fn both(one: &Cases, other: &Cases) -> Result<Cases, String> {
    let mut all = Vec::new();
    for left in one {
        for right in other {
            let joined = left.and(right).ok_or("two conditions of one kind cannot be joined")?;
            if !joined.is_never() && !all.contains(&joined) {
                all.push(joined);
            }
        }
    }
    if all.len() > MOST { Err("too many alternatives".to_owned()) } else { Ok(all) }
}

/// Returns the opposite of a condition.
pub fn negated(cases: &Cases) -> Result<Cases, String> {
    let mut all = vec![Tests::default()];
    for case in cases {
        let mut opposite = Vec::new();
        for (key, values) in &case.0 {
            if key == STATUS {
                let others: Vec<String> = CLASSES
                    .iter()
                    .filter(|class| !values.iter().any(|one| one == *class))
                    .map(|class| (*class).to_owned())
                    .collect();
                if others.len() + values.len() != CLASSES.len() {
                    return Err("other statuses have no equivalent".to_owned());
                }
                opposite.push(Tests(vec![(STATUS.to_owned(), others)]));
                continue;
            }
            if key.starts_with("responses.") && !is_headers(key) {
                return Err("the opposite of a size has no equivalent".to_owned());
            }
            if is_headers(key) {
                // All tests of a list hold, so one of them must not.
                for value in values {
                    let value = match value.strip_prefix('!') {
                        Some(rest) => rest.to_owned(),
                        None => format!("!{value}"),
                    };
                    opposite.push(Tests::one(key, value));
                }
                continue;
            }
            let other = match key.strip_prefix("not-") {
                Some(rest) => rest.to_owned(),
                None => format!("not-{key}"),
            };
            opposite.push(Tests(vec![(other, values.clone())]));
        }
        all = both(&all, &opposite)?;
    }
    Ok(all)
}
