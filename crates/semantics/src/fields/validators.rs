//! Conditional requests: the conditions of clients (RFC 9110, 13) and those that this cache sends
//! to an origin.
//!
//! Conditions can be evaluated as a cache or as an origin. A cache evaluates only `If-None-Match`
//! and `If-Modified-Since` (RFC 9111, 4.3.2). `If-Match` and `If-Unmodified-Since` are meant for
//! the origin, so requests with them should be forwarded. An origin (the static server) evaluates
//! all of them, in the order of RFC 9110 (13.2.2).

use http::header::{
    CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE, TRAILER, TRANSFER_ENCODING,
};
use http::{Method, StatusCode};

use crate::fields::date;
use crate::fields::etag;
use crate::fields::etag::EntityTag;
use crate::fields::one_exchange;
use crate::fields::view::{EditFields, Fields, only_line};
use crate::settings::name_filter::begins_with;
use crate::settings::usual_names::UsualNames;
use crate::time::Time;

/// A response field of an origin that vouches for its responses. Its text differs for every state
/// of the resources that the response was made from. It is stored with the response and never sent
/// to clients. A request that asks whether a stored response is current carries the stored value.
pub const VERSION: HeaderName = HeaderName::from_static("larder-version");

/// The response against which the conditions of a request are evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Selected<'a> {
    /// The status code.
    pub status: StatusCode,
    /// The `ETag` as received.
    etag: Option<&'a [u8]>,
    /// The `Last-Modified` as received.
    last_modified: Option<&'a [u8]>,
    /// The `Date` as received.
    date: Option<&'a [u8]>,
    /// The time of receipt, used if `Date` is missing.
    pub received: Time,
    /// True if `Last-Modified` is a strong validator (RFC 9110, 8.8.2.2). For a stored response
    /// this is recorded on receipt, because a 304 may have replaced the `Date` since then.
    pub strong_last_modified: bool,
}

impl<'a> Selected<'a> {
    /// Describes a response as received from its origin.
    pub fn of(status: StatusCode, fields: &'a impl Fields, received: Time) -> Selected<'a> {
        let selected = Selected::of_stored(status, fields, received, false);
        let date = selected.date.and_then(|date| date::parse(date, received));
        let modified = selected.last_modified();
        // Strong if at least one second older than `Date`. `None` compares less than any time.
        let strong_last_modified = modified.is_some() && modified < date;
        Selected { strong_last_modified, ..selected }
    }

    /// Describes a stored response. `strong_last_modified` is whether its `Last-Modified` is a
    /// strong validator.
    pub(crate) fn of_stored(
        status: StatusCode,
        fields: &'a impl Fields,
        received: Time,
        strong_last_modified: bool,
    ) -> Selected<'a> {
        let (etag, date) = (fields.line(&ETAG), fields.line(&DATE));
        let last_modified = fields.line(&LAST_MODIFIED);
        Selected { status, etag, last_modified, date, received, strong_last_modified }
    }

    /// Returns the response as its vouching origin would send it at `now`. Its `Last-Modified` is
    /// strong once the second that it names is over: any later change gets another date.
    #[must_use]
    pub fn vouched(self, now: Time) -> Selected<'a> {
        let is_old = self.last_modified().is_some_and(|modified| modified < now.second());
        Selected { strong_last_modified: self.strong_last_modified || is_old, ..self }
    }

    /// Returns the entity tag, if it is well-formed.
    pub fn etag(&self) -> Option<EntityTag<'a>> {
        EntityTag::parse(self.etag?)
    }

    /// Returns the value of `ETag` as received. Some servers omit the quotes and still recognise
    /// their tag. Such a tag proves nothing to the cache, but it can be sent in a condition.
    fn text_of_etag(&self) -> Option<&'a [u8]> {
        self.etag.filter(|value| !value.is_empty())
    }

    /// Returns the `Last-Modified`, if it is well-formed.
    pub fn last_modified(&self) -> Option<Time> {
        date::parse(self.last_modified?, self.received)
    }

    /// Returns the `Last-Modified`, if it is a strong validator.
    pub fn strong_last_modified(&self) -> Option<Time> {
        self.last_modified().filter(|_| self.strong_last_modified)
    }

    /// Returns the latest time at which the response may have changed: its `Last-Modified`,
    /// otherwise its `Date`, otherwise its receipt (RFC 9111, 4.3.2).
    fn changed(&self) -> Time {
        let made = || date::parse(self.date?, self.received);
        self.last_modified().or_else(made).unwrap_or(self.received.second())
    }
}

