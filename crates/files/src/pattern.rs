//! The patterns tried for a request, like nginx's `try_files`: `$uri`, `$uri/`, `$uri.html`,
//! `/index.html`, `=404`.
//!
//! A pattern is a status, or a path below the root in which `$uri` stands for the path of the
//! request. A path that ends with `/` names a directory, any other a file.

use std::fmt;
use std::str::FromStr;

use crate::request_path::{self, RequestPath};

/// The variable in a pattern.
const VARIABLE: &str = "$uri";

/// One pattern to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A path: the text before and after `$uri`, or without a variable the whole path in `before`.
    Path {
        before: Vec<u8>,
        behind: Option<Vec<u8>>,
        is_directory: bool,
    },
    Status(u16),
}

/// A pattern applied to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// A path below the root.
    Path {
        path: Vec<u8>,
        is_directory: bool,
        /// True if the path of the request is part of it.
        follows_request: bool,
    },
    /// Respond with this status.
    Status(u16),
}

/// Why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// It begins with none of `/`, `$uri` and `=`.
    Start,
    /// A `$` is not part of `$uri`, or `$uri` occurs twice.
    Variable,
    /// The text after `=` is not a status from 400 to 599.
    Status,
    /// A segment is `.` or `..`, or the path contains a NUL or is too long.
    Path,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPattern::Start => "it must begin with /, $uri or =",
            BadPattern::Variable => "$uri is the only variable, and may occur once",
            BadPattern::Status => "a status must be from 400 to 599, such as =404",
            BadPattern::Path => "its path must have no segment . or .. and no NUL",
        })
    }
}

impl std::error::Error for BadPattern {}

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Pattern, BadPattern> {
        if let Some(status) = text.strip_prefix('=') {
            return status_of(status).map(|status| Pattern(Kind::Status(status)));
        }
        if !text.starts_with(['/', '$']) {
            return Err(BadPattern::Start);
        }
        let (before, behind) = match text.split_once(VARIABLE) {
            Some((before, behind)) => (before, Some(behind)),
            None => (text, None),
        };
        if before.contains('$') || behind.is_some_and(|behind| behind.contains('$')) {
            return Err(BadPattern::Variable);
        }
        check(&format!("{before}/x{}", behind.unwrap_or_default()))?;
        Ok(Pattern(Kind::Path {
            before: merged(before).trim_matches('/').as_bytes().to_vec(),
            behind: behind.map(|behind| merged(behind).trim_end_matches('/').as_bytes().to_vec()),
            is_directory: text.ends_with('/'),
        }))
    }
}

impl Pattern {
    /// Returns the pattern for the path of the request as a file.
    pub fn file() -> Pattern {
        Self::of_request("", false)
    }

    /// Returns the pattern for the path of the request as a directory.
    pub fn directory() -> Pattern {
        Self::of_request("", true)
    }

    /// Returns the pattern for the path of the request with `.html` appended.
    pub fn html() -> Pattern {
        Self::of_request(".html", false)
    }

    fn of_request(behind: &str, is_directory: bool) -> Pattern {
        let behind = Some(behind.as_bytes().to_vec());
        Pattern(Kind::Path { before: Vec::new(), behind, is_directory })
    }

    /// Returns the status, if the pattern is one.
    pub(crate) fn status(&self) -> Option<u16> {
        match self.0 {
            Kind::Status(status) => Some(status),
            Kind::Path { .. } => None,
        }
    }

    /// Returns whether the pattern names the same file for every request.
    pub(crate) fn is_fixed_file(&self) -> bool {
        matches!(self.0, Kind::Path { behind: None, is_directory: false, .. })
    }

    /// Applies the pattern to a request; `None` if this yields no valid path.
    pub(crate) fn apply(&self, request: &RequestPath) -> Option<Candidate> {
        let (before, behind, is_directory) = match &self.0 {
            Kind::Status(status) => return Some(Candidate::Status(*status)),
            Kind::Path { before, behind, is_directory } => (before, behind, *is_directory),
        };
        let mut path = before.clone();
        if let Some(behind) = behind {
            // A request path that ends with `/` names no file and has no last name to extend.
            let is_inside = behind.starts_with(b"/");
            if request.is_directory && !is_directory && !is_inside {
                return None;
            }
            if !path.is_empty() && !request.bytes.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&request.bytes);
            let behind = if path.is_empty() { trim_start(behind) } else { behind };
            path.extend_from_slice(behind);
        }
        let follows_request = behind.is_some();
        let fits = request_path::fits(&path);
        fits.then_some(Candidate::Path { path, is_directory, follows_request })
    }
}

