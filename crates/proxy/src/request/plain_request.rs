//! A plain request: a GET of HTTP/1.1 without a body, without conditions, and without anything else
//! that changes what a fresh stored answer to it is. It is read off the bytes, without a map of its
//! fields, by the parser that hyper uses, set as hyper sets it.
//!
//! What is not plain may be good or bad: hyper and `exchange::dispatch` find out. So it is safe to
//! call too little plain; what is called plain must be what they would take for the same request.

use std::mem::MaybeUninit;

use httparse::Status;

/// Fields of a plain request at most: as many as anybody sends who means it.
const FIELDS_MAX: usize = 64;

/// A plain request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlainRequest<'a> {
    /// Bytes of its head, which is all of it.
    pub length: usize,
    /// Number of its fields.
    pub fields: usize,
    /// The one value of `Host`.
    pub host: &'a str,
    /// The URL's authority, if the request line has a whole URL, whose scheme is `http`.
    pub authority: Option<&'a str>,
    /// Path and query.
    pub path: &'a str,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
}

impl<'a> PlainRequest<'a> {
    /// Reads the request at the beginning of `bytes`, which is wholly there; returns `None` when it
    /// is not plain.
    pub fn read(bytes: &'a [u8]) -> Option<PlainRequest<'a>> {
        if !bytes.starts_with(b"GET ") {
            return None;
        }
        let mut fields = [MaybeUninit::uninit(); FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        let parsing = parsed.parse_with_uninit_headers(bytes, &mut fields);
        let Ok(Status::Complete(length)) = parsing else { return None };
        if parsed.version != Some(1) {
            return None;
        }
        let (authority, path) = split_target(parsed.path?)?;
        let mut hosts = 0;
        let mut request = PlainRequest {
            length,
            fields: parsed.headers.len(),
            host: "",
            authority,
            path,
            referer: None,
            user_agent: None,
        };
        for field in &*parsed.headers {
            hosts += u32::from(field.name.eq_ignore_ascii_case("host"));
            request.take(field.name.as_bytes(), field.value)?;
        }
        // A second one, be it empty or the same, is an error.
        (hosts == 1 && !request.host.is_empty()).then_some(request)
    }

    /// Takes a field in; returns `None` when it makes the request one that is not plain.
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> Option<()> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            4 if is("host") => self.host = std::str::from_utf8(value).ok()?,
            7 if is("referer") => _ = self.referer.get_or_insert(value),
            10 if is("user-agent") => _ = self.user_agent.get_or_insert(value),
            10 if is("connection") => {
                value.eq_ignore_ascii_case(b"keep-alive").then_some(())?;
            }
            _ if decides(name) => return None,
            _ => {}
        }
        Some(())
    }
}

/// Returns whether a field of this name may change what is done with a GET whose answer is stored
/// and fresh: it frames a body, is about the connection, sets a condition, asks for a part, says
/// how fresh an answer must be, says who asks, or by whom the request came.
fn decides(name: &[u8]) -> bool {
    let known: &[&str] = match name.len() {
        2 => &["te"],
        3 => &["via"],
        5 => &["range"],
        6 => &["expect", "pragma"],
        7 => &["upgrade", "trailer"],
        12 => &["max-forwards"],
        13 => &["authorization", "cache-control"],
        14 => &["content-length", "http2-settings"],
        17 => &["transfer-encoding"],
        19 => &["proxy-authorization"],
        _ => &[],
    };
    let is_condition = name.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case(b"if-"));
    is_condition || known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Splits a request's target in origin form or absolute form into authority and path.
fn split_target(target: &str) -> Option<(Option<&str>, &str)> {
    if target.starts_with('/') {
        return Some((None, target));
    }
    let rest = target.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    Some((Some(authority), path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(fields: &str) -> String {
        format!("GET /a?b HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
    }

    #[test]
    fn what_matters_is_taken_out() {
        let text = of("User-Agent: x\r\nReferer: y\r\nReferer: z\r\nConnection: Keep-Alive\r\n");
        let behind = format!("{text}GET /next");
        let request = PlainRequest::read(behind.as_bytes()).unwrap();
        let PlainRequest { length, fields, host, authority, path, referer, user_agent } = request;
        assert_eq!(
            (length, fields, host, authority, path),
            (text.len(), 5, "a.example", None, "/a?b")
        );
        assert_eq!((referer, user_agent), (Some(&b"y"[..]), Some(&b"x"[..])));
        let text = of("").replace("/a?b", "http://a.example:81/a");
        let request = PlainRequest::read(text.as_bytes()).unwrap();
        assert_eq!((request.authority, request.path), (Some("a.example:81"), "/a"));
    }

    #[test]
    fn a_part_of_a_request_is_none() {
        let text = of("Accept: */*\r\n");
        for length in 0..text.len() {
            assert_eq!(PlainRequest::read(&text.as_bytes()[..length]), None, "{length}");
        }
    }

    #[test]
    fn what_may_be_answered_otherwise_is_not_plain() {
        for name in [
            "TE",
            "Via",
            "Range",
            "Expect",
            "Pragma",
            "Upgrade",
            "If-Match",
            "If-None-Match",
            "If-Modified-Since",
            "if-unmodified-since",
            "IF-RANGE",
            "If-Anything",
            "Max-Forwards",
            "Authorization",
            "Cache-Control",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "Host",
            "Proxy-Authorization",
            "Trailer",
        ] {
            let text = of(&format!("{name}: 0\r\n"));
            assert_eq!(PlainRequest::read(text.as_bytes()), None, "{name}");
        }
        for (from, to) in [
            ("GET", "HEAD"),
            ("GET", "get"),
            ("GET", "\r\nGET"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("/a?b", "*"),
            ("/a?b", "https://a.example/"),
            ("/a?b", "http://a.example"),
            ("/a?b", "HTTP://a.example/"),
            ("Host: a.example\r\n", ""),
            ("Host:", "Host :"),
            ("a.example", ""),
            ("Host: ", "Host: a\r\n b"),
            ("a.example", "a\0b"),
        ] {
            let text = of("").replacen(from, to, 1);
            assert_eq!(PlainRequest::read(text.as_bytes()), None, "{text:?}");
        }
        for hosts in ["Host:\r\nHost: a\r\n", "Host: a\r\nHost:\r\n", "Host: a\r\nhost: a\r\n"] {
            let text = of("").replace("Host: a.example\r\n", hosts);
            assert_eq!(PlainRequest::read(text.as_bytes()), None, "{text:?}");
        }
        let many = of(&"X: y\r\n".repeat(FIELDS_MAX));
        assert_eq!(PlainRequest::read(many.as_bytes()), None);
    }
}