/// The result of evaluating the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Respond as if there were no conditions; evaluate `Range` next.
    Proceed,
    /// Respond with 304 and [`not_modified_headers`].
    NotModified,
    /// Respond with 412. Only from [`as_origin`].
    PreconditionFailed,
    /// Forward the request: only the origin may evaluate one of its conditions. Only from
    /// [`as_cache`].
    ForOrigin,
}

/// Returns whether the headers contain a validator.
pub fn has_any(fields: &impl Fields, received: Time) -> bool {
    let selected = Selected::of_stored(StatusCode::OK, fields, received, false);
    selected.text_of_etag().is_some() || selected.last_modified().is_some()
}

/// Returns whether the response was last modified within the second of its `Date`: it may have
/// changed again since without getting another `Last-Modified` (RFC 9110, 8.8.2.2), and servers
/// make tags of that date.
pub fn may_change_unseen(fields: &impl Fields, received: Time) -> bool {
    let selected = Selected::of_stored(StatusCode::OK, fields, received, false);
    let date = selected.date.and_then(|date| date::parse(date, received));
    let date = date.unwrap_or_else(|| received.second());
    selected.last_modified().is_some_and(|modified| modified >= date)
}

const FOR_ORIGIN: UsualNames = UsualNames::of(&["if-match", "if-unmodified-since"]);

/// Returns whether a request has a condition that only the origin may evaluate.
pub fn is_for_origin(request: &impl Fields) -> bool {
    request.has_any(FOR_ORIGIN)
}

/// Evaluates the conditions of a GET or HEAD against a stored response (RFC 9111, 4.3.2).
pub fn as_cache(method: &Method, request: &impl Fields, selected: &Selected, now: Time) -> Verdict {
    if !matches!(*method, Method::GET | Method::HEAD) || is_for_origin(request) {
        return Verdict::ForOrigin;
    }
    // Conditions do not count if the unconditional response is not a 2xx (RFC 9110, 13.2.1).
    if !selected.status.is_success() {
        return Verdict::Proceed;
    }
    let unmodified = if request.has(&IF_NONE_MATCH) {
        none_match_fails(request, selected)
    } else {
        is_unmodified_since(request, selected, now)
    };
    if unmodified { Verdict::NotModified } else { Verdict::Proceed }
}

/// Evaluates all conditions of a request with any method against the current representation, as an
/// origin does (RFC 9110, 13.2.2).
pub fn as_origin(
    method: &Method,
    request: &impl Fields,
    selected: &Selected,
    now: Time,
) -> Verdict {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if !selected.status.is_success()
        || matches!(*method, Method::CONNECT | Method::OPTIONS | Method::TRACE)
    {
        return Verdict::Proceed;
    }
    if request.has(&IF_MATCH) {
        let tag = selected.etag();
        if !etag::is_named(request.lines(&IF_MATCH), tag.as_ref(), |one, other| {
            one.strong_eq(other)
        }) {
            return Verdict::PreconditionFailed;
        }
    } else if let Some(limit) = only_date(request, &IF_UNMODIFIED_SINCE, now)
        && selected.last_modified().is_some_and(|modified| modified > limit)
    {
        return Verdict::PreconditionFailed;
    }
    if request.has(&IF_NONE_MATCH) {
        if none_match_fails(request, selected) {
            return if reads { Verdict::NotModified } else { Verdict::PreconditionFailed };
        }
    } else if reads
        && let Some(since) = only_date(request, &IF_MODIFIED_SINCE, now)
        && selected.last_modified().is_some_and(|modified| modified <= since)
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Returns whether `If-None-Match` matches the selected response, which makes the condition false.
fn none_match_fails(request: &impl Fields, selected: &Selected) -> bool {
    let tag = selected.etag();
    // A client returns a malformed tag exactly as it received it.
    let is_sent_back = || {
        tag.is_none()
            && selected.text_of_etag().is_some()
            && selected.text_of_etag() == request.line(&IF_NONE_MATCH)
    };
    let is_named = etag::is_named(request.lines(&IF_NONE_MATCH), tag.as_ref(), |one, other| {
        one.weak_eq(other)
    });
    is_named || is_sent_back()
}

/// Returns whether `If-Modified-Since` is at or after the last change. A response without
/// `Last-Modified` counts as changed at its `Date` or receipt (RFC 9111, 4.3.2).
fn is_unmodified_since(request: &impl Fields, selected: &Selected, now: Time) -> bool {
    only_date(request, &IF_MODIFIED_SINCE, now).is_some_and(|since| selected.changed() <= since)
}

/// Returns the date of a condition. Returns `None` if it is malformed or has several lines, in
/// which case it does not count (RFC 9110, 13.1.3 and 13.1.4).
fn only_date(request: &impl Fields, name: &HeaderName, now: Time) -> Option<Time> {
    date::parse(only_line(request, name)?, now)
}

/// Removes all conditions and `Range` from a request whose response is to be stored.
pub fn remove_conditions(request: &mut impl EditFields) {
    if !may_have_conditions(request) {
        return;
    }
    for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE] {
        request.remove_lines(&name);
    }
}

