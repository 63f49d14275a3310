//! Storability of a response in a shared cache (RFC 9111, 3 and 3.5).

use http::StatusCode;
use http::header::{CONTENT_LOCATION, ETAG, HeaderMap, SET_COOKIE};

use crate::fields::cache_control::{Delta, ResponseDirectives, Scope};
use crate::fields::etag::EntityTag;
use crate::fields::validators;
use crate::fields::vary::Vary;
use crate::request::facts::{MethodClass, RequestFacts};
use crate::request::url::Url;
use crate::response::age;
use crate::response::freshness;
use crate::response::freshness::Freshness;
use crate::settings::Settings;
use crate::time::{ExchangeTimes, Seconds};

/// Why a response is not stored. The first reason that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStorable {
    /// The request was no GET.
    Method,
    /// The operator keeps answers out ([`Settings::store`]).
    Rule,
    /// The status is interim, depends on the request's own conditions, or forbids storing. Of an
    /// origin that vouches for its answers: anything but a 200 with a strong entity tag.
    Status,
    /// A part of the whole (206).
    PartialContent,
    /// `no-store` in the request.
    NoStoreRequest,
    /// `no-store` in the response.
    NoStore,
    /// `must-understand`, and this cache does not know the status.
    MustUnderstand,
    /// `private`.
    Private,
    /// The request carried `Authorization`, and the response does not permit sharing.
    Authorization,
    /// `Vary: *` or a `Vary` that cannot be read, and no tag to ask the origin with: no request
    /// would match it.
    VaryStar,
    /// `Set-Cookie`, and the settings keep such responses out or the origin did not say that it is
    /// to be stored: a cookie is not for others on a guess.
    SetCookie,
    /// Neither fresh for a moment nor something that could be validated: storing it is useless.
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
            NotStorable::NoFreshness => "no-freshness",
        }
    }
}

/// Decides whether the final response to `request` may be stored; `Err` names the first reason
/// against it.
///
/// That its body arrived whole is for the caller to see to (RFC 9111, 3.3).
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

/// Does as [`judge`], with the directives of the response.
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
    // Only the origin can say when it fits; with a tag it can be asked (RFC 9111, 4.1).
    let tag = headers.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    if matches!(Vary::of(headers), Vary::Star) && (tag.is_none() || !status.is_success()) {
        return Err(NotStorable::VaryStar);
    }
    let freshness = freshness::lifetime(status, headers, directives, times.received, settings);
    // An operator's lifetime is for a whole site; a cookie may be for one of its users.
    let is_for_all = directives.public || freshness.is_stated_by_origin();
    if headers.contains_key(SET_COOKIE) && !(settings.store_set_cookie && is_for_all) {
        return Err(NotStorable::SetCookie);
    }
    let is_meant = directives.public || freshness.is_explicit();
    let may_be_stored = is_meant || freshness::is_heuristically_cacheable(status);
    if may_be_stored && is_useful(status, headers, directives, freshness, times, settings) {
        Ok(())
    } else {
        Err(NotStorable::NoFreshness)
    }
}

fn has_strong_tag(headers: &HeaderMap) -> bool {
    let tag = headers.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    tag.is_some_and(|tag| !tag.weak)
}

/// Returns whether the answer to a POST may be stored for later GETs of its URL: it must itself
/// state that it is what a GET would get, and for how long (RFC 9110, 9.3.3).
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
    let freshness = freshness::lifetime(status, headers, &directives, times.received, settings);
    let facts = RequestFacts { class: MethodClass::Cacheable, ..request.clone() };
    names_itself
        && status == StatusCode::OK
        && freshness.is_stated_by_origin()
        && judge(&facts, status, headers, times, settings).is_ok()
}

fn judge_status(status: StatusCode) -> Result<(), NotStorable> {
    match status.as_u16() {
        206 => Err(NotStorable::PartialContent),
        // Answers to the conditions, the range or the expectation of one request.
        304 | 412 | 416 | 417 => Err(NotStorable::Status),
        // About this hop. RFC 6585 forbids 428, 429, 431 and 511.
        407 | 428 | 429 | 431 | 511 => Err(NotStorable::Status),
        200..=599 => Ok(()),
        _ => Err(NotStorable::Status),
    }
}

/// Returns whether this cache knows and obeys the caching requirements of a status
/// (`must-understand`).
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

/// Returns whether the directives let a shared cache store a response to a request with
/// `Authorization` (RFC 9111, 3.5).
pub(crate) fn permits_sharing(directives: &ResponseDirectives) -> bool {
    directives.public
        || directives.must_revalidate
        || matches!(directives.s_maxage, Delta::Value(_))
}

/// Returns whether some later request can use the response: for a while as it is, stale when
/// permitted, or after a validation.
fn is_useful(
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    freshness: Freshness,
    times: ExchangeTimes,
    settings: &Settings,
) -> bool {
    if status.is_success() && validators::has_any(headers, times.received) {
        return true;
    }
    if directives.no_cache == Scope::All {
        return false;
    }
    let window = |said: Delta, otherwise: Seconds| said.or_zero_when_invalid().unwrap_or(otherwise);
    let stale_use = window(directives.stale_while_revalidate, settings.stale_while_revalidate)
        .max(window(directives.stale_if_error, settings.stale_if_error))
        .max(if may_serve_stale(directives, freshness) {
            settings.stale_when_unreachable
        } else {
            Seconds::ZERO
        });
    freshness.lifetime.plus(stale_use).millis() > age::initial(headers, times)
}

/// Returns whether the response may later be served stale, to a client that accepts that or when
/// the origin is down (RFC 9111, 4.2.4). A lifetime of zero was never meant to be reused.
fn may_serve_stale(directives: &ResponseDirectives, freshness: Freshness) -> bool {
    freshness.lifetime > Seconds::ZERO
        && !directives.must_revalidate
        && !directives.proxy_revalidate
        && directives.s_maxage == Delta::Absent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{AT_NOW, EARLIER_DATE, NOW_DATE, headers};
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
        // Of one connection, mostly: but the origin may say that it is for all.
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
    fn what_could_never_be_used_is_not_stored() {
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
    fn cookies_are_stored_unless_the_settings_say_no() {
        let response = headers(&[MAX_AGE, "Set-Cookie: a=b"]);
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        let judge =
            |settings: &Settings| super::judge(&facts, StatusCode::OK, &response, AT_NOW, settings);
        assert_eq!(judge(&Settings::default()), Ok(()));
        let without = Settings { store_set_cookie: false, ..Settings::default() };
        assert_eq!(judge(&without), Err(SetCookie));
        let fixed = Some(Lifetime::Same(Seconds::new(9)));
        let lifetimes = Lifetimes { fixed, ..Lifetimes::default() };
        let operator = Settings { lifetimes, ..Settings::default() };
        assert_eq!(judge(&operator), Ok(()));
        let unsaid = headers(&["Set-Cookie: a=b"]);
        let judged = super::judge(&facts, StatusCode::OK, &unsaid, AT_NOW, &operator);
        assert_eq!(judged, Err(SetCookie), "nothing says that this cookie is for all");
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
        let freshness =
            freshness::lifetime(StatusCode::OK, &fields, &directives, received, &settings);
        assert_eq!(freshness.lifetime, Seconds::MAX);
    }
}
