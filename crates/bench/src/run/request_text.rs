//! The text of a request.

use std::io::Write;

use crate::object::{Ask, Condition, FIRST_MODIFIED, Method, REQUEST_FIELD, date};

/// Bytes of the body of a POST.
const POSTED: usize = 1_024;

/// How the target is addressed.
#[derive(Clone, Debug)]
pub struct Addressing {
    /// The `Host` field.
    pub host: String,
    /// Before the path, in the form that forward proxies are asked with; empty for reverse ones.
    pub prefix: String,
    /// The first part of all paths.
    pub run: String,
}

/// Writes a request with this number, at a time in seconds since 1970. `path` is room for the path.
pub fn write_request(
    text: &mut Vec<u8>,
    path: &mut String,
    addressing: &Addressing,
    ask: &Ask,
    number: u64,
    now: u64,
) {
    path.clear();
    ask.object.write_path(&addressing.run, path);
    let method = match ask.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
    };
    let Addressing { host, prefix, .. } = addressing;
    // Writing to memory does not fail.
    let _ = write!(
        text,
        "{method} {prefix}{path} HTTP/1.1\r\nHost: {host}\r\n{REQUEST_FIELD}: {number}\r\n"
    );
    if let Some((from, to)) = ask.range {
        let _ = write!(text, "Range: bytes={from}-{}\r\n", to - 1);
    }
    let modified =
        || ask.object.life().map_or(FIRST_MODIFIED, |life| life.modified(life.version(now)));
    match ask.condition {
        Condition::None => {}
        Condition::Since200 => {
            let before = date(modified().saturating_sub(86_400));
            let _ = write!(text, "If-Modified-Since: {before}\r\n");
        }
        Condition::Since304 => {
            let _ = write!(text, "If-Modified-Since: {}\r\n", date(modified()));
        }
        Condition::Reload => {
            text.extend_from_slice(b"Cache-Control: no-cache\r\nPragma: no-cache\r\n");
        }
    }
    if ask.method == Method::Post {
        let _ = write!(text, "Content-Length: {POSTED}\r\n");
    }
    text.extend_from_slice(b"\r\n");
    if ask.method == Method::Post {
        text.resize(text.len() + POSTED, b'x');
    }
}

#[test]
fn requests_say_what_is_asked() {
    use crate::object::Object;

    let reverse = Addressing { host: "h:1".into(), prefix: String::new(), run: "b".into() };
    let forward = Addressing { prefix: "http://h:1".into(), ..reverse.clone() };
    let object = Object { id: 7, size: 900, ..Object::default() };
    let ask = Ask { object, ..Ask::default() };
    let written = |addressing: &Addressing, ask: &Ask| {
        let (mut text, mut path) = (Vec::new(), String::new());
        write_request(&mut text, &mut path, addressing, ask, 12, 1_700_000_000);
        String::from_utf8(text).unwrap()
    };
    let plain = "GET /b/0/7-900.bin HTTP/1.1\r\nHost: h:1\r\nBench-Request: 12\r\n\r\n";
    assert_eq!(written(&reverse, &ask), plain);
    assert!(written(&forward, &ask).starts_with("GET http://h:1/b/0/7-900.bin HTTP/1.1\r\n"));
    let same = written(&reverse, &Ask { condition: Condition::Since304, ..ask });
    assert!(same.contains("If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n"), "{same}");
    let part = written(&reverse, &Ask { range: Some((5, 10)), ..ask });
    assert!(part.contains("Range: bytes=5-9\r\n"), "{part}");
    let post = written(&reverse, &Ask { method: Method::Post, ..ask });
    assert!(post.starts_with("POST ") && post.contains("Content-Length: 1024\r\n\r\nxxx"));
}
