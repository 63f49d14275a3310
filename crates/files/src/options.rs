//! The options of a document root.

use std::collections::BTreeMap;
use std::fmt;

use crate::media_type;
use crate::pattern::{BadPattern, Pattern};
use crate::{Coding, Compress};

/// The statuses of responses without a file, besides the one at the end of `try_files`.
const ERROR_STATUSES: [u16; 8] = [400, 403, 404, 405, 412, 416, 500, 503];

/// The symbolic links below the root that are followed. The root itself may be a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// None: paths through a link are forbidden.
    Never,
    /// Links that stay inside the root at each step. An absolute link does if it begins with the
    /// root's own path.
    #[default]
    Inside,
    /// All links, wherever they lead.
    Anywhere,
}

/// The options of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Prefixes of URL paths that are not part of the path below the root (nginx's `alias`):
    /// decoded, whole segments, without slashes at either end. If there are any, other paths lead
    /// nowhere.
    pub strip: Vec<Vec<u8>>,
    /// Index files of a directory; the first one that exists is used.
    pub index: Vec<String>,
    /// Lists directories that have no index file; if false, they are forbidden.
    pub listing: bool,
    /// Answers `/about` with `about.html` if there is no file `about`. Used only if `try_files` is
    /// empty.
    pub clean_urls: bool,
    /// The patterns to try, in order; the last one may be a status. If empty: the path as a file,
    /// with `clean_urls` also with `.html` appended, then as a directory.
    pub try_files: Vec<Pattern>,
    /// Treats paths with a name that begins with a dot as missing, except `.well-known`.
    pub hide_dotfiles: bool,
    /// Lets `%2F` in a URL path separate names like `/`; if false, such a path leads nowhere.
    pub encoded_slashes: bool,
    /// The policy for symbolic links.
    pub symlinks: Symlinks,
    /// The codings of precompressed siblings to look for.
    pub precompressed: Vec<Coding>,
    /// The files to compress if no sibling exists.
    pub compress: Compress,
    /// The file used as the body of a response with this status, as a path below the root that
    /// begins with `/`.
    pub error_pages: BTreeMap<u16, String>,
    /// Media types by extension without the dot, sent exactly as given.
    pub media_types: BTreeMap<String, String>,
    /// The media type of files with an unknown extension or none.
    pub default_type: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            strip: Vec::new(),
            index: vec!["index.html".to_owned()],
            listing: false,
            clean_urls: false,
            try_files: Vec::new(),
            hide_dotfiles: true,
            encoded_slashes: true,
            symlinks: Symlinks::default(),
            precompressed: Coding::ALL.to_vec(),
            compress: Compress::default(),
            error_pages: BTreeMap::new(),
            media_types: BTreeMap::new(),
            default_type: media_type::UNKNOWN.to_owned(),
        }
    }
}

/// Why options are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadOptions {
    /// The name of an index file is empty, `.`, `..` or too long, or contains a slash or NUL.
    Index(String),
    /// A status precedes the end of `try_files`.
    StatusFirst,
    /// An error page is given for a status that no response has.
    ErrorStatus(u16),
    /// The path of an error page is invalid.
    ErrorPage(String, BadPattern),
    /// An extension is empty, or contains a dot, a slash or white space.
    Extension(String),
    /// The media type for an extension is invalid.
    MediaType(String),
    /// The default media type is invalid.
    DefaultType(String),
    /// A media type to compress is invalid.
    CompressType(String),
    /// The minimum size to compress is larger than the maximum.
    CompressSizes,
}

impl fmt::Display for BadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadOptions::Index(name) => write!(f, "{name:?} is not a valid name of an index file"),
            BadOptions::StatusFirst => f.write_str("a status may only come last"),
            BadOptions::ErrorStatus(status) => {
                let known = ERROR_STATUSES.map(|status| status.to_string()).join(", ");
                write!(
                    f,
                    "{status} has no error page: the statuses of files are {known}, and the one at \
                     the end of try-files"
                )
            }
            BadOptions::ErrorPage(path, why) => {
                write!(f, "{path:?} is not a valid path of an error page: {why}")
            }
            BadOptions::Extension(text) => write!(
                f,
                "{text:?} is not an extension (such as \
                                                      \"md\")"
            ),
            BadOptions::CompressSizes => {
                f.write_str("the minimum size to compress is above the maximum")
            }
            BadOptions::MediaType(text)
            | BadOptions::DefaultType(text)
            | BadOptions::CompressType(text) => {
                write!(f, "{text:?} is not a media type (such as \"text/plain\")")
            }
        }
    }
}

impl std::error::Error for BadOptions {}

