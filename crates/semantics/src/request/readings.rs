//! The readings of a path: the ways in which servers may interpret one spelling.
//!
//! Servers interpret paths differently. Some decode percent-encodings before they resolve dot
//! segments, some after. Some treat `\` as `/`, remove path parameters (`/account;x=1`), or merge
//! repeated slashes, in different orders. The behaviour of an origin is not known, so a rule that
//! no spelling may evade is compared with every reading.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use crate::request::scanned_path::ScannedPath;

/// One way to interpret a path. All of them decode percent-encodings and resolve dot segments
/// (RFC 3986, 5.2.4).
#[derive(Clone, Copy)]
struct Reading {
    parameters: Parameters,
    /// True if `\` separates segments.
    backslash: bool,
    /// True if an encoded separator separates segments; otherwise it is part of one.
    encoded: bool,
    /// True if repeated slashes are merged before dot segments are resolved; otherwise, after.
    merge_first: bool,
}

/// The treatment of `;` and the rest of its segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameters {
    Keep,
    /// Removed if the `;` is not encoded.
    RemovePlain,
    /// Removed after decoding.
    RemoveDecoded,
}

const USUAL: Reading =
    Reading { parameters: Parameters::Keep, backslash: false, encoded: true, merge_first: true };

/// Returns the path without query as most servers read it: percent-encodings decoded, dot segments
/// resolved, repeated slashes merged.
pub(crate) fn usual(path: &str) -> Cow<'_, [u8]> {
    match ScannedPath::new(path).unambiguous() {
        Some(path) => Cow::Borrowed(path.as_bytes()),
        None => Cow::Owned(read(without_query(path), USUAL)),
    }
}

/// The readings of one path. Most paths have a single one, which needs no allocation.
pub type Readings<'a> = SmallVec<[Cow<'a, [u8]>; 1]>;

/// Returns the path without query as written, followed by its other readings.
pub fn readings(path: ScannedPath<'_>) -> Readings<'_> {
    if let Some(path) = path.unambiguous() {
        return smallvec![Cow::Borrowed(path.as_bytes())];
    }
    let path = without_query(path.text);
    let mut all: Readings<'_> = smallvec![Cow::Borrowed(path.as_bytes())];
    let has = |plain: char, encoded: &str| {
        let triplets = || path.as_bytes().windows(3);
        path.contains(plain) || triplets().any(|it| it.eq_ignore_ascii_case(encoded.as_bytes()))
    };
    let parameters = match has(';', "%3b") {
        true => &[Parameters::Keep, Parameters::RemovePlain, Parameters::RemoveDecoded][..],
        false => &[Parameters::Keep],
    };
    let backslashes = if has('\\', "%5c") { &[false, true][..] } else { &[false] };
    let encoded = if path.contains('%') { &[true, false][..] } else { &[true] };
    for &parameters in parameters {
        for &backslash in backslashes {
            for &encoded in encoded {
                for merge_first in [true, false] {
                    let way = Reading { parameters, backslash, encoded, merge_first };
                    let reading = Cow::Owned(read(path, way));
                    if !all.contains(&reading) {
                        all.push(reading);
                    }
                }
            }
        }
    }
    all
}

/// A reading of a path, with the URL that it makes with the query: path and query.
#[derive(Clone, Debug)]
pub struct UrlReading<'a> {
    /// The path without query.
    pub path: &'a [u8],
    /// Path and query; only the path if the query is not compared.
    pub url: Cow<'a, [u8]>,
}

/// The readings of a path and its query.
pub type UrlReadings<'a> = SmallVec<[UrlReading<'a>; 1]>;

/// Returns the readings of a path alone.
pub fn of_path<'a>(readings: &'a Readings<'_>) -> UrlReadings<'a> {
    readings.iter().map(|path| UrlReading { path, url: Cow::Borrowed(&**path) }).collect()
}

/// Returns each of the `readings` of a path with its query: as written, and decoded as a form
/// (`%3d` and `=`, `+` and a space). The order of parameters stays.
pub fn with_query<'a>(path: &'a str, readings: &'a Readings<'_>) -> UrlReadings<'a> {
    let Some(query) = path.find('?').map(|at| &path.as_bytes()[at..]) else {
        return of_path(readings);
    };
    let decoded = query.iter().any(|byte| matches!(byte, b'%' | b'+')).then(|| decoded(query));
    let mut all = UrlReadings::new();
    for (at, reading) in readings.iter().enumerate() {
        // The first reading is the path as written.
        let written = match at {
            0 => Cow::Borrowed(path.as_bytes()),
            _ => Cow::Owned([reading, query].concat()),
        };
        all.push(UrlReading { path: reading, url: written });
        if let Some(decoded) = &decoded {
            all.push(UrlReading {
                path: reading,
                url: Cow::Owned([reading, &decoded[..]].concat()),
            });
        }
    }
    all
}

