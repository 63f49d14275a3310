//! Request URLs, in the normal form that is part of the key of their object.
//!
//! Only spellings that RFC 9110 (4.2.3) and RFC 3986 (6.2) call equivalent are normalised:
//!
//! * Scheme and host are in lower case, and the default port of the scheme is omitted, as is a dot
//!   at the end of the host.
//! * Bytes beyond ASCII in path and query are percent-encoded (RFC 3987, 3.1), also as sent.
//! * An empty path becomes `/`, and there is no fragment.
//! * Percent-encoded unreserved characters are decoded, except the dot, which could form a `..`
//!   that servers treat differently. The hex digits of other encodings are in upper case.
//!
//! Two spellings that stay different cost a second copy; two resources under one key would be an
//! error.
//!
//! Servers may still distinguish equivalent spellings: one may redirect an odd spelling of a path,
//! or refuse it. A proxy must forward path and query unchanged (RFC 9110, 7.7), so a response is
//! valid for one spelling only. A URL therefore keeps the spelling beside the normal form, and the
//! key contains both: the response to `/%61` is not used for `/a`. URLs from operators have the
//! normal form only.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::{fmt, iter};

use crate::request::readings;
use crate::request::readings::decode_triplet;

/// A normalised absolute `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Url {
    /// The normal form, followed by path and query as sent to an origin, if they differ.
    text: String,
    /// Length of the normal form.
    end: usize,
    /// Start of the path: the length of scheme and authority.
    path: usize,
    /// Position after the last `/` of the path.
    directory: usize,
}

/// Stands for the spelling of a URL that only names a key. A spelling begins with `/`.
const KEYED: &str = "key-path";

/// Why a URL does not name an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadUrl {
    /// The scheme is missing or neither `http` nor `https`.
    Scheme,
    /// The authority contains a user or password (RFC 9110, 4.2.4).
    UserInfo,
    /// The host is missing or contains invalid characters.
    Host,
    /// The port is not a number from 0 to 65535.
    Port,
    /// The path does not begin with `/`, or path or query contain white space or control
    /// characters.
    Path,
}

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadUrl::Scheme => "the URL's scheme must be http or https",
            BadUrl::UserInfo => "the URL must not contain a user name or password",
            BadUrl::Host => "the URL's host is missing or malformed",
            BadUrl::Port => "the URL's port must be a number from 0 to 65535",
            BadUrl::Path => "the URL's path must begin with / and be free of white space",
        })
    }
}

impl std::error::Error for BadUrl {}

impl Url {
    /// Builds a URL from its parts (a reverse proxy's site and request target). `authority` is
    /// `host` or `host:port`; `path` includes the query, if any.
    pub fn new(scheme: &str, authority: &str, path: &str) -> Result<Url, BadUrl> {
        let (scheme, default_port) = if scheme.eq_ignore_ascii_case("http") {
            ("http", 80)
        } else if scheme.eq_ignore_ascii_case("https") {
            ("https", 443)
        } else {
            return Err(BadUrl::Scheme);
        };
        if authority.contains('@') {
            return Err(BadUrl::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        // Every request builds one, so it takes a single allocation if the spelling is normal.
        let mut text = String::with_capacity(scheme.len() + authority.len() + path.len() + 4);
        text.push_str(scheme);
        text.push_str("://");
        push_host(&mut text, host)?;
        if let Some(port) = port.filter(|&port| port != default_port) {
            let _ = write!(text, ":{port}");
        }
        let path_at = text.len();
        let path = &*ascii(path);
        push_path(&mut text, path)?;
        let query_at = text[path_at..].find('?').map_or(text.len(), |at| path_at + at);
        let directory = text[..query_at].rfind('/').map_or(query_at, |at| at + 1);
        let end = text.len();
        push_spelling(&mut text, path_at, path);
        Ok(Url { text, end, path: path_at, directory })
    }

    /// Parses a URL from text, such as an operator's `purge http://host/path`.
    pub fn parse(text: &str) -> Result<Url, BadUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadUrl::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        Self::new(scheme, &rest[..end], &rest[end..])
    }

    /// Returns the whole URL in normal form.
    pub fn as_str(&self) -> &str {
        &self.text[..self.end]
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.text.starts_with("https:") { "https" } else { "http" }
    }

    /// Returns host and port, without the scheme's default port: the value of the `Host` field.
    pub fn authority(&self) -> &str {
        &self.text[self.scheme().len() + 3..self.path]
    }

    /// Returns the path with the query, if any.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path..self.end]
    }

