//! A message that other parsers accept is the same message to them.

use http::Method;

use crate::draw::{damage, for_seed, requests, response};
use crate::{hyper_peer, reader};

/// Returns a request line with its target as hyper writes it: with a path, without a fragment.
fn with_uri(line: &str) -> String {
    let (method, target) = line.split_once(' ').unwrap();
    let uri = target.parse::<http::Uri>();
    uri.map_or_else(|_| line.to_owned(), |uri| format!("{method} {uri}"))
}

#[test]
fn requests_are_those_that_hyper_reads() {
    let mut both = 0;
    for_seed(3000, |rng| {
        let mut text = requests(rng);
        if rng.u8(..4) > 0 {
            damage(rng, &mut text);
        }
        let (ours, _) = reader::requests(&text, text.len());
        let theirs = hyper_peer::requests(&text);
        both += ours.len().min(theirs.len());
        for (mut ours, theirs) in ours.into_iter().zip(theirs) {
            ours.line = with_uri(&ours.line);
            assert_eq!(ours, theirs, "{}", text.escape_ascii());
        }
    });
    assert!(both > 1000, "{both} requests were read by both");
}

#[test]
fn responses_are_those_that_hyper_reads() {
    let mut both = 0;
    for_seed(3000, |rng| {
        let mut text = response(rng);
        if rng.u8(..4) > 0 {
            damage(rng, &mut text);
        }
        let method = if rng.u8(..8) == 0 { Method::HEAD } else { Method::GET };
        let ours = reader::response(&text, &method, text.len());
        if let (Ok(Some((ours, _))), Some(theirs)) = (ours, hyper_peer::response(&text, &method)) {
            both += 1;
            assert_eq!(ours, theirs, "{}", text.escape_ascii());
        }
    });
    assert!(both > 500, "{both} responses were read by both");
}

#[test]
fn heads_are_those_that_httparse_reads() {
    for_seed(3000, |rng| {
        let mut text = requests(rng);
        damage(rng, &mut text);
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut parsed = httparse::Request::new(&mut fields);
        let theirs = parsed.parse(&text);
        let mut head = http1::RequestHead::default();
        if let (Ok(Some((length, _))), Ok(theirs)) = (head.read(&text, text.len()), theirs) {
            assert_eq!(httparse::Status::Complete(length), theirs);
            assert_eq!(parsed.method, Some(head.method.as_str()));
            if parsed.path.is_some_and(str::is_ascii) {
                assert_eq!(parsed.path, Some(head.target.as_str()));
            }
            let fields = parsed.headers.iter().map(|field| (field.name, field.value));
            assert_eq!(reader::told(fields), reader::told(head.fields.iter()));
        }
    });
}