/// Decodes the percent-encodings and plus signs of a query.
fn decoded(query: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(query.len());
    let mut rest = query;
    while let Some((&first, tail)) = rest.split_first() {
        let triplet = (first == b'%').then(|| decode_triplet(rest)).flatten();
        decoded.push(triplet.unwrap_or(if first == b'+' { b' ' } else { first }));
        rest = if triplet.is_some() { &rest[3..] } else { tail };
    }
    decoded
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

fn read(path: &str, way: Reading) -> Vec<u8> {
    let separates = |byte: u8| byte == b'/' || (way.backslash && byte == b'\\');
    let mut decoded = Vec::with_capacity(path.len());
    let (mut rest, mut in_parameters) = (path.as_bytes(), false);
    while let Some((&first, tail)) = rest.split_first() {
        let triplet = (first == b'%').then(|| decode_triplet(rest)).flatten();
        let byte = triplet.unwrap_or(first);
        let whole = if triplet.is_some() { &rest[..3] } else { &rest[..1] };
        rest = if triplet.is_some() { &rest[3..] } else { tail };
        let is_plain = triplet.is_none();
        let is_separator = separates(byte) && (is_plain || way.encoded);
        // Parameters that are removed before decoding end only at an unencoded separator.
        let ends = is_separator && (is_plain || way.parameters != Parameters::RemovePlain);
        let begins = byte == b';'
            && match way.parameters {
                Parameters::Keep => false,
                Parameters::RemovePlain => is_plain,
                Parameters::RemoveDecoded => true,
            };
        in_parameters = (in_parameters && !ends) || begins;
        match byte {
            _ if in_parameters => {}
            _ if is_separator => decoded.push(b'/'),
            _ if separates(byte) => decoded.extend(whole.iter().map(u8::to_ascii_uppercase)),
            other => decoded.push(other),
        }
    }
    resolved(&decoded, way.merge_first)
}

/// Resolves the dot segments of a path that is empty or begins with `/`, and merges repeated
/// slashes.
fn resolved(path: &[u8], merge_first: bool) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    kept.pop();
                }
                if is_last {
                    kept.push(b"");
                }
            }
            b"" if merge_first && !is_last => {}
            _ => kept.push(segment),
        }
    }
    let last = kept.len().saturating_sub(1);
    let merged = kept.iter().enumerate().filter(|(at, segment)| !segment.is_empty() || *at == last);
    merged.flat_map(|(_, segment)| [b"/", *segment]).flatten().copied().collect()
}

/// Decodes the `%xx` at the start of `text`.
pub(crate) fn decode_triplet(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(1)? * 16 + digit(2)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &str) -> Vec<String> {
        let all = readings(ScannedPath::new(path));
        all.iter().map(|reading| String::from_utf8_lossy(reading).into_owned()).collect()
    }

    #[test]
    fn a_plain_path_has_one_reading() {
        assert_eq!(all("/a/b.css?c;d/../e%2f"), ["/a/b.css"]);
        assert_eq!(all("*"), ["*", ""]);
    }

    #[test]
    fn every_server_is_found() {
        for (path, reading) in [
            ("/account;x=1/page", "/account/page"),
            ("/account;x=1", "/account"),
            ("/;x/account", "/account"),
            ("/static/..;/account", "/account"),
            ("/account;/../static", "/static"),
            ("/static;%2f../account", "/static/account"),
            ("/static;%2f../account", "/account"),
            ("/account%3Bx/page", "/account/page"),
            ("/account%3Bx/page", "/account;x/page"),
            ("/static\\..\\account", "/account"),
            ("/static/..%5caccount", "/account"),
            ("/static/%2e%2e%5C%61ccount", "/account"),
            ("/x%2fy/../account", "/account"),
            ("/x%2fy/../account", "/x/account"),
            ("/s//../account", "/account"),
            ("/s//../account", "/s/account"),
            ("/s//x//../../account", "/s/account"),
            ("//account/", "/account/"),
            ("/x/.", "/x/"),
        ] {
            assert!(all(path).contains(&reading.to_owned()), "{path} {:?}", all(path));
        }
        assert!(!all("/a%252fb").contains(&"/a/b".to_owned()), "encodings are decoded once");
    }

    #[test]
    fn a_query_is_read_as_written_and_decoded() {
        let urls = |path: &str| -> Vec<String> {
            let readings = readings(ScannedPath::new(path));
            let all = with_query(path, &readings);
            all.iter().map(|one| String::from_utf8_lossy(&one.url).into_owned()).collect()
        };
        assert_eq!(urls("/a"), ["/a"]);
        assert_eq!(urls("/a?b=c&d"), ["/a?b=c&d"]);
        assert_eq!(urls("/a?b%3Dc+d%2"), ["/a?b%3Dc+d%2", "/a?b=c d%2"]);
        assert_eq!(urls("/a;x?b%26"), ["/a;x?b%26", "/a;x?b&", "/a?b%26", "/a?b&"]);
    }

    #[test]
    fn a_path_has_a_bounded_number_of_readings() {
        let path = "/%3b;%5c\\%2f//../x;/..\\y%2f..;//z";
        assert!(readings(ScannedPath::new(path)).len() <= 25);
    }
}
