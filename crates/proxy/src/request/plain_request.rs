//! A plain request: a GET of HTTP/1.1 without a body, without conditions, and without anything else
//! that changes what a fresh stored answer to it is, nor how one that is fetched is sent. It is
//! read off the bytes, without a map of its fields, by the parser that hyper uses, set as hyper
//! sets it.
//!
//! What is not plain may be good or bad: hyper and `exchange::dispatch` find out. So it is safe to
//! call too little plain; what is called plain must be what they would take for the same request.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Uri};
use httparse::{Header, Status};
use semantics::{Fields, Settings, facts};

/// Fields of a plain request at most: as many as anybody sends who means it.
const FIELDS_MAX: usize = 64;

/// What was needed for one request of a connection, and is used again for the next.
#[derive(Default)]
pub(crate) struct Spare {
    /// Room for heads.
    text: BytesMut,
    pub fields: HeaderMap,
}

/// Bytes of heads for which there is room at first.
const TEXT_ROOM: usize = 1024;

/// Fields that may be added to a request's own.
const FIELDS_ADDED: usize = 4;

/// Room for the fields of a plain request.
pub(crate) type Room<'a> = [MaybeUninit<Header<'a>>; FIELDS_MAX];

/// Makes room for the fields of a plain request.
pub(crate) const fn room<'a>() -> Room<'a> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// A plain request.
#[derive(Debug, PartialEq)]
pub(crate) struct PlainRequest<'a, 'r> {
    /// Its head, which is all of it.
    pub text: &'a [u8],
    /// Its fields, in their order.
    pub fields: &'r [Header<'a>],
    /// What the request line asks for.
    target: &'a str,
    /// The one value of `Host`.
    pub host: &'a str,
    /// The URL's authority, if the request line has a whole URL, whose scheme is `http`.
    pub authority: Option<&'a str>,
    /// Path and query.
    pub path: &'a str,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    pub selecting: Selecting<'a>,
}

/// The fields of a request that answers usually vary by, and that nobody removes or changes on the
/// way: so what they select is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selecting<'a> {
    /// The lines of each of [`SELECTING`]; none where there are several.
    lines: [Line<'a>; SELECTING.len()],
}

/// The lines of one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line<'a> {
    #[default]
    None,
    One(&'a [u8]),
    Several,
}

/// See [`Selecting`].
const SELECTING: [&str; 5] = ["accept", "accept-encoding", "accept-language", "cookie", "origin"];

impl<'a> Selecting<'a> {
    /// Returns the only line of a field, if there is one; `None` when it cannot be told.
    pub fn line(&self, name: &str) -> Option<Option<&'a [u8]>> {
        match self.lines[SELECTING.iter().position(|known| *known == name)?] {
            Line::None => Some(None),
            Line::One(line) => Some(Some(line)),
            Line::Several => None,
        }
    }

    /// Takes a field in, if it is one of them.
    fn note(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
        let Some(at) = SELECTING.iter().position(is) else { return };
        self.lines[at] = match self.lines[at] {
            Line::None => Line::One(value),
            Line::One(_) | Line::Several => Line::Several,
        };
    }
}

impl<'a, 'r> PlainRequest<'a, 'r> {
    /// Reads the request at the beginning of `bytes`, which is wholly there, with its fields in
    /// `room`; returns `None` when it is not plain.
    pub fn read(bytes: &'a [u8], room: &'r mut Room<'a>) -> Option<PlainRequest<'a, 'r>> {
        if !bytes.starts_with(b"GET ") {
            return None;
        }
        let mut parsed = httparse::Request::new(&mut []);
        let parsing = parsed.parse_with_uninit_headers(bytes, room);
        let Ok(Status::Complete(length)) = parsing else { return None };
        if parsed.version != Some(1) {
            return None;
        }
        let target = parsed.path?;
        let (authority, path) = split_target(target)?;
        let mut hosts = 0;
        let mut request = PlainRequest {
            text: &bytes[..length],
            fields: parsed.headers,
            target,
            host: "",
            authority,
            path,
            referer: None,
            user_agent: None,
            selecting: Selecting::default(),
        };
        for field in request.fields {
            hosts += u32::from(field.name.eq_ignore_ascii_case("host"));
            request.take(field.name.as_bytes(), field.value)?;
        }
        // A second one, be it empty or the same, is an error.
        (hosts == 1 && !request.host.is_empty()).then_some(request)
    }

    /// Returns whether a field of it identifies the client.
    pub fn is_identified(&self, settings: &Settings) -> bool {
        self.fields.iter().any(|field| facts::identifies(field.name, settings))
    }

