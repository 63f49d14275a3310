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

/// Returns `line` with percent-encodings in place of bytes that are not ASCII, which hyper keeps.
fn encoded(line: &str) -> String {
    let encoded = |byte: u8| match byte.is_ascii() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    line.bytes().map(encoded).collect()
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
        for (mut ours, mut theirs) in ours.into_iter().zip(theirs) {
            ours.line = with_uri(&ours.line);
            theirs.line = encoded(&theirs.line);
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

/// Checks that what httparse says of a head is also said of it here, `read` being the length.
fn agrees<T>(read: Result<Option<(usize, T)>, http1::HeadError>, theirs: httparse::Result<usize>) {
    use http1::HeadError::Malformed;
    match theirs {
        // The framing may be refused.
        Ok(httparse::Status::Complete(length)) => match read {
            Ok(read) => assert_eq!(read.map(|(length, _)| length), Some(length)),
            Err(error) => assert!(matches!(error, Malformed(_)), "{error:?}"),
        },
        Ok(httparse::Status::Partial) => assert!(matches!(read, Ok(None))),
        Err(_) => assert!(matches!(read, Err(Malformed(_)))),
    }
}

#[test]
fn heads_are_those_that_httparse_reads() {
    for_seed(20_000, |rng| {
        let mut text = requests(rng);
        damage(rng, &mut text);
        text.truncate(rng.usize(..2 * text.len()));
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut parsed = httparse::Request::new(&mut fields);
        let theirs = parsed.parse(&text);
        let mut head = http1::RequestHead::default();
        let read = head.read(&text, usize::MAX);
        if !text.split(|byte| *byte == b'\n').next().is_some_and(<[u8]>::is_ascii) {
            return;
        }
        let is_read = matches!(read, Ok(Some(_)));
        agrees(read, theirs);
        if is_read {
            assert_eq!(parsed.method, Some(head.method.as_str()));
            assert_eq!(parsed.path, Some(head.target.as_str()));
            let fields = parsed.headers.iter().map(|field| (field.name, field.value));
            assert_eq!(reader::told(fields), reader::told(head.fields.iter()));
        }
    });
}

#[test]
fn response_heads_are_those_that_httparse_reads() {
    for_seed(20_000, |rng| {
        let mut text = response(rng);
        damage(rng, &mut text);
        text.truncate(rng.usize(..2 * text.len()));
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut parsed = httparse::Response::new(&mut fields);
        let theirs = parsed.parse(&text);
        // A status below 100 is refused at once.
        if parsed.code.is_some_and(|code| code < 100) {
            return;
        }
        let mut head = http1::ResponseHead::default();
        let read = head.read(&text, &Method::GET, usize::MAX);
        let is_read = matches!(read, Ok(Some(_)));
        agrees(read, theirs);
        if is_read {
            assert_eq!(parsed.code, Some(head.status.as_u16()));
            let fields = parsed.headers.iter().map(|field| (field.name, field.value));
            assert_eq!(reader::told(fields), reader::told(head.fields.iter()));
        }
    });
}
