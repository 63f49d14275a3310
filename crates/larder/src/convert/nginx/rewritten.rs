//! `rewrite` with `last`, for which nginx looks for a location again: the location of the new path.

use crate::convert::nginx::matching::{Kind, Location};
use crate::convert::nginx::syntax::Directive;
use crate::convert::rule_draft::Tests;

/// A `rewrite` to a path of which the beginning is known.
pub struct Rewritten<'r> {
    regex: &'r str,
    /// The path, with variables.
    target: &'r str,
    /// The path up to its first variable.
    begin: &'r str,
}

impl<'r> Rewritten<'r> {
    pub fn new(one: &'r Directive) -> Rewritten<'r> {
        let target = one.arg(1).split('?').next().unwrap_or_default();
        let begin = target.split('$').next().unwrap_or_default();
        Rewritten { regex: one.arg(0), target, begin }
    }

    /// Returns an example of the new path.
    pub fn sample(&self) -> String {
        let mut parts = self.target.split('$');
        let mut path = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '{' | '}');
            let digits = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let is_number = digits.len() < part.len();
            let end = if is_number { digits } else { part.trim_start_matches(is_of_name) };
            path.push('x');
            path.push_str(end);
        }
        path
    }

    /// Returns whether the new path may be one of a location.
    pub fn may_reach(&self, one: &Location<'_>, all: &[Location<'_>]) -> bool {
        let is_whole = self.begin.len() == self.target.len();
        if is_whole && one.any.is_empty() {
            let first = all.iter().find(|other| other.matches(self.begin));
            return first.is_some_and(|first| std::ptr::eq(first, one));
        }
        let is_prefix = |one: &Location<'_>| matches!(one.kind, Kind::Prefix | Kind::Final);
        let around = |path: &str| self.begin.starts_with(path);
        match one.kind {
            Kind::Exact => one.path.starts_with(self.begin),
            Kind::Prefix | Kind::Final => {
                // A longer one that all new paths begin with comes before it.
                let is_longer = |other: &Location<'_>| {
                    is_prefix(other) && other.path.len() > one.path.len() && around(&other.path)
                };
                let is_around = around(&one.path) && !all.iter().any(is_longer);
                is_around || (one.path.starts_with(self.begin) && one.path != self.begin)
            }
            Kind::Regex => match one.path.strip_prefix('^') {
                Some(regex) => {
                    // Expressions may ignore case.
                    let literal = literal(regex).0.to_lowercase();
                    let begin = self.begin.to_lowercase();
                    literal.starts_with(&begin) || begin.starts_with(&literal)
                }
                None => true,
            },
        }
    }

    /// Returns whether an expression without a begin matches the new path only where it matches
    /// the client's: each match is within the part that both end with.
    pub fn keeps(&self, one: &Location<'_>) -> bool {
        let is_open = one.kind == Kind::Regex && !one.path.starts_with('^');
        let Some((from, begin, end)) = self.parts().filter(|_| is_open) else {
            return false;
        };
        let (text, is_all) = literal(&one.path.to_lowercase());
        let fits = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        let is_kept = match text.is_empty() {
            true => from.ends_with(begin),
            false => begin.char_indices().all(|(at, _)| {
                let part = &begin[at..];
                !fits(&text, &part.to_lowercase()) || from.ends_with(part)
            }),
        };
        let end = end.to_lowercase();
        let is_apart = || {
            let mut parts = text.char_indices().skip(1);
            is_all && !end.contains(&text) && parts.all(|(at, _)| !fits(&end, &text[at..]))
        };
        is_kept && one.any.is_empty() && (end.is_empty() || is_apart())
    }

    /// Returns the text before the rest of the path in the expression, and those before and after
    /// it in the target; `None` if they have other parts.
    fn parts(&self) -> Option<(&str, &str, &str)> {
        let ends = ["(.*)$", "(.+)$", "(.*)", "(.+)"];
        let regex = ends.iter().find_map(|end| self.regex.strip_suffix(end))?;
        let from = regex.strip_prefix('^')?;
        let (begin, end) = self.target.split_once("$1")?;
        let is_plain = |c: char| !"\\.*?+()[]{}|^$".contains(c);
        let is_stated = from.chars().all(is_plain) && !begin.contains('$') && !end.contains('$');
        (is_stated && !end.starts_with(|c: char| c.is_ascii_digit())).then_some((from, begin, end))
    }

    /// Returns the client's paths that become those of a location.
    pub fn before(&self, one: &Location<'_>) -> Option<Tests> {
        if one.kind == Kind::Regex {
            return self.keeps(one).then(|| one.when.clone());
        }
        let (from, begin, end) = self.parts()?;
        let path = format!("{from}{}", one.path.strip_prefix(begin)?);
        match one.kind {
            _ if !end.is_empty() || path.contains('*') || !one.any.is_empty() => None,
            Kind::Exact => Some(Tests::one("paths", path)),
            _ => Some(Tests::one("paths", format!("{path}*"))),
        }
    }
}

/// Returns the text that all matches of an expression begin with, and whether it is all of them.
fn literal(regex: &str) -> (String, bool) {
    let mut text = String::new();
    let mut chars = regex.chars().peekable();
    if regex.contains('|') {
        return (text, false);
    }
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some(c) if !c.is_alphanumeric() => c,
                _ => return (text, false),
            },
            c if ".*?+()[]{}|^$".contains(c) => return (text, false),
            c => c,
        };
        if matches!(chars.peek(), Some('*' | '?' | '{')) {
            return (text, false);
        }
        text.push(c);
    }
    (text, true)
}
