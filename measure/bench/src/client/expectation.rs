//! The expected response to a request, and the verification of the actual one.
//!
//! A correct response has a status that the request allows, the length of the object or of the
//! part, and the right bytes. Its version is current or, if it is older, had not expired when the
//! request was sent. A response that reports a failure itself (status 4xx or 5xx) is an error, not
//! a wrong response.

use std::fmt::{self, Write};

use super::incoming::{Head, Listener};
use crate::object::{Condition, Content, Method, Object, ServedFrom, first_wrong};

/// Seconds that a version may be served after its expiry. Times in HTTP are whole seconds, and
/// those of the origin, of the cache and of the age are rounded separately.
const SLACK: u64 = 2;

/// The expected response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expectation {
    /// The number of the request.
    pub number: u64,
    /// The requested object.
    pub object: Object,
    /// The method.
    pub method: Method,
    /// The condition.
    pub condition: Condition,
    /// The first requested byte, and the one after the last.
    pub range: Option<(u64, u64)>,
    /// When the request was sent, in seconds since 1970.
    pub sent: u64,
    /// The number of the node that receives the request.
    pub node: usize,
    /// True if the response is not from the origin of this program, so that it has no
    /// `Bench-Answer`.
    pub has_no_origin: bool,
}

/// Why a response is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of the request.
    pub number: u64,
    /// The requested object.
    pub object: Object,
    /// The kind of the failure: `bytes`, `length`, `version`, `status`, `part`, `field`.
    pub what: &'static str,
    /// The position in the body.
    pub offset: Option<u64>,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub got: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        self.object.write_path("…", &mut path);
        write!(f, "wrong {} in {path} (request {})", self.what, self.number)?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": expected {}, got {}", self.expected, self.got)
    }
}

/// The verdict on a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The status; 0 if none arrived.
    pub status: u16,
    /// Bytes of the body.
    pub bytes: u64,
    /// Where it came from, as far as its fields say.
    pub served_from: ServedFrom,
    /// The first failure.
    pub failure: Option<Box<Failure>>,
}

/// An expectation, and the verification so far.
#[derive(Debug, Default)]
pub struct Checking {
    expected: Expectation,
    verdict: Verdict,
    /// The body, the next byte, and the one after the last; `None`: any body is accepted.
    body: Option<(Content, u64, u64)>,
    now: u64,
}

impl Checking {
    /// Starts the verification of a response.
    pub fn new(expected: Expectation) -> Checking {
        Checking { expected, ..Checking::default() }
    }

    /// Returns the expectation.
    pub fn expected(&self) -> &Expectation {
        &self.expected
    }

    /// Sets the current time in seconds since 1970; call it before passing on more bytes.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Ends the verification of a complete response.
    pub fn done(mut self) -> Verdict {
        if let Some((_, at, end)) = self.body.filter(|(_, at, end)| at < end) {
            let left = end - at;
            self.fail("length", Some(at), &format!("{left} more bytes"), "the end");
        }
        self.verdict
    }

    /// Ends the verification of a response that broke off. Missing bytes are wrong only if the
    /// connection was closed in an orderly way, which the caller knows; this verdict covers the
    /// received bytes.
    pub fn broken(self) -> Verdict {
        self.verdict
    }

    fn fail(&mut self, what: &'static str, offset: Option<u64>, expected: &str, got: &str) {
        let Expectation { number, object, .. } = self.expected;
        let (expected, got) = (expected.to_owned(), got.to_owned());
        self.verdict.failure.get_or_insert_with(|| {
            Box::new(Failure { number, object, what, offset, expected, got })
        });
    }

    /// Returns the version of the response, after verifying it.
    fn version(&mut self, head: &Head) -> Option<u64> {
        if self.expected.has_no_origin {
            return Some(u64::from(self.expected.object.revision));
        }
        let Some((_, version)) = head.answer else {
            self.fail("field", None, "the origin's Bench-Answer", "none");
            return None;
        };
        let Expectation { object, sent, .. } = self.expected;
        let (current, expired) = match object.life() {
            None => (u64::from(object.revision), u64::from(object.revision) != version),
            Some(life) => (life.version(self.now), life.expires(version) + SLACK < sent),
        };
        if version > current || expired {
            let ago = object.life().map_or(String::new(), |life| {
                format!(", which expired {} s before", sent.saturating_sub(life.expires(version)))
            });
            self.fail("version", None, &format!("version {current}"), &format!("{version}{ago}"));
        }
        Some(version)
    }

