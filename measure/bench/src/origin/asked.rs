//! A request to the origin, parsed from its head.

use crate::object::{Object, REQUEST_FIELD};

/// Maximum number of fields in a head.
const FIELDS: usize = 64;

/// A request.
#[derive(Debug, PartialEq)]
pub struct Asked {
    /// Length of the head in bytes.
    pub head_len: usize,
    /// Length of the following body in bytes.
    pub body_len: u64,
    /// The number that the client gave it; `None` for a request that a cache made on its own.
    pub number: Option<u64>,
    /// The requested object; `None` if the path names none.
    pub object: Option<Object>,
    /// True if the method is HEAD.
    pub is_head: bool,
    /// The requested part of the body.
    pub range: Option<RangeAsked>,
    /// The version that the client has, by its entity tag.
    pub has_version: Option<u64>,
    /// When the client's version was created, in seconds since 1970.
    pub modified_since: Option<u64>,
    /// True if the connection is closed after the response.
    pub close: bool,
}

/// A requested part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeAsked {
    /// From a byte on, up to and including another one if it is given.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl RangeAsked {
    /// Returns the first byte and the one after the last in a body of `size`; `None` if the part is
    /// empty.
    pub fn within(self, size: u64) -> Option<(u64, u64)> {
        let (from, to) = match self {
            RangeAsked::From(from, last) => {
                (from, last.map_or(size, |last| last.saturating_add(1)).min(size))
            }
            RangeAsked::Last(bytes) => (size.saturating_sub(bytes), size),
        };
        (from < to).then_some((from, to))
    }

    fn read(text: &str) -> Option<RangeAsked> {
        // Multiple ranges are ignored: the whole body is a valid response.
        let (from, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        match (from, last) {
            ("", bytes) => Some(RangeAsked::Last(bytes.parse().ok()?)),
            (from, "") => Some(RangeAsked::From(from.parse().ok()?, None)),
            (from, last) => Some(RangeAsked::From(from.parse().ok()?, Some(last.parse().ok()?))),
        }
    }
}

impl Asked {
    /// Parses the head of a request; returns `Ok(None)` while it is incomplete.
    ///
    /// # Errors
    /// Fails if it is not an HTTP/1 request, or has a body without a length.
    pub fn read(bytes: &[u8]) -> Result<Option<Asked>, String> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let status = request.parse(bytes).map_err(|error| error.to_string())?;
        let httparse::Status::Complete(head_len) = status else { return Ok(None) };
        let path = request.path.unwrap_or_default();
        // A request through a forward proxy may contain the absolute URL.
        let path = match path.strip_prefix("http://") {
            Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => path,
        };
        let mut asked = Asked {
            head_len,
            body_len: 0,
            number: None,
            object: Object::read_path(path),
            is_head: request.method == Some("HEAD"),
            range: None,
            has_version: None,
            modified_since: None,
            close: request.version == Some(0),
        };
        for field in request.headers.iter() {
            asked.note(field.name, field.value)?;
        }
        Ok(Some(asked))
    }

    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let text = || std::str::from_utf8(value).map_or("", str::trim);
        if is(REQUEST_FIELD) {
            self.number = text().parse().ok();
        } else if is("content-length") {
            self.body_len = text().parse().map_err(|_| format!("a length of {:?}", text()))?;
        } else if is("transfer-encoding") {
            return Err("a body without a length".to_owned());
        } else if is("range") {
            self.range = RangeAsked::read(text());
        } else if is("if-none-match") {
            let tag = text().trim_start_matches("W/").trim_matches('"');
            self.has_version = u64::from_str_radix(tag, 16).ok();
        } else if is("if-modified-since") {
            let date = httpdate::parse_http_date(text()).ok();
            let since = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
            self.modified_since = since.map(|since| since.as_secs());
        } else if is("connection") {
            self.close |= text().eq_ignore_ascii_case("close");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fields: &str) -> Asked {
        let text = format!("GET /b/1/7-900.gif HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        Asked::read(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_head_is_read() {
        let found = asked("bench-request: 12\r\nIf-None-Match: W/\"1f\"\r\nRange: bytes=5-9\r\n");
        assert_eq!((found.number, found.has_version), (Some(12), Some(31)));
        assert_eq!(found.range, Some(RangeAsked::From(5, Some(9))));
        assert_eq!(found.object.map(|object| (object.id, object.size)), Some((7, 900)));
        let found = asked("If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n");
        assert_eq!((found.modified_since, found.close), (Some(1_000_000_000), false));
        assert!(asked("Connection: close\r\n").close);
        let whole = b"HEAD http://h:1/b/1/7-900.gif HTTP/1.1\r\nHost: h\r\n\r\nrest";
        let found = Asked::read(whole).unwrap().unwrap();
        assert!(found.is_head && found.object.is_some());
        assert_eq!(found.head_len, whole.len() - 4);
        assert_eq!(Asked::read(b"GET / HT").unwrap(), None);
        assert!(Asked::read(b"\x01\x02 / HTTP/1.1\r\n\r\n").is_err());
    }

    #[test]
    fn parts_are_those_of_the_rfc() {
        let within = |text: &str| RangeAsked::read(text).and_then(|range| range.within(10));
        assert_eq!(within("bytes=0-0"), Some((0, 1)));
        assert_eq!(within("bytes=5-99"), Some((5, 10)));
        assert_eq!(within("bytes=5-"), Some((5, 10)));
        assert_eq!(within("bytes=-3"), Some((7, 10)));
        assert_eq!(within("bytes=10-"), None);
        assert_eq!(within("bytes=1-2,4-5"), None);
    }
}
