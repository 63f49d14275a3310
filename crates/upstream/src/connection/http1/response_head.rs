//! The head of an answer in HTTP/1.1, and what frames its body (RFC 9112, 6.3).
//!
//! It promises: lengths that disagree, and a length that is no number, are errors, as is a transfer
//! coding in HTTP/1.0. Of other fields nothing is judged.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Version};
use httparse::{ParserConfig, Status};

use super::error::Http1Error;

/// Fields of a head at most.
const FIELDS_MAX: usize = 100;

/// Fields that are added to a head on its way.
const FIELDS_ADDED: usize = 6;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub status: StatusCode,
    pub version: Version,
    pub headers: HeaderMap,
    pub framing: Framing,
    /// The origin keeps the connection open.
    pub keeps_open: bool,
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    Chunked,
    /// It ends with the connection.
    UntilClose,
}

impl ResponseHead {
    /// Returns whether another head follows.
    pub fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// Returns whether a head may end in the bytes from `seen` on.
pub(super) fn may_end(input: &[u8], seen: usize) -> bool {
    let begin = seen.saturating_sub(3);
    let tail = &input[begin..];
    memchr::memchr_iter(b'\n', tail)
        .any(|at| matches!(&tail[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// Where the name and the value of each field lie in a head: memory that is used again and again.
pub(super) type Places = Vec<(Range<usize>, Range<usize>)>;

/// Takes the head of the answer to a request with this method off `input`, if it is there; its
/// fields get the place of `spare`, which is empty. `max`: its bytes at most.
pub(super) fn take(
    input: &mut BytesMut,
    method: &Method,
    (spare, places): (&mut HeaderMap, &mut Places),
    max: usize,
) -> Result<Option<ResponseHead>, Http1Error> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let config = ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, input, &mut fields);
    let length = match parsed.map_err(malformed)? {
        Status::Complete(length) if length > max => return Err(Http1Error::HeadTooLarge),
        Status::Complete(length) => length,
        Status::Partial => return Ok(None),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Http1Error::Malformed("its status is no number from 100 on"))?;
    let version = if response.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    places.clear();
    let place = |field: &httparse::Header<'_>| {
        (within(input, field.name.as_bytes()), within(input, field.value))
    };
    places.extend(response.headers.iter().map(place));
    let text = input.split_to(length).freeze();
    let mut headers = std::mem::take(spare);
    headers.reserve(places.len() + FIELDS_ADDED);
    for (name, value) in places.drain(..) {
        append(&mut headers, &text, name, value)?;
    }
    let framing = framing(method, status, version, &headers)?;
    let keeps_open = keeps_open(version, &headers);
    Ok(Some(ResponseHead { status, version, headers, framing, keeps_open }))
}

/// Returns where `part` lies in `text`, of which it is a part.
fn within(text: &[u8], part: &[u8]) -> Range<usize> {
    let begin = part.as_ptr() as usize - text.as_ptr() as usize;
    begin..begin + part.len()
}

fn append(
    headers: &mut HeaderMap,
    text: &Bytes,
    name: Range<usize>,
    value: Range<usize>,
) -> Result<(), Http1Error> {
    let name = HeaderName::from_bytes(&text[name]);
    let name = name.map_err(|_| Http1Error::Malformed("a field has no valid name"))?;
    let value = HeaderValue::from_maybe_shared(text.slice(value));
    let value = value.map_err(|_| Http1Error::Malformed("a field has no valid value"))?;
    headers.append(name, value);
    Ok(())
}

fn malformed(error: httparse::Error) -> Http1Error {
    Http1Error::Malformed(match error {
        httparse::Error::HeaderName => "a field has no valid name",
        httparse::Error::HeaderValue => "a field has no valid value",
        httparse::Error::NewLine => "a line ends wrongly",
        httparse::Error::Status => "its status is no number from 100 on",
        httparse::Error::Token => "there is a byte that is not allowed",
        httparse::Error::TooManyHeaders => "its head has more than 100 fields",
        httparse::Error::Version => "it begins with no version of HTTP/1",
    })
}

/// Returns the framing of the body (RFC 9112, 6.3).
fn framing(
    method: &Method,
    status: StatusCode,
    version: Version,
    headers: &HeaderMap,
) -> Result<Framing, Http1Error> {
    let without_body = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if *method == Method::HEAD || status.is_informational() || without_body {
        return Ok(Framing::Length(0));
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return match version {
            Version::HTTP_10 => Err(Http1Error::Malformed("HTTP/1.0 has no transfer codings")),
            _ if ends_in_chunks(headers) => Ok(Framing::Chunked),
            _ => Ok(Framing::UntilClose),
        };
    }
    match length(headers)? {
        Some(length) => Ok(Framing::Length(length)),
        None => Ok(Framing::UntilClose),
    }
}

/// Returns whether the last transfer coding is `chunked`.
fn ends_in_chunks(headers: &HeaderMap) -> bool {
    let last = headers.get_all(header::TRANSFER_ENCODING).iter().next_back();
    let codings = last.and_then(|line| line.to_str().ok());
    let last = codings.and_then(|codings| codings.rsplit(',').next());
    last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
}

/// Returns the length that all lines and members of `Content-Length` agree on.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Http1Error> {
    let wrong = Http1Error::Malformed("its Content-Length is no number, or two");
    let mut found = None;
    for line in headers.get_all(header::CONTENT_LENGTH) {
        for member in line.as_bytes().split(|byte| *byte == b',') {
            let member = member.trim_ascii();
            let is_number = !member.is_empty() && member.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(member).ok().filter(|_| is_number);
            let Some(length) = text.and_then(|text| text.parse::<u64>().ok()) else {
                return Err(wrong);
            };
            if found.is_some_and(|found| found != length) {
                return Err(wrong);
            }
            found = Some(length);
        }
    }
    Ok(found)
}

/// Returns whether the connection stays open (RFC 9112, 9.3).
fn keeps_open(version: Version, headers: &HeaderMap) -> bool {
    let has = |option: &str| {
        let lines = headers.get_all(header::CONNECTION).iter();
        let mut options = lines.filter_map(|line| line.to_str().ok()).flat_map(|l| l.split(','));
        options.any(|member| member.trim().eq_ignore_ascii_case(option))
    };
    !has("close") && (version == Version::HTTP_11 || has("keep-alive"))
}
