//! Fields mean the same whether a map holds them or lines with names in any spelling.

#![allow(clippy::unwrap_used)]

use crate::message::header_edits::Edits;
use crate::message::scheme::Scheme;
use crate::message::{cookies, framing};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Version};
use semantics::{EditFields, Fields, UsualNames};
use upstream::message::pseudonym::Pseudonym;
use upstream::message::via::Via;
use upstream::message::{upgrade, via};

/// The lines of a message as they came.
#[derive(Clone, Debug)]
struct Lines(Vec<(String, HeaderValue)>);

impl Fields for Lines {
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }
}

impl EditFields for Lines {
    fn remove_lines(&mut self, name: &HeaderName) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| name != known.as_str());
        self.0.len() < before
    }

    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| !usual.has_or(name, &unusual));
    }

    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.remove_lines(name);
        self.add_line(name, value);
    }

    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.0.push((name.to_string(), value.clone()));
    }
}

/// Returns the fields by name, the lines of each in their order.
fn sorted(fields: &impl Fields) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = fields.all().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    let mut all: Vec<_> = all.collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

/// Returns the results of every function that reads a request, as text.
fn read(request: &impl Fields, own: &Via) -> String {
    let asked = |method, version, of_stream| {
        upgrade::asked_by((&method, version), of_stream, request, false)
    };
    let read = (
        via::list(request, &header::VIA).collect::<Vec<_>>(),
        via::has_member(request, &header::CONNECTION, "upgrade"),
        own.is_loop(request),
        (framing::is_plain(request), framing::announces_body(request)),
        (framing::is_absurd(request), framing::agrees_with_stream(request, true)),
        upgrade::protocols(request),
        asked(Method::GET, Version::HTTP_11, false),
        asked(Method::POST, Version::HTTP_2, true),
        Scheme::claimed(request),
    );
    format!("{read:?}")
}

#[test]
fn fields_mean_the_same_whatever_holds_them() {
    let own = Via::new(&Pseudonym::default());
    let entry = own.entry(Version::HTTP_11);
    let own_entry = entry.to_str().unwrap();
    let texts = ["X-A: 1".to_owned(), "X-B:".to_owned()];
    let edits = Edits::new(&texts, &["x-*".to_owned(), "COOKIE".to_owned()]).unwrap();
    let cases: [&[(&str, &str)]; 9] = [
        &[],
        &[("Connection", "keep-alive"), ("X-c", "1"), ("cOOKIE", "a"), ("Host", "h")],
        &[("CONNECTION", "Upgrade"), ("upgrade", "websocket, h2c"), ("Sec-WebSocket-Key", "k")],
        &[("Connection", "x"), ("connection", "upgrade"), ("UPGRADE", "a"), ("Upgrade", "b/2")],
        &[("Transfer-Encoding", "gzip"), ("transfer-ENCODING", "chunked")],
        &[("content-length", "5"), ("Content-Length", "99999999999999999999")],
        &[("Content-Length", "0"), ("X-Forwarded-Proto", "https, http")],
        &[("Via", "1.1 x"), ("vIA", own_entry), ("Cookie", "a"), ("cookie", "b"), ("x-A", "2")],
        &[("Forwarded", "proto=https"), ("CDN-Loop", "x, y;z"), ("Content-length", "\u{e9}")],
    ];
    for case in cases {
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).unwrap();
        let lines = case.iter().map(|(name, text)| ((*name).to_owned(), value(text)));
        let lines = Lines(lines.collect());
        let named = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        let map: HeaderMap =
            lines.0.iter().map(|(name, value)| (named(name), value.clone())).collect();
        assert_eq!(read(&lines, &own), read(&map, &own), "{case:?}");
        assert_eq!(own.is_loop(&lines), case.iter().any(|(_, text)| *text == own_entry));
        let (mut edited_lines, mut edited_map) = (lines.clone(), map.clone());
        edits.apply(&mut edited_lines);
        edits.apply(&mut edited_map);
        assert_eq!(sorted(&edited_lines), sorted(&edited_map), "{case:?}");
        let (mut joined_lines, mut joined_map) = (lines, map);
        cookies::join_cookies(&mut joined_lines);
        cookies::join_cookies(&mut joined_map);
        assert_eq!(sorted(&joined_lines), sorted(&joined_map), "{case:?}");
        own.hide(&mut joined_lines);
        own.hide(&mut joined_map);
        assert_eq!(sorted(&joined_lines), sorted(&joined_map), "{case:?}");
    }
}
