//! The origin's response: a pure function of the request and the time.

use std::fmt::Write;

use super::asked::Asked;
use crate::object::{ANSWER_FIELD, Content, FIRST_MODIFIED, Object, date as date_of};

/// A response: its head, and the part of a body that follows.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The head.
    pub head: String,
    /// The body, its first byte, and the one after its last.
    pub body: Option<(Content, u64, u64)>,
    /// True if the connection is closed after the response.
    pub close: bool,
    /// True if the connection is closed in the middle of the body.
    pub is_cut: bool,
}

impl Answer {
    /// Returns the length of the body in bytes.
    pub fn body_len(&self) -> u64 {
        self.body.map_or(0, |(_, from, to)| to - from)
    }

    /// Returns the number of body bytes that are sent.
    pub fn sent_len(&self) -> u64 {
        if self.is_cut { self.body_len() / 2 } else { self.body_len() }
    }
}

/// Returns the response to a request at a time in seconds since 1970, with `date` as its text.
/// `close` makes it the last one on its connection.
pub fn answer(asked: &Asked, now: u64, date: &str, close: bool) -> Answer {
    let mut head = String::with_capacity(400);
    let close = close || asked.close;
    let body = match &asked.object {
        Some(object) => found(asked, object, now, date, &mut head),
        None => {
            // Writing to a string cannot fail.
            let _ = write!(
                head,
                "HTTP/1.1 404 Not Found\r\nDate: {date}\r\nCache-Control: no-store\r\n\
                 Content-Length: 0\r\n"
            );
            None
        }
    };
    if close {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("\r\n");
    Answer { head, body, close, is_cut: false }
}

fn found(
    asked: &Asked,
    object: &Object,
    now: u64,
    date: &str,
    head: &mut String,
) -> Option<(Content, u64, u64)> {
    let version = object.version(now);
    let modified = object.life().map_or(FIRST_MODIFIED, |life| life.modified(version));
    let is_current = match (asked.has_version, asked.modified_since) {
        (Some(has), _) => has == version,
        (None, Some(since)) => since >= modified,
        (None, None) => false,
    };
    let part = asked.range.filter(|_| !is_current).map(|range| range.within(object.size));
    let (status, body) = match part {
        _ if is_current => ("304 Not Modified", None),
        None => ("200 OK", Some((0, object.size))),
        Some(Some(part)) => ("206 Partial Content", Some(part)),
        Some(None) => ("416 Range Not Satisfiable", Some((0, 0))),
    };
    let _ = write!(head, "HTTP/1.1 {status}\r\nDate: {date}\r\nETag: \"{version:x}\"\r\n");
    let _ = write!(head, "Last-Modified: {}\r\n", date_of(modified));
    let number = asked.number.unwrap_or(0);
    let _ = write!(head, "{ANSWER_FIELD}: {number}.{version}\r\n");
    let _ = match (object.uncacheable, object.life()) {
        (true, _) => write!(head, "Cache-Control: no-store\r\n"),
        (false, None) => write!(head, "Cache-Control: max-age=86400\r\n"),
        (false, Some(life)) => write!(head, "Expires: {}\r\n", date_of(life.expires(version))),
    };
    let (from, to) = body?;
    let _ = write!(
        head,
        "Content-Type: {}\r\nContent-Length: {}\r\n",
        object.kind.media_type(),
        to - from
    );
    match part {
        Some(Some(_)) => {
            let _ = write!(head, "Content-Range: bytes {from}-{}/{}\r\n", to - 1, object.size);
        }
        Some(None) => {
            let _ = write!(head, "Content-Range: bytes */{}\r\n", object.size);
        }
        None => {}
    }
    (!asked.is_head && from < to).then(|| (object.content(version), from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::date;

    const NOW: u64 = 1_700_000_000;

    fn answered(path: &str, fields: &str) -> Answer {
        let text = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        answer(&Asked::read(text.as_bytes()).unwrap().unwrap(), NOW, &date_of(NOW), false)
    }

    #[test]
    fn an_object_is_answered_with_its_version() {
        let found = answered("/b/1/7-900.html", "Bench-Request: 5\r\n");
        assert!(found.head.starts_with("HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT"));
        for field in [
            "ETag: \"0\"",
            "Bench-Answer: 5.0",
            "Cache-Control: max-age=86400",
            "Content-Length: 900",
            "Content-Type: text/html",
        ] {
            assert!(found.head.contains(&format!("\r\n{field}\r\n")), "{}", found.head);
        }
        assert_eq!(found.body, Some((Content::of(7, 0), 0, 900)));
        assert!(answered("/b/1/7-900-u.html", "").head.contains("Cache-Control: no-store\r\n"));
        assert!(answered("/other", "").head.starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_version_lives_until_it_expires() {
        let object = Object { id: 7, size: 900, cycle: 60, ..Object::default() };
        let life = object.life().unwrap();
        let version = life.version(NOW);
        let found = answered("/b/0/7-900-l60.bin", "");
        assert!(found.head.contains(&format!("Expires: {}\r\n", date(life.expires(version)))));
        assert!(
            found.head.contains(&format!("Last-Modified: {}\r\n", date(life.modified(version))))
        );
        assert_eq!(found.body, Some((Content::of(7, version), 0, 900)));
        let same = answered("/b/0/7-900-l60.bin", &format!("If-None-Match: \"{version:x}\"\r\n"));
        assert!(same.head.starts_with("HTTP/1.1 304") && same.body.is_none());
        let since = date(life.modified(version) - 1);
        let older = answered("/b/0/7-900-l60.bin", &format!("If-Modified-Since: {since}\r\n"));
        assert!(older.head.starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn a_part_is_answered_as_a_part() {
        let found = answered("/b/1/7-900.html", "Range: bytes=100-199\r\n");
        assert!(found.head.contains("Content-Range: bytes 100-199/900\r\n"), "{}", found.head);
        assert_eq!(found.body, Some((Content::of(7, 0), 100, 200)));
        let found = answered("/b/1/7-900.html", "Range: bytes=900-\r\n");
        assert!(found.head.starts_with("HTTP/1.1 416") && found.body.is_none());
    }
}