    fn expect_body(&mut self, head: &Head, version: Option<u64>) {
        let Expectation { object, range, .. } = self.expected;
        let part = match (head.status, range) {
            (206, Some((from, to))) => {
                let told = head.range;
                if told != Some((from, to - 1, object.size)) {
                    let expected = format!("bytes {from}-{}/{}", to - 1, object.size);
                    self.fail("part", None, &expected, &format!("{told:?}"));
                }
                (from, to)
            }
            _ => (0, object.size),
        };
        let len = part.1 - part.0;
        if let Some(told) = head.length.filter(|told| *told != len) {
            self.fail("length", None, &format!("{len} bytes"), &format!("{told} bytes"));
        }
        self.body = version.map(|version| (object.content(version), part.0, part.1));
    }
}

impl Listener for Checking {
    fn head(&mut self, head: &Head) -> bool {
        self.verdict.status = head.status;
        self.verdict.served_from = head.served_from(self.expected.node);
        let Expectation { method, condition, range, .. } = self.expected;
        let is_head = method == Method::Head;
        match (head.status, condition) {
            (200, _) => {
                let version = self.version(head);
                self.expect_body(head, version);
                if is_head {
                    self.body = None;
                }
            }
            (206, _) if range.is_some() => {
                let version = self.version(head);
                self.expect_body(head, version);
            }
            (304, Condition::Since304) => return false,
            (400.., _) => {}
            (status, _) => {
                self.fail("status", None, "one that the request allows", &status.to_string());
            }
        }
        !(is_head || head.status == 204 || head.status == 304)
    }

    fn body(&mut self, bytes: &[u8]) {
        self.verdict.bytes += bytes.len() as u64;
        let Some((content, at, end)) = self.body else { return };
        let len = bytes.len().min((end - at) as usize);
        if let Some(wrong) = first_wrong(content, at, &bytes[..len]) {
            let from = (wrong - at) as usize;
            let got = &bytes[from..len.min(from + 8)];
            let mut right = vec![0; got.len()];
            crate::object::fill(content, wrong, &mut right);
            self.fail("bytes", Some(wrong), &hex(&right), &hex(got));
            // The remaining bytes are not verified.
            self.body = None;
            return;
        }
        if bytes.len() > len {
            self.fail("length", Some(end), "the end", &format!("{} more bytes", bytes.len() - len));
        }
        self.body = Some((content, at + len as u64, end));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::fill;

    const NOW: u64 = 1_700_000_000;

    fn body(object: &Object, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; object.size as usize];
        fill(object.content(version), 0, &mut bytes);
        bytes
    }

    fn head(status: u16, version: u64, length: u64) -> Head {
        Head { status, answer: Some((1, version)), length: Some(length), ..Head::default() }
    }

    fn judged(expected: Expectation, head: &Head, bytes: &[u8]) -> Option<Failure> {
        let mut checking = Checking::new(expected);
        checking.set_time(NOW);
        if checking.head(head) {
            bytes.chunks(700).for_each(|bytes| checking.body(bytes));
        }
        checking.done().failure.map(|failure| *failure)
    }