/// Returns whether a request has a condition, a `Range`, or another field whose name begins like
/// one. Most requests have none.
fn may_have_conditions(request: &impl Fields) -> bool {
    let is_one = |name: &[u8]| {
        begins_with(name, "if-") || name.eq_ignore_ascii_case(RANGE.as_str().as_bytes())
    };
    request.all().any(|(name, _)| is_one(name))
}

/// Removes all conditions that a cache must not forward when it has nothing to validate. The
/// remaining ones yield either a whole response or a 304 about the client's copy. Returns whether
/// any remain.
pub fn keep_questions(request: &mut impl EditFields) -> bool {
    if !may_have_conditions(request) {
        return false;
    }
    for name in [IF_MATCH, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE] {
        request.remove_lines(&name);
    }
    request.has(&IF_NONE_MATCH) || request.has(&IF_MODIFIED_SINCE)
}

/// Turns a request into a validation of a stored response: replaces the client's conditions and
/// `Range` with the stored validators (RFC 9111, 4.3.1). Returns false if there are no validators;
/// the request then asks for the whole response.
pub fn make_conditional(request: &mut impl EditFields, stored: &Selected) -> bool {
    remove_conditions(request);
    let tag = stored.text_of_etag();
    let date = stored.last_modified.filter(|_| stored.last_modified().is_some());
    let mut asks = false;
    for (name, value) in [(IF_NONE_MATCH, tag), (IF_MODIFIED_SINCE, date)] {
        if let Some(Ok(value)) = value.map(HeaderValue::from_bytes) {
            request.set_line(&name, &value);
            asks = true;
        }
    }
    asks
}

/// Adds the tags of other stored responses of the resource to the `If-None-Match` of a request. The
/// tag in a 304 then identifies the one that the request selects (RFC 9111, 4.3.1). Removes
/// `If-Modified-Since`, which would apply to only one of them. If the existing field is not a list
/// of tags, changes nothing and returns false.
pub fn ask_about(request: &mut impl EditFields, others: &[HeaderValue]) -> bool {
    let has_tags = |line| etag::tags(line).next().is_some();
    let is_list = !request.lines(&IF_NONE_MATCH).any(etag::is_any)
        && request.lines(&IF_NONE_MATCH).any(has_tags);
    if request.has(&IF_NONE_MATCH) && !is_list {
        return false;
    }
    let mut text = Vec::new();
    for line in request.lines(&IF_NONE_MATCH).chain(others.iter().map(HeaderValue::as_bytes)) {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line);
    }
    let Ok(value) = HeaderValue::from_bytes(&text) else { return false };
    request.set_line(&IF_NONE_MATCH, &value);
    request.remove_lines(&IF_MODIFIED_SINCE);
    true
}