    /// Returns its head as hyper makes it of the same bytes; `None` where it is none to hyper.
    pub fn to_parts(&self, spare: &mut Spare) -> Option<Parts> {
        if spare.text.capacity() < self.text.len() {
            // All of what was made before, if nobody needs it any more.
            spare.text.reserve(self.text.len().max(TEXT_ROOM));
        }
        spare.text.extend_from_slice(self.text);
        let text = spare.text.split().freeze();
        let within = |part: &[u8]| {
            let begin = part.as_ptr() as usize - self.text.as_ptr() as usize;
            text.slice(begin..begin + part.len())
        };
        let mut fields = std::mem::take(&mut spare.fields);
        fields.clear();
        fields.reserve(self.fields.len() + FIELDS_ADDED);
        for field in self.fields {
            let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
            fields.append(name, HeaderValue::from_maybe_shared(within(field.value)).ok()?);
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.uri = Uri::from_maybe_shared(within(self.target.as_bytes())).ok()?;
        parts.headers = fields;
        Some(parts)
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
            6 | 15 => self.selecting.note(name, value),
            _ => {}
        }
        Some(())
    }
}

impl Fields for PlainRequest<'_, '_> {
    fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|field| (field.name, field.value))
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
        8 => &["cdn-loop"],
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

    fn is_plain(text: &[u8]) -> bool {
        PlainRequest::read(text, &mut room()).is_some()
    }

    fn of(fields: &str) -> String {
        format!("GET /a?b HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
    }

    #[test]
    fn what_matters_is_taken_out() {
        let text = of("User-Agent: x\r\nReferer: y\r\nReferer: z\r\nConnection: Keep-Alive\r\n");
        let behind = format!("{text}GET /next");
        let mut fields = room();
        let request = PlainRequest::read(behind.as_bytes(), &mut fields).unwrap();
        let PlainRequest { text: head, fields, host, authority, path, .. } = request;
        assert_eq!(
            (head, fields.len(), host, authority, path),
            (text.as_bytes(), 5, "a.example", None, "/a?b")
        );
        let PlainRequest { referer, user_agent, .. } = request;
        assert_eq!((referer, user_agent), (Some(&b"y"[..]), Some(&b"x"[..])));
        let made = request.to_parts(&mut Spare::default()).unwrap();
        let referers = made.headers.get_all("referer").iter();
        assert_eq!(referers.collect::<Vec<_>>(), ["y", "z"]);
        assert_eq!((made.uri, made.headers.len()), (Uri::from_static("/a?b"), 5));
        let text = of("").replace("/a?b", "http://a.example:81/a");
        let mut fields = room();
        let request = PlainRequest::read(text.as_bytes(), &mut fields).unwrap();
        assert_eq!((request.authority, request.path), (Some("a.example:81"), "/a"));
    }

    #[test]
    fn what_selects_a_variant_is_told_where_it_is_one_line() {
        let text =
            of("ACCEPT: a\r\nCookie: b\r\ncookie: b\r\nOrigin:\r\nX-A: c\r\nAccept-X: d\r\n");
        let mut fields = room();
        let selecting = PlainRequest::read(text.as_bytes(), &mut fields).unwrap().selecting;
        for (name, line) in [
            ("accept", Some(Some(&b"a"[..]))),
            ("accept-encoding", Some(None)),
            ("accept-language", Some(None)),
            ("cookie", None),
            ("origin", Some(Some(b""))),
            ("x-a", None),
            ("user-agent", None),
        ] {
            assert_eq!(selecting.line(name), line, "{name}");
        }
        assert!(SELECTING.iter().all(|name| [6, 15].contains(&name.len())));
    }

    #[test]
    fn a_part_of_a_request_is_none() {
        let text = of("Accept: */*\r\n");
        for length in 0..text.len() {
            assert!(!is_plain(&text.as_bytes()[..length]), "{length}");
        }
    }

    #[test]
    fn what_may_be_answered_otherwise_is_not_plain() {
        for name in [
            "TE",
            "Via",
            "CDN-Loop",
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
            assert!(!is_plain(text.as_bytes()), "{name}");
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
            assert!(!is_plain(text.as_bytes()), "{text:?}");
        }
        for hosts in ["Host:\r\nHost: a\r\n", "Host: a\r\nHost:\r\n", "Host: a\r\nhost: a\r\n"] {
            let text = of("").replace("Host: a.example\r\n", hosts);
            assert!(!is_plain(text.as_bytes()), "{text:?}");
        }
        let many = of(&"X: y\r\n".repeat(FIELDS_MAX));
        assert!(!is_plain(many.as_bytes()));
    }
}
