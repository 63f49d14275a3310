//! Storability of a response in a shared cache (RFC 9111, 3 and 3.5).

use std::fmt;

use http::StatusCode;
use http::header::{CONTENT_LOCATION, COOKIE, ETAG, HeaderMap, HeaderName, SET_COOKIE};

use crate::fields::cache_control::{Delta, ResponseDirectives, Scope};
use crate::fields::etag::EntityTag;
use crate::fields::validators;
use crate::fields::vary::Vary;
use crate::request::facts::{MethodClass, RequestFacts};
use crate::request::url::Url;
use crate::response::age;
use crate::response::freshness;
use crate::response::freshness::Freshness;
use crate::settings::{Settings, Sharing};
use crate::time::{ExchangeTimes, Seconds};

/// The reason why a response is not stored: the first one that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStorable {
    /// The request is not a GET.
    Method,
    /// The operator forbids storing ([`Settings::store`]).
    Rule,
    /// The status is interim, depends on the conditions of the request, or forbids storing. If the
    /// origin vouches: anything but a 200 with a strong entity tag.
    Status,
    /// A partial response (206).
    PartialContent,
    /// `no-store` in the request.
    NoStoreRequest,
    /// `no-store` in the response.
    NoStore,
    /// `must-understand` with a status that this cache does not know.
    MustUnderstand,
    /// `private`.
    Private,
    /// The request carries `Authorization`, and the response does not permit sharing.
    Authorization,
    /// `Vary: *` or a malformed `Vary`, on an error or without a tag for validation: no request
    /// would match the response.
    VaryStar,
    /// `Set-Cookie`, and either the settings forbid storing it, or the origin does not state that
    /// the response is for all clients.
    SetCookie,
    /// The request carries `Cookie`, no positive lifetime is stated, and `Vary` does not name the
    /// field.
    Cookie,
    /// The same for another field that identifies the client.
    Identified,
    /// Storing is useless: the response is neither fresh nor possible to validate.
    NoFreshness,
}

impl NotStorable {
    /// Returns a short name for logs and metrics: lower case, words joined by `-`.
    pub const fn name(self) -> &'static str {
        match self {
            NotStorable::Method => "method",
            NotStorable::Rule => "rule",
            NotStorable::Status => "status",
            NotStorable::PartialContent => "partial-content",
            NotStorable::NoStoreRequest => "no-store-request",
            NotStorable::NoStore => "no-store",
            NotStorable::MustUnderstand => "must-understand",
            NotStorable::Private => "private",
            NotStorable::Authorization => "authorization",
            NotStorable::VaryStar => "vary-star",
            NotStorable::SetCookie => "set-cookie",
            NotStorable::Cookie => "cookie",
            NotStorable::Identified => "identified",
            NotStorable::NoFreshness => "no-freshness",
        }
    }
}

impl fmt::Display for NotStorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for NotStorable {}

/// Decides whether the final response to `request` may be stored. `Err` contains the first reason
/// against it.
///
/// The caller must check that the body arrived completely (RFC 9111, 3.3).
pub fn judge(
    request: &RequestFacts,
    status: StatusCode,
    headers: &HeaderMap,
    times: ExchangeTimes,
    settings: &Settings,
) -> Result<(), NotStorable> {
    let directives = ResponseDirectives::parse(headers, settings);
    judge_by(request, status, headers, &directives, times, settings)
}

