//! The path of a URL as names below the root: decoded once, checked, without empty segments.
//!
//! File names are bytes and need not be UTF-8; a backslash and a `+` are bytes like any other. An
//! encoded slash separates segments like a plain one unless the operator disables that, because no
//! name can contain a slash. Empty segments are merged, then `.` and `..` are resolved (RFC 3986,
//! 5.2.4), whatever their encoding. [`semantics::Url::tidied`], by which sites are selected, reads
//! paths in the same way. A `..` above the root is an error.
//!
//! Guarantee: an accepted path has no segment that is empty, `.` or `..`, contains no NUL, and does
//! not exceed the maximum length of a path.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Maximum number of segments in a path; a longer path leads nowhere.
pub const SEGMENTS_MAX: usize = 256;

/// Maximum length of a path in bytes: the kernel accepts 4,096 including the final NUL.
const PATH_MAX: usize = 4095;

/// The characters that are percent-encoded in output: all except those that a segment may contain
/// unencoded (RFC 3986, 3.3).
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Why the path of a URL leads nowhere below the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It does not begin with `/`.
    NotAbsolute,
    /// It contains a `?` or `#`: the query is not part of the path.
    Delimiter,
    /// A `%` is not followed by two hex digits.
    Encoding,
    /// It contains a NUL, which no name may contain.
    Nul,
    /// A `..` segment leads above the root.
    AboveRoot,
    /// It contains an encoded slash (`%2F`), and the options forbid decoding it.
    EncodedSlash,
    /// It has more than [`SEGMENTS_MAX`] segments, or exceeds the maximum length of a path.
    TooLong,
}

impl BadPath {
    /// Returns whether the path is well-formed and merely leads nowhere (404, not 400).
    pub fn is_missing(self) -> bool {
        matches!(self, BadPath::EncodedSlash | BadPath::TooLong)
    }
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPath::NotAbsolute => "the path does not begin with /",
            BadPath::Delimiter => "there is a ? or # in the path",
            BadPath::Encoding => "a % in the path is not followed by two hex digits",
            BadPath::Nul => "there is a NUL in the path",
            BadPath::AboveRoot => "a .. in the path leads above the root",
            BadPath::EncodedSlash => "there is an encoded slash in the path",
            BadPath::TooLong => "the path is too long",
        })
    }
}

impl std::error::Error for BadPath {}

/// A path below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestPath {
    /// The segments separated by `/`; empty for the root.
    pub(crate) bytes: Vec<u8>,
    /// True if the path ends with `/`, which makes it the URL of a directory.
    pub(crate) is_directory: bool,
    /// The prefix of the URL path that is not part of the path below the root, in the form of
    /// `bytes`.
    pub(crate) stripped: Vec<u8>,
}

impl RequestPath {
    /// Returns the path of the root.
    pub(crate) fn root() -> RequestPath {
        RequestPath { bytes: Vec::new(), is_directory: true, stripped: Vec::new() }
    }

    /// Decodes, resolves and checks the path of a URL. With `encoded_slashes`, encoded slashes
    /// separate segments; without it, a path that contains one leads nowhere.
    pub(crate) fn parse(raw: &[u8], encoded_slashes: bool) -> Result<RequestPath, BadPath> {
        let rest = raw.strip_prefix(b"/").ok_or(BadPath::NotAbsolute)?;
        let decoded = decode(rest)?;
        if !encoded_slashes && count_slashes(&decoded) > count_slashes(rest) {
            return Err(BadPath::EncodedSlash);
        }
        let mut bytes: Vec<u8> = Vec::with_capacity(decoded.len());
        let (mut count, mut is_directory) = (0, true);
        for segment in decoded.split(|&byte| byte == b'/') {
            is_directory = matches!(segment, b"" | b"." | b"..");
            match segment {
                b"" | b"." => {}
                b".." if bytes.is_empty() => return Err(BadPath::AboveRoot),
                b".." => {
                    count -= 1;
                    bytes.truncate(parent(&bytes).len());
                }
                name => {
                    count += 1;
                    if !bytes.is_empty() {
                        bytes.push(b'/');
                    }
                    bytes.extend_from_slice(name);
                }
            }
        }
        if count > SEGMENTS_MAX || !fits(&bytes) {
            return Err(BadPath::TooLong);
        }
        Ok(RequestPath { bytes, is_directory, stripped: Vec::new() })
    }

