//! Rules for the query parameters in the key of an object.
//!
//! By default the whole query is part of the key, byte by byte. An operator may exclude parameters
//! that do not matter (those that campaigns add to links), or ignore their order. The origin is
//! then asked with the query of the key, so a parameter outside the key cannot change the response
//! stored under it.

use std::borrow::Cow;

use crate::request::url::Url;
use crate::settings::pattern::Pattern;

/// The treatment of a query in the key of an object. The default leaves every query unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryRule {
    /// Lists of patterns: of each list, one must match the name of a parameter that is kept.
    pub keep: Vec<Vec<Pattern>>,
    /// Parameters whose names match one of these patterns are dropped.
    pub drop: Vec<Pattern>,
    /// True if to sort parameters by name. Parameters with the same name keep their order.
    pub sorted: bool,
}

impl QueryRule {
    /// Returns whether every query is left unchanged.
    pub fn is_default(&self) -> bool {
        self.keep.is_empty() && self.drop.is_empty() && !self.sorted
    }

    /// Returns the rule that applies this one and then `later`.
    pub fn then(&self, later: &QueryRule) -> QueryRule {
        QueryRule {
            keep: [&self.keep[..], &later.keep].concat(),
            drop: [&self.drop[..], &later.drop].concat(),
            sorted: self.sorted || later.sorted,
        }
    }

    /// Returns the URL under which the object of `url` is stored. Omits the `?` if no parameter is
    /// left.
    pub fn apply(&self, url: &Url) -> Url {
        if self.is_default() {
            return url.clone();
        }
        url.map_query(|query| self.kept(query))
    }

    /// Returns the path and query of the URL under which the object of a path and query in normal
    /// form is stored, as [`QueryRule::apply`] does.
    pub fn apply_to<'a>(&self, path_and_query: &'a str) -> Cow<'a, str> {
        let Some((path, query)) = path_and_query.split_once('?').filter(|_| !self.is_default())
        else {
            return Cow::Borrowed(path_and_query);
        };
        match self.kept(query) {
            kept if kept.is_empty() => Cow::Borrowed(path),
            kept if kept == query => Cow::Borrowed(path_and_query),
            kept => Cow::Owned(format!("{path}?{kept}")),
        }
    }

    /// Returns what is left of a query.
    fn kept(&self, query: &str) -> String {
        let mut kept: Vec<&str> = query.split('&').filter(|part| self.keeps(part)).collect();
        if self.sorted {
            kept.sort_by_key(|part| name(part));
        }
        kept.join("&")
    }

    fn keeps(&self, part: &str) -> bool {
        let fits = |pattern: &Pattern| pattern.matches(name(part).as_bytes());
        !part.is_empty()
            && self.keep.iter().all(|list| list.iter().any(fits))
            && !self.drop.iter().any(fits)
    }
}

fn name(part: &str) -> &str {
    part.split('=').next().unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(keep: &[&str], drop: &[&str], sorted: bool, path: &str) -> String {
        let url = Url::new("http", "a", path).unwrap();
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text)).collect();
        let keep = if keep == ["*"] { Vec::new() } else { vec![patterns(keep)] };
        let rule = QueryRule { keep, drop: patterns(drop), sorted };
        assert_eq!(rule.apply_to(path), rule.apply(&url).path_and_query());
        rule.apply(&url).path_and_query().to_owned()
    }

    #[test]
    fn parameters_are_kept_dropped_and_sorted() {
        let only = |path| applied(&["id", "p*"], &["pw"], false, path);
        assert_eq!(only("/x?utm=1&id=2&page=3&id&pw=4"), "/x?id=2&page=3&id");
        assert_eq!(only("/x?utm=1"), "/x");
        assert_eq!(only("/x?"), "/x");
        assert_eq!(only("/x"), "/x");
        let without = |path| applied(&["*"], &["utm_*", "fbclid"], false, path);
        assert_eq!(without("/x?b=1&utm_source=a&a=2&fbclid=z"), "/x?b=1&a=2");
        assert_eq!(without("/x?utm=1&&a"), "/x?utm=1&a");
        let sorted = |path| applied(&["*"], &[], true, path);
        assert_eq!(sorted("/x?b=1&a=2&b=0&a"), "/x?a=2&a&b=1&b=0");
        assert_eq!(applied(&[], &[], false, "/d/x?a/b"), "/d/x");
    }

    #[test]
    fn nothing_said_changes_nothing() {
        assert_eq!(applied(&["*"], &[], false, "/x?&b=1&&a"), "/x?&b=1&&a");
    }
}