/// Same as [`judge`], with the directives already parsed.
pub(crate) fn judge_by(
    request: &RequestFacts,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    times: ExchangeTimes,
    settings: &Settings,
) -> Result<(), NotStorable> {
    if request.class != MethodClass::Cacheable || request.is_head {
        return Err(NotStorable::Method);
    }
    if !settings.store {
        return Err(NotStorable::Rule);
    }
    judge_status(status)?;
    if settings.origin_vouches && !(status == StatusCode::OK && has_strong_tag(headers)) {
        return Err(NotStorable::Status);
    }
    if request.directives.no_store {
        return Err(NotStorable::NoStoreRequest);
    }
    judge_directives(request, status, directives)?;
    // Only the origin knows which request it fits; a tag makes it possible to ask (RFC 9111, 4.1).
    let tag = headers.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    if matches!(Vary::of(headers), Vary::Star) && (tag.is_none() || !status.is_success()) {
        return Err(NotStorable::VaryStar);
    }
    let (target, received) = (request.target, times.received);
    let freshness = freshness::lifetime(target, status, headers, directives, received, settings);
    if headers.contains_key(SET_COOKIE) && !is_left_out(directives, &SET_COOKIE) {
        let of_origin =
            freshness::by_origin(target, status, headers, directives, received, settings);
        if !(settings.store_set_cookie && shares_cookie(directives, of_origin, freshness)) {
            return Err(NotStorable::SetCookie);
        }
    }
    judge_identity(request, headers, freshness)?;
    let is_meant = directives.public || freshness.is_explicit();
    let may_be_stored = is_meant || freshness::is_heuristically_cacheable(status);
    if may_be_stored && is_useful(status, headers, directives, freshness, times, settings) {
        Ok(())
    } else {
        Err(NotStorable::NoFreshness)
    }
}

/// Returns whether a field is for its client alone and never stored, because `private` or
/// `no-cache` names it (RFC 9111, 5.2.2.4 and 5.2.2.7).
fn is_left_out(directives: &ResponseDirectives, name: &HeaderName) -> bool {
    directives.private.fields().contains(name) || directives.no_cache.fields().contains(name)
}

/// Returns whether the origin itself states, by a lifetime or by `public`, that a response with
/// `Set-Cookie` is for all clients. An operator's lifetime is for a whole site, whereas a cookie
/// may be for a single user: it must not prolong a lifetime of zero stated by the origin.
fn shares_cookie(directives: &ResponseDirectives, of_origin: Freshness, used: Freshness) -> bool {
    let is_over_at_once = of_origin.is_stated_by_origin() && of_origin.lifetime == Seconds::ZERO;
    let is_prolonged = is_over_at_once && used.lifetime > Seconds::ZERO;
    (directives.public || of_origin.is_stated_by_origin()) && !is_prolonged
}

/// Decides whether a response to a request that identifies its client may be shared: a positive
/// lifetime is stated, or the identifying fields are part of the key of the variant.
fn judge_identity(
    request: &RequestFacts,
    headers: &HeaderMap,
    freshness: Freshness,
) -> Result<(), NotStorable> {
    if freshness.is_stated_positive() || is_told_apart(request, headers) {
        return Ok(());
    }
    match request.identified_by.iter().all(|name| *name == COOKIE) {
        true => Err(NotStorable::Cookie),
        false => Err(NotStorable::Identified),
    }
}

/// Returns whether an update of a response that is stored for others, by a 304 or the response to a
/// HEAD, tells only the client of `request` what it says: had its fields come with a response of
/// their own, that would not be stored for others.
pub(crate) fn is_personal_update(
    request: &RequestFacts,
    stored: &HeaderMap,
    update: &HeaderMap,
    times: ExchangeTimes,
    settings: &Settings,
) -> bool {
    let directives = ResponseDirectives::parse(update, settings);
    let (status, received) = (StatusCode::OK, times.received);
    let freshness =
        freshness::lifetime(request.target, status, update, &directives, received, settings);
    !is_told_apart(request, stored) && judge_identity(request, update, freshness).is_err()
}

/// Returns whether all fields that identify the client select the response.
fn is_told_apart(request: &RequestFacts, headers: &HeaderMap) -> bool {
    let vary = Vary::of(headers);
    request.is_told_apart_by(|name| vary.names().iter().any(|selects| selects == name))
}

fn has_strong_tag(headers: &HeaderMap) -> bool {
    let tag = headers.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    tag.is_some_and(|tag| !tag.weak)
}