    /// Removes the longest matching prefix; `None` if no prefix matches. The prefixes are decoded
    /// and have no slashes at either end. Without prefixes the path is returned unchanged.
    pub(crate) fn strip(self, prefixes: &[Vec<u8>]) -> Option<RequestPath> {
        if prefixes.is_empty() {
            return Some(self);
        }
        let behind = |prefix: &Vec<u8>| {
            let rest = self.bytes.strip_prefix(prefix.as_slice())?;
            match prefix.is_empty() || rest.is_empty() {
                true => Some(rest.len()),
                false => rest.strip_prefix(b"/").map(<[u8]>::len),
            }
        };
        let rest = prefixes.iter().filter_map(behind).min()?;
        let (before, rest) = self.bytes.split_at(self.bytes.len() - rest);
        let stripped = before.strip_suffix(b"/").unwrap_or(before).to_vec();
        Some(RequestPath { bytes: rest.to_vec(), stripped, ..self })
    }

    /// Returns whether the path is the URL of the root without its final `/`.
    pub(crate) fn lacks_slash(&self) -> bool {
        self.bytes.is_empty() && !self.is_directory
    }

    /// Returns the whole decoded path of the URL.
    pub(crate) fn whole(&self) -> Vec<u8> {
        match self.stripped.is_empty() || self.bytes.is_empty() {
            true => [&self.stripped[..], &self.bytes].concat(),
            false => [&self.stripped[..], b"/", &self.bytes].concat(),
        }
    }

    /// Returns whether a segment is a hidden name. `.well-known` is not hidden (RFC 8615).
    pub(crate) fn is_hidden(&self) -> bool {
        self.bytes.split(|&byte| byte == b'/').any(is_hidden)
    }

    /// Returns the URL path of the same name, as a directory or not.
    pub(crate) fn to_url(&self, is_directory: bool) -> String {
        let whole = self.whole();
        let end = if is_directory && !whole.is_empty() { "/" } else { "" };
        format!("/{}{end}", encode(&whole))
    }
}

/// Returns the canonical spelling of a path, shared by all spellings with the same meaning, such as
/// `/a/b%20c` for `//x/../%61/b%20c`. Encoded slashes separate segments.
///
/// # Errors
///
/// Fails if the path leads nowhere below any root.
pub fn canonical_path(raw: &[u8]) -> Result<String, BadPath> {
    RequestPath::parse(raw, true).map(|path| path.to_url(path.is_directory))
}

/// Returns whether a path is known to be canonical: it has nothing to decode, encode or resolve.
/// May return false for a canonical path.
pub(crate) fn is_canonical(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,:;=@/".contains(&byte);
    path.starts_with('/')
        && path.bytes().all(is_plain)
        && !path.as_bytes().windows(2).any(|two| matches!(two, b"//" | b"/."))
}

pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") && name != b".well-known"
}

/// Returns whether a path below the root is within the maximum length of a path.
pub(crate) fn fits(path: &[u8]) -> bool {
    path.len() <= PATH_MAX
}

/// Percent-encodes a path for a URL; slashes stay unencoded.
pub(crate) fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for (index, segment) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            text.push('/');
        }
        text.extend(percent_encode(segment, &ENCODED));
    }
    text
}

/// Returns the parent directory of a path below the root; empty for the root.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    &path[..slash.unwrap_or(0)]
}

/// Returns the decoded bytes of a path.
fn decode(raw: &[u8]) -> Result<Vec<u8>, BadPath> {
    let (mut rest, mut bytes) = (raw, Vec::with_capacity(raw.len()));
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let decoded = match byte {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2).ok_or(BadPath::Encoding)?;
                rest = behind;
                hex(digits[0])? << 4 | hex(digits[1])?
            }
            b'?' | b'#' => return Err(BadPath::Delimiter),
            byte => byte,
        };
        if decoded == 0 {
            return Err(BadPath::Nul);
        }
        bytes.push(decoded);
    }
    Ok(bytes)
}