fn status_of(text: &str) -> Result<u16, BadPattern> {
    let status = text.parse().map_err(|_| BadPattern::Status)?;
    let is_plain = text.len() == 3 && (400..600).contains(&status);
    is_plain.then_some(status).ok_or(BadPattern::Status)
}

fn check(path: &str) -> Result<(), BadPattern> {
    let dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    let is_bad = dots || path.contains('\0') || !request_path::fits(path.as_bytes());
    if is_bad { Err(BadPattern::Path) } else { Ok(()) }
}

/// Returns the path with runs of slashes merged into one.
fn merged(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !merged.ends_with('/') {
            merged.push(letter);
        }
    }
    merged
}

fn trim_start(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_make_paths_of_requests() {
        let cases = [
            ("$uri", "/a/b", Some(("a/b", false, true))),
            ("$uri", "/a/", None),
            ("$uri", "/", None),
            ("$uri/", "/a", Some(("a", true, true))),
            ("$uri/", "/a/", Some(("a", true, true))),
            ("$uri/", "/", Some(("", true, true))),
            ("$uri.html", "/a", Some(("a.html", false, true))),
            ("$uri.html", "/a/", None),
            ("$uri.html", "/", None),
            ("$uri/index.php", "/a/", Some(("a/index.php", false, true))),
            ("$uri/index.php", "/a", Some(("a/index.php", false, true))),
            ("$uri/index.php", "/", Some(("index.php", false, true))),
            ("/pages$uri.html", "/a/b", Some(("pages/a/b.html", false, true))),
            ("/pages//$uri", "//a", Some(("pages/a", false, true))),
            ("/pages$uri/", "/", Some(("pages", true, true))),
            ("$uri//x//y", "/a", Some(("a/x/y", false, true))),
            ("/index.html", "/a/", Some(("index.html", false, false))),
            ("//app//index.html", "/a", Some(("app/index.html", false, false))),
            ("/docs/", "/a", Some(("docs", true, false))),
            ("/", "/a", Some(("", true, false))),
        ];
        for (pattern, request, expected) in cases {
            let path = RequestPath::parse(request.as_bytes(), true).unwrap();
            let expected = expected.map(|(path, is_directory, follows_request)| {
                let path = path.as_bytes().to_vec();
                Candidate::Path { path, is_directory, follows_request }
            });
            let got = pattern.parse::<Pattern>().unwrap().apply(&path);
            assert_eq!(got, expected, "{pattern} {request}");
        }
        let path = RequestPath::parse(b"/x", true).unwrap();
        let got = "=410".parse::<Pattern>().unwrap().apply(&path);
        assert_eq!(got, Some(Candidate::Status(410)));
        let longest =
            RequestPath::parse(format!("/{}", "a".repeat(4095)).as_bytes(), true).unwrap();
        assert_eq!(Pattern::html().apply(&longest), None);
    }

    #[test]
    fn texts_that_are_no_patterns_are_refused() {
        for (text, why) in [
            ("", BadPattern::Start),
            ("index.html", BadPattern::Start),
            ("../x", BadPattern::Start),
            ("$url", BadPattern::Variable),
            ("$uri$uri", BadPattern::Variable),
            ("/$args", BadPattern::Variable),
            ("=", BadPattern::Status),
            ("=200", BadPattern::Status),
            ("=600", BadPattern::Status),
            ("=+404", BadPattern::Status),
            ("=x", BadPattern::Status),
            ("/../x", BadPattern::Path),
            ("/./x", BadPattern::Path),
            ("$uri/..", BadPattern::Path),
            ("/a\0", BadPattern::Path),
        ] {
            assert_eq!(text.parse::<Pattern>(), Err(why), "{text:?}");
        }
    }

    #[test]
    fn the_usual_patterns_are_those_of_their_texts() {
        for (text, pattern) in [
            ("$uri", Pattern::file()),
            ("$uri/", Pattern::directory()),
            ("$uri.html", Pattern::html()),
        ] {
            assert_eq!(text.parse(), Ok(pattern), "{text}");
        }
    }
}
