//! Conditions of VCL as alternatives of tests, which `&&`, `||` and `!` combine.

use std::collections::{BTreeMap, BTreeSet};

use crate::convert::cases::{CLASSES, Cases, STATUS, both_also, merge, negated};
use crate::convert::nginx::condition::compare;
use crate::convert::nginx::forwarded;
use crate::convert::nginx::named_values::{Case, Comparison};
use crate::convert::regex_of_text::escaped;
use crate::convert::rule_draft::{RESPONSE_HEADERS, Tests};
use crate::convert::url_test;
use crate::convert::vcl::acl::Acls;
use crate::convert::vcl::edited_url::{EditedUrl, Fit, Inexact};
use crate::convert::vcl::host_test;
use crate::convert::vcl::syntax::{Kind, Token};

/// Most patterns in place of an expression.
const PATTERNS_MAX: usize = 3;
/// Depth of nested parentheses.
const DEPTH_MAX: usize = 32;

/// Request fields that the configuration itself has set, by their names in lower case: where they
/// are, if that is known.
pub type OwnFields = BTreeMap<String, Option<Cases>>;

/// Changes that the configuration itself has made in requests.
#[derive(Clone, Debug, Default)]
pub struct Edited {
    pub fields: OwnFields,
    /// Fields of responses, by their names in lower case.
    pub response_fields: BTreeSet<String>,
    pub url: EditedUrl,
    /// Requests of which no cookies are left.
    pub uncookied: Cases,
}

