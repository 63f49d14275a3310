//! Which parameters of a query name an object: an operator's choice.
//!
//! By default the whole query does, byte by byte. An operator who knows his site may say that some
//! parameters do not matter (those that campaigns add to links), or that their order does not. The
//! origin is asked with the query as it came; only the name under which its answer is kept changes.

use crate::pattern::Pattern;
use crate::url::Url;

/// What becomes of a query in the name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryRule {
    /// The parameters that count.
    pub counts: Counts,
    /// Sort them by name; those of one name stay in their order.
    pub sorted: bool,
}

/// The parameters that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// All.
    #[default]
    All,
    /// Those whose name fits one of the patterns.
    Only(Vec<Pattern>),
    /// Those whose name fits none of the patterns.
    Without(Vec<Pattern>),
}

impl QueryRule {
    /// Whether it leaves every query as it is.
    pub fn is_identity(&self) -> bool {
        self.counts == Counts::All && !self.sorted
    }

    /// The URL under which the object of `url` is kept. A query of which nothing is left goes with
    /// its `?`.
    pub fn apply(&self, url: &Url) -> Url {
        let Some((_, query)) = url.path_and_query().split_once('?') else { return url.clone() };
        if self.is_identity() {
            return url.clone();
        }
        let mut kept: Vec<&str> = query.split('&').filter(|part| self.keeps(part)).collect();
        if self.sorted {
            kept.sort_by_key(|part| name(part));
        }
        url.with_query(&kept.join("&"))
    }

    fn keeps(&self, part: &str) -> bool {
        let fits = |pattern: &Pattern| pattern.matches(name(part).as_bytes());
        !part.is_empty()
            && match &self.counts {
                Counts::All => true,
                Counts::Only(patterns) => patterns.iter().any(fits),
                Counts::Without(patterns) => !patterns.iter().any(fits),
            }
    }
}

/// The name of a parameter.
fn name(part: &str) -> &str {
    part.split('=').next().unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(counts: Counts, sorted: bool, path: &str) -> String {
        let url = Url::new("http", "a", path).unwrap();
        QueryRule { counts, sorted }.apply(&url).path_and_query().to_owned()
    }

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(text)).collect()
    }

    #[test]
    fn parameters_are_kept_dropped_and_sorted() {
        let only = |path| applied(Counts::Only(patterns(&["id", "p*"])), false, path);
        assert_eq!(only("/x?utm=1&id=2&page=3&id"), "/x?id=2&page=3&id");
        assert_eq!(only("/x?utm=1"), "/x");
        assert_eq!(only("/x?"), "/x");
        assert_eq!(only("/x"), "/x");
        let without = |path| applied(Counts::Without(patterns(&["utm_*", "fbclid"])), false, path);
        assert_eq!(without("/x?b=1&utm_source=a&a=2&fbclid=z"), "/x?b=1&a=2");
        assert_eq!(without("/x?utm=1&&a"), "/x?utm=1&a");
        let sorted = |path| applied(Counts::All, true, path);
        assert_eq!(sorted("/x?b=1&a=2&b=0&a"), "/x?a=2&a&b=1&b=0");
        assert_eq!(applied(Counts::Only(Vec::new()), false, "/d/x?a/b"), "/d/x");
    }

    #[test]
    fn nothing_said_changes_nothing() {
        assert_eq!(applied(Counts::All, false, "/x?&b=1&&a"), "/x?&b=1&&a");
    }
}