    /// Returns path and query as sent to an origin.
    pub fn sent(&self) -> &str {
        self.spelled().unwrap_or(self.path_and_query())
    }

    /// Returns the whole URL with path and query as sent to an origin.
    pub fn to_sent(&self) -> String {
        format!("{}{}", self.site(), self.sent())
    }

    /// Returns path and query as sent to an origin, if they differ from the normal form.
    pub fn spelled(&self) -> Option<&str> {
        (self.end < self.text.len()).then(|| &self.text[self.end..])
    }

    /// Returns this URL and its other common spellings: the normal form, and the one with
    /// percent-encodings in lower-case hex digits. A purge of the object covers all of them.
    pub fn spellings(&self) -> Vec<Url> {
        let normal = self.with_spelling(None);
        let lower = lower_escapes(self.path_and_query());
        let lower = lower.map(|spelled| self.with_spelling(Some(&spelled)));
        let mut all = vec![self.clone()];
        for other in iter::once(normal).chain(lower) {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        all
    }

    /// Returns the URL with its query mapped by `change`. An empty result removes the query.
    pub(crate) fn map_query(&self, change: impl Fn(&str) -> String) -> Url {
        let changed = |text: &str| {
            let (path, query) = split_query(text);
            let query = query.strip_prefix('?').map(&change).filter(|query| !query.is_empty());
            match query {
                Some(query) => format!("{path}?{query}"),
                None => path.to_owned(),
            }
        };
        let normal = changed(self.path_and_query());
        let spelled = self.spelled().map(changed).filter(|spelled| *spelled != normal);
        let text = format!("{}{normal}", &self.text[..self.path]);
        Url { end: text.len(), text, ..*self }.with_spelling(spelled.as_deref())
    }

    /// Returns the URL without its query.
    pub fn without_query(&self) -> Url {
        self.map_query(|_| String::new())
    }

    /// Returns the URL of a key that has `path` in place of the path of this URL, with its query;
    /// `None` if `path` is no path. It differs from every URL that a request names.
    pub fn keyed_by(&self, path: &str) -> Option<Url> {
        let (_, query) = split_query(self.path_and_query());
        let named = Url::new(self.scheme(), self.authority(), &format!("{path}{query}")).ok()?;
        Some(named.with_spelling(Some(KEYED)))
    }

    /// Returns whether [`Url::keyed_by`] made this URL.
    pub fn is_keyed(&self) -> bool {
        self.spelled() == Some(KEYED)
    }

    fn with_spelling(&self, spelled: Option<&str>) -> Url {
        let text = format!("{}{}", self.as_str(), spelled.unwrap_or(""));
        Url { text, ..*self }
    }

    /// Returns the path of a request target as most servers read it, without any query:
    /// percent-encodings decoded, dot segments resolved (RFC 3986, 5.2.4), repeated slashes merged.
    pub fn tidied(path: &str) -> Cow<'_, str> {
        match readings::usual(path) {
            Cow::Borrowed(same) => String::from_utf8_lossy(same),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Returns scheme and authority: the site, for locality and for comparing origins.
    pub fn site(&self) -> &str {
        &self.text[..self.path]
    }

    /// Returns site and directory: the part that a page shares with its embedded objects, for
    /// locality.
    pub fn group(&self) -> &str {
        &self.text[..self.directory]
    }

    /// Returns whether scheme, host and port are equal (RFC 9110, 4.3.1).
    pub fn same_origin(&self, other: &Url) -> bool {
        self.site() == other.site()
    }

    /// Resolves `reference` (the value of a `Location`) relative to this URL (RFC 3986, 5.2).
    /// Returns `None` if the result is not an `http` or `https` URL.
    pub fn resolve(&self, reference: &str) -> Option<Url> {
        let reference = reference.trim_matches([' ', '\t']);
        let reference = reference.split('#').next().unwrap_or("");
        if let Some((scheme, rest)) = split_scheme(reference) {
            return Self::resolve_network(scheme, rest.strip_prefix("//")?);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::resolve_network(self.scheme(), rest);
        }
        let (path, query) = split_query(reference);
        let (base_path, base_query) = split_query(self.path_and_query());
        let (path, query) = match path {
            "" => (base_path.to_owned(), if query.is_empty() { base_query } else { query }),
            _ if path.starts_with('/') => (without_dots(path), query),
            _ => (without_dots(&format!("{}{path}", &self.text[self.path..self.directory])), query),
        };
        Self::new(self.scheme(), self.authority(), &format!("{path}{query}")).ok()
    }

    fn resolve_network(scheme: &str, rest: &str) -> Option<Url> {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (path, query) = split_query(&rest[end..]);
        Self::new(scheme, &rest[..end], &format!("{}{query}", without_dots(path))).ok()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), BadUrl> {
    let host_end = match authority.strip_prefix('[') {
        Some(_) => authority.find(']').ok_or(BadUrl::Host)? + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(host_end);
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, None)),
        None => Err(BadUrl::Host),
        Some("") => Ok((host, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((host, Some(port.parse().map_err(|_| BadUrl::Port)?)))
        }
        Some(_) => Err(BadUrl::Port),
    }
}

/// Returns path and query with bytes beyond ASCII percent-encoded.
fn ascii(path: &str) -> Cow<'_, str> {
    if path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let mut encoded = String::with_capacity(2 * path.len());
    for byte in path.bytes() {
        match byte.is_ascii() {
            true => encoded.push(char::from(byte)),
            false => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    Cow::Owned(encoded)
}

/// Appends `host` in normal form.
fn push_host(text: &mut String, host: &str) -> Result<(), BadUrl> {
    if let Some(inside) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let address: std::net::Ipv6Addr = inside.parse().map_err(|_| BadUrl::Host)?;
        text.push_str(&format!("[{address}]"));
        return Ok(());
    }
    let is_reg_name =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    // A fully qualified name with its final dot is the same name (RFC 3986, 3.2.2).
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || !host.bytes().all(is_reg_name) {
        return Err(BadUrl::Host);
    }
    let at = text.len();
    text.push_str(host);
    text[at..].make_ascii_lowercase();
    Ok(())
}

/// Appends `path`, which may have a query, in normal form and without its fragment.
fn push_path(text: &mut String, path: &str) -> Result<(), BadUrl> {
    let path = path.split('#').next().unwrap_or("");
    if !path.starts_with('/') {
        if !path.is_empty() && !path.starts_with('?') {
            return Err(BadUrl::Path);
        }
        text.push('/');
    }
    if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(BadUrl::Path);
    }
    let before = text.len();
    if push_normal_escapes(text, path).is_none() {
        text.truncate(before);
        text.push_str(path);
    }
    Ok(())
}

/// Appends path and query as sent if they differ from the normal form, which begins at `normal`.
fn push_spelling(text: &mut String, normal: usize, path: &str) {
    let path = path.split('#').next().unwrap_or("");
    let begin = if path.starts_with('/') { "" } else { "/" };
    if text[normal..].strip_prefix(begin) != Some(path) {
        text.push_str(begin);
        text.push_str(path);
    }
}

/// Returns text in normal form with its percent-encodings in lower case; `None` if nothing changes.
fn lower_escapes(normal: &str) -> Option<String> {
    let mut lower = normal.to_owned();
    for (at, _) in normal.match_indices('%') {
        lower.get_mut(at + 1..at + 3)?.make_ascii_lowercase();
    }
    let is_it = |url: Url| lower != normal && url.path_and_query() == normal;
    Url::new("http", "a", &lower).is_ok_and(is_it).then_some(lower)
}

/// Appends `path` with normalised percent-encodings. Returns `None` if one of them is malformed;
/// the path must then stay unchanged, since a decoded byte could form a new triplet with a lone `%`
/// before it.
fn push_normal_escapes(normal: &mut String, path: &str) -> Option<()> {
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        normal.push_str(&rest[..at]);
        let byte = decode_triplet(&rest.as_bytes()[at..])?;
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            normal.push(char::from(byte));
        } else {
            normal.push_str(&format!("%{byte:02X}"));
        }
        rest = &rest[at + 3..];
    }
    normal.push_str(rest);
    Some(())
}

