//! Updates of a stored response by a 304 or by the response to a HEAD (RFC 9111, 3.2, 4.3.4,
//! 4.3.5).
//!
//! The body stays unchanged, and so does every field that describes its bytes.

use http::StatusCode;
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    EXPIRES, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, VARY,
};

use crate::fields::cache_control::ResponseDirectives;
use crate::fields::date;
use crate::fields::etag::EntityTag;
use crate::fields::ignored_fields::IGNORED;
use crate::fields::vary::Vary;
use crate::fields::{hop_by_hop, one_exchange, vary};
use crate::request::disguise;
use crate::request::facts::{RequestFacts, TargetFacts};
use crate::response::storability;
use crate::settings::Settings;
use crate::stored::packed::{Flag, Packed};
use crate::stored::stored_head::StoredHead;
use crate::time::ExchangeTimes;

/// Fields of the stored response that no update changes: they belong to the stored bytes (RFC 9111,
/// 3.2). `ETag` has rules of its own.
const KEPT: [HeaderName; 4] = [
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    // In a 304 this would be the digest of empty content (RFC 9530, 2).
    HeaderName::from_static("content-digest"),
];

/// Returns whether a 304 applies to this stored response (RFC 9111, 4.3.4). If not, the stored
/// response must be neither used nor refreshed: fetch again without conditions.
///
/// A 304 without validators applies to the response whose validators were sent.
pub fn confirms(stored: &StoredHead, not_modified: &HeaderMap, times: ExchangeTimes) -> bool {
    let selected = stored.selected();
    let new_tag = not_modified.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    match (selected.etag(), new_tag) {
        (Some(old), Some(new)) if !new.weak && !old.weak => return old.strong_eq(&new),
        (Some(old), Some(new)) => return old.weak_eq(&new),
        // A response with `Vary: *` matches no request by its fields, so only its own tag confirms
        // it.
        _ if stored.vary() == Vary::Star => return false,
        _ => {}
    }
    let new_modified = date::of_field(not_modified, &LAST_MODIFIED, times.received);
    // A strong tag that the stored response lacks may belong to another one.
    if selected.etag().is_none() && new_tag.is_some_and(|tag| !tag.weak) {
        return new_modified.is_some() && new_modified == selected.strong_last_modified();
    }
    match (selected.last_modified(), new_modified) {
        (Some(old), Some(new)) => old == new,
        _ => true,
    }
}

/// Fields that say how long and for which requests a stored response is valid, to any client.
const VALIDITY: [HeaderName; 7] = [AGE, CACHE_CONTROL, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY];

/// Takes from an update, before [`freshen`], the fields that are for its client alone, and returns
/// them. These are, if the request identifies its client and the update states no lifetime for all,
/// those that the stored response has not, or with another value.
///
/// An origin repeats in a 304 the `Cache-Control` of the response (RFC 9110, 15.4.5): without it,
/// the response to this client would not be stored for others.
pub fn take_personal(
    request: &RequestFacts,
    stored: &StoredHead,
    update: &mut HeaderMap,
    times: ExchangeTimes,
    settings: &Settings,
) -> HeaderMap {
    let mut personal = HeaderMap::new();
    let headers = stored.headers();
    if !storability::is_personal_update(request, headers, update, times, settings) {
        return personal;
    }
    // Other rules apply to fields that concern one exchange or one hop.
    let is_shared = |name: &HeaderName| {
        VALIDITY.contains(name)
            || KEPT.contains(name)
            || one_exchange::is_for_client(name)
            || hop_by_hop::is_for_one_hop(name)
            || settings.targets.contains(name)
            || name.as_str().starts_with("larder-")
            || headers.get_all(name) == update.get_all(name)
    };
    let names: Vec<_> = update.keys().filter(|name| !is_shared(name)).cloned().collect();
    for name in names {
        personal.extend(update.get_all(&name).iter().map(|value| (name.clone(), value.clone())));
        update.remove(name);
    }
    personal
}

