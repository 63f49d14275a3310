//! Round trips: a message that is written and read again is unchanged.

use fastrand::Rng;
use http::{HeaderMap, Method, StatusCode};
use http1::{
    Fields, HeaderMaps, RequestHead, ResponseHead, write_chunk_size, write_field, write_last_chunk,
    write_map, write_request_line, write_status_line,
};

use crate::draw::{for_seed, one_of};
use crate::reader;

const LONGEST: usize = 1 << 20;

/// Draws fields; names occur repeatedly and in different cases.
fn fields(rng: &mut Rng) -> Fields {
    let mut fields = Fields::default();
    for _ in 0..rng.usize(..30) {
        let name = one_of(rng, &["a", "A", "Set-Cookie", "set-cookie", "X-Long-Name", "ETag", "x"]);
        let value: String =
            (0..rng.usize(..50)).map(|_| one_of(rng, &['a', '"', ',', '=', 'z'])).collect();
        fields.push(name, value.as_bytes());
    }
    fields
}

fn lines(fields: &Fields) -> Vec<(String, Vec<u8>)> {
    fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
}

#[test]
fn heads_are_read_as_they_were_written() {
    let (mut request, mut response) = (RequestHead::default(), ResponseHead::default());
    for_seed(1000, |rng| {
        let fields = fields(rng);
        let mut text = Vec::new();
        let status = StatusCode::from_u16(rng.u16(200..600)).unwrap();
        write_status_line(status, rng.bool(), &mut text);
        fields.iter().for_each(|(name, value)| write_field(name.as_bytes(), value, &mut text));
        text.extend(b"\r\nrest");
        let (length, _) = response.read(&text, &Method::GET, LONGEST).unwrap().unwrap();
        assert_eq!((length, response.status), (text.len() - 4, status));
        assert_eq!(lines(&response.fields), lines(&fields));
        // The target contains no byte that would be encoded.
        let target: String =
            (0..rng.usize(1..40)).map(|_| one_of(rng, &['a', '/', '?', '%', '&'])).collect();
        text.clear();
        write_request_line(&Method::PUT, &target, &mut text);
        fields.iter().for_each(|(name, value)| write_field(name.as_bytes(), value, &mut text));
        text.extend(b"\r\n");
        assert_eq!(request.read(&text, LONGEST).unwrap().unwrap().0, text.len());
        assert_eq!((request.target.as_str(), &request.method), (target.as_str(), &Method::PUT));
        assert_eq!(lines(&request.fields), lines(&fields));
    });
}

#[test]
fn a_map_is_written_in_the_spelling_of_its_head() {
    let mut maps = HeaderMaps::default();
    for_seed(1000, |rng| {
        let fields = fields(rng);
        let (map, spellings) = maps.make(&fields, 3).unwrap();
        assert_eq!(map, fields.to_map(0));
        let mut text = Vec::new();
        write_status_line(StatusCode::OK, false, &mut text);
        write_map(&map, &mut spellings.speller(), |_| true, &mut text);
        text.extend(b"\r\n");
        let mut head = ResponseHead::default();
        head.read(&text, &Method::GET, LONGEST).unwrap().unwrap();
        // A map keeps the lines of one name together; their spellings may change places.
        let by_name = |fields: &Fields| {
            let mut lines = lines(fields);
            lines.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
            lines.sort_by(|(one, _), (other, _)| one.cmp(other));
            lines
        };
        assert_eq!(by_name(&head.fields), by_name(&fields));
        let given = lines(&fields);
        let is_given = |name: &str| given.iter().any(|(known, _)| known == name);
        assert!(lines(&head.fields).iter().all(|(name, _)| is_given(name)), "{given:?}");
        maps.keep(map);
    });
}

#[test]
fn chunks_are_read_as_they_were_written() {
    let body = b"0123456789abcdef\r\n0\r\n\r\n";
    let trailers = [(&b"X-A"[..], &b"b"[..]), (b"c", b"")];
    for first in 0..body.len() {
        for second in first..body.len() {
            for trailers in [&trailers[..], &[]] {
                let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
                for chunk in [&body[..first], &body[first..second], &body[second..]] {
                    if !chunk.is_empty() {
                        write_chunk_size(chunk.len(), &mut text);
                        text.extend(chunk);
                        text.extend(b"\r\n");
                    }
                }
                write_last_chunk(trailers.iter().copied(), &mut text);
                for size in [1, 2, 3, 7, text.len()] {
                    let (found, _) = reader::response(&text, &Method::GET, size).unwrap().unwrap();
                    assert_eq!((&found.body[..], found.trailers), (&body[..], trailers.len()));
                }
            }
        }
    }
}

#[test]
fn a_map_of_few_names_has_thousands_of_lines() {
    let mut fields = Fields::default();
    (0..5000).for_each(|_| fields.push("Set-Cookie", b"a=b"));
    let (map, _): (HeaderMap, _) = HeaderMaps::default().make(&fields, 3).unwrap();
    assert_eq!(map.get_all("set-cookie").iter().count(), 5000);
}