fn count_slashes(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count()
}

fn hex(digit: u8) -> Result<u8, BadPath> {
    let value = char::from(digit).to_digit(16).ok_or(BadPath::Encoding)?;
    u8::try_from(value).map_err(|_| BadPath::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once_and_merged() {
        let long = format!("/{}", "a".repeat(4095));
        let cases: [(&[u8], &[u8], bool); 29] = [
            (b"/", b"", true),
            (b"///", b"", true),
            (b"/a", b"a", false),
            (b"/a/", b"a", true),
            (b"//a///b//", b"a/b", true),
            (b"/%61%2e%62", b"a.b", false),
            (b"/%2561", b"%61", false),
            (b"/%252e%252e/x", b"%2e%2e/x", false),
            (b"/a%20b c+d", b"a b c+d", false),
            (b"/\\..\\x", b"\\..\\x", false),
            (b"/%5c..%5C", b"\\..\\", false),
            (b"/\xff\xfe%80", b"\xff\xfe\x80", false),
            (b"/...", b"...", false),
            (b"/..a/.b", b"..a/.b", false),
            (b"/a%3Fb%23", b"a?b#", false),
            (b"/.", b"", true),
            (b"/./a", b"a", false),
            (b"/a/./b/.", b"a/b", true),
            (b"/a/../b", b"b", false),
            (b"/a/b/..", b"a", true),
            (b"/a/%2E%2e/b", b"b", false),
            (b"/s//../a", b"a", false),
            (b"/a/..%2fb", b"b", false),
            (b"/a%2fb", b"a/b", false),
            (b"/a%2F", b"a", true),
            (b"/%2f%2Fa", b"a", false),
            (b"/a/%252e%252e/b", b"a/%2e%2e/b", false),
            (b"/a%255c..%5c..%5cb", b"a%5c..\\..\\b", false),
            (long.as_bytes(), &long.as_bytes()[1..], false),
        ];
        for (raw, bytes, is_directory) in cases {
            let expected = RequestPath { bytes: bytes.to_vec(), is_directory, stripped: vec![] };
            let path = RequestPath::parse(raw, true);
            assert_eq!(path, Ok(expected), "{}", raw.escape_ascii());
            // Sites are selected by the same reading of paths.
            let Ok(text) = std::str::from_utf8(raw) else { continue };
            let tidied = semantics::Url::tidied(text).into_owned();
            let tidied = tidied.strip_suffix('/').unwrap_or(&tidied);
            let whole = String::from_utf8_lossy(bytes);
            assert_eq!(tidied.trim_start_matches('/'), whole, "{text}");
        }
    }

    #[test]
    fn encoded_slashes_may_be_part_of_no_name() {
        for raw in ["/a%2fb", "/a%2F", "/%2F", "/a/..%2fb", "/%2e%2e%2fetc"] {
            let path = RequestPath::parse(raw.as_bytes(), false);
            assert_eq!(path, Err(BadPath::EncodedSlash), "{raw}");
        }
        let both = [true, false].map(|slashes| RequestPath::parse(b"/a/%2e%2e/b%252f", slashes));
        assert_eq!(both[0], both[1]);
    }

    #[test]
    fn paths_that_name_nothing_are_refused() {
        let deep = "/a".repeat(SEGMENTS_MAX + 1);
        let long = format!("/{}", "a".repeat(4096));
        let cases: [(&str, BadPath); 22] = [
            ("", BadPath::NotAbsolute),
            ("a", BadPath::NotAbsolute),
            ("*", BadPath::NotAbsolute),
            ("http://a/", BadPath::NotAbsolute),
            ("/a?b", BadPath::Delimiter),
            ("/a#b", BadPath::Delimiter),
            ("/%", BadPath::Encoding),
            ("/%2", BadPath::Encoding),
            ("/%/2e", BadPath::Encoding),
            ("/%zz", BadPath::Encoding),
            ("/%+1", BadPath::Encoding),
            ("/a%00.txt", BadPath::Nul),
            ("/\0", BadPath::Nul),
            ("/..", BadPath::AboveRoot),
            ("/../a", BadPath::AboveRoot),
            ("/a/../../b", BadPath::AboveRoot),
            ("/%2e%2E/b", BadPath::AboveRoot),
            ("/.%2e/", BadPath::AboveRoot),
            ("/a/..%2f..", BadPath::AboveRoot),
            ("/%2e%2e%2fetc", BadPath::AboveRoot),
            (&deep, BadPath::TooLong),
            (&long, BadPath::TooLong),
        ];
        for (raw, why) in cases {
            assert_eq!(RequestPath::parse(raw.as_bytes(), true), Err(why), "{raw}");
        }
    }

    #[test]
    fn a_written_path_reads_back_and_never_names_a_host() {
        let cases = [
            ("//evil.example", "/evil.example"),
            ("/%5cevil.example/", "/%5Cevil.example/"),
            ("//%61/b%20c", "/a/b%20c"),
            ("/a:b/c%3Ad", "/a:b/c:d"),
            ("/x/..//a%2Fb/./c", "/a/b/c"),
            ("/%ff", "/%FF"),
            ("/%E2%82%AC", "/%E2%82%AC"),
            ("/a+b/", "/a+b/"),
            ("/", "/"),
        ];
        for (raw, expected) in cases {
            let written = canonical_path(raw.as_bytes()).unwrap();
            assert_eq!(written, expected, "{raw}");
            assert!(!is_canonical(raw) || raw == expected, "{raw}");
            let again = RequestPath::parse(written.as_bytes(), true);
            assert_eq!(again, RequestPath::parse(raw.as_bytes(), true), "{raw}");
        }
        assert!(["/", "/a/b.c/", "/-._~!$&'()*+,:;=@"].into_iter().all(is_canonical));
        let all: Vec<u8> = (1..=255).filter(|&byte| byte != b'/').collect();
        let path = RequestPath { bytes: all, is_directory: false, stripped: vec![] };
        assert_eq!(RequestPath::parse(path.to_url(false).as_bytes(), true), Ok(path));
    }

    #[test]
    fn a_beginning_is_taken_away_in_whole_segments() {
        let prefixes = [&b"s"[..], b"s/t", b".d"].map(<[u8]>::to_vec);
        for (raw, expected) in [
            ("/s/x", Some(("s", "x"))),
            ("//%73//x/", Some(("s", "x"))),
            ("/s/t/x", Some(("s/t", "x"))),
            ("/s/t/", Some(("s/t", ""))),
            ("/s/t", Some(("s/t", ""))),
            ("/s/tx", Some(("s", "tx"))),
            ("/s", Some(("s", ""))),
            ("/.d/x", Some((".d", "x"))),
            ("/sx", None),
            ("/", None),
            ("/x/s", None),
        ] {
            let path = RequestPath::parse(raw.as_bytes(), true).unwrap();
            let url = path.to_url(path.is_directory);
            let stripped = path.clone().strip(&prefixes);
            let parts = stripped.as_ref().map(|path| (&path.stripped[..], &path.bytes[..]));
            let expected = expected.map(|(a, b)| (a.as_bytes(), b.as_bytes()));
            assert_eq!(parts, expected, "{raw}");
            if let Some(stripped) = stripped {
                assert_eq!(stripped.to_url(stripped.is_directory), url, "{raw}");
                assert_eq!(stripped.lacks_slash(), ["/s/t", "/s"].contains(&raw), "{raw}");
                assert!(!stripped.is_hidden(), "{raw}");
            }
            assert_eq!(path.clone().strip(&[]), Some(path.clone()), "{raw}");
            let whole = path.clone().strip(&[Vec::new()]);
            assert_eq!(whole, Some(path), "{raw}");
        }
    }

    #[test]
    fn names_with_a_dot_are_hidden_but_for_well_known() {
        for (raw, expected) in [
            ("/.git/config", true),
            ("/a/.b", true),
            ("/%2ehtaccess", true),
            ("/.well-known/acme", false),
            ("/.well-known/.x", true),
            ("/.well-knowns", true),
            ("/...", true),
            ("/a.b", false),
            ("/", false),
        ] {
            let path = RequestPath::parse(raw.as_bytes(), true).unwrap();
            assert_eq!(path.is_hidden(), expected, "{raw}");
        }
    }
}
