//! Conditions of VCL as alternatives of tests, which `&&`, `||` and `!` combine.

use std::collections::BTreeMap;

use crate::convert::nginx::condition::compare;
use crate::convert::rule_draft::{RESPONSE_HEADERS, Tests, is_headers};
use crate::convert::url_test;
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

/// Stands for the URL among the fields of [`OwnFields`].
pub const URL: &str = ":url";

/// Request fields that the configuration itself has set, by their names in lower case: where they
/// are, if that is known.
pub type OwnFields = BTreeMap<String, Option<Cases>>;

/// Reads a condition. Where a test cannot be stated exactly, the cases are those of more requests
/// if `widens` is set, which is good for a refusal or a bypass, and otherwise of fewer.
pub struct Parser<'a> {
    pub tokens: &'a [Token],
    pub acls: &'a Acls,
    pub fields: &'a OwnFields,
    pub widens: bool,
    /// Why the cases are not exact.
    pub inexact: Option<String>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub fn new(
        tokens: &'a [Token],
        acls: &'a Acls,
        fields: &'a OwnFields,
        widens: bool,
    ) -> Parser<'a> {
        Parser { tokens, acls, fields, widens, inexact: None, at: 0, depth: 0 }
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
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err("nested too deeply".to_owned());
            }
            let found = self.opposite(Parser::single);
            self.depth -= 1;
            return found;
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
        let Some(operator) = operator else { return self.presence(&name) };
        let value = self.tokens.get(self.at).ok_or("expected a value")?.clone();
        self.at += 1;
        if self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::Text) {
            return Err("joined texts have no equivalent".to_owned());
        }
        self.test(&name, operator, &value)
    }

    /// Returns the opposite of a condition: of one of more requests it is of fewer.
    fn opposite(
        &mut self,
        read: impl FnOnce(&mut Parser<'a>) -> Result<Cases, String>,
    ) -> Result<Cases, String> {
        self.widens = !self.widens;
        let found = read(self);
        self.widens = !self.widens;
        negated(&found?)
    }

    /// Returns cases of more requests; an error if there must not be more.
    fn wider(&mut self, cases: Cases, why: &str) -> Result<Cases, String> {
        if !self.widens {
            return Err(why.to_owned());
        }
        self.inexact.get_or_insert_with(|| why.to_owned());
        Ok(cases)
    }

    fn presence(&mut self, name: &str) -> Result<Cases, String> {
        if let Some(field) = name.strip_prefix("beresp.http.") {
            return Ok(vec![Tests::one(RESPONSE_HEADERS, field)]);
        }
        let field = name.strip_prefix("be").unwrap_or(name).strip_prefix("req.http.");
        let Some(field) = field else {
            return match name {
                "true" => Ok(vec![Tests::default()]),
                _ => Err(format!("{name} has no equivalent")),
            };
        };
        let own = vec![Tests::one("headers", field)];
        match self.fields.get(&field.to_ascii_lowercase()) {
            None => Ok(own),
            Some(None) => Err(format!("{name} is set before")),
            Some(Some(cases)) => {
                let all = cases.iter().cloned().chain(own).collect();
                self.wider(all, &format!("{name} is set before"))
            }
        }
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
                let field = name.strip_prefix("be").unwrap_or(name).strip_prefix("req.http.");
                let is_own = |field: &str| self.fields.contains_key(&field.to_ascii_lowercase());
                if field.is_some_and(is_own) {
                    return Err(format!("{name} is set before"));
                }
                if value.kind != Kind::Text {
                    return Err("a comparison of two variables has no equivalent".to_owned());
                }
                let operator = match operator {
                    "==" => "=",
                    "~" | "!~" | "!=" => operator,
                    _ => return Err(format!("{operator} has no equivalent")),
                };
                let found = compare(&theirs, operator, text, &BTreeMap::new())?;
                match found.wider {
                    Some(why) => self.wider(found.any, &why),
                    None => Ok(found.any),
                }
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
        let cases = found.any.into_iter().map(of_response).collect();
        match found.wider {
            Some(why) => self.wider(cases, &why),
            None => Ok(cases),
        }
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
        if self.fields.contains_key(URL) {
            return Err("req.url is set before".to_owned());
        }
        match operator {
            "!=" => self.opposite(|parser| parser.url("==", text)),
            "!~" => self.opposite(|parser| parser.url("~", text)),
            "==" if text.contains(['?', '*']) || !text.starts_with('/') => {
                Err("a URL with a query is not compared".to_owned())
            }
            "==" => Ok(vec![Tests(vec![
                ("paths".to_owned(), vec![text.to_owned()]),
                ("not-query".to_owned(), vec!["*".to_owned()]),
            ])]),
            "~" => {
                let found = url_test::of(text)?;
                if !found.is_exact() {
                    let why = "path and query are compared apart";
                    self.inexact.get_or_insert_with(|| why.to_owned());
                }
                if self.widens { Ok(found.wide) } else { found.narrow }
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
