//! Tests of responses that Larder makes by itself: what it stores anyway, or never.

use std::collections::{BTreeMap, BTreeSet};

use crate::convert::rule_draft::{RESPONSE_HEADERS, Tests};
use crate::convert::vcl::syntax::{Kind, Statement, Token};

/// Returns whether a branch only keeps responses from the cache that Larder does not store: with
/// `Set-Cookie`, `Vary: *`, without a lifetime, or forbidden by `Cache-Control`.
pub fn is_default(tokens: &[Token], inner: &[&Statement]) -> bool {
    let is_unstored = |one: &&Statement| {
        // A field of a response that is not stored tells only why.
        (one.word(0) == "set" && one.word(1).starts_with("beresp.http.X-"))
            || matches!(one.word(1), "beresp.uncacheable" | "beresp.ttl" | "beresp.grace")
            || (one.word(0) == "return" && matches!(one.word(2), "deliver" | "pass"))
    };
    let is_any =
        inner.iter().any(|one| one.word(1) == "beresp.uncacheable" && one.word(3) == "true")
            || inner.iter().any(|one| one.word(0) == "return" && one.word(2) == "pass")
            || inner.iter().any(|one| one.word(1) == "beresp.ttl" && one.word(3) == "0s");
    is_any && inner.iter().all(is_unstored) && are_careful(tokens)
}

/// Returns the tests of `Surrogate-Control` in such a condition, which Larder does not look at.
pub fn tests_of_surrogates(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    tokens.windows(3).filter(|test| test[0].text.eq_ignore_ascii_case(SURROGATE) && test[1].is("~"))
}

const SURROGATE: &str = "beresp.http.surrogate-control";

/// The tests of such a condition that have to be stated.
#[derive(Default)]
pub struct Undone<'t> {
    pub tests: Vec<&'t [Token]>,
    /// One is whether the response has a lifetime.
    pub has_lifetime: bool,
}

/// Returns the tests of such a condition whose fields are `edited` behind it, so that Larder judges
/// by other fields; `None` if they cannot be stated apart.
pub fn undone<'t>(tokens: &'t [Token], edited: &BTreeSet<String>) -> Option<Undone<'t>> {
    let (mut all, mut has_lifetime) = (Vec::new(), false);
    for (at, token) in tokens.iter().enumerate() {
        let name = token.text.to_ascii_lowercase();
        let length = match name.as_str() {
            "beresp.ttl" if edited.contains("cache-control") || edited.contains("expires") => {
                has_lifetime = true;
                continue;
            }
            "beresp.http.set-cookie" => 1,
            _ => 3,
        };
        let field = name.strip_prefix("beresp.http.").filter(|field| edited.contains(*field));
        all.extend(field.and_then(|_| tokens.get(at..at + length)));
    }
    let is_joined = tokens.iter().any(|token| token.is("&&") || token.is("!"));
    (all.is_empty() || !is_joined).then_some(Undone { tests: all, has_lifetime })
}

/// Returns the tests of responses without a lifetime above zero, one of which must hold. Dates are
/// not compared, so one of `Expires` alone counts as past.
pub fn without_lifetime() -> [Tests; 2] {
    let of = |tests: &[&str]| {
        let tests = tests.iter().map(|test| (*test).to_owned()).collect();
        Tests(vec![(RESPONSE_HEADERS.to_owned(), tests)])
    };
    let shared = "Cache-Control: ~(?i)s-maxage *= *\"?0*[1-9]";
    [
        of(&[
            "Cache-Control: ~(?i)(?:max-age|s-maxage) *= *\"?0+(?:[^0-9]|$)",
            &format!("!{shared}"),
        ]),
        of(&["Expires", "!Cache-Control: ~(?i)(?:max-age|s-maxage) *="]),
    ]
}

/// Edits of response fields behind a statement, also in called subroutines.
pub struct Edits<'a, 's> {
    pub subs: &'s BTreeMap<&'a str, Vec<&'a Statement>>,
    pub behind: &'s Statement,
    /// The fields, in lower case.
    pub fields: BTreeSet<String>,
    is_behind: bool,
    /// Subroutines that were read, before and behind the statement.
    read: BTreeSet<(String, bool)>,
}

impl<'a, 's> Edits<'a, 's> {
    pub fn new(
        subs: &'s BTreeMap<&'a str, Vec<&'a Statement>>,
        behind: &'s Statement,
    ) -> Edits<'a, 's> {
        let (fields, read) = (BTreeSet::new(), BTreeSet::new());
        Edits { subs, behind, fields, is_behind: false, read }
    }

    /// Reads a subroutine.
    pub fn sub(&mut self, name: &str) {
        if !self.read.insert((name.to_owned(), self.is_behind)) {
            return;
        }
        let subs = self.subs;
        subs.get(name).into_iter().flatten().for_each(|one| self.statement(one));
    }

    fn statement(&mut self, one: &Statement) {
        let is_edit = matches!(one.word(0), "set" | "unset" | "remove");
        let name = one.word(1).to_ascii_lowercase();
        match name.strip_prefix("beresp.http.") {
            Some(field) if is_edit && self.is_behind => {
                self.fields.insert(field.to_owned());
            }
            _ if one.word(0) == "call" => self.sub(one.word(1)),
            _ => one.inner().iter().for_each(|inner| self.statement(inner)),
        }
        self.is_behind |= std::ptr::eq(one, self.behind);
    }
}

/// Returns whether each test of a condition is one that Larder makes, however they are joined.
fn are_careful(tokens: &[Token]) -> bool {
    let mut rest = tokens;
    let mut count = 0;
    while let Some(first) = rest.first() {
        let is_sign = |sign: &str| rest.get(1).is_some_and(|token| token.is(sign));
        let value = rest.get(2).map_or("", |token| token.text.as_str());
        let name = first.text.to_ascii_lowercase();
        let length = match name.as_str() {
            "(" | ")" | "||" | "&&" if first.kind == Kind::Sign => 1,
            "!" if rest.get(1).is_some_and(|one| one.text.eq_ignore_ascii_case(SURROGATE)) => 2,
            "!" if is_sign("beresp.ttl") && value == ">" => 4,
            "beresp.ttl" if (is_sign("<=") || is_sign("<")) && value.starts_with('0') => 3,
            "beresp.http.set-cookie" if !is_sign("~") && !is_sign("!~") && !is_sign("==") => 1,
            "beresp.http.vary" if (is_sign("==") || is_sign("~")) && value.contains('*') => 3,
            "beresp.http.cache-control" if is_sign("~") && are_prohibitions(value) => 3,
            SURROGATE if is_sign("~") && are_prohibitions(value) => 3,
            _ => return false,
        };
        count += usize::from(length > 1 || name.starts_with("beresp"));
        rest = &rest[length.min(rest.len())..];
    }
    count > 0
}

/// Returns whether an expression is a list of directives that forbid storing.
fn are_prohibitions(regex: &str) -> bool {
    let inner = regex.strip_prefix("(?i)").unwrap_or(regex);
    let inner = inner.strip_prefix("(?:").or(inner.strip_prefix('(')).unwrap_or(inner);
    inner.trim_end_matches(')').split('|').all(|word| {
        let word = word.trim_matches(['^', '$', '\\', 'b']);
        matches!(word, "private" | "no-cache" | "no-store" | "no-cache*" | "max-age=0")
            || matches!(word, "s-maxage=0" | "s-max-age=0")
    })
}