/// Returns whether the response to a POST may be stored for later GETs of its URL: it must state
/// that it is what a GET would get, and for how long (RFC 9110, 9.3.3).
pub fn is_post_for_get(
    request: &RequestFacts,
    url: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    times: ExchangeTimes,
    settings: &Settings,
) -> bool {
    let mut locations = headers.get_all(CONTENT_LOCATION).iter();
    let location = locations.next().and_then(|value| value.to_str().ok());
    let names_itself = locations.next().is_none()
        && location.and_then(|reference| url.resolve(reference)).is_some_and(|named| named == *url);
    let directives = ResponseDirectives::parse(headers, settings);
    let (target, received) = (request.target, times.received);
    let freshness = freshness::lifetime(target, status, headers, &directives, received, settings);
    let facts = RequestFacts { class: MethodClass::Cacheable, ..request.clone() };
    names_itself
        && status == StatusCode::OK
        && freshness.is_stated_by_origin()
        && judge(&facts, status, headers, times, settings).is_ok()
}

fn judge_status(status: StatusCode) -> Result<(), NotStorable> {
    match status.as_u16() {
        206 => Err(NotStorable::PartialContent),
        // These depend on the conditions, range or expectation of one request.
        304 | 412 | 416 | 417 => Err(NotStorable::Status),
        // These concern this hop. RFC 6585 forbids storing 428, 429, 431 and 511.
        407 | 428 | 429 | 431 | 511 => Err(NotStorable::Status),
        200..=599 => Ok(()),
        _ => Err(NotStorable::Status),
    }
}

/// Returns whether this cache implements the caching requirements of a status (`must-understand`).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=406 | 409..=411 | 413..=415 | 422 | 451
            | 500..=505
    )
}

fn judge_directives(
    request: &RequestFacts,
    status: StatusCode,
    directives: &ResponseDirectives,
) -> Result<(), NotStorable> {
    // With must-understand, no-store is for caches that do not know the status (RFC 9111, 5.2.2.3).
    if directives.must_understand {
        if !is_understood(status) {
            return Err(NotStorable::MustUnderstand);
        }
    } else if directives.no_store {
        return Err(NotStorable::NoStore);
    }
    if directives.private == Scope::All {
        return Err(NotStorable::Private);
    }
    if request.authorized && !permits_sharing(directives) {
        return Err(NotStorable::Authorization);
    }
    Ok(())
}

/// Returns whether the directives permit a shared cache to store a response to a request with
/// `Authorization` (RFC 9111, 3.5).
pub(crate) fn permits_sharing(directives: &ResponseDirectives) -> bool {
    directives.public
        || directives.must_revalidate
        || matches!(directives.s_maxage, Delta::Value(_))
}

/// Returns whether a later request can use the response: while fresh, stale if permitted, or after
/// a validation.
fn is_useful(
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    freshness: Freshness,
    times: ExchangeTimes,
    settings: &Settings,
) -> bool {
    if settings.sharing == Sharing::Careful
        && !freshness.is_stated_positive()
        && validators::may_change_unseen(headers, times.received)
    {
        return false;
    }
    if status.is_success() && validators::has_any(headers, times.received) {
        return true;
    }
    if directives.no_cache == Scope::All {
        return false;
    }
    let stale_use = match has_grace(status, freshness, settings) {
        true => longest_grace(directives, settings),
        false => Seconds::ZERO,
    };
    freshness.lifetime.plus(stale_use).millis() > age::initial(headers, times)
}

/// Returns whether the response may be served stale at all. A lifetime of zero never permits it,
/// and with careful sharing a heuristic one does not either.
fn has_grace(status: StatusCode, freshness: Freshness, settings: &Settings) -> bool {
    let is_meant = match settings.sharing {
        Sharing::Careful => freshness.is_stated_positive(),
        Sharing::Rfc => freshness.lifetime > Seconds::ZERO,
    };
    is_meant && !settings.lifetimes.keep_no_error(status)
}

