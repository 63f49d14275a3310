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
            return one.matches(self.begin);
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
                    let literal = literal(regex);
                    literal.starts_with(self.begin) || self.begin.starts_with(&literal)
                }
                None => !self.keeps_end() || one.any.iter().any(|any| !any.0.is_empty()),
            },
        }
    }

    /// Returns whether the expression and the target end with the same part of the path, so that an
    /// expression without a begin matches the new path where it matches the client's.
    fn keeps_end(&self) -> bool {
        let end = ["(.*)$", "(.+)$", "(.*)", "(.+)"].iter().find_map(|end| {
            let begin = self.regex.strip_suffix(end)?;
            (begin.ends_with('/') && !begin.contains('(')).then_some(())
        });
        end.is_some() && self.target.strip_suffix("$1").is_some_and(|begin| begin.ends_with('/'))
    }

    /// Returns the client's paths that become those of a location by prefix, or the exact path.
    pub fn before(&self, one: &Location<'_>) -> Option<Tests> {
        let ends = ["(.*)$", "(.+)$", "(.*)", "(.+)"];
        let regex = ends.iter().find_map(|end| self.regex.strip_suffix(end))?;
        let from = regex.strip_prefix('^')?;
        let is_plain = |text: &str| text.chars().all(|c| !"\\.*?+()[]{}|^$".contains(c));
        let rest = one.path.strip_prefix(self.target.strip_suffix("$1")?)?;
        let is_stated = is_plain(from) && is_plain(&one.path) && !self.begin.contains('$');
        let path = format!("{from}{rest}");
        match one.kind {
            _ if !is_stated || self.target.matches('$').count() > 1 || !one.any.is_empty() => None,
            Kind::Exact => Some(Tests::one("paths", path)),
            Kind::Prefix | Kind::Final => Some(Tests::one("paths", format!("{path}*"))),
            Kind::Regex => None,
        }
    }
}

/// Returns the text that all matches of an expression begin with.
fn literal(regex: &str) -> String {
    let mut text = String::new();
    let mut chars = regex.chars().peekable();
    if regex.contains('|') {
        return text;
    }
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some(c) if !c.is_alphanumeric() => c,
                _ => break,
            },
            c if ".*?+()[]{}|^$".contains(c) => break,
            c => c,
        };
        if matches!(chars.peek(), Some('*' | '?' | '{')) {
            break;
        }
        text.push(c);
    }
    text
}
