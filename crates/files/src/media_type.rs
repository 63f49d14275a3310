//! Media types by file name extension (RFC 9110, 8.3).
//!
//! The table comes from the crate `mime-infer`: the table of `mime_guess`, which has had no release
//! since 2024, kept up to date by the authors of a web framework (`text/javascript` of RFC 9239,
//! `image/avif`, `application/yaml`). The alternative `mime-db` was rejected because its build
//! fetches from the network. Where an entry of the table differs from other web servers to a user's
//! harm, our own entry comes first.
//!
//! Text types are declared as UTF-8. Without a charset browsers guess, and a wrong guess can be a
//! security hole (scripts in UTF-7). For files in another encoding, set the type in
//! [`crate::Options`].

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The type of a file of unknown type; browsers save such a file.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Entries that take precedence over the table.
const OURS: [(&str, &str); 1] = [
    // MPEG transport streams, as in HLS and as other web servers declare them.
    ("ts", "video/mp2t"),
];

/// The media types for the files of one root.
#[derive(Clone, Debug)]
pub(crate) struct MediaTypes {
    /// Types chosen by the operator, by extension in lower case.
    chosen: BTreeMap<String, String>,
    /// The type for names with an unknown extension or none.
    default: String,
}

impl MediaTypes {
    /// Creates a table in which the operator's entries take precedence; `default` is the type of
    /// names without an entry.
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

/// Returns the usual `Content-Type` of a file, by the extension of its name.
pub fn usual_type_of(path: &std::path::Path) -> Cow<'static, str> {
    MediaTypes::new(&BTreeMap::new(), UNKNOWN).of(path.as_os_str().as_encoded_bytes())
}

/// Returns whether a text is valid as the value of `Content-Type`.
pub(crate) fn is_valid(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    compression::is_media_type(essence) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Returns the extension of a path's last name in lower case. A leading dot marks a hidden file and
/// does not begin an extension.
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

    /// Tests all extensions of up to three characters, which most extensions are.
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