/// Returns the stored response updated by a 304 that [`confirms`] it. Each field of the 304
/// replaces the stored one, except those that describe the body or concern one exchange. Age and
/// lifetime start anew. `Vary` only grows: a 304 that names fewer fields does not change what the
/// stored response was selected by.
///
/// Call [`crate::response::storability::judge`] before keeping the result: the 304 may say
/// `no-store`.
pub fn freshen(
    target: TargetFacts,
    stored: &StoredHead,
    not_modified: &HeaderMap,
    times: ExchangeTimes,
    settings: &Settings,
) -> StoredHead {
    let mut update = not_modified.clone();
    hop_by_hop::strip(&mut update);
    for name in KEPT.into_iter().chain(one_exchange::lacked_by(stored.headers())) {
        update.remove(name);
    }
    vary::widen(&mut update, stored.headers());
    // The age is that of the update; the stored `Date` would make it look older.
    date::ensure(&mut update, times.received);
    let mut headers = stored.headers().clone();
    headers.remove(AGE);
    for name in update.keys() {
        if *name == ETAG && !may_replace_etag(stored, &update) {
            continue;
        }
        headers.remove(name);
        for value in update.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    // A 304 whose rule ignores nothing says so. It rarely has the type of the document.
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_disguised = target.names_file && kind.is_some_and(disguise::is_document);
    if is_disguised || headers.get(IGNORED).is_some_and(HeaderValue::is_empty) {
        headers.remove(IGNORED);
    }
    let fresh = StoredHead::new(target, stored.status(), &headers, times, settings);
    let fresh = fresh.with_trailers_of(stored).spelled(stored.spellings().clone());
    // The new `Date` is later than the body and proves nothing about a body received within the
    // second of its last change: a weak validator stays weak.
    if stored.packed().is(Flag::StrongLastModified) {
        fresh
    } else {
        fresh.with_weak_last_modified()
    }
}

/// Returns the fields of a 304 that are for the requesting client alone and not in the stored
/// response that [`freshen`] returned: those named by its `no-cache` or `private` (RFC 9111,
/// 5.2.2.4 and 5.2.2.7), and those that concern this exchange.
pub fn for_asker(fresh: &StoredHead, not_modified: &HeaderMap, settings: &Settings) -> HeaderMap {
    let directives = ResponseDirectives::parse(fresh.headers(), settings);
    let named = directives.private.fields().iter().chain(directives.no_cache.fields());
    let mut fields = HeaderMap::new();
    for name in named.cloned().chain(one_exchange::for_client(fresh.headers())) {
        if !hop_by_hop::is_for_one_hop(&name) && !fields.contains_key(&name) {
            fields.extend(not_modified.get_all(&name).iter().map(|v| (name.clone(), v.clone())));
        }
    }
    fields
}

/// Returns whether the tag of `update` may replace the stored one. A strong tag guarantees every
/// byte, so a response without a strong validator cannot acquire one from a weak comparison.
fn may_replace_etag(stored: &StoredHead, update: &HeaderMap) -> bool {
    let new = update.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    let packed: &Packed = stored.packed();
    match new {
        None => false,
        Some(tag) if tag.weak => true,
        Some(_) => {
            packed.is(Flag::StrongEtag)
                || (!packed.is(Flag::WeakEtag) && packed.is(Flag::StrongLastModified))
        }
    }
}

/// The effect of the response to a HEAD on the stored GET of the same URL and variant.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadEffect {
    /// The representation is unchanged: replace the stored head with this one.
    Refresh(StoredHead),
    /// The representation has changed: the stored response needs validation before any use.
    Outdated,
    /// No effect on the stored response.
    Nothing,
}