/// Returns whether the `If-None-Match` of a request contains `tag` or `*`.
pub fn is_named(request: &impl Fields, tag: &EntityTag<'_>) -> bool {
    etag::is_named(request.lines(&IF_NONE_MATCH), Some(tag), |one, other| one.weak_eq(other))
}

/// Fields that describe a body, which a 304 does not have.
const LEFT_OUT_OF_304: [HeaderName; 7] = [
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    TRAILER,
    TRANSFER_ENCODING,
];

/// Returns whether a 304 made from a stored response omits a field: it describes a body (RFC 9110,
/// 15.4.5), or is the `Last-Modified` of a response that `has_etag`.
pub fn is_left_out_of_304(name: &str, has_etag: bool) -> bool {
    LEFT_OUT_OF_304.iter().any(|known| known == name)
        || one_exchange::is_content_digest(name)
        || (has_etag && LAST_MODIFIED == *name)
}

/// Returns the headers of a 304 for a stored response ([`is_left_out_of_304`]).
pub fn not_modified_headers(stored: &HeaderMap) -> HeaderMap {
    let mut headers = stored.clone();
    for name in LEFT_OUT_OF_304 {
        headers.remove(name);
    }
    one_exchange::remove_content_digests(&mut headers);
    if headers.contains_key(ETAG) {
        headers.remove(LAST_MODIFIED);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{EARLIER_DATE, LATER_DATE, NOW, NOW_DATE, headers};
    use crate::settings::usual_names::UsualNames;

    fn judged(
        as_who: fn(&Method, &HeaderMap, &Selected, Time) -> Verdict,
        method: &str,
        request: &[&str],
        status: u16,
        stored: &[&str],
    ) -> Verdict {
        let stored = headers(stored);
        let status = StatusCode::from_u16(status).unwrap();
        let selected = Selected::of(status, &stored, NOW);
        as_who(&method.parse().unwrap(), &headers(request), &selected, NOW)
    }

    fn date(name: &str, date: &str) -> String {
        format!("{name}: {date}")
    }

    #[test]
    fn the_date_of_what_is_vouched_for_is_strong_after_its_second() {
        for (stored, expected) in [
            (vec![date("Last-Modified", EARLIER_DATE)], true),
            (vec![date("Last-Modified", NOW_DATE)], false),
            (vec![date("Last-Modified", LATER_DATE)], false),
            (vec![], false),
        ] {
            let stored: Vec<&str> = stored.iter().map(String::as_str).collect();
            let fields = headers(&stored);
            let selected = Selected::of(StatusCode::OK, &fields, NOW);
            assert!(!selected.strong_last_modified);
            assert_eq!(selected.vouched(NOW).strong_last_modified, expected, "{stored:?}");
        }
    }

    #[test]
    fn a_cache_answers_what_a_client_has() {
        use Verdict::*;
        let since = |when: &str| date("If-Modified-Since", when);
        let (before, same, after) = (since(EARLIER_DATE), since(NOW_DATE), since(LATER_DATE));
        let modified = &*date("Last-Modified", NOW_DATE);
        let dated = &*date("Date", NOW_DATE);
        let cases: [(&[&str], &[&str], Verdict); 24] = [
            (&[], &["ETag: \"a\""], Proceed),
            (&["If-None-Match: \"a\""], &["ETag: \"a\""], NotModified),
            (&["If-None-Match: W/\"a\""], &["ETag: \"a\""], NotModified),
            (&["If-None-Match: \"a\""], &["ETag: W/\"a\""], NotModified),
            (&["If-None-Match: \"b\", \"a\""], &["ETag: \"a\""], NotModified),
            (&["If-None-Match: \"b\"", "If-None-Match: \"a\""], &["ETag: \"a\""], NotModified),
            (&["If-None-Match: \"b\""], &["ETag: \"a\""], Proceed),
            (&["If-None-Match: a"], &["ETag: \"a\""], Proceed),
            (&["If-None-Match: a"], &["ETag: a"], NotModified),
            (&["If-None-Match: \"a\""], &["ETag: a"], Proceed),
            (&["If-None-Match: \"a\""], &[], Proceed),
            (&["If-None-Match: *"], &[], NotModified),
            (&[&before], &[modified], Proceed),
            (&[&same], &[modified], NotModified),
            (&[&after], &[modified], NotModified),
            (&["If-Modified-Since: nonsense"], &[modified], Proceed),
            (&[&after, &after], &[modified], Proceed),
            // Without Last-Modified, Date or the time of receipt is used.
            (&[&before], &[dated], Proceed),
            (&[&same], &[dated], NotModified),
            (&[&same], &[], NotModified),
            (&[&before], &[], Proceed),
            // If-None-Match overrides If-Modified-Since.
            (&["If-None-Match: \"b\"", &after], &["ETag: \"a\"", modified], Proceed),
            // Only the origin may evaluate these.
            (&["If-Match: \"a\""], &["ETag: \"a\""], ForOrigin),
            (&["If-Unmodified-Since: x"], &["ETag: \"a\""], ForOrigin),
        ];
        for (request, stored, expected) in cases {
            for method in ["GET", "HEAD"] {
                let verdict = judged(as_cache, method, request, 200, stored);
                assert_eq!(verdict, expected, "{method} {request:?} {stored:?}");
            }
        }
        let verdict = judged(as_cache, "GET", &["If-None-Match: *"], 404, &["ETag: \"a\""]);
        assert_eq!(verdict, Proceed, "conditions count only where the answer would be a success");
    }

    #[test]
    fn an_origin_evaluates_in_the_order_of_rfc_9110() {
        use Verdict::*;
        let field = |name: &str, when: &str| date(name, when);
        let since_old = field("If-Modified-Since", EARLIER_DATE);
        let since_new = field("If-Modified-Since", LATER_DATE);
        let unmodified_old = field("If-Unmodified-Since", EARLIER_DATE);
        let unmodified_new = field("If-Unmodified-Since", LATER_DATE);
        let cases: [(&str, &[&str], Verdict); 17] = [
            ("PUT", &["If-Match: \"a\""], Proceed),
            ("PUT", &["If-Match: *"], Proceed),
            ("PUT", &["If-Match: W/\"a\""], PreconditionFailed),
            ("PUT", &["If-Match: \"b\""], PreconditionFailed),
            ("GET", &["If-Match: \"b\"", "If-None-Match: \"a\""], PreconditionFailed),
            ("PUT", &[&unmodified_old], PreconditionFailed),
            ("PUT", &[&unmodified_new], Proceed),
            ("PUT", &["If-Unmodified-Since: x"], Proceed),
            ("PUT", &["If-Match: \"a\"", &unmodified_old], Proceed),
            ("GET", &["If-Match: \"a\"", "If-None-Match: \"a\""], NotModified),
            ("PUT", &["If-None-Match: *"], PreconditionFailed),
            ("PUT", &["If-None-Match: \"b\""], Proceed),
            ("GET", &["If-None-Match: \"b\"", &since_new], Proceed),
            ("GET", &[&since_new], NotModified),
            ("GET", &[&since_old], Proceed),
            ("PUT", &[&since_new], Proceed),
            ("OPTIONS", &["If-Match: \"b\""], Proceed),
        ];
        let stored = ["ETag: \"a\"", &*date("Last-Modified", NOW_DATE)];
        for (method, request, expected) in cases {
            let verdict = judged(as_origin, method, request, 200, &stored);
            assert_eq!(verdict, expected, "{method} {request:?}");
        }
    }

    #[test]
    fn several_responses_are_asked_about_by_their_tags() {
        let others = [HeaderValue::from_static("\"b\""), HeaderValue::from_static("W/\"c\"")];
        let since = date("If-Modified-Since", NOW_DATE);
        let cases: [(&[&str], Option<&str>); 5] = [
            (&[], Some("\"b\", W/\"c\"")),
            (&["If-None-Match: \"a\"", &since], Some("\"a\", \"b\", W/\"c\"")),
            (
                &["If-None-Match: \"a\"", "If-None-Match: \"x\""],
                Some("\"a\", \"x\", \"b\", W/\"c\""),
            ),
            (&["If-None-Match: *"], None),
            (&["If-None-Match: a", &since], None),
        ];
        for (before, expected) in cases {
            let mut request = headers(before);
            assert_eq!(ask_about(&mut request, &others), expected.is_some(), "{before:?}");
            let Some(expected) = expected else {
                assert_eq!(request, headers(before));
                continue;
            };
            assert_eq!(request, headers(&[&format!("If-None-Match: {expected}")]));
            assert!(is_named(&request, &EntityTag::parse(b"W/\"b\"").unwrap()));
            assert!(!is_named(&request, &EntityTag::parse(b"\"z\"").unwrap()));
        }
    }

    #[test]
    fn a_validation_carries_our_validators_and_no_others() {
        let stored = headers(&["ETag: W/\"a\"", &date("Last-Modified", EARLIER_DATE)]);
        let selected = Selected::of(StatusCode::OK, &stored, NOW);
        let client = [
            "Range: bytes=0-1",
            "If-Range: \"x\"",
            "If-None-Match: \"x\"",
            "If-Match: *",
            "Accept: a",
        ];
        let mut request = headers(&client);
        assert!(make_conditional(&mut request, &selected));
        let expected = headers(&[
            "Accept: a",
            "If-None-Match: W/\"a\"",
            &date("If-Modified-Since", EARLIER_DATE),
        ]);
        assert_eq!(request, expected);

        let stored = headers(&["ETag: unquoted", "Last-Modified: whenever"]);
        let selected = Selected::of(StatusCode::OK, &stored, NOW);
        let mut request = headers(&client);
        assert!(make_conditional(&mut request, &selected));
        assert_eq!(request, headers(&["Accept: a", "If-None-Match: unquoted"]));

        let stored = headers(&["ETag:", "Last-Modified: whenever"]);
        let selected = Selected::of(StatusCode::OK, &stored, NOW);
        let mut request = headers(&client);
        assert!(!make_conditional(&mut request, &selected));
        assert_eq!(request, headers(&["Accept: a"]));
    }

    #[test]
    fn a_clients_own_questions_are_kept_without_what_asks_for_a_part() {
        let mut request = headers(&["If-None-Match: \"x\"", "If-Match: *", "Range: bytes=0-1"]);
        assert!(keep_questions(&mut request));
        assert_eq!(request, headers(&["If-None-Match: \"x\""]));
        let mut request = headers(&["If-Range: \"x\"", "Range: bytes=0-1", "Accept: a"]);
        assert!(!keep_questions(&mut request));
        assert_eq!(request, headers(&["Accept: a"]));
    }

    #[test]
    fn a_304_describes_no_body() {
        let stored = headers(&[
            "ETag: \"a\"",
            "Last-Modified: x",
            "Content-Type: a/b",
            "Content-Length: 5",
            "Content-Encoding: gzip",
            "Content-Location: /a",
            "Cache-Control: max-age=5",
            "Vary: Accept",
            "Expires: 0",
            "Date: x",
            "Age: 1",
        ]);
        let reply = not_modified_headers(&stored);
        let expected = headers(&[
            "ETag: \"a\"",
            "Content-Location: /a",
            "Cache-Control: max-age=5",
            "Vary: Accept",
            "Expires: 0",
            "Date: x",
            "Age: 1",
        ]);
        assert_eq!(reply, expected);
        let mut by_name = stored.clone();
        let is_left_out = |name: &str| is_left_out_of_304(&name.to_ascii_uppercase(), true);
        by_name.remove_in(UsualNames::all_in(is_left_out), is_left_out);
        assert_eq!(by_name, expected);
        assert!(!is_left_out_of_304("last-modified", false));
        assert!(not_modified_headers(&headers(&["Last-Modified: x"])).contains_key(LAST_MODIFIED));
    }

    #[test]
    fn last_modified_is_strong_a_second_before_date() {
        let strong = |lines: &[&str]| {
            let headers = headers(lines);
            let selected = Selected::of(StatusCode::OK, &headers, NOW);
            selected.strong_last_modified().is_some()
        };
        let (old, new) = (date("Last-Modified", EARLIER_DATE), date("Last-Modified", NOW_DATE));
        let dated = date("Date", NOW_DATE);
        assert!(strong(&[&old, &dated]));
        assert!(!strong(&[&new, &dated]));
        assert!(!strong(&[&old]), "without the origin's Date nothing is known");
    }
}
