//! Request targets (RFC 9112, 3.2). They are kept as received, except that non-ASCII bytes are
//! percent-encoded, as clients should have done (RFC 3986, 2.1).

use std::fmt;
use std::ops::Range;

/// The target of a request: a path, an absolute URL, an authority (CONNECT), or `*`.
///
/// The target is only split into its parts, not validated: [`RequestTarget::as_str`] returns every
/// byte of it. Path and query exclude a fragment (`#`), which requests must not have.
#[derive(Clone, Debug, Default)]
pub struct RequestTarget {
    text: String,
    /// The host given to [`RequestTarget::note_host`].
    host: String,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Range<usize>,
}

impl RequestTarget {
    /// Parses a target. `is_authority` is set if the method is CONNECT.
    pub fn read(&mut self, target: impl AsRef<[u8]>, is_authority: bool) {
        let target = target.as_ref();
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.clear();
        bytes.extend_from_slice(target);
        // Whole blocks are checked faster.
        bytes.resize(target.len().next_multiple_of(BLOCK), b' ');
        let (mut length, mut end) = (target.len(), target.len());
        if !is_plain(&bytes) {
            bytes = percent_encoded(target, |byte| byte.is_ascii()).into_bytes();
            length = bytes.len();
            end = memchr::memchr(b'#', &bytes).unwrap_or(length);
        }
        self.text = String::from_utf8(bytes).unwrap_or_default();
        self.text.truncate(length);
        let text = &*self.text;
        self.host.clear();
        (self.scheme, self.authority) = (None, None);
        self.path = 0..end;
        if text.starts_with(['/', '*']) {
            return;
        }
        if is_authority {
            self.authority = Some(0..text.len());
            self.path = text.len()..text.len();
        } else if let Some(scheme) = text.find("://") {
            let begin = scheme + "://".len();
            let path = text[begin..].find(['/', '?', '#']).map_or(text.len(), |at| begin + at);
            self.scheme = Some(0..scheme);
            self.authority = Some(begin..path);
            self.path = path..end.max(path);
        }
    }

    /// Replaces the empty path of an absolute URL without path and query by `*`, as the last proxy
    /// does for OPTIONS (RFC 9112, 3.2.4).
    pub fn name_server(&mut self) {
        if self.authority.is_some() && self.path.is_empty() {
            self.path = self.text.len()..self.text.len() + 1;
            self.text.push('*');
        }
    }

    /// Sets the scheme of a target that names one.
    pub fn set_scheme(&mut self, scheme: &str) {
        let authority = self.authority().map(str::to_owned);
        let path = self.path_and_query().to_owned();
        self.read_parts(Some(scheme), authority.as_deref(), &path);
    }

    /// Sets the target from the pseudo-header fields of HTTP/2 (RFC 9113, 8.3.1).
    pub fn read_parts(&mut self, scheme: Option<&str>, authority: Option<&str>, path: &str) {
        self.text.clear();
        self.host.clear();
        let length = |part: Option<&str>| part.map_or(0, str::len);
        self.text.reserve(length(scheme) + "://".len() + length(authority) + path.len());
        let mut push = |part: &str| {
            let begin = self.text.len();
            self.text.push_str(part);
            begin..self.text.len()
        };
        self.scheme = scheme.map(&mut push);
        if scheme.is_some() && authority.is_some() {
            push("://");
        }
        self.authority = authority.map(&mut push);
        self.path = match path.is_ascii() {
            true => push(path),
            false => push(&percent_encoded(path.as_bytes(), |byte| byte.is_ascii())),
        };
    }

    /// Takes the empty buffer for the name that [`RequestTarget::note_host`] records.
    pub fn take_host(&mut self) -> String {
        let mut host = std::mem::take(&mut self.host);
        host.clear();
        host
    }

    /// Records the name of the requested host. Keeps a copy because the name may come from a field
    /// whose text is not kept.
    pub fn note_host(&mut self, host: String) {
        self.host = host;
    }

    /// Returns the recorded host name.
    pub fn noted_host(&self) -> &str {
        &self.host
    }

    /// Returns the scheme of an absolute URL.
    pub fn scheme(&self) -> Option<&str> {
        self.scheme.clone().map(|range| &self.text[range])
    }

    /// Returns the authority, if the target has one.
    pub fn authority(&self) -> Option<&str> {
        self.authority.clone().map(|range| &self.text[range])
    }

    /// Returns path and query. They begin with `/` or `?`, or are `*` or an invalid path. Returns
    /// `/` for a URL without path and query.
    pub fn path_and_query(&self) -> &str {
        match &self.text[self.path.clone()] {
            "" if self.authority.is_some() => "/",
            path => path,
        }
    }

    /// Returns the path without its query.
    pub fn path(&self) -> &str {
        let path = self.path_and_query();
        path.split_once('?').map_or(path, |(path, _)| path)
    }

    /// Returns the whole target.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the number of bytes allocated.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.host.capacity()
    }
}

/// Number of bytes that are checked at once.
const BLOCK: usize = 16;

/// Returns whether blocks have only ASCII and no fragment.
fn is_plain(bytes: &[u8]) -> bool {
    let is_other = |byte: u8| (byte == b'#') | (byte >= 0x80);
    let has_other =
        |block: &[u8; BLOCK]| block.iter().fold(false, |has, byte| has | is_other(*byte));
    !bytes.as_chunks().0.iter().any(has_other)
}

/// Percent-encodes all bytes (RFC 3986, 2.1) except those that `is_kept` selects, which must be
/// ASCII.
pub fn percent_encoded(bytes: &[u8], is_kept: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(bytes.len() + 16);
    for byte in bytes {
        match is_kept(*byte) {
            true => encoded.push(char::from(*byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_taken_apart() {
        for (text, scheme, authority, path) in [
            ("/a?b", None, None, "/a?b"),
            ("/http://a/", None, None, "/http://a/"),
            ("*", None, None, "*"),
            ("http://a.example:81/x?y", Some("http"), Some("a.example:81"), "/x?y"),
            ("http://a.example", Some("http"), Some("a.example"), "/"),
            ("/a?b#c", None, None, "/a?b"),
            ("http://a#b", Some("http"), Some("a"), "/"),
            ("HTTP://u:p@a?x", Some("HTTP"), Some("u:p@a"), "?x"),
            ("a.example:443", None, None, "a.example:443"),
            ("?x", None, None, "?x"),
        ] {
            let mut target = RequestTarget::default();
            target.read(text, false);
            let parts = (target.scheme(), target.authority(), target.path_and_query());
            assert_eq!(parts, (scheme, authority, path), "{text}");
            assert_eq!(target.as_str(), text);
        }
        let mut target = RequestTarget::default();
        target.read("http://a.example", false);
        target.name_server();
        assert_eq!(target.path_and_query(), "*");
        target.read("a.example:443", true);
        assert_eq!((target.authority(), target.path_and_query()), (Some("a.example:443"), "/"));
        target.read_parts(Some("https"), Some("a.example"), "/x");
        assert_eq!((target.as_str(), target.path_and_query()), ("https://a.example/x", "/x"));
        target.note_host("b.example".to_owned());
        assert_eq!(target.take_host(), "");
        target.note_host("a.example".to_owned());
        assert_eq!((target.as_str(), target.noted_host()), ("https://a.example/x", "a.example"));
    }
}