/// Splits `scheme:rest`; `None` for a relative reference.
fn split_scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

/// Splits a path from its query, which keeps its `?`.
fn split_query(text: &str) -> (&str, &str) {
    text.split_at(text.find('?').unwrap_or(text.len()))
}

/// Removes `.` and `..` segments (RFC 3986, 5.2.4) from a path that is empty or begins with `/`.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.iter().flat_map(|segment| ["/", segment]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> Result<String, BadUrl> {
        Url::parse(text).map(|url| url.to_string())
    }

    #[test]
    fn equivalent_spellings_are_one() {
        for (text, expected) in [
            ("http://a.example", "http://a.example/"),
            ("HTTP://A.Example:80/", "http://a.example/"),
            ("https://a.example:443/", "https://a.example/"),
            ("http://a.example:443/", "http://a.example:443/"),
            ("http://a.example:/", "http://a.example/"),
            ("http://a.example:0080/", "http://a.example/"),
            ("http://a.example?q", "http://a.example/?q"),
            ("http://a.example?", "http://a.example/?"),
            ("http://a.example/#f", "http://a.example/"),
            ("http://a.example#f", "http://a.example/"),
            ("http://a.example/%7Ea%2d%5F", "http://a.example/~a-_"),
            ("http://a.example/?%61=%2f%c3", "http://a.example/?a=%2F%C3"),
            ("http://a.example/%2e%2E/a", "http://a.example/%2E%2E/a"),
            ("http://a.example/%zz%", "http://a.example/%zz%"),
            ("http://a.example/%2541", "http://a.example/%2541"),
            ("http://a.example/%4%41", "http://a.example/%4%41"),
            ("http://a.example/A/../b//", "http://a.example/A/../b//"),
            ("http://[::0001]:80/", "http://[::1]/"),
            ("http://a_b.example/", "http://a_b.example/"),
        ] {
            assert_eq!(normal(text), Ok(expected.into()), "{text}");
            assert_eq!(normal(expected), Ok(expected.into()), "{expected} is normal already");
        }
    }

    #[test]
    fn the_spelling_that_is_sent_is_kept() {
        for (path, spelled) in [
            ("", None),
            ("?", None),
            ("?q", None),
            ("/#f", None),
            ("/a?b#f", None),
            ("/~a%2F%2E", None),
            ("/%zz%61", None),
            ("/%61", Some("/%61")),
            ("?%61#f", Some("/?%61")),
            ("/%c3%BC", Some("/%c3%BC")),
            ("/a?%2f", Some("/a?%2f")),
        ] {
            let url = Url::new("http", "a", path).unwrap();
            assert_eq!(url.spelled(), spelled, "{path}");
            assert_eq!(Url::new("http", "a", url.sent()), Ok(url), "{path}");
        }
    }

    #[test]
    fn an_object_has_its_usual_spellings() {
        let spellings = |path: &str| {
            let all = Url::new("http", "a", path).unwrap().spellings();
            all.iter().map(|url| url.sent().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(spellings("/a"), ["/a"]);
        assert_eq!(spellings("/%61"), ["/%61", "/a"]);
        assert_eq!(spellings("/%C3?%21"), ["/%C3?%21", "/%c3?%21"]);
        assert_eq!(spellings("/%c3"), ["/%c3", "/%C3"]);
        assert_eq!(spellings("/%c3%BC"), ["/%c3%BC", "/%C3%BC", "/%c3%bc"]);
        assert_eq!(spellings("/%zz%AA%"), ["/%zz%AA%"]);
    }

    #[test]
    fn urls_that_name_no_object_are_refused() {
        for (text, expected) in [
            ("a.example/", BadUrl::Scheme),
            ("ftp://a.example/", BadUrl::Scheme),
            ("http://u:p@a.example/", BadUrl::UserInfo),
            ("http://", BadUrl::Host),
            ("http:///x", BadUrl::Host),
            ("http://a b/", BadUrl::Host),
            ("http://b\u{fc}cher.example/", BadUrl::Host),
            ("http://[::1/", BadUrl::Host),
            ("http://[::1]x/", BadUrl::Host),
            ("http://[v1]/", BadUrl::Host),
            ("http://a.example:65536/", BadUrl::Port),
            ("http://a.example:x/", BadUrl::Port),
            ("http://a.example:1:2/", BadUrl::Port),
            ("http://a.example/a b", BadUrl::Path),
            ("http://a.example/\r\nx", BadUrl::Path),
        ] {
            assert_eq!(normal(text), Err(expected), "{text}");
        }
        assert_eq!(Url::new("http", "a.example", "*").unwrap_err(), BadUrl::Path);
        assert_eq!(Url::parse("/x"), Err(BadUrl::Scheme));
    }

    #[test]
    fn the_parts_are_found_again() {
        for (text, site, group, path) in [
            ("http://a:81/d/e/f?x/y", "http://a:81", "http://a:81/d/e/", "/d/e/f?x/y"),
            ("https://a/", "https://a", "https://a/", "/"),
            ("https://a/?/", "https://a", "https://a/", "/?/"),
            ("https://[::1]/x", "https://[::1]", "https://[::1]/", "/x"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.site(), url.group()), (site, group));
            assert_eq!(url.path_and_query(), path);
            assert_eq!(format!("{}://{}{path}", url.scheme(), url.authority()), text);
        }
    }

    #[test]
    fn a_tidy_path_has_one_spelling() {
        for (path, expected) in [
            ("/a/b?c/../d", "/a/b"),
            ("/a/../b", "/b"),
            ("//a///b/", "/a/b/"),
            ("/%2e%2E/%61dmin", "/admin"),
            ("/x/%2e%2e%2fadmin", "/admin"),
            ("/x/..", "/"),
            ("/%zz%4", "/%zz%4"),
            ("/%c3%bc", "/\u{fc}"),
            ("/%ff", "/\u{fffd}"),
            ("?q", "/"),
        ] {
            let sent = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            assert_eq!(Url::tidied(&sent), expected, "{path}");
        }
    }

    #[test]
    fn references_resolve_as_in_rfc_3986() {
        // RFC 3986, 5.4.1 and 5.4.2, with the fragments removed.
        let base = Url::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("g;x?y#s", "http://a/b/c/g;x?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://B:443/x/../y", "https://b/y"),
        ] {
            let resolved = base.resolve(reference).map(|url| url.to_string());
            assert_eq!(resolved.as_deref(), Some(expected), "{reference}");
        }
        for reference in ["g:h", "http:g", "mailto:a@b", "a b"] {
            assert_eq!(base.resolve(reference), None, "{reference}");
        }
    }
}
