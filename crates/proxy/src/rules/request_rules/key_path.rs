//! The path in the key of an object, made of parts of the request's path. Requests for several
//! paths share one object, such as those for a blob whose path ends with its digest.

use std::borrow::Cow;
use std::ops::Range;

use semantics::Url;
use semantics::readings::readings;
use semantics::scanned_path::ScannedPath;

use crate::message::template::{Stage, Template, Values, Variable};
use crate::rules::request_rules::condition::PathTest;

/// A path for keys: a text with captures, and the paths that give them values.
#[derive(Clone, Debug)]
pub struct KeyPath {
    text: Template,
    paths: Vec<PathTest>,
}

impl KeyPath {
    /// Parses a text such as `/blobs/{capture.1}`, for a rule with these paths.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse(text: &str, paths: &[PathTest]) -> Result<KeyPath, String> {
        if !text.starts_with(['/', '{']) || text.contains(['?', '#', ' ']) {
            return Err(format!("expected a path that begins with /, without query, got {text:?}"));
        }
        let text = Template::parse(text, Stage::Request)?;
        if paths.is_empty() {
            return Err("expected paths beside it, whose captures it is made of".to_owned());
        }
        let captures = paths.iter().map(PathTest::capture_count).min().unwrap_or_default();
        for variable in text.variables() {
            match variable {
                Variable::Capture(number) if *number <= captures => {}
                Variable::Capture(_) => {
                    return Err(format!("not every path of the rule has {variable}"));
                }
                other => return Err(format!("expected {{capture.N}}, got {other}")),
            }
        }
        Ok(KeyPath { text, paths: paths.to_vec() })
    }

    /// Returns the URL under which the object of `url` is stored: with this path, and with the
    /// query of `url`. Requests cannot name such a URL themselves. Returns `url` if none of the
    /// paths matches, if the captures make no path, or if servers may read another path, of which
    /// the captures are others, or treat this spelling otherwise.
    pub(crate) fn apply<'u>(&self, url: &'u Url) -> Cow<'u, Url> {
        let path = url.path_and_query().split('?').next().unwrap_or_default();
        let is_read_alike = url.spelled().is_none() && readings(ScannedPath::new(path)).len() == 1;
        let ranges = self.paths.iter().find_map(|test| test.captures(path.as_bytes()));
        let Some(ranges) = ranges.filter(|_| is_read_alike) else { return Cow::Borrowed(url) };
        let named = self.text.text(&Captures { path, ranges });
        let named = String::from_utf8(named).ok().and_then(|named| url.keyed_by(&named));
        named.map_or(Cow::Borrowed(url), Cow::Owned)
    }
}

/// The captures of a path.
struct Captures<'p> {
    path: &'p str,
    ranges: Vec<Range<usize>>,
}

impl Values for Captures<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
        let Variable::Capture(number) = variable else { return };
        let range = number.checked_sub(1).and_then(|at| self.ranges.get(at)).cloned();
        let text = range.and_then(|range| self.path.get(range)).unwrap_or_default();
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<PathTest> {
        texts.iter().map(|text| PathTest::parse(text, false).unwrap()).collect()
    }

    #[test]
    fn captures_make_a_key_that_no_request_names() {
        let paths = paths(&["/v2/*/blobs/*", "~^/blobs/([^/]+)/([0-9]+)$"]);
        let key_path = KeyPath::parse("/blobs/{capture.2}", &paths).unwrap();
        let named = |path: &str| {
            let url = Url::new("http", "a", path).unwrap();
            let named = key_path.apply(&url).into_owned();
            assert_eq!(key_path.apply(&named).as_ref(), &named, "it is applied once");
            (named.as_str().to_owned(), named.is_keyed())
        };
        let keyed = |text: &str| (text.to_owned(), true);
        assert_eq!(named("/v2/x/y/blobs/77"), keyed("http://a/blobs/77"));
        assert_eq!(named("/v2/z/blobs/77?a=b"), keyed("http://a/blobs/77?a=b"));
        assert_eq!(named("/blobs/q/77"), keyed("http://a/blobs/77"));
        for other in ["/v2/x/blobs/%37", "/v2/x/../y/blobs/77", "/v2/x/blobs/a%2F7", "/v2//blobs/7"]
        {
            assert!(!named(other).1, "{other}");
        }
        assert_eq!(named("/blobs/77"), ("http://a/blobs/77".to_owned(), false));
    }

    #[test]
    fn mistakes_are_named() {
        let paths = paths(&["/v2/*/blobs/*", "/blobs/*"]);
        for (text, why) in [
            ("blobs", "expected a path that begins with /, without query, got \"blobs\""),
            ("/a?b", "expected a path that begins with /, without query, got \"/a?b\""),
            ("/{capture.2}", "not every path of the rule has {capture.2}"),
            ("/{header.x}", "expected {capture.N}, got {header.x}"),
        ] {
            assert_eq!(KeyPath::parse(text, &paths).unwrap_err(), why);
        }
        assert!(KeyPath::parse("/x", &[]).is_err());
    }
}
