//! Fields of responses that this cache compresses, and the entity tags of their forms.
//!
//! Each form of a representation has a strong entity tag of its own (RFC 9110, 8.8.3.3): that of
//! the origin followed by `~`, the coding and the generation of the encoders, as in `"abc~gzip1"`.
//! The cache evaluates conditions against the tag of the form that it sends, so that a 304, a range
//! and an `If-Range` concern exactly those bytes. The origin is asked with its own tags.

use http::StatusCode;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap,
    HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE, TRAILER,
    VARY,
};

use crate::fields::etag;
use crate::fields::etag::EntityTag;
use crate::fields::view::{EditFields, Fields};
use crate::fields::{list, one_exchange};

/// A field of stored responses that may be sent compressed: a number that differs for every stored
/// body. It stays when a 304 confirms the response. Clients get `Vary: Accept-Encoding` in its
/// place; origins cannot set it.
pub const BODY_ID: HeaderName = HeaderName::from_static("larder-body");

/// The line of `Vary` of responses that may be sent compressed.
pub const VARY_BY_CODING: &str = "Accept-Encoding";

/// The number of the encoders, which changes when they make other bytes of the same body.
pub const GENERATION: u8 = 1;

/// Fields that describe the bytes of one form, besides those of one message.
const OF_BYTES: [HeaderName; 4] = [
    CONTENT_LENGTH,
    TRAILER,
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
];

/// Where the bytes of a compressed form are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They are made once, always alike, and ranges of them are sent.
    Stored,
    /// They are made for one client, and may differ the next time.
    Streamed,
}

/// Returns whether a response with this status and these fields may be compressed by a proxy
/// (RFC 9110, 7.7), whatever its media type.
pub fn is_permitted(status: StatusCode, fields: &HeaderMap) -> bool {
    let is_plain = |coding: &[u8]| coding.eq_ignore_ascii_case(b"identity");
    let forbids = |member: &[u8]| member.eq_ignore_ascii_case(b"no-transform");
    status == StatusCode::OK
        && list::members(fields, &CONTENT_ENCODING).all(is_plain)
        && !fields.contains_key(CONTENT_RANGE)
        && !list::members(fields, &CACHE_CONTROL).any(forbids)
}

/// Turns the fields of a response into those of its compressed form.
pub fn describe(fields: &mut HeaderMap, coding: &'static str, form: Form) {
    for name in OF_BYTES {
        fields.remove(name);
    }
    one_exchange::remove_content_digests(fields);
    fields.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    if form == Form::Streamed {
        fields.remove(ACCEPT_RANGES);
    }
    let Some(value) = fields.remove(ETAG) else { return };
    // A malformed tag cannot be told apart from that of another form.
    let Some(tag) = EntityTag::parse(value.as_bytes()) else { return };
    let tag = match form {
        Form::Stored => of_form(&tag, coding),
        Form::Streamed => written(true, &[tag.opaque]),
    };
    fields.extend(tag.map(|tag| (ETAG, tag)));
}

/// Turns the fields of a response into those of one whose body this proxy changes: its validators
/// are weak, since they are about other bytes.
pub fn describe_changed(fields: &mut HeaderMap) {
    for name in OF_BYTES.iter().chain(&[ACCEPT_RANGES, LAST_MODIFIED]) {
        fields.remove(name);
    }
    one_exchange::remove_content_digests(fields);
    let Some(value) = fields.remove(ETAG) else { return };
    let tag = EntityTag::parse(value.as_bytes()).and_then(|tag| written(true, &[tag.opaque]));
    fields.extend(tag.map(|tag| (ETAG, tag)));
}

/// Tells caches further downstream that the response depends on the codings that a client accepts.
pub fn vary_by_coding(fields: &mut HeaderMap) {
    fields.append(VARY, HeaderValue::from_static(VARY_BY_CODING));
}

