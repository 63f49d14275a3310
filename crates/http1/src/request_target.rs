//! The target of a request line (RFC 9112, 3.2), as it came but for bytes beyond ASCII, which are
//! percent-encoded as clients should have done (RFC 3986, 2.1).

use std::fmt;
use std::ops::Range;

/// The target of a request: a path, a whole URL, an authority (CONNECT), or `*`.
///
/// No form is judged here beyond finding its parts: every byte that a request line can hold is
/// kept, but for a fragment (`#`), which no request has.
#[derive(Clone, Debug, Default)]
pub struct RequestTarget {
    /// The target as it came, and behind it what [`RequestTarget::note_host`] was given.
    text: String,
    length: usize,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Range<usize>,
}

impl RequestTarget {
    /// Reads a target. `is_authority`: the method is CONNECT.
    pub fn read(&mut self, text: &str, is_authority: bool) {
        self.text.clear();
        self.text.push_str(text);
        self.length = text.len();
        (self.scheme, self.authority) = (None, None);
        self.path = 0..text.len();
        let end = text.find('#').unwrap_or(text.len());
        self.path.end = end;
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

    /// Makes a whole URL without path and query ask about the server: as the last proxy does for an
    /// OPTIONS (RFC 9112, 3.2.4).
    pub fn name_server(&mut self) {
        if self.authority.is_some() && self.path.is_empty() {
            self.text.truncate(self.length);
            self.path = self.length..self.length + 1;
            self.text.push('*');
            self.length += 1;
        }
    }

    /// Reads the pseudo-header fields of HTTP/2 (RFC 9113, 8.3.1).
    pub fn read_parts(&mut self, scheme: Option<&str>, authority: Option<&str>, path: &str) {
        self.text.clear();
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
        self.length = self.text.len();
    }

    /// Notes the name of the host that the request is for. It may come from a field, of which no
    /// text is kept otherwise.
    pub fn note_host(&mut self, host: &str) {
        self.text.truncate(self.length);
        self.text.push_str(host);
    }

    /// Notes the part of the authority that is the name of the host.
    pub fn note_host_of_authority(&mut self, part: Range<usize>) {
        self.text.truncate(self.length);
        let begin = self.authority.as_ref().map_or(0, |authority| authority.start);
        self.text.extend_from_within(begin + part.start..begin + part.end);
    }

    /// Returns the name that was noted.
    pub fn noted_host(&self) -> &str {
        &self.text[self.length..]
    }

    /// Returns its scheme, if it is a whole URL.
    pub fn scheme(&self) -> Option<&str> {
        self.scheme.clone().map(|range| &self.text[range])
    }

    /// Returns its authority, if it names one.
    pub fn authority(&self) -> Option<&str> {
        self.authority.clone().map(|range| &self.text[range])
    }

    /// Returns path and query: they begin with `/` or `?`, or are `*`, or no path. A URL without a
    /// path has `/`.
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

    /// Returns all of it as it was sent.
    pub fn as_str(&self) -> &str {
        &self.text[..self.length]
    }

    /// Returns the bytes of memory that it keeps.
    pub fn capacity(&self) -> usize {
        self.text.capacity()
    }
}

/// Percent-encodes bytes (RFC 3986, 2.1) but for those that are kept, which are ASCII.
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
        target.note_host("b.example");
        target.note_host("a.example");
        assert_eq!((target.as_str(), target.noted_host()), ("https://a.example/x", "a.example"));
    }
}
