//! Path prefixes of sites, in whole segments: `/static` covers `/static` and everything below
//! `/static/`, but not `/statics`.
//!
//! Paths are compared as a server reads them ([`Url::tidied`]), so no spelling of a path leads to
//! another site.

use std::fmt;
use std::str::FromStr;

use semantics::Url;

/// Path prefix. It has no final slash, so `/`, which covers all paths, is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathPrefix(String);

impl PathPrefix {
    /// Returns whether the prefix covers a path in the form of [`Url::tidied`].
    pub(crate) fn is_for(&self, tidy: &str) -> bool {
        let rest = tidy.strip_prefix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the prefix, decoded and without a final slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.0)
    }
}

impl FromStr for PathPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<PathPrefix, String> {
        let bad = |why: &str| Err(format!("{text:?} is not a path prefix: {why}"));
        if !text.starts_with('/') {
            return bad("expected one such as /static/");
        }
        if text.contains(['?', '#', '*']) {
            return bad("a query, a fragment and * are no part of it (%3F, %23, %2A)");
        }
        let tidy = Url::tidied(text);
        if tidy.contains(['\u{fffd}', '\0']) {
            return bad("it is not UTF-8");
        }
        let is_dots = |segment: &str| matches!(segment, "." | "..");
        if text.split('/').any(is_dots) || text.to_ascii_lowercase().contains("%2e") {
            return bad("a path has no segment . or ..");
        }
        Ok(PathPrefix(tidy.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_whole_segments_however_spelled() {
        let prefix: PathPrefix = "/a//%62%20c/".parse().unwrap();
        assert_eq!((prefix.as_str(), prefix.to_string().as_str()), ("/a/b c", "/a/b c/"));
        for (path, expected) in [
            ("/a/b%20c", true),
            ("/a/b%20c?q", true),
            ("/a/b%20c/", true),
            ("//%61///%62%20c/x", true),
            ("/x/../a/b%20c/x", true),
            ("/x/%2e%2e%2fa%2Fb%20c/x", true),
            ("/a/b%20c/../x", false),
            ("/a/b%20c/%2E%2e/x", false),
            ("/a/b%20cd", false),
            ("/a/B%20c", false),
            ("/a/b%2520c", false),
            ("/", false),
            ("*", false),
            ("?/a/b%20c", false),
        ] {
            assert_eq!(prefix.is_for(&Url::tidied(path)), expected, "{path}");
        }
        let all: PathPrefix = "/".parse().unwrap();
        assert!(["/", "/x", "*", "", "?q"].iter().all(|path| all.is_for(&Url::tidied(path))));
    }

    #[test]
    fn invalid_prefixes_are_refused() {
        for text in ["", "a", "/a?b", "/a#", "/*", "/%ff", "/%00", "/a/../b", "/./", "/%2e%2e/"] {
            let why = text.parse::<PathPrefix>().unwrap_err();
            assert!(why.contains("is not a path prefix"), "{why}");
        }
    }
}
