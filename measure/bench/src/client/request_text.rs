//! The wire form of a request: the text of HTTP/1, and the message of HTTP/2.

use std::fmt::{self, Arguments};
use std::io::Write;

use bytes::Bytes;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Uri};

use super::expectation::Expectation;
use crate::object::{Condition, FIRST_MODIFIED, Method, REQUEST_FIELD, date};

/// Body size of a POST in bytes.
const POSTED: usize = 1_024;

/// How requests name the target.
#[derive(Clone, Debug)]
pub struct Addressing {
    /// The `Host` field.
    pub host: String,
    /// The prefix of the path in requests to forward proxies; empty for reverse proxies.
    pub prefix: String,
    /// The first segment of all paths.
    pub run: String,
    /// True if HTTP/1.0 is used; connections are persistent nevertheless.
    pub is_http10: bool,
    /// Additional fields of each request.
    pub fields: &'static [(&'static str, &'static str)],
}

/// Passes each field of a request to `give`, except that of the host.
fn each_field(
    addressing: &Addressing,
    of: &Expectation,
    mut give: impl FnMut(&'static str, Arguments<'_>),
) {
    let Expectation { number, object, method, condition, range, sent, .. } = of;
    addressing.fields.iter().for_each(|(name, value)| give(name, format_args!("{value}")));
    give(REQUEST_FIELD, format_args!("{number}"));
    if let Some((from, to)) = range {
        give("Range", format_args!("bytes={from}-{}", to - 1));
    }
    let modified =
        || object.life().map_or(FIRST_MODIFIED, |life| life.modified(life.version(*sent)));
    match condition {
        Condition::None => {}
        Condition::Since200 => {
            let before = date(modified().saturating_sub(86_400));
            give("If-Modified-Since", format_args!("{before}"));
        }
        Condition::Since304 => give("If-Modified-Since", format_args!("{}", date(modified()))),
        Condition::Reload => {
            give("Cache-Control", format_args!("no-cache"));
            give("Pragma", format_args!("no-cache"));
        }
    }
    if *method == Method::Post {
        give("Content-Length", format_args!("{POSTED}"));
    }
}

/// Writes the request for an expected response. `path` is a scratch buffer.
pub fn write_request(
    text: &mut Vec<u8>,
    path: &mut String,
    addressing: &Addressing,
    expected: &Expectation,
) {
    path.clear();
    expected.object.write_path(&addressing.run, path);
    let Addressing { host, prefix, is_http10, .. } = addressing;
    let (minor, keep) = if *is_http10 { (0, "Connection: keep-alive\r\n") } else { (1, "") };
    let method = expected.method.name();
    // Writing to memory cannot fail.
    let _ = write!(text, "{method} {prefix}{path} HTTP/1.{minor}\r\nHost: {host}\r\n{keep}");
    each_field(addressing, expected, |name, value| {
        let _ = write!(text, "{name}: {value}\r\n");
    });
    text.extend_from_slice(b"\r\n");
    if expected.method == Method::Post {
        text.resize(text.len() + POSTED, b'x');
    }
}

/// Returns the same request as an HTTP/2 message, with its body.
///
/// # Errors
/// Fails if the host cannot be part of a URI.
pub fn http2_request(
    addressing: &Addressing,
    expected: &Expectation,
) -> Result<(http::Request<()>, Option<Bytes>), http::Error> {
    let mut path = String::new();
    expected.object.write_path(&addressing.run, &mut path);
    let uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(&*addressing.host)
        .path_and_query(PathAndQuery::try_from(path)?)
        .build()?;
    let mut request = http::Request::builder().method(expected.method.name()).uri(uri).body(())?;
    each_field(addressing, expected, |name, value| {
        let value = HeaderValue::try_from(fmt::format(value));
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value) {
            request.headers_mut().append(name, value);
        }
    });
    let body = (expected.method == Method::Post).then(|| Bytes::from_static(&[b'x'; POSTED]));
    Ok((request, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn reverse() -> Addressing {
        Addressing {
            host: "h:1".into(),
            prefix: String::new(),
            run: "b".into(),
            is_http10: false,
            fields: &[],
        }
    }

    fn get() -> Expectation {
        let object = Object { id: 7, size: 900, ..Object::default() };
        Expectation { number: 12, object, sent: 1_700_000_000, ..Expectation::default() }
    }

    fn written(addressing: &Addressing, expected: &Expectation) -> String {
        let (mut text, mut path) = (Vec::new(), String::new());
        write_request(&mut text, &mut path, addressing, expected);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn requests_say_what_is_asked() {
        let forward = Addressing { prefix: "http://h:1".into(), ..reverse() };
        let plain = "GET /b/0/7-900.bin HTTP/1.1\r\nHost: h:1\r\nBench-Request: 12\r\n\r\n";
        assert_eq!(written(&reverse(), &get()), plain);
        let proxied = written(&forward, &get());
        assert!(proxied.starts_with("GET http://h:1/b/0/7-900.bin HTTP/1.1\r\n"));
        let browser =
            written(&Addressing { fields: &testkit::browser::FIELDS, ..reverse() }, &get());
        assert!(browser.contains("\r\naccept-encoding: gzip, deflate, br, zstd\r\n"), "{browser}");
        let old = written(&Addressing { is_http10: true, ..reverse() }, &get());
        let expected = "HTTP/1.0\r\nHost: h:1\r\nConnection: keep-alive\r\nBench-Request";
        assert!(old.contains(expected), "{old}");
        let same = Expectation { condition: Condition::Since304, ..get() };
        let same = written(&reverse(), &same);
        assert!(same.contains("If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n"), "{same}");
        let part = written(&reverse(), &Expectation { range: Some((5, 10)), ..get() });
        assert!(part.contains("Range: bytes=5-9\r\n"), "{part}");
        let post = written(&reverse(), &Expectation { method: Method::Post, ..get() });
        assert!(post.starts_with("POST ") && post.contains("Content-Length: 1024\r\n\r\nxxx"));
    }

    #[test]
    fn messages_of_http_2_have_the_same_fields() {
        let asked = Expectation { condition: Condition::Reload, range: Some((5, 10)), ..get() };
        let (request, body) = http2_request(&reverse(), &asked).unwrap();
        assert_eq!(request.uri(), "http://h:1/b/0/7-900.bin");
        let field = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        assert_eq!((field("bench-request"), field("range")), ("12".into(), "bytes=5-9".into()));
        assert_eq!((field("pragma"), body), ("no-cache".into(), None));
        let post = Expectation { method: Method::Post, ..get() };
        assert_eq!(
            http2_request(&reverse(), &post).unwrap().1.map(|body| body.len()),
            Some(POSTED)
        );
    }
}