/// Evaluates the response to a HEAD (RFC 9111, 4.3.5). `body_length` is the length of the stored
/// body in bytes.
///
/// Judge a refreshed head before keeping it, as after [`freshen`]. Use the facts of a GET: those
/// of the HEAD do not permit storing. What would not be stored for others as a response to this
/// client refreshes nothing.
pub fn head_effect(
    request: &RequestFacts,
    stored: &StoredHead,
    body_length: u64,
    status: StatusCode,
    headers: &HeaderMap,
    times: ExchangeTimes,
    settings: &Settings,
) -> HeadEffect {
    if stored.status() != StatusCode::OK {
        return HeadEffect::Nothing;
    }
    let is_personal =
        storability::is_personal_update(request, stored.headers(), headers, times, settings);
    let refresh = || match is_personal {
        true => HeadEffect::Nothing,
        false => HeadEffect::Refresh(freshen(request.target, stored, headers, times, settings)),
    };
    if status == StatusCode::NOT_MODIFIED {
        // The 304 answers a condition of the client. It applies to this response only if it has the
        // same strong tag.
        let tag = headers.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
        let selected = stored.selected();
        return match (selected.etag(), tag) {
            (Some(ours), Some(theirs)) if ours.strong_eq(&theirs) => refresh(),
            _ => HeadEffect::Nothing,
        };
    }
    if status != StatusCode::OK {
        return HeadEffect::Nothing;
    }
    // A different coding means another representation, selected by something that `Vary` did not
    // name.
    if headers.get(CONTENT_ENCODING) != stored.headers().get(CONTENT_ENCODING) {
        return HeadEffect::Nothing;
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let same_length = lengths.all(|length| {
        length.to_str().ok().and_then(|text| text.parse::<u64>().ok()) == Some(body_length)
    });
    let same_validators =
        has_equal_or_no(stored, headers, ETAG) && has_equal_or_no(stored, headers, LAST_MODIFIED);
    if !(same_length && same_validators) {
        return HeadEffect::Outdated;
    }
    refresh()
}

fn has_equal_or_no(stored: &StoredHead, headers: &HeaderMap, name: HeaderName) -> bool {
    headers.get(&name).is_none_or(|value| stored.headers().get(&name) == Some(value))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::fixture::{AT_NOW, EARLIER_DATE, LATER_DATE, NOW, NOW_DATE, headers, later, stored};
    use crate::request::facts::Identity;
    use crate::time::Seconds;

    fn line(name: &str, value: &str) -> String {
        format!("{name}: {value}")
    }

    #[test]
    fn a_304_confirms_what_carries_its_validator() {
        let (old, new) = (line("Last-Modified", EARLIER_DATE), line("Last-Modified", NOW_DATE));
        let dated = line("Date", NOW_DATE);
        let cases: [(&[&str], &[&str], bool); 17] = [
            (&["ETag: \"a\""], &["ETag: \"a\""], true),
            (&["ETag: \"a\""], &["ETag: \"b\""], false),
            (&["ETag: \"a\""], &["ETag: W/\"a\""], true),
            (&["ETag: W/\"a\""], &["ETag: W/\"a\""], true),
            (&["ETag: W/\"a\""], &["ETag: W/\"b\""], false),
            (&["ETag: \"a\"", &old], &["ETag: \"a\"", &new], true),
            (&["ETag: \"a\"", &old], &[&old], true),
            (&["ETag: \"a\"", &old], &[&new], false),
            (&[&old], &[&old], true),
            (&[&old], &[&new], false),
            (&["ETag: \"a\""], &[], true),
            (&[&old], &["ETag: \"a\""], false),
            (&[&old, &dated], &["ETag: \"a\"", &old], true),
            (&[&old], &["ETag: \"a\"", &old], false),
            (&[&old], &["ETag: W/\"a\""], true),
            (&["Vary: *", "ETag: \"a\""], &["ETag: \"a\""], true),
            (&["Vary: *", "ETag: \"a\""], &[], false),
        ];
        for (ours, theirs, expected) in cases {
            let verdict = confirms(&stored(ours), &headers(theirs), AT_NOW);
            assert_eq!(verdict, expected, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn a_304_renews_the_head_and_leaves_what_belongs_to_the_body() {
        let before = stored(&[
            "Cache-Control: max-age=60",
            "ETag: \"a\"",
            "Content-Length: 5",
            "Content-Encoding: gzip",
            "Content-Type: text/a",
            "X-Kept: 1",
            "X-Many: 1",
            "X-Many: 2",
            &line("Date", EARLIER_DATE),
        ]);
        let update = headers(&[
            "Cache-Control: max-age=90",
            "ETag: \"a\"",
            "Content-Length: 0",
            "Content-Encoding: br",
            "Content-Range: bytes 0-1/2",
            "Content-Type: text/b",
            "X-Many: 3",
            "X-New: 1",
            "Age: 10",
            "Connection: close, x-hop",
            "X-Hop: 1",
            "Transfer-Encoding: chunked",
        ]);
        let times = ExchangeTimes { requested: later(100), received: later(100) };
        let after = freshen(TargetFacts::default(), &before, &update, times, &Settings::default());
        let expected = headers(&[
            "Cache-Control: max-age=90",
            "ETag: \"a\"",
            "Content-Length: 5",
            "Content-Encoding: gzip",
            "Content-Type: text/b",
            "X-Kept: 1",
            "X-Many: 3",
            "X-New: 1",
            "Date: Fri, 15 Jan 2027 08:01:40 GMT",
        ]);
        assert_eq!(*after.headers(), expected);
        assert_eq!(after.packed().age(later(100)), Seconds::new(10));
        assert_eq!(after.packed().lifetime(), Seconds::new(90));
        assert_eq!(after.status(), StatusCode::OK);
    }

    #[test]
    fn a_weak_comparison_never_yields_a_strong_tag() {
        let (modified, dated) = (line("Last-Modified", EARLIER_DATE), line("Date", NOW_DATE));
        let cases: [(&[&str], &str, Option<&str>); 6] = [
            (&["ETag: \"a\""], "\"a\"", Some("\"a\"")),
            (&["ETag: \"a\""], "W/\"a\"", Some("W/\"a\"")),
            (&["ETag: W/\"a\""], "\"a\"", Some("W/\"a\"")),
            (&[&modified], "\"a\"", None),
            (&[&modified, &dated], "\"a\"", Some("\"a\"")),
            (&["ETag: \"a\""], "a", Some("\"a\"")),
        ];
        for (ours, theirs, expected) in cases {
            let update = headers(&[&line("ETag", theirs)]);
            let after = freshen(
                TargetFacts::default(),
                &stored(ours),
                &update,
                AT_NOW,
                &Settings::default(),
            );
            let tag = after.headers().get(ETAG).map(|value| value.to_str().unwrap());
            assert_eq!(tag, expected, "{ours:?} {theirs}");
        }
    }

    #[test]
    fn a_weak_last_modified_stays_weak_however_late_the_304() {
        let (old, new) = (line("Last-Modified", EARLIER_DATE), line("Last-Modified", NOW_DATE));
        let (date, later_date) = (line("Date", NOW_DATE), line("Date", LATER_DATE));
        let times = ExchangeTimes { requested: later(1000), received: later(1000) };
        let once = |modified: &str| {
            let update = headers(&[&later_date]);
            freshen(
                TargetFacts::default(),
                &stored(&[modified, &date]),
                &update,
                times,
                &Settings::default(),
            )
        };
        assert!(once(&old).packed().is(Flag::StrongLastModified));
        assert!(!once(&new).packed().is(Flag::StrongLastModified));
        let tagged = headers(&["ETag: \"a\"", &later_date]);
        let twice =
            freshen(TargetFacts::default(), &once(&new), &tagged, times, &Settings::default());
        assert_eq!(twice.headers().get(ETAG), None);
    }

    #[test]
    fn an_update_without_a_lifetime_gives_its_fields_to_an_identified_client_alone() {
        let settings = Settings::default();
        let of = |request: &[&str]| {
            let request = headers(request);
            RequestFacts::of(&Method::GET, &request).with("/a", Identity::of(&request, &settings))
        };
        type Lines<'a> = &'a [&'a str];
        let cookie: Lines<'_> = &["Cookie: session=1"];
        let cases: [(Lines<'_>, Lines<'_>, Lines<'_>, bool); 6] = [
            (cookie, &[], &["X-User: a"], true),
            (cookie, &[], &["X-User: a", "Cache-Control: no-cache"], true),
            (cookie, &[], &["X-User: a", "Cache-Control: max-age=60"], false),
            (cookie, &[], &["X-User: stored"], false),
            (cookie, &["Vary: Cookie"], &["X-User: a"], false),
            (&[], &[], &["X-User: a"], false),
        ];
        for (request, more, update, is_personal) in cases {
            let lines = [&["Cache-Control: max-age=5", "X-User: stored"], more].concat();
            let (facts, stored) = (of(request), stored(&lines));
            let effect = head_effect(
                &facts,
                &stored,
                5,
                StatusCode::OK,
                &headers(update),
                AT_NOW,
                &settings,
            );
            let mut update = headers(update);
            let own = take_personal(&facts, &stored, &mut update, AT_NOW, &settings);
            assert_eq!(!own.is_empty(), is_personal, "{request:?} {update:?}");
            assert_eq!(!update.contains_key("x-user"), is_personal);
            if is_personal {
                assert_eq!(effect, HeadEffect::Nothing);
            }
        }
    }

    #[test]
    fn a_head_refreshes_what_it_matches_and_outdates_what_it_contradicts() {
        let (old, new) = (line("Last-Modified", EARLIER_DATE), line("Last-Modified", LATER_DATE));
        let tagged: &[&str] = &["ETag: \"a\"", &old, "Cache-Control: max-age=60"];
        let bare: &[&str] = &["Cache-Control: max-age=60"];
        let cases: [(&[&str], u16, &[&str], &str); 16] = [
            (tagged, 200, &["ETag: \"a\"", "X-New: 1"], "refresh"),
            (tagged, 200, &["ETag: \"a\"", "Content-Length: 5"], "refresh"),
            (tagged, 200, &[&old, "Content-Length: 5"], "refresh"),
            (tagged, 200, &["ETag: \"b\""], "outdated"),
            (tagged, 200, &[&new], "outdated"),
            (tagged, 200, &["ETag: \"a\"", "Content-Length: 6"], "outdated"),
            (tagged, 200, &["ETag: \"a\"", "Content-Length: x"], "outdated"),
            (tagged, 200, &["Content-Length: 5"], "refresh"),
            (tagged, 200, &["X-New: 1"], "refresh"),
            (tagged, 200, &["ETag: \"b\"", "Content-Encoding: gzip"], "nothing"),
            (tagged, 404, &["ETag: \"b\""], "nothing"),
            (tagged, 304, &["ETag: \"a\""], "refresh"),
            (tagged, 304, &["ETag: W/\"a\""], "nothing"),
            (tagged, 304, &[], "nothing"),
            (bare, 200, &["Content-Length: 5"], "refresh"),
            (bare, 200, &["Content-Length: 6"], "outdated"),
        ];
        for (ours, status, theirs, expected) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            let settings = Settings::default();
            let effect = head_effect(
                &RequestFacts::of(&Method::GET, &HeaderMap::new()),
                &stored(ours),
                5,
                status,
                &headers(theirs),
                AT_NOW,
                &settings,
            );
            let word = match effect {
                HeadEffect::Refresh(_) => "refresh",
                HeadEffect::Outdated => "outdated",
                HeadEffect::Nothing => "nothing",
            };
            assert_eq!(word, expected, "{ours:?} {status} {theirs:?}");
        }
        let outdated = stored(tagged).expired();
        assert!(!outdated.packed().is_fresh(NOW));
    }
}
