//! Media types by the extension of a file's name (RFC 9110, 8.3).
//!
//! The table is that of the crate `mime-infer`: the table of `mime_guess`, which had no release
//! since 2024, kept up to date by the makers of a web framework (`text/javascript` of RFC 9239,
//! `image/avif`, `application/yaml`). `mime-db` was another choice: its build fetches from the
//! network. Where the table has an entry that web servers differ from to a user's harm, ours comes
//! first.
//!
//! Text is said to be UTF-8: without a word browsers guess, and a wrong guess of one is a hole
//! (scripts in UTF-7). Files in another encoding get their type by [`crate::Options`].

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What is said of a file that nothing is known of: browsers save it.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Entries that come before the table's.
const OURS: [(&str, &str); 1] = [
    // MPEG transport streams, as HLS has them, and as web servers say.
    ("ts", "video/mp2t"),
];

/// The types of the files of one root.
#[derive(Clone, Debug)]
pub(crate) struct MediaTypes {
    /// By extension in lower case.
    chosen: BTreeMap<String, String>,
    /// The type of names whose extension says nothing, or that have none.
    default: String,
}

impl MediaTypes {
    /// Makes a table with an operator's own entries before all others, and the type of names that
    /// no entry is for.
    pub(crate) fn new(chosen: &BTreeMap<String, String>, default: &str) -> MediaTypes {
        let lower =
            |(extension, text): (&String, &String)| (extension.to_ascii_lowercase(), text.clone());
        MediaTypes { chosen: chosen.iter().map(lower).collect(), default: default.to_owned() }
    }

    /// Returns the value of `Content-Type` for a path.
    pub(crate) fn of(&self, path: &[u8]) -> Cow<'static, str> {
        let unknown = || self.default.clone().into();
        let Some(extension) = extension(path) else { return unknown() };
        if let Some(text) = self.chosen.get(&extension) {
            return text.clone().into();
        }
        let ours = OURS.iter().find(|(known, _)| *known == extension).map(|(_, text)| *text);
        match ours.or_else(|| mime_infer::from_ext(&extension).first_raw()) {
            Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8").into(),
            Some(text) => text.into(),
            None => unknown(),
        }
    }
}

/// Returns whether a text can be the value of `Content-Type`.
pub(crate) fn is_valid(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_token = |part: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(is_letter)
    };
    let of_two = essence.split_once('/').is_some_and(|(top, sub)| is_token(top) && is_token(sub));
    of_two && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Returns the extension of a path's last name in lower case. A dot at its beginning hides a file
/// and begins no extension.
fn extension(path: &[u8]) -> Option<String> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    std::str::from_utf8(&name[dot + 1..]).ok().map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_by_extension() {
        let types = MediaTypes::new(&BTreeMap::new(), UNKNOWN);
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.c/INDEX.HTM", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.wasm", "application/wasm"),
            ("a.svg", "image/svg+xml"),
            ("a.woff2", "font/woff2"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.tar.gz", "application/gzip"),
            ("a.avif", "image/avif"),
            ("a.ts", "video/mp2t"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.no-such-thing", UNKNOWN),
            ("README", UNKNOWN),
            ("a.d/README", UNKNOWN),
            (".html", UNKNOWN),
            ("a.", UNKNOWN),
        ] {
            assert_eq!(types.of(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(types.of(b"a.\xff"), UNKNOWN);
        assert_eq!(types.of(b"\xff.png"), "image/png");
    }

    #[test]
    fn an_operators_types_come_first() {
        let chosen = [("TS", "text/plain"), ("x", "text/html; charset=iso-8859-1")];
        let chosen = chosen.map(|(extension, text)| (extension.to_owned(), text.to_owned()));
        let types = MediaTypes::new(&chosen.into(), "text/plain; charset=utf-8");
        assert_eq!(types.of(b"a.ts"), "text/plain");
        assert_eq!(types.of(b"a.X"), "text/html; charset=iso-8859-1");
        assert_eq!(types.of(b"a.png"), "image/png");
        for path in ["README", "a.b/c", "a.unknown-one", ".x"] {
            assert_eq!(types.of(path.as_bytes()), "text/plain; charset=utf-8", "{path}");
        }
    }

    /// Tries the extensions of up to three letters, which most are.
    #[test]
    fn every_type_of_the_table_can_be_sent() {
        let letters = || ('a'..='z').chain('0'..='9').map(Some).chain([None]);
        for (a, b) in letters().flat_map(|a| letters().map(move |b| (a, b))) {
            for c in letters() {
                let extension: String = [a, b, c].into_iter().flatten().collect();
                let text = MediaTypes::new(&BTreeMap::new(), UNKNOWN)
                    .of(format!("a.{extension}").as_bytes());
                assert!(is_valid(&text), "{extension}: {text}");
            }
        }
    }
}