impl Options {
    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    ///
    /// Returns the first invalid option.
    pub fn check(&self) -> Result<(), BadOptions> {
        if let Some(name) = self.index.iter().find(|name| !is_name(name)) {
            return Err(BadOptions::Index(name.clone()));
        }
        if self.try_files.iter().rev().skip(1).any(|pattern| pattern.status().is_some()) {
            return Err(BadOptions::StatusFirst);
        }
        let last = self.try_files.last().and_then(Pattern::status);
        let is_answered = |status: &u16| ERROR_STATUSES.contains(status) || last == Some(*status);
        if let Some(status) = self.error_pages.keys().find(|status| !is_answered(status)) {
            return Err(BadOptions::ErrorStatus(*status));
        }
        self.error_patterns()?;
        let types = &self.compress.types;
        if let Some(text) = types.iter().find(|text| !compression::is_media_type(text)) {
            return Err(BadOptions::CompressType(text.clone()));
        }
        if self.compress.least > self.compress.most {
            return Err(BadOptions::CompressSizes);
        }
        for (extension, text) in &self.media_types {
            if !is_name(extension) || extension.contains(|c: char| c == '.' || c.is_whitespace()) {
                return Err(BadOptions::Extension(extension.clone()));
            }
            if !media_type::is_valid(text) {
                return Err(BadOptions::MediaType(text.clone()));
            }
        }
        match media_type::is_valid(&self.default_type) {
            true => Ok(()),
            false => Err(BadOptions::DefaultType(self.default_type.clone())),
        }
    }

    /// Returns the patterns to try, including the default ones.
    pub(crate) fn patterns(&self) -> Vec<Pattern> {
        if !self.try_files.is_empty() {
            return self.try_files.clone();
        }
        let html = self.clean_urls.then(Pattern::html);
        [Some(Pattern::file()), html, Some(Pattern::directory())].into_iter().flatten().collect()
    }

    pub(crate) fn error_patterns(&self) -> Result<BTreeMap<u16, Pattern>, BadOptions> {
        let parse = |(status, path): (&u16, &String)| {
            let bad = |why| BadOptions::ErrorPage(path.clone(), why);
            let pattern: Pattern = path.parse().map_err(bad)?;
            let is_fixed = pattern.is_fixed_file();
            is_fixed.then_some((*status, pattern)).ok_or_else(|| bad(BadPattern::Start))
        };
        self.error_pages.iter().map(parse).collect()
    }
}

/// Returns whether a text is a valid file name.
fn is_name(text: &str) -> bool {
    (1..=255).contains(&text.len()) && !matches!(text, "." | "..") && !text.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_tries_file_and_directory() {
        let options = Options::default();
        assert_eq!(options.check(), Ok(()));
        assert_eq!(options.patterns(), [Pattern::file(), Pattern::directory()]);
        let clean = Options { clean_urls: true, ..Options::default() };
        let expected = [Pattern::file(), Pattern::html(), Pattern::directory()];
        assert_eq!(clean.patterns(), expected);
        let chosen = Options { try_files: vec!["/x".parse().unwrap()], ..clean };
        assert_eq!(chosen.patterns(), chosen.try_files);
    }

    #[test]
    fn bad_choices_are_named() {
        let of = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check()
        };
        for name in ["", ".", "..", "a/b", "a\0", &"a".repeat(256)] {
            let got = of(&|options| options.index = vec!["ok".into(), name.into()]);
            assert_eq!(got, Err(BadOptions::Index(name.into())));
        }
        let patterns = ["=404", "$uri"].map(|text| text.parse::<Pattern>().unwrap());
        let got = of(&|options| options.try_files = patterns.to_vec());
        assert_eq!(got, Err(BadOptions::StatusFirst));
        let got = of(&|options| drop(options.error_pages.insert(200, "/a".into())));
        assert_eq!(got, Err(BadOptions::ErrorStatus(200)));
        let with_page = |options: &mut Options| drop(options.error_pages.insert(410, "/a".into()));
        assert_eq!(of(&with_page), Err(BadOptions::ErrorStatus(410)));
        let got = of(&|options| {
            with_page(options);
            options.try_files = vec!["$uri".parse().unwrap(), "=410".parse().unwrap()];
        });
        assert_eq!(got, Ok(()));
        for path in ["a", "$uri", "/a/", "=404"] {
            let got = of(&|options| drop(options.error_pages.insert(404, path.into())));
            assert_eq!(got, Err(BadOptions::ErrorPage(path.into(), BadPattern::Start)));
        }
        let got = of(&|options| drop(options.error_pages.insert(404, "/../a".into())));
        assert_eq!(got, Err(BadOptions::ErrorPage("/../a".into(), BadPattern::Path)));
        for extension in ["", ".md", "a b", "a/b"] {
            let insert = |o: &mut Options| o.media_types.insert(extension.into(), "a/b".into());
            let got = of(&|options| drop(insert(options)));
            assert_eq!(got, Err(BadOptions::Extension(extension.into())));
        }
        for text in ["", "text", "text/plain; charset=utf-8", "text/*"] {
            let got = of(&|options| options.compress.types.push(text.into()));
            assert_eq!(got, Err(BadOptions::CompressType(text.into())));
        }
        assert_eq!(of(&|options| options.compress.least = 1), Err(BadOptions::CompressSizes));
        for text in ["", "text", "text/", "/plain", "text/plain\n", "a b/c", "text/é"] {
            let got = of(&|options| drop(options.media_types.insert("md".into(), text.into())));
            assert_eq!(got, Err(BadOptions::MediaType(text.into())));
            let got = of(&|options| options.default_type = text.into());
            assert_eq!(got, Err(BadOptions::DefaultType(text.into())));
        }
    }
}