    fn what(expected: Expectation, head: &Head, bytes: &[u8]) -> Option<&'static str> {
        judged(expected, head, bytes).map(|failure| failure.what)
    }

    #[test]
    fn only_the_right_bytes_are_right() {
        let object = Object { id: 9, size: 2_000, ..Object::default() };
        let expected = Expectation { number: 5, object, sent: NOW, ..Expectation::default() };
        let right = body(&object, 0);
        assert_eq!(judged(expected, &head(200, 0, 2_000), &right), None);
        let mut wrong = right.clone();
        wrong[1_234] ^= 1;
        let failure = judged(expected, &head(200, 0, 2_000), &wrong).unwrap();
        assert_eq!((failure.what, failure.offset, failure.number), ("bytes", Some(1_234), 5));
        assert!(failure.to_string().contains("at byte 1234"), "{failure}");
        let another = body(&Object { id: 8, ..object }, 0);
        assert_eq!(what(expected, &head(200, 0, 2_000), &another), Some("bytes"));
        assert_eq!(what(expected, &head(200, 0, 1_999), &right[..1_999]), Some("length"));
        let chunked = Head { length: None, ..head(200, 0, 0) };
        assert_eq!(what(expected, &chunked, &right), None);
        assert_eq!(what(expected, &chunked, &right[..1_000]), Some("length"));
        let longer = [&right[..], b"x"].concat();
        assert_eq!(what(expected, &chunked, &longer), Some("length"));
        assert_eq!(what(expected, &head(304, 0, 2_000), &[]), Some("status"));
        assert_eq!(
            what(expected, &Head { answer: None, ..head(200, 0, 2_000) }, &right),
            Some("field")
        );
        assert_eq!(what(expected, &head(502, 0, 3), b"sad"), None);
        let file = Expectation { has_no_origin: true, ..expected };
        let plain = Head { answer: None, ..head(200, 0, 2_000) };
        assert_eq!(
            (judged(file, &plain, &right), what(file, &plain, &wrong)),
            (None, Some("bytes"))
        );
    }

    #[test]
    fn fields_name_the_place_that_a_response_came_from() {
        let read = |fields: &[(&str, &str)]| {
            let mut head = Head { status: 200, ..Head::default() };
            fields.iter().for_each(|(name, value)| head.note(name, value.as_bytes()).unwrap());
            let mut checking = Checking::new(Expectation { node: 1, ..Expectation::default() });
            checking.head(&head);
            checking.done().served_from
        };
        assert_eq!(read(&[("Cache-Status", "larder; hit; detail=HIT_RAM")]), ServedFrom::Memory);
        assert_eq!(read(&[("X-Node", "1"), ("X-Result", "HIT")]), ServedFrom::Cache);
        assert_eq!(read(&[("X-Node", "2"), ("X-Result", "HIT")]), ServedFrom::Peer);
        assert_eq!(read(&[("X-Node", "1"), ("X-Result", "MISS")]), ServedFrom::Unknown);
        assert_eq!(read(&[]), ServedFrom::Unknown);
    }

    #[test]
    fn an_old_version_is_right_until_it_expires() {
        let object = Object { id: 9, size: 900, cycle: 100, ..Object::default() };
        let life = object.life().unwrap();
        let current = life.version(NOW);
        let judge = |version: u64, sent: u64| {
            let expected = Expectation { object, sent, ..Expectation::default() };
            what(expected, &head(200, version, 900), &body(&object, version))
        };
        assert_eq!(judge(current, NOW), None);
        assert_eq!(judge(current + 1, NOW), Some("version"));
        let expires = life.expires(current - 1);
        assert_eq!(judge(current - 1, expires + SLACK), None);
        assert_eq!(judge(current - 1, expires + SLACK + 1), Some("version"));
        let revision = Object { revision: 3, cycle: 0, ..object };
        let expected = Expectation { object: revision, sent: NOW, ..Expectation::default() };
        assert_eq!(what(expected, &head(200, 3, 900), &body(&revision, 3)), None);
        assert_eq!(what(expected, &head(200, 2, 900), &body(&revision, 2)), Some("version"));
    }

    #[test]
    fn a_part_is_where_it_says() {
        let object = Object { id: 9, size: 2_000, ..Object::default() };
        let range = Some((100, 600));
        let expected = Expectation { object, range, sent: NOW, ..Expectation::default() };
        let right = body(&object, 0);
        let part = Head { range: Some((100, 599, 2_000)), ..head(206, 0, 500) };
        assert_eq!(what(expected, &part, &right[100..600]), None);
        assert_eq!(what(expected, &part, &right[101..601]), Some("bytes"));
        let elsewhere = Head { range: Some((101, 600, 2_000)), ..part.clone() };
        assert_eq!(what(expected, &elsewhere, &right[101..601]), Some("part"));
        assert_eq!(what(expected, &head(200, 0, 2_000), &right), None, "the whole will do");
        let whole = Expectation { range: None, ..expected };
        assert_eq!(what(whole, &part, &right[100..600]), Some("status"));
    }

    #[test]
    fn conditions_allow_what_they_allow() {
        let object = Object { id: 9, size: 20, ..Object::default() };
        let judge = |condition, status| {
            let expected = Expectation { object, condition, sent: NOW, ..Expectation::default() };
            what(expected, &head(status, 0, 20), &body(&object, 0))
        };
        assert_eq!(judge(Condition::Since304, 304), None);
        assert_eq!(judge(Condition::Since304, 200), None);
        assert_eq!(judge(Condition::Since200, 304), Some("status"));
        assert_eq!(judge(Condition::Reload, 200), None);
        let expected = Expectation { object, method: Method::Head, ..Expectation::default() };
        assert_eq!(what(expected, &head(200, 0, 20), &[]), None);
        assert_eq!(what(expected, &head(200, 0, 21), &[]), Some("length"));
    }
}
