//! The target of a request line (RFC 9112, 3.2), as it came but for bytes beyond ASCII, which are
//! percent-encoded as clients should have done (RFC 3986, 2.1).

use std::fmt;
use std::ops::Range;

/// What a request asks for: a path, a whole URL, an authority (CONNECT), or `*`.
///
/// No form is judged here beyond finding its parts: every byte that a request line can hold is
/// kept. A fragment (`#`), which no request has, is part of what it stands in.
#[derive(Clone, Debug, Default)]
pub struct RequestTarget {
    text: String,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Range<usize>,
}

impl RequestTarget {
    /// Reads a target. `is_authority`: the method is CONNECT.
    pub fn read(&mut self, text: &str, is_authority: bool) {
        self.text.clear();
        self.text.push_str(text);
        (self.scheme, self.authority) = (None, None);
        self.path = 0..text.len();
        if text.starts_with(['/', '*']) {
            return;
        }
        if is_authority {
            self.authority = Some(0..text.len());
            self.path = text.len()..text.len();
        } else if let Some(scheme) = text.find("://") {
            let begin = scheme + "://".len();
            let end = text[begin..].find(['/', '?', '#']).map_or(text.len(), |at| begin + at);
            self.scheme = Some(0..scheme);
            self.authority = Some(begin..end);
            self.path = end..text.len();
        }
    }

    /// Makes it of the pseudo-header fields of HTTP/2 (RFC 9113, 8.3.1).
    pub fn of_parts(scheme: Option<&str>, authority: Option<&str>, path: &str) -> RequestTarget {
        let mut target = RequestTarget::default();
        let mut push = |part: &str| {
            let begin = target.text.len();
            target.text.push_str(part);
            begin..target.text.len()
        };
        let scheme = scheme.map(&mut push);
        if scheme.is_some() && authority.is_some() {
            push("://");
        }
        let authority = authority.map(&mut push);
        let path = push(path);
        RequestTarget { scheme, authority, path, ..target }
    }

    /// Returns its scheme, if it is a whole URL.
    pub fn scheme(&self) -> Option<&str> {
        self.scheme.clone().map(|range| &self.text[range])
    }

    /// Returns its authority, if it names one.
    pub fn authority(&self) -> Option<&str> {
        self.authority.clone().map(|range| &self.text[range])
    }

    /// Returns path and query: they begin with `/` or `?`, or are `*`, empty, or no path.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path.clone()]
    }

    /// Returns all of it as it was sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the bytes of memory that it keeps.
    pub fn capacity(&self) -> usize {
        self.text.capacity()
    }
}

impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
            ("http://a.example", Some("http"), Some("a.example"), ""),
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
        target.read("a.example:443", true);
        assert_eq!((target.authority(), target.path_and_query()), (Some("a.example:443"), ""));
        let target = RequestTarget::of_parts(Some("https"), Some("a.example"), "/x");
        assert_eq!((target.as_str(), target.path_and_query()), ("https://a.example/x", "/x"));
    }
}