/// Replaces the tag of the compressed form in the conditions of a request to the origin by the
/// origin's own. A range under `If-Match` is about the bytes of that form: the whole is requested.
pub fn ask_with_own_tags(request: &mut HeaderMap, coding: &str) {
    replace_tags(request, &IF_NONE_MATCH, &[coding]);
    if replace_tags(request, &IF_MATCH, &[coding]) {
        request.remove(RANGE);
        request.remove(IF_RANGE);
    }
}

/// Replaces the tags of compressed forms in the conditions of a request that changes the resource
/// by the origin's own.
pub fn change_by_own_tags(request: &mut HeaderMap, codings: &[&str]) {
    for name in [IF_MATCH, IF_NONE_MATCH] {
        replace_tags(request, &name, codings);
    }
}

/// Gives a 304 of the origin the tag of the compressed form, if the client asked about that.
pub fn answer_with_tag_of_form(fields: &mut HeaderMap, request: &impl Fields, coding: &str) {
    let tag = fields.get(ETAG).and_then(|tag| EntityTag::parse(tag.as_bytes()));
    let Some(value) = tag.and_then(|tag| of_form(&tag, coding)) else { return };
    let asked = EntityTag::parse(value.as_bytes());
    if etag::is_named(request.lines(&IF_NONE_MATCH), asked.as_ref(), |one, other| {
        one.weak_eq(other)
    }) && !request.lines(&IF_NONE_MATCH).any(etag::is_any)
    {
        fields.insert(ETAG, value);
    }
}

/// Removes `Range` from a request whose `If-Range` has a date, which does not tell the forms apart.
pub fn drop_range_by_date(request: &mut impl EditFields) {
    if request.line(&IF_RANGE).is_some_and(|line| EntityTag::parse(line).is_none()) {
        request.remove_lines(&RANGE);
        request.remove_lines(&IF_RANGE);
    }
}

/// Returns what the tag of a form adds to the origin's.
fn suffix(coding: &str) -> String {
    format!("~{coding}{GENERATION}")
}

fn of_form(tag: &EntityTag<'_>, coding: &str) -> Option<HeaderValue> {
    written(tag.weak, &[tag.opaque, suffix(coding).as_bytes()])
}

fn written(weak: bool, opaque: &[&[u8]]) -> Option<HeaderValue> {
    let prefix: &[u8] = if weak { b"W/\"" } else { b"\"" };
    HeaderValue::from_bytes(&[prefix, &opaque.concat(), b"\""].concat()).ok()
}

/// Returns whether the field had a tag of one of these forms.
fn replace_tags(request: &mut HeaderMap, name: &HeaderName, codings: &[&str]) -> bool {
    let suffixes: Vec<String> = codings.iter().map(|coding| suffix(coding)).collect();
    let own = |opaque| own_part(opaque, &suffixes);
    let lines = || request.lines(name).flat_map(etag::tags);
    if !lines().any(|tag| own(tag.opaque).is_some()) {
        return false;
    }
    let texts =
        lines().filter_map(|tag| written(tag.weak, &[own(tag.opaque).unwrap_or(tag.opaque)]));
    let texts: Vec<HeaderValue> = texts.collect();
    request.remove(name);
    request.extend(texts.into_iter().map(|text| (name.clone(), text)));
    true
}