/// Returns how long after its lifetime the response may be served stale, by permission of the
/// origin or during an outage (RFC 9111, 4.2.4). The operator's default windows do not make a
/// response worth storing.
fn longest_grace(directives: &ResponseDirectives, settings: &Settings) -> Seconds {
    let window = |said: Delta| said.or_zero_when_invalid().unwrap_or_default();
    let forbids = directives.must_revalidate
        || directives.proxy_revalidate
        || directives.s_maxage != Delta::Absent;
    let outage = if forbids { Seconds::ZERO } else { settings.stale_when_unreachable };
    let granted = window(directives.stale_while_revalidate);
    granted.max(window(directives.stale_if_error)).max(outage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{AT_NOW, EARLIER_DATE, LATER_DATE, NOW_DATE, headers};
    use crate::request::facts::{Identity, TargetFacts};
    use crate::settings::{Lifetime, Lifetimes};
    use NotStorable::*;

    fn verdict(
        method: &str,
        request: &[&str],
        status: u16,
        response: &[&str],
    ) -> Result<(), NotStorable> {
        let facts = RequestFacts::of(&method.parse().unwrap(), &headers(request));
        let status = StatusCode::from_u16(status).unwrap();
        judge(&facts, status, &headers(response), AT_NOW, &Settings::default())
    }

    fn get(status: u16, response: &[&str]) -> Result<(), NotStorable> {
        verdict("GET", &[], status, response)
    }

    const MAX_AGE: &str = "Cache-Control: max-age=60";

    #[test]
    fn only_gets_are_stored() {
        assert_eq!(verdict("GET", &[], 200, &[MAX_AGE]), Ok(()));
        for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "QUERY"] {
            assert_eq!(verdict(method, &[], 200, &[MAX_AGE]), Err(Method), "{method}");
        }
    }

    #[test]
    fn statuses_about_one_request_or_hop_are_not_stored() {
        for status in [304, 407, 412, 416, 417, 428, 429, 431, 511, 600, 999] {
            assert_eq!(get(status, &[MAX_AGE]), Err(Status), "{status}");
        }
        assert_eq!(get(100, &[MAX_AGE]), Err(Status));
        assert_eq!(get(206, &[MAX_AGE]), Err(PartialContent));
        for status in [200, 201, 203, 204, 299, 302, 307, 308, 400, 404, 410, 451, 500, 503, 599] {
            assert_eq!(get(status, &[MAX_AGE]), Ok(()), "{status}");
        }
        // Mostly about one connection, but the origin may state that they are for all clients.
        for status in [408, 421, 425, 426] {
            assert_eq!(get(status, &[MAX_AGE]), Ok(()), "{status}");
            assert_eq!(get(status, &["ETag: \"a\""]), Err(NoFreshness), "{status}");
        }
    }

    #[test]
    fn directives_forbid_in_this_order() {
        type Case<'a> = (&'a [&'a str], &'a [&'a str], Result<(), NotStorable>);
        let cases: [Case; 18] = [
            (&["Cache-Control: no-store"], &[MAX_AGE], Err(NoStoreRequest)),
            (&[], &[MAX_AGE, "Cache-Control: no-store"], Err(NoStore)),
            (&[], &["Cache-Control: NO-STORE, max-age=60"], Err(NoStore)),
            (&[], &[MAX_AGE, "Cache-Control: private"], Err(Private)),
            (&[], &["Cache-Control: private, public, max-age=60"], Err(Private)),
            (&[], &[MAX_AGE, "Cache-Control: private=\"x-a\""], Ok(())),
            (&["Authorization: x"], &[MAX_AGE], Err(Authorization)),
            (&["Authorization: x"], &["Cache-Control: public, max-age=60"], Ok(())),
            (&["Authorization: x"], &["Cache-Control: s-maxage=60"], Ok(())),
            (
                &["Authorization: x"],
                &["Cache-Control: s-maxage=x", "ETag: \"a\""],
                Err(Authorization),
            ),
            (&["Authorization: x"], &["Cache-Control: must-revalidate, max-age=60"], Ok(())),
            (
                &["Authorization: x"],
                &["Cache-Control: proxy-revalidate, max-age=60"],
                Err(Authorization),
            ),
            (&[], &[MAX_AGE, "Vary: *"], Err(VaryStar)),
            (&[], &[MAX_AGE, "Vary: Accept, *"], Err(VaryStar)),
            (&[], &[MAX_AGE, "Vary: *", "ETag: a"], Err(VaryStar)),
            (&[], &[MAX_AGE, "Vary: *", "ETag: \"a\""], Ok(())),
            (&[], &[MAX_AGE, "Vary: Accept"], Ok(())),
            (&["Pragma: no-cache"], &[MAX_AGE], Ok(())),
        ];
        for (request, response, expected) in cases {
            assert_eq!(
                verdict("GET", request, 200, response),
                expected,
                "{request:?} {response:?}"
            );
        }
    }

    #[test]
    fn must_understand_outranks_no_store_for_known_statuses() {
        let both = ["Cache-Control: must-understand, no-store, max-age=60"];
        assert_eq!(get(200, &both), Ok(()));
        assert_eq!(get(404, &both), Ok(()));
        assert_eq!(get(299, &both), Err(MustUnderstand));
        assert_eq!(get(299, &["Cache-Control: must-understand, max-age=60"]), Err(MustUnderstand));
    }

    #[test]
    fn useless_responses_are_not_stored() {
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        let old = &*format!("Date: {EARLIER_DATE}");
        let date = &*format!("Date: {NOW_DATE}");
        let cases: [(u16, &[&str], bool); 21] = [
            (200, &[], false),
            (200, &[date, modified], true),
            (200, &["ETag: \"a\""], true),
            (200, &["ETag: a"], true),
            (200, &["ETag:"], false),
            (200, &["Cache-Control: max-age=0"], false),
            (200, &["Cache-Control: max-age=0", "ETag: \"a\""], true),
            (200, &["Cache-Control: no-cache", "ETag: \"a\""], true),
            (200, &["Cache-Control: no-cache, max-age=60"], false),
            (200, &["Cache-Control: max-age=900", old], true),
            (200, &["Cache-Control: max-age=900, must-revalidate", old], false),
            (200, &["Cache-Control: s-maxage=900", old], false),
            (200, &["Cache-Control: max-age=900, stale-while-revalidate=600", old], true),
            (200, &["Cache-Control: max-age=60", "Age: 60"], true),
            (200, &["Cache-Control: max-age=60", "Age: 86460"], false),
            (200, &["Cache-Control: max-age=60", "Age: 59"], true),
            (200, &["Expires: 0"], false),
            (302, &[modified, "ETag: \"a\""], false),
            (302, &[modified, "Cache-Control: public"], true),
            (404, &["Cache-Control: max-age=0", "ETag: \"a\""], false),
            (500, &[], false),
        ];
        for (status, response, storable) in cases {
            let expected = if storable { Ok(()) } else { Err(NoFreshness) };
            assert_eq!(get(status, response), expected, "{status} {response:?}");
        }
    }

    #[test]
    fn a_post_is_kept_when_it_says_that_it_is_what_a_get_gets() {
        let url = Url::parse("http://a.example/x?y").unwrap();
        let kept = |status: u16, request: &[&str], response: &[&str]| {
            let facts = RequestFacts::of(&http::Method::POST, &headers(request));
            let status = StatusCode::from_u16(status).unwrap();
            let settings = Settings::default();
            is_post_for_get(&facts, &url, status, &headers(response), AT_NOW, &settings)
        };
        let own = "Content-Location: /x?y";
        assert!(kept(200, &[], &[own, MAX_AGE]));
        assert!(kept(200, &[], &["Content-Location: http://A.example:80/x?y", MAX_AGE]));
        assert!(!kept(201, &[], &[own, MAX_AGE]));
        assert!(!kept(200, &[], &[own, &format!("Last-Modified: {EARLIER_DATE}")]));
        assert!(!kept(200, &[], &["Content-Location: /x", MAX_AGE]));
        assert!(!kept(200, &[], &[own, own, MAX_AGE]));
        assert!(!kept(200, &[], &[MAX_AGE]));
        assert!(!kept(200, &[], &[own, "Cache-Control: no-store, max-age=60"]));
        assert!(!kept(200, &["Authorization: x"], &[own, MAX_AGE]));
    }

    #[test]
    fn cookies_are_stored_by_permission_only() {
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        let judge = |lines: &[&str], settings: &Settings| {
            let response = headers(&[lines, &["Set-Cookie: a=b"]].concat());
            super::judge(&facts, StatusCode::OK, &response, AT_NOW, settings)
        };
        assert_eq!(judge(&[MAX_AGE], &Settings::default()), Err(SetCookie));
        let without = "Cache-Control: max-age=60, private=\"set-cookie\"";
        assert_eq!(judge(&[without], &Settings::default()), Ok(()));
        let permitted = Settings { store_set_cookie: true, ..Settings::default() };
        for rfc in [Settings::of(Sharing::Rfc), permitted] {
            assert_eq!(judge(&[MAX_AGE], &rfc), Ok(()));
            assert_eq!(judge(&["Cache-Control: max-age=0", "ETag: \"a\""], &rfc), Ok(()));
            let fixed =
                Lifetimes { fixed: Some(Lifetime::Same(Seconds::new(9))), ..Lifetimes::default() };
            let min = Lifetimes { min: Some(Seconds::new(9)), ..Lifetimes::default() };
            for lifetimes in [fixed, min] {
                let operator = Settings { lifetimes, ..rfc.clone() };
                assert_eq!(judge(&[MAX_AGE], &operator), Ok(()));
                assert_eq!(judge(&["Cache-Control: public"], &operator), Ok(()));
                assert_eq!(judge(&[], &operator), Err(SetCookie), "no origin shares this cookie");
                for over in [
                    "Cache-Control: max-age=0",
                    "Cache-Control: public, max-age=0",
                    "Cache-Control: s-maxage=0, max-age=60",
                    "Expires: 0",
                ] {
                    let tagged = [over, "ETag: \"a\""];
                    assert_eq!(judge(&tagged, &operator), Err(SetCookie), "{over}");
                }
            }
        }
    }

    #[test]
    fn an_identified_client_s_answer_is_shared_by_a_stated_lifetime_or_vary_only() {
        let judge = |request: &[&str], response: &[&str], settings: &Settings| {
            let (request, response) = (headers(request), headers(response));
            let facts = RequestFacts::of(&http::Method::GET, &request);
            let facts = facts.with("/a", Identity::of(&request, settings));
            super::judge(&facts, StatusCode::OK, &response, AT_NOW, settings)
        };
        let (modified, tag) = (&*format!("Last-Modified: {EARLIER_DATE}"), "ETag: W/\"a\"");
        let (cookie, key, basic) = ("Cookie: a=b", "X-API-Key: a", "Authorization: Basic a");
        let default_ttl =
            Lifetimes { unsaid: Some(Lifetime::Same(Seconds::new(9))), ..Lifetimes::default() };
        let max_ttl = Lifetimes { max: Some(Seconds::new(9)), ..Lifetimes::default() };
        let plain = Lifetimes::default();
        type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a Lifetimes, Result<(), NotStorable>);
        let cases: [Case<'_>; 19] = [
            (&[], &[modified], &plain, Ok(())),
            (&[], &[tag], &plain, Ok(())),
            (&[cookie], &[modified], &plain, Err(Cookie)),
            (&[cookie], &[tag], &plain, Err(Cookie)),
            (&[cookie], &["Cache-Control: public, max-age=0", tag], &plain, Err(Cookie)),
            (&[cookie], &["Cache-Control: public", modified], &plain, Err(Cookie)),
            (&[cookie], &["Cache-Control: no-cache", tag], &plain, Err(Cookie)),
            (&[cookie], &[MAX_AGE], &plain, Ok(())),
            (&[cookie], &[&format!("Expires: {LATER_DATE}")], &plain, Ok(())),
            (&[cookie], &[modified], &default_ttl, Ok(())),
            (&[cookie], &[modified], &max_ttl, Err(Cookie)),
            (&[cookie], &[modified, "Vary: Accept, Cookie"], &plain, Ok(())),
            (&[cookie, key], &[modified, "Vary: Cookie"], &plain, Err(Identified)),
            (&[cookie, key], &[modified, "Vary: Cookie, X-API-Key"], &plain, Ok(())),
            (&[key], &[tag], &plain, Err(Identified)),
            (&[key], &[MAX_AGE], &plain, Ok(())),
            (&[basic], &[MAX_AGE], &plain, Err(Authorization)),
            (&[basic], &["Cache-Control: public", modified], &plain, Err(Identified)),
            (&[basic], &["Cache-Control: public, max-age=9"], &plain, Ok(())),
        ];
        for (request, response, lifetimes, expected) in cases {
            let settings = Settings { lifetimes: lifetimes.clone(), ..Settings::default() };
            assert_eq!(judge(request, response, &settings), expected, "{request:?} {response:?}");
        }
        assert_eq!(judge(&[cookie], &[modified], &Settings::of(Sharing::Rfc)), Ok(()));
    }

    #[test]
    fn windows_of_the_operator_are_no_reason_to_store() {
        let settings = Settings {
            stale_while_revalidate: Seconds::new(60),
            stale_if_error: Seconds::new(60),
            lifetimes: Lifetimes { errors: Some(Seconds::ZERO), ..Lifetimes::default() },
            ..Settings::default()
        };
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        for (status, lines) in [(200, &[][..]), (503, &["Cache-Control: stale-if-error=60"])] {
            for settings in
                [settings.clone(), Settings { sharing: Sharing::Rfc, ..settings.clone() }]
            {
                let status = StatusCode::from_u16(status).unwrap();
                let judged = super::judge(&facts, status, &headers(lines), AT_NOW, &settings);
                assert_eq!(judged, Err(NoFreshness), "{status}");
            }
        }
    }

    #[test]
    fn the_operator_keeps_answers_out() {
        let settings = Settings { store: false, ..Settings::default() };
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        let judged = judge(&facts, StatusCode::OK, &headers(&[MAX_AGE]), AT_NOW, &settings);
        assert_eq!(judged, Err(Rule));
    }

    #[test]
    fn an_origin_that_vouches_tells_clients_alone_what_to_store() {
        let settings = Settings { origin_vouches: true, ..Settings::default() };
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        let judge = |status: u16, response: &[&str]| {
            let status = StatusCode::from_u16(status).unwrap();
            super::judge(&facts, status, &headers(response), AT_NOW, &settings)
        };
        let tag = "ETag: \"1\"";
        for line in ["Cache-Control: no-store", "Cache-Control: private", "Expires: 0", MAX_AGE] {
            assert_eq!(judge(200, &[tag, line]), Ok(()), "{line}");
        }
        assert_eq!(judge(200, &[MAX_AGE]), Err(Status));
        assert_eq!(judge(200, &["ETag: W/\"1\"", MAX_AGE]), Err(Status));
        assert_eq!(judge(404, &[tag, MAX_AGE]), Err(Status));
        assert_eq!(judge(301, &[tag, MAX_AGE]), Err(Status));
        let fields = headers(&[tag, "Cache-Control: max-age=1"]);
        let directives = ResponseDirectives::parse(&fields, &settings);
        let received = AT_NOW.received;
        let freshness = freshness::lifetime(
            TargetFacts::default(),
            StatusCode::OK,
            &fields,
            &directives,
            received,
            &settings,
        );
        assert_eq!(freshness.lifetime, Seconds::MAX);
    }
}