/// Reads a condition. Where a test cannot be stated exactly, the cases are those of more requests
/// if `widens` is set, which is good for a refusal or a bypass, and otherwise of fewer.
pub struct Parser<'a> {
    pub tokens: &'a [Token],
    pub acls: &'a Acls,
    pub edited: &'a Edited,
    pub widens: bool,
    /// The opposite of the condition is wanted.
    is_opposite: bool,
    /// Why the cases are not exact.
    pub inexact: Option<String>,
    /// The part of the URL that the cases are by, where that is only stricter.
    pub by_path: Option<&'static str>,
    /// Fewer requests for files are good, too.
    pub may_narrow: bool,
    /// A part without an equivalent may be left out.
    may_cut: bool,
    is_cut: bool,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub fn new(
        tokens: &'a [Token],
        acls: &'a Acls,
        edited: &'a Edited,
        widens: bool,
    ) -> Parser<'a> {
        let (inexact, is_opposite, is_cut, at, depth) = (None, false, false, 0, 0);
        let (by_path, may_narrow, may_cut) = (None, false, widens);
        Parser {
            tokens,
            acls,
            edited,
            widens,
            is_opposite,
            inexact,
            by_path,
            may_narrow,
            may_cut,
            is_cut,
            at,
            depth,
        }
    }

    /// Reads the opposite of the condition: where `widens` is set for the condition, it is of fewer
    /// requests.
    pub fn parse_opposite(&mut self) -> Result<Cases, String> {
        self.is_opposite = true;
        self.parse()
    }

    pub fn parse(&mut self) -> Result<Cases, String> {
        let cases = self.alternatives()?;
        let is_all = cases.contains(&Tests::default());
        if let (true, Some(why)) = (self.is_cut && is_all, &self.inexact) {
            return Err(why.clone());
        }
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
            let more = self.sequence()?;
            all = if self.is_opposite { both_also(&all, &more)? } else { [all, more].concat() };
        }
        merge(&mut all);
        Ok(all)
    }

    fn sequence(&mut self) -> Result<Cases, String> {
        let mut all = self.operand()?;
        while self.takes("&&") {
            let more = self.operand()?;
            all = if self.is_opposite { [all, more].concat() } else { both_also(&all, &more)? };
        }
        Ok(all)
    }

    /// Reads a part of a condition. Where more requests are wanted, one without an equivalent is
    /// true for all.
    fn operand(&mut self) -> Result<Cases, String> {
        let (start, depth) = (self.at, self.depth);
        let why = match self.single() {
            Err(why) if self.may_cut && (self.widens || self.is_opposite) => why,
            found => return found,
        };
        self.inexact.get_or_insert(why);
        self.is_cut = true;
        (self.at, self.depth) = (start, depth);
        self.skip();
        // All requests are more, none are fewer.
        Ok(if self.widens != self.is_opposite { vec![Tests::default()] } else { Vec::new() })
    }

    /// Skips a part of a condition.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.at) {
            let is_end = token.is("&&") || token.is("||") || token.is(")");
            match depth {
                0 if is_end => return,
                _ if token.is("(") => depth += 1,
                _ if token.is(")") => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
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
        let is_url = |token: &&Token| matches!(&*token.text, "req.url" | "bereq.url");
        if self.tokens.get(self.at).is_some_and(|token| is_url(&token)) {
            self.at += 1;
            return self.url();
        }
        let found = self.leaf()?;
        if self.is_opposite { negated(&found) } else { Ok(found) }
    }

    /// A test other than of the URL.
    fn leaf(&mut self) -> Result<Cases, String> {
        let name = self.tokens.get(self.at).filter(|token| token.kind == Kind::Word);
        let name = name.ok_or("an expression has no equivalent")?.text.clone();
        self.at += 1;
        if name == "std.integer" {
            return self.size();
        }
        let operators = ["==", "!=", "~", "!~", ">=", "<=", ">", "<"];
        let operator = operators.into_iter().find(|sign| self.takes(sign));
        let Some(operator) = operator else {
            let found = self.presence(&name)?;
            return self.with_cookies(&name, true, found);
        };
        let value = self.value()?;
        let found = self.test(&name, operator, &value)?;
        let is_empty = value.text.trim_start_matches('^').trim_end_matches('$');
        let is_empty = matches!(is_empty, "" | "\\s*" | " *");
        self.with_cookies(&name, operator.starts_with('!') == is_empty, found)
    }

    /// Returns the requests that pass a test of `Cookie` after it was removed from some:
    /// `is_present` is true if a request without cookies fails the test.
    fn with_cookies(&self, name: &str, is_present: bool, found: Cases) -> Result<Cases, String> {
        let uncookied = &self.edited.uncookied;
        let is_cookie = name.trim_start_matches("be").eq_ignore_ascii_case("req.http.cookie");
        match is_present {
            _ if !is_cookie || uncookied.is_empty() => Ok(found),
            true => both_also(&found, &negated(uncookied)?),
            false => Ok([found, uncookied.clone()].concat()),
        }
    }

    /// The value behind an operator.
    fn value(&mut self) -> Result<Token, String> {
        let value = self.tokens.get(self.at).ok_or("expected a value")?.clone();
        self.at += 1;
        match self.tokens.get(self.at).map(|token| token.kind == Kind::Text || token.is("+")) {
            Some(true) => Err("joined texts have no equivalent".to_owned()),
            _ => Ok(value),
        }
    }

    /// Returns the opposite of a condition: of one of more requests it is of fewer.
    fn opposite(
        &mut self,
        read: impl FnOnce(&mut Parser<'a>) -> Result<Cases, String>,
    ) -> Result<Cases, String> {
        self.widens = !self.widens;
        self.is_opposite = !self.is_opposite;
        let found = read(self);
        self.widens = !self.widens;
        self.is_opposite = !self.is_opposite;
        found
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
        if let Some(field) = self.response_field(name)? {
            return Ok(vec![Tests::one(RESPONSE_HEADERS, field)]);
        }
        let field = name.strip_prefix("be").unwrap_or(name).strip_prefix("req.http.");
        let Some(field) = field else {
            return match name {
                "true" => Ok(vec![Tests::default()]),
                _ => Err(format!("{name} has no equivalent")),
            };
        };
        stated_by_proxy(field)?;
        let own = vec![Tests::one("headers", field)];
        match self.edited.fields.get(&field.to_ascii_lowercase()) {
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
                let is_not = operator.starts_with('!');
                self.client(text, is_not)
            }
            "beresp.status" | "resp.status" => statuses(operator, text),
            _ if name.contains("resp.http.") => self.test_of_response(name, operator, text),
            "req.restarts" => match (operator, text) {
                ("==", "0") => Ok(vec![Tests::default()]),
                ("!=" | ">", "0") => Ok(Cases::new()),
                _ => Err("requests are not restarted".to_owned()),
            },
            _ => {
                let theirs = variable(name).ok_or_else(|| format!("{name} has no equivalent"))?;
                let field = name.strip_prefix("be").unwrap_or(name).strip_prefix("req.http.");
                let is_own =
                    |field: &str| self.edited.fields.contains_key(&field.to_ascii_lowercase());
                if field.is_some_and(is_own) {
                    return Err(format!("{name} is set before"));
                }
                field.map_or(Ok(()), stated_by_proxy)?;
                if value.kind != Kind::Text {
                    let why = "a comparison of two variables has no equivalent";
                    return self.wider(vec![Tests::default()], why);
                }
                let operator = match operator {
                    "==" => "=",
                    "~" | "!~" | "!=" => operator,
                    _ => return Err(format!("{operator} has no equivalent")),
                };
                let name = name.trim_start_matches("be").trim_start_matches("req.http.");
                self.compared(&theirs, name, operator, text)
            }
        }
    }

    /// A test of the client's address. What is known of a list may be fewer clients than it has.
    fn client(&mut self, acl: &str, is_not: bool) -> Result<Cases, String> {
        let known = self.acls.get(acl).ok_or("expected the name of an acl")?;
        if known.is_partial {
            let why = format!("entries of acl {acl} are lost");
            if is_not != self.widens {
                return self.wider(vec![Tests::default()], &why);
            }
            self.inexact.get_or_insert(why);
        }
        let key = if is_not { "not-clients" } else { "clients" };
        Ok(vec![Tests(vec![(key.to_owned(), known.networks.clone())])])
    }

    /// Returns the name of a field of the response as the server sent it.
    fn response_field(&self, name: &str) -> Result<Option<String>, String> {
        let field = name.strip_prefix("be").unwrap_or(name).strip_prefix("resp.http.");
        let is_own = |field: &str| self.edited.response_fields.contains(field);
        match field {
            Some(field) if is_own(&field.to_ascii_lowercase()) => {
                Err(format!("{name} is set before"))
            }
            field => Ok(field.map(str::to_owned)),
        }
    }

    /// A test of a field of the response.
    fn test_of_response(
        &mut self,
        name: &str,
        operator: &str,
        text: &str,
    ) -> Result<Cases, String> {
        let field = self.response_field(name)?.ok_or("expected a field of the response")?;
        let field = field.to_ascii_lowercase();
        let theirs = format!("$http_{}", field.replace('-', "_"));
        let operator = if operator == "==" { "=" } else { operator };
        if theirs.ends_with("http_host") || !["=", "!=", "~", "!~"].contains(&operator) {
            return Err(format!("{name} {operator} has no equivalent"));
        }
        let cases = self.compared(&theirs, &field, operator, text)?;
        Ok(cases.into_iter().map(of_response).collect())
    }

    /// A comparison of a variable, by patterns if that is exact, or of a field by an expression.
    fn compared(
        &mut self,
        theirs: &str,
        field: &str,
        operator: &str,
        text: &str,
    ) -> Result<Cases, String> {
        let is_field = theirs.starts_with("$http_");
        if is_field && let Some(header) = exact(field, operator, text) {
            return Ok(vec![Tests::one("headers", header)]);
        }
        if theirs == "$host" && operator.ends_with('~') {
            return Ok(vec![host_test::of(text, operator.starts_with('!'))?]);
        }
        let with = Comparison { operator, value: text, case: Case::Any };
        let found = compare(theirs, with, &BTreeMap::new());
        let is_exact = found.as_ref().is_ok_and(|found| found.wider.is_none());
        let is_regex = matches!(operator, "~" | "!~") && is_field;
        let is_long = found.as_ref().is_ok_and(|found| found.any.len() > PATTERNS_MAX);
        if (!is_exact || is_long) && is_regex && text.trim() == text && url_test::urls(text).is_ok()
        {
            let not = operator.trim_end_matches('~');
            return Ok(vec![Tests::one("headers", format!("{not}{field}: ~{text}"))]);
        }
        let found = found?;
        match found.wider {
            Some(why) => self.wider(found.any, &why),
            None => Ok(found.any),
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

    /// A test of the URL, behind its name.
    fn url(&mut self) -> Result<Cases, String> {
        let operators = ["==", "!=", "~", "!~"];
        let operator = operators.into_iter().find(|sign| self.takes(sign));
        let operator = operator.ok_or("this test of the URL has no equivalent")?;
        let value = self.value()?;
        if value.kind != Kind::Text {
            return Err("a comparison of two variables has no equivalent".to_owned());
        }
        let regex = match operator {
            "==" | "!=" => format!("^{}$", escaped(&value.text)),
            _ => value.text,
        };
        let is_not = operator.starts_with('!');
        let url = &self.edited.url;
        let fit = match (is_not != self.widens, self.may_narrow && !self.is_opposite) {
            (true, _) => Fit::More,
            (false, true) if !is_not => Fit::Files,
            (false, _) => Fit::None,
        };
        let found = url.matching(&regex, is_not != self.is_opposite, fit);
        let found = match (found, self.widens, self.is_opposite) {
            (Ok(found), ..) => found,
            (Err(why), false, false) => return Err(why),
            (Err(why), widens, is_opposite) => {
                self.inexact.get_or_insert(why);
                // All requests are more, none are fewer.
                return Ok(if widens != is_opposite { vec![Tests::default()] } else { Vec::new() });
            }
        };
        match found.1 {
            Some(Inexact::Loss(why)) => _ = self.inexact.get_or_insert_with(|| why.to_owned()),
            Some(Inexact::ByPath(how)) => _ = self.by_path.get_or_insert(how),
            None => {}
        }
        Ok(found.0)
    }
}

/// Returns an error for a field that Larder removes from requests of clients. That of the scheme is
/// reported for the whole file.
fn stated_by_proxy(field: &str) -> Result<(), String> {
    let variable = format!("http_{}", field.to_ascii_lowercase().replace('-', "_"));
    match forwarded::is_removed(&variable) && !forwarded::is_scheme(&variable) {
        true => Err(format!("{field} {}", forwarded::REASON)),
        false => Ok(()),
    }
}

/// Returns the test of a field that is true for the same texts, where patterns are not: they ignore
/// case, and a field without a text is present.
fn exact(field: &str, operator: &str, text: &str) -> Option<String> {
    let is_not = operator.starts_with('!');
    let is_regex = operator.ends_with('~');
    let is_empty = if is_regex { EMPTY.contains(&text) } else { text.is_empty() };
    let has_case = text.contains(|c: char| c.is_ascii_alphabetic()) && !text.starts_with("(?i)");
    let not = |is_not: bool| if is_not { "!" } else { "" };
    let regex = match is_regex {
        _ if is_empty => return Some(format!("{}{field}: ~.", not(!is_not))),
        _ if !has_case => return None,
        false => format!("^{}$", escaped(text)),
        true if text.trim() == text => text.to_owned(),
        true => format!("(?:{text})"),
    };
    url_test::urls(&regex).ok()?;
    Some(format!("{}{field}: ~{regex}", not(is_not)))
}

/// Expressions that match a field without a text, or none.
const EMPTY: [&str; 3] = ["^$", "^\\s*$", "^ *$"];

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
        ("!=", _) => return negated(&statuses("==", text)?),
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