fn own_part<'a>(opaque: &'a [u8], suffixes: &[String]) -> Option<&'a [u8]> {
    suffixes.iter().find_map(|suffix| opaque.strip_suffix(suffix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn only_plain_whole_transformable_responses_are_compressed() {
        let cases: [(u16, &[&str], bool); 8] = [
            (200, &[], true),
            (200, &["Content-Encoding: identity"], true),
            (200, &["Content-Encoding: gzip"], false),
            (200, &["Content-Encoding: identity", "Content-Encoding: x"], false),
            (200, &["Cache-Control: max-age=9, No-Transform"], false),
            (200, &["Content-Range: bytes 0-1/2"], false),
            (206, &[], false),
            (404, &[], false),
        ];
        for (status, fields, expected) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_permitted(status, &headers(fields)), expected, "{status} {fields:?}");
        }
    }

    #[test]
    fn fields_describe_the_form() {
        let plain = headers(&[
            "Content-Length: 9",
            "Content-MD5: x",
            "Repr-Digest: x",
            "Trailer: x",
            "Accept-Ranges: bytes",
            "ETag: \"a\"",
            "X-Kept: 1",
        ]);
        let (mut stored, mut streamed) = (plain.clone(), plain);
        describe(&mut stored, "br", Form::Stored);
        let expected =
            ["Content-Encoding: br", "Accept-Ranges: bytes", "ETag: \"a~br1\"", "X-Kept: 1"];
        assert_eq!(stored, headers(&expected));
        describe(&mut streamed, "br", Form::Streamed);
        assert_eq!(streamed, headers(&["Content-Encoding: br", "ETag: W/\"a\"", "X-Kept: 1"]));
        let tag = |tag: &str, form| {
            let mut fields = headers(&[&format!("ETag: {tag}")]);
            describe(&mut fields, "gzip", form);
            fields.get(ETAG).map(|tag| tag.to_str().unwrap().to_owned())
        };
        assert_eq!(tag("W/\"a\"", Form::Stored).unwrap(), "W/\"a~gzip1\"");
        assert_eq!(tag("W/\"a\"", Form::Streamed).unwrap(), "W/\"a\"");
        assert_eq!(tag("a", Form::Stored), None);
    }

    #[test]
    fn the_origin_gets_its_own_tags() {
        let mut request = headers(&["If-None-Match: \"a~br1\", \"b~gzip1\", W/\"c\""]);
        ask_with_own_tags(&mut request, "br");
        let expected =
            ["If-None-Match: \"a\"", "If-None-Match: \"b~gzip1\"", "If-None-Match: W/\"c\""];
        assert_eq!(request, headers(&expected));
        let untouched = headers(&["If-None-Match: *", "If-Match: \"a~gzip1\"", "Range: bytes=1-"]);
        let mut request = untouched.clone();
        ask_with_own_tags(&mut request, "br");
        assert_eq!(request, untouched);
        let mut request = headers(&["If-Match: \"a~br1\"", "Range: bytes=1-"]);
        ask_with_own_tags(&mut request, "br");
        assert_eq!(request, headers(&["If-Match: \"a\""]));
        let mut request = headers(&["If-None-Match: *", "If-Match: \"a~br1\""]);
        change_by_own_tags(&mut request, &["gzip", "br"]);
        assert_eq!(request, headers(&["If-None-Match: *", "If-Match: \"a\""]));
    }

    #[test]
    fn a_304_names_the_form_that_the_client_has() {
        let answered = |asked: &str| {
            let mut fields = headers(&["ETag: \"a\""]);
            answer_with_tag_of_form(&mut fields, &headers(&[asked]), "br");
            fields[ETAG].to_str().unwrap().to_owned()
        };
        assert_eq!(answered("If-None-Match: \"b\", \"a~br1\""), "\"a~br1\"");
        for other in ["If-None-Match: \"a\"", "If-None-Match: \"a~gzip1\"", "If-None-Match: *"] {
            assert_eq!(answered(other), "\"a\"");
        }
    }

    #[test]
    fn ranges_by_date_are_not_cut_from_another_form() {
        for (condition, is_kept) in
            [("\"a~br1\"", true), ("W/\"a\"", true), ("Sun, 06 Nov 1994 08:49:37 GMT", false)]
        {
            let mut request = headers(&["Range: bytes=1-", &format!("If-Range: {condition}")]);
            drop_range_by_date(&mut request);
            assert_eq!(request.contains_key(RANGE), is_kept, "{condition}");
        }
    }
}
