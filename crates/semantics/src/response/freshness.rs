//! The freshness lifetime of a response (RFC 9111, 4.2.1 and 4.2.2).

use http::StatusCode;
use http::header::{CONTENT_TYPE, DATE, EXPIRES, HeaderMap, HeaderValue, LAST_MODIFIED};

use crate::fields::cache_control::{ResponseDirectives, Scope};
use crate::fields::date;
use crate::fields::ignored_fields::IgnoredFields;
use crate::request::disguise;
use crate::request::facts::TargetFacts;
use crate::settings::lifetimes::StatusScope;
use crate::settings::{Lifetime, Lifetimes, Settings, Sharing};
use crate::time::{Seconds, Time};

/// Media types of feeds, which may change at any moment; many are sent as plain XML.
const FEEDS: [&str; 7] = [
    "application/atom+xml",
    "application/feed+json",
    "application/rdf+xml",
    "application/rss+xml",
    "application/xml",
    "text/calendar",
    "text/xml",
];

/// The source of a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// `s-maxage`.
    SMaxAge,
    /// `max-age`.
    MaxAge,
    /// `Expires` minus `Date`.
    Expires,
    /// Heuristic, from `Last-Modified`, or the configured one without it.
    Heuristic,
    /// Set by the operator, where the origin states none.
    Operator,
    /// Set by the operator for errors. It limits how long one is kept and does not permit sharing
    /// it.
    ErrorTtl,
    /// The origin vouches for the response at every use.
    Vouched,
    /// No source: the lifetime is zero.
    Nothing,
}

/// A lifetime and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// The age up to which the response is fresh: `freshness_lifetime`.
    pub lifetime: Seconds,
    /// The source of the lifetime. If the origin stated one, the source remains the origin even if
    /// the operator changed the value.
    pub basis: Basis,
}

impl Freshness {
    /// Returns whether the origin or the operator stated the lifetime, even if it is zero.
    pub fn is_explicit(&self) -> bool {
        !matches!(self.basis, Basis::Heuristic | Basis::Nothing)
    }

    /// Returns whether the origin or the operator stated a positive lifetime that applies to all
    /// clients.
    pub fn is_stated_positive(&self) -> bool {
        self.is_explicit() && self.basis != Basis::ErrorTtl && self.lifetime > Seconds::ZERO
    }

    /// Returns whether the origin stated a lifetime.
    pub fn is_stated_by_origin(&self) -> bool {
        matches!(self.basis, Basis::SMaxAge | Basis::MaxAge | Basis::Expires)
    }

    /// Returns the lifetime after applying the operator's settings.
    fn under(
        self,
        lifetimes: &Lifetimes,
        status: StatusCode,
        directives: &ResponseDirectives,
    ) -> Freshness {
        let decided = self.decided_by(lifetimes, status, directives);
        decided.map_or(self, |(_, decided)| decided)
    }

    /// Returns the setting that determines the lifetime, by its name in a rule, and its result;
    /// `None` if no setting does.
    fn decided_by(
        &self,
        lifetimes: &Lifetimes,
        status: StatusCode,
        directives: &ResponseDirectives,
    ) -> Option<(&'static str, Freshness)> {
        let takes_part = self.takes_part(lifetimes, status, directives);
        let of = |lifetime: &Option<Lifetime>| lifetime.as_ref()?.of(status, takes_part);
        let stated = |lifetime| self.decided(lifetime, Basis::Operator);
        if let Some(fixed) = of(&lifetimes.fixed) {
            return Some(("ttl", stated(fixed)));
        }
        let mut decided = None;
        if !self.is_stated_by_origin() {
            let errors = lifetimes.errors.filter(|_| status.as_u16() >= 400);
            let errors =
                errors.map(|lifetime| ("error-ttl", self.decided(lifetime, Basis::ErrorTtl)));
            let unsaid = of(&lifetimes.unsaid);
            decided = unsaid.map(|lifetime| ("default-ttl", stated(lifetime))).or(errors);
        }
        let so_far = |decided: Option<(&str, Freshness)>| decided.map_or(*self, |d| d.1);
        let min = lifetimes.min.filter(|_| takes_part);
        if let Some(min) = min.filter(|min| so_far(decided).lifetime < *min) {
            decided = Some(("min-ttl", stated(min)));
        }
        if let Some(max) = lifetimes.max.filter(|max| so_far(decided).lifetime > *max) {
            // An upper bound does not turn a heuristic lifetime into a stated one.
            decided = Some(("max-ttl", Freshness { lifetime: max, ..so_far(decided) }));
        }
        decided
    }

    /// Replaces the lifetime; the basis changes only if the origin stated no lifetime.
    fn decided(&self, lifetime: Seconds, basis: Basis) -> Freshness {
        let basis = if self.is_stated_by_origin() { self.basis } else { basis };
        Freshness { lifetime, basis }
    }

    /// Returns whether the operator's lifetimes and edits apply to a response with this lifetime of
    /// the origin.
    fn takes_part(
        &self,
        lifetimes: &Lifetimes,
        status: StatusCode,
        directives: &ResponseDirectives,
    ) -> bool {
        let is_forbidden = directives.no_store
            || directives.private == Scope::All
            || directives.no_cache == Scope::All;
        match lifetimes.scope_of(status) {
            StatusScope::Nothing => false,
            StatusScope::All => true,
            StatusScope::Stated => {
                self.is_stated_by_origin() && self.lifetime > Seconds::ZERO && !is_forbidden
            }
        }
    }
}

/// Returns whether a status permits a heuristic lifetime (RFC 9110, 15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns the lifetime of a response in a shared cache, in the order of RFC 9111 (4.2.1):
/// `s-maxage`, `max-age`, `Expires`, heuristic. A malformed value makes the response stale. The
/// operator's lifetimes are applied last.
///
/// `received` replaces a missing `Date`; `target` holds the facts of the request target.
pub fn lifetime(
    target: TargetFacts,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    received: Time,
    settings: &Settings,
) -> Freshness {
    if settings.origin_vouches {
        return Freshness { lifetime: Seconds::MAX, basis: Basis::Vouched };
    }
    let of_origin = by_origin(target, status, headers, directives, received, settings);
    of_origin.under(&settings.lifetimes, status, directives)
}

/// Returns the operator's setting that determines [`lifetime`], by its name in a rule; `None` if
/// the origin determines it.
pub fn setting(
    target: TargetFacts,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    received: Time,
    settings: &Settings,
) -> Option<&'static str> {
    let of_origin = by_origin(target, status, headers, directives, received, settings);
    of_origin.decided_by(&settings.lifetimes, status, directives).map(|(name, _)| name)
}

/// Returns whether the operator's lifetimes and the edits of a rule apply to a response with this
/// head, by its status ([`Lifetimes::scope_of`]).
pub fn takes_part(
    status: StatusCode,
    headers: &HeaderMap,
    received: Time,
    settings: &Settings,
) -> bool {
    let lifetimes = &settings.lifetimes;
    let scope = lifetimes.scope_of(status);
    if scope != StatusScope::Stated {
        return scope == StatusScope::All;
    }
    let directives = ResponseDirectives::parse(headers, settings);
    // The target does not matter: it cannot change whether the origin states a lifetime.
    let target = TargetFacts::default();
    let of_origin = by_origin(target, status, headers, &directives, received, settings);
    of_origin.takes_part(lifetimes, status, &directives)
}

/// Returns the settings, by their names in a rule, that would determine the lifetime of a response
/// if its status took part.
pub fn inapplicable(
    target: TargetFacts,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    received: Time,
    settings: &Settings,
) -> Vec<&'static str> {
    let lifetimes = &settings.lifetimes;
    let of_origin = by_origin(target, status, headers, directives, received, settings);
    let takes_part = of_origin.takes_part(lifetimes, status, directives);
    let is_out = |lifetime: &Option<Lifetime>| {
        lifetime.as_ref().is_some_and(|lifetime| lifetime.of(status, takes_part).is_none())
    };
    let is_unsaid = !of_origin.is_stated_by_origin();
    let settings = [
        ("ttl", is_out(&lifetimes.fixed)),
        ("default-ttl", is_unsaid && is_out(&lifetimes.unsaid)),
        ("min-ttl", !takes_part && lifetimes.min.is_some_and(|min| of_origin.lifetime < min)),
    ];
    settings.into_iter().filter(|(_, is_out)| *is_out).map(|(name, _)| name).collect()
}

/// Returns the lifetime that the origin states, otherwise a heuristic one.
pub(crate) fn by_origin(
    target: TargetFacts,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    received: Time,
    settings: &Settings,
) -> Freshness {
    if let Some(lifetime) = directives.s_maxage.or_zero_when_invalid() {
        return Freshness { lifetime, basis: Basis::SMaxAge };
    }
    if let Some(lifetime) = directives.max_age.or_zero_when_invalid() {
        return Freshness { lifetime, basis: Basis::MaxAge };
    }
    let date = date::of_field(headers, &DATE, received).unwrap_or(received);
    let ignores_expires = || IgnoredFields::of(headers).has(&EXPIRES);
    if !directives.targeted && headers.contains_key(EXPIRES) && !ignores_expires() {
        let expires = date::of_field(headers, &EXPIRES, received);
        let lifetime = expires.map_or(Seconds::ZERO, |expires| expires.since(date));
        return Freshness { lifetime, basis: Basis::Expires };
    }
    if (directives.public || is_heuristically_cacheable(status))
        && may_guess(target, headers, settings)
    {
        return heuristic(headers, date, received, settings);
    }
    Freshness { lifetime: Seconds::ZERO, basis: Basis::Nothing }
}

/// Returns whether a heuristic lifetime is permitted: never for a document under a file name and,
/// with careful sharing, not for a target with a query or for a feed.
fn may_guess(target: TargetFacts, headers: &HeaderMap, settings: &Settings) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_disguised = target.names_file && kind.is_some_and(disguise::is_document);
    let changes = target.has_query || kind.is_some_and(is_feed);
    !is_disguised && (settings.sharing == Sharing::Rfc || !changes)
}

fn is_feed(content_type: &[u8]) -> bool {
    let kind = disguise::essence(content_type);
    FEEDS.iter().any(|feed| kind.eq_ignore_ascii_case(feed.as_bytes()))
}

fn heuristic(headers: &HeaderMap, date: Time, received: Time, settings: &Settings) -> Freshness {
    let lifetime = match date::of_field(headers, &LAST_MODIFIED, received) {
        Some(modified) => {
            let unchanged = u64::from(date.since(modified).get());
            let share = unchanged * u64::from(settings.heuristic_percent) / 100;
            Seconds::new(share).min(settings.heuristic_max)
        }
        None => settings.heuristic_without_date,
    };
    let basis = if lifetime == Seconds::ZERO { Basis::Nothing } else { Basis::Heuristic };
    Freshness { lifetime, basis }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{EARLIER_DATE, LATER_DATE, NOW, NOW_DATE, headers};
    use crate::settings::StatusPattern;

    fn with(status: u16, lines: &[&str], settings: &Settings) -> (u32, Basis) {
        let headers = headers(lines);
        let directives = ResponseDirectives::parse(&headers, settings);
        let status = StatusCode::from_u16(status).unwrap();
        let freshness =
            lifetime(TargetFacts::default(), status, &headers, &directives, NOW, settings);
        (freshness.lifetime.get(), freshness.basis)
    }

    fn of(status: u16, lines: &[&str]) -> (u32, Basis) {
        with(status, lines, &Settings::default())
    }

    fn by(lifetimes: &Lifetimes, status: u16, lines: &[&str]) -> (u32, Basis) {
        let lifetimes = lifetimes.clone();
        with(status, lines, &Settings { lifetimes, ..Settings::default() })
    }

    fn same(seconds: u64) -> Option<Lifetime> {
        Some(Lifetime::Same(Seconds::new(seconds)))
    }

    fn by_status(times: &[(&str, u64)]) -> Option<Lifetime> {
        let time = |(text, time): &(&str, u64)| (text.parse().unwrap(), Seconds::new(*time));
        Some(Lifetime::ByStatus(times.iter().map(time).collect()))
    }

    fn statuses(texts: &[&str]) -> Option<Vec<StatusPattern>> {
        Some(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn explicit_lifetimes_are_taken_in_order() {
        let date = &*format!("Date: {NOW_DATE}");
        let expires = &*format!("Expires: {LATER_DATE}");
        let past = &*format!("Expires: {EARLIER_DATE}");
        let dated_earlier = &*format!("Date: {EARLIER_DATE}");
        let expires_now = &*format!("Expires: {NOW_DATE}");
        let cases: [(&[&str], u32, Basis); 15] = [
            (&["Cache-Control: s-maxage=5, max-age=6", date, expires], 5, Basis::SMaxAge),
            (&["Cache-Control: max-age=6, s-maxage=5"], 5, Basis::SMaxAge),
            (&["Cache-Control: max-age=6", date, expires], 6, Basis::MaxAge),
            (&["Cache-Control: max-age=0", date, expires], 0, Basis::MaxAge),
            (&["Cache-Control: max-age=x", date, expires], 0, Basis::MaxAge),
            (&["Cache-Control: s-maxage=x, max-age=6"], 0, Basis::SMaxAge),
            (&[date, expires], 1000, Basis::Expires),
            (&[expires], 1000, Basis::Expires),
            (&["Date: bad", expires], 1000, Basis::Expires),
            (&[dated_earlier, expires_now], 1000, Basis::Expires),
            (&[date, expires_now], 0, Basis::Expires),
            (&[date, past], 0, Basis::Expires),
            (&[date, "Expires: 0"], 0, Basis::Expires),
            (&[date, "Expires: -1", expires], 0, Basis::Expires),
            (&[date, "Expires:"], 0, Basis::Expires),
        ];
        for (lines, lifetime, basis) in cases {
            assert_eq!(of(200, lines), (lifetime, basis), "{lines:?}");
        }
    }

    #[test]
    fn a_guess_is_a_tenth_of_the_time_unchanged() {
        let date = &*format!("Date: {NOW_DATE}");
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        let ancient = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
        let future = &*format!("Last-Modified: {LATER_DATE}");
        assert_eq!(of(200, &[date, modified]), (100, Basis::Heuristic));
        assert_eq!(of(200, &[modified]), (100, Basis::Heuristic));
        assert_eq!(of(200, &[date, ancient]), (600, Basis::Heuristic));
        let rfc = Settings::of(Sharing::Rfc);
        assert_eq!(with(200, &[date, ancient], &rfc), (86_400, Basis::Heuristic));
        assert_eq!(of(200, &[date, future]), (0, Basis::Nothing));
        assert_eq!(of(200, &[date]), (0, Basis::Nothing));
        let with_default =
            Settings { heuristic_without_date: Seconds::new(7), ..Settings::default() };
        assert_eq!(with(404, &[date], &with_default), (7, Basis::Heuristic));
        let none = Settings { heuristic_percent: 0, ..Settings::default() };
        assert_eq!(with(200, &[date, modified], &none), (0, Basis::Nothing));
    }

    #[test]
    fn guesses_are_for_some_statuses_and_for_public() {
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        for status in 200..600 {
            let allowed =
                [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501].contains(&status);
            let expected = if allowed { (100, Basis::Heuristic) } else { (0, Basis::Nothing) };
            assert_eq!(of(status, &[modified]), expected, "{status}");
            let public = of(status, &[modified, "Cache-Control: public"]);
            assert_eq!(public, (100, Basis::Heuristic), "{status} public");
        }
    }

    #[test]
    fn the_setting_that_decides_is_named() {
        let all = || Lifetimes {
            unsaid: same(9),
            min: Some(Seconds::new(5)),
            max: Some(Seconds::new(20)),
            errors: Some(Seconds::new(7)),
            ..Lifetimes::default()
        };
        let named = |lifetimes: Lifetimes, status: u16, lines: &[&str]| {
            let (settings, headers) =
                (Settings { lifetimes, ..Settings::default() }, headers(lines));
            let directives = ResponseDirectives::parse(&headers, &settings);
            let status = StatusCode::from_u16(status).unwrap();
            setting(
                TargetFacts::default(),
                status,
                &headers,
                &directives,
                Time::from_unix(0),
                &settings,
            )
        };
        for (expected, status, line) in [
            (Some("default-ttl"), 200, "A: b"),
            (Some("min-ttl"), 200, "Cache-Control: max-age=1"),
            (None, 200, "Cache-Control: max-age=10"),
            (Some("max-ttl"), 200, "Cache-Control: max-age=30"),
            (Some("error-ttl"), 404, "A: b"),
            (None, 404, "Cache-Control: max-age=1"),
            (Some("max-ttl"), 404, "Cache-Control: max-age=30"),
        ] {
            assert_eq!(named(all(), status, &[line]), expected, "{status} {line}");
            let fixed = Lifetimes { fixed: same(3), ..all() };
            let ttl = if status == 200 { Some("ttl") } else { expected };
            assert_eq!(named(fixed, status, &[line]), ttl, "{status} {line}");
        }
    }

    #[test]
    fn an_operator_moves_lifetimes() {
        let seconds = |seconds| Some(Seconds::new(seconds));
        let fixed = &Lifetimes { fixed: same(9), max: seconds(5), ..Lifetimes::default() };
        assert_eq!(by(fixed, 200, &["Cache-Control: max-age=60"]), (9, Basis::MaxAge));
        assert_eq!(by(fixed, 404, &["Cache-Control: max-age=60"]), (5, Basis::MaxAge));
        let unsaid = &Lifetimes { unsaid: same(9), ..Lifetimes::default() };
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        assert_eq!(by(unsaid, 200, &[modified]), (9, Basis::Operator));
        assert_eq!(by(unsaid, 200, &["Cache-Control: max-age=0"]), (0, Basis::MaxAge));
        assert_eq!(by(unsaid, 500, &[]), (0, Basis::Nothing));
        let bounds = &Lifetimes { min: seconds(50), max: seconds(70), ..Lifetimes::default() };
        assert_eq!(by(bounds, 200, &["Cache-Control: max-age=60"]), (60, Basis::MaxAge));
        assert_eq!(by(bounds, 200, &["Cache-Control: max-age=1"]), (50, Basis::MaxAge));
        // An upper bound does not state a lifetime.
        assert_eq!(by(bounds, 200, &[modified]), (70, Basis::Heuristic));
        assert_eq!(by(bounds, 200, &[]), (50, Basis::Operator));
        let both = &Lifetimes { unsaid: same(99), max: seconds(70), ..Lifetimes::default() };
        assert_eq!(by(both, 200, &[]), (70, Basis::Operator));
        assert_eq!(by(bounds, 503, &["Cache-Control: max-age=1"]), (1, Basis::MaxAge));
        assert_eq!(by(bounds, 503, &["Cache-Control: max-age=99"]), (70, Basis::MaxAge));
        let errors = &Lifetimes { errors: seconds(5), ..Lifetimes::default() };
        assert_eq!(by(errors, 404, &[modified]), (5, Basis::ErrorTtl));
        assert_eq!(by(errors, 503, &[]), (5, Basis::ErrorTtl));
        assert_eq!(by(errors, 404, &["Cache-Control: max-age=60"]), (60, Basis::MaxAge));
        assert_eq!(by(errors, 200, &[]), (0, Basis::Nothing));
    }

    #[test]
    fn a_lifetime_of_the_operator_is_for_documents() {
        let lifetimes = Lifetimes {
            fixed: same(9),
            unsaid: same(9),
            min: Some(Seconds::new(9)),
            ..Lifetimes::default()
        };
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        for status in [200, 203, 204, 206, 301, 308] {
            assert_eq!(by(&lifetimes, status, &[]), (9, Basis::Operator), "{status}");
        }
        for status in [201, 202, 300, 302, 303, 307, 400, 401, 403, 404, 410, 429, 500, 503] {
            for lines in [[].as_slice(), &[modified], &["Cache-Control: public"]] {
                assert_eq!(by(&lifetimes, status, lines), of(status, lines), "{status} {lines:?}");
            }
        }
        for status in [401, 403, 404, 500, 503] {
            let stated = by(&lifetimes, status, &["Cache-Control: max-age=3"]);
            assert_eq!(stated, (3, Basis::MaxAge), "{status}");
        }
    }

    #[test]
    fn a_redirect_takes_part_when_it_may_be_kept() {
        let settings = Settings {
            lifetimes: Lifetimes { fixed: same(9), ..Lifetimes::default() },
            ..Settings::default()
        };
        let takes_part = |status: u16, lines: &[&str]| {
            let status = StatusCode::from_u16(status).unwrap();
            takes_part(status, &headers(lines), NOW, &settings)
        };
        let later = &*format!("Expires: {LATER_DATE}");
        for status in [302, 303, 307] {
            for line in ["Cache-Control: max-age=3", "Cache-Control: s-maxage=3", later] {
                assert!(takes_part(status, &[line]), "{status} {line}");
                assert_eq!(with(status, &[line], &settings).0, 9, "{status} {line}");
            }
            for line in [
                "Cache-Control: public",
                "Cache-Control: max-age=0",
                "Cache-Control: max-age=60, private",
                "Cache-Control: max-age=60, no-store",
                "Cache-Control: max-age=60, no-cache",
                "Expires: 0",
            ] {
                assert!(!takes_part(status, &[line]), "{status} {line}");
                assert_eq!(with(status, &[line], &settings), of(status, &[line]), "{line}");
            }
        }
        assert!(takes_part(301, &[]) && takes_part(304, &[]) && !takes_part(404, &[later]));
    }

    #[test]
    fn named_statuses_alone_take_part() {
        let lifetimes = &Lifetimes {
            statuses: statuses(&["2xx", "302", "404"]),
            unsaid: same(9),
            errors: Some(Seconds::new(5)),
            ..Lifetimes::default()
        };
        for (status, expected) in [(200, 9), (201, 9), (302, 9), (404, 9), (301, 0), (500, 5)] {
            assert_eq!(by(lifetimes, status, &[]).0, expected, "{status}");
        }
    }

    #[test]
    fn a_list_of_lifetimes_names_its_statuses() {
        let times = by_status(&[("200", 7), ("302", 2), ("404", 1)]);
        let fixed = &Lifetimes { fixed: times.clone(), unsaid: same(9), ..Lifetimes::default() };
        let stated = &["Cache-Control: max-age=60"];
        for (status, expected) in [(200, 7), (206, 7), (302, 2), (404, 1), (301, 60), (500, 60)] {
            assert_eq!(by(fixed, status, stated).0, expected, "{status}");
        }
        assert_eq!(by(fixed, 301, &[]), (9, Basis::Operator), "default-ttl is for what is left");
        let errors = Some(Seconds::new(5));
        let unsaid = &Lifetimes { unsaid: times, errors, ..Lifetimes::default() };
        for (status, expected) in [(200, 7), (302, 2), (404, 1), (410, 5), (301, 0)] {
            assert_eq!(by(unsaid, status, &[]).0, expected, "{status}");
            assert_eq!(by(unsaid, status, stated), (60, Basis::MaxAge), "{status}");
        }
    }

    #[test]
    fn settings_that_do_not_apply_are_named() {
        let told = |lifetimes: &Lifetimes, status: u16, lines: &[&str]| {
            let settings = Settings { lifetimes: lifetimes.clone(), ..Settings::default() };
            let (headers, status) = (headers(lines), StatusCode::from_u16(status).unwrap());
            let directives = ResponseDirectives::parse(&headers, &settings);
            inapplicable(TargetFacts::default(), status, &headers, &directives, NOW, &settings)
        };
        let all = &Lifetimes {
            fixed: same(9),
            unsaid: same(9),
            min: Some(Seconds::new(9)),
            ..Lifetimes::default()
        };
        assert!(told(all, 200, &[]).is_empty());
        assert_eq!(told(all, 503, &[]), ["ttl", "default-ttl", "min-ttl"]);
        assert_eq!(told(all, 503, &["Cache-Control: max-age=60"]), ["ttl"]);
        assert_eq!(told(all, 302, &[]), ["ttl", "default-ttl", "min-ttl"]);
        assert!(told(all, 302, &["Cache-Control: max-age=1"]).is_empty());
        assert!(told(&Lifetimes::default(), 503, &[]).is_empty());
    }

    #[test]
    fn a_targeted_field_puts_expires_aside() {
        let settings = Settings {
            targets: vec![http::HeaderName::from_static("cdn-cache-control")],
            ..Settings::default()
        };
        let lines = [&*format!("Expires: {LATER_DATE}"), "CDN-Cache-Control: public"];
        assert_eq!(with(200, &lines, &settings), (0, Basis::Nothing));
        assert_eq!(of(200, &lines), (1000, Basis::Expires));
    }

    #[test]
    fn nothing_is_guessed_for_what_may_change_or_pretends_to_be_a_file() {
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        let guessed = |sharing, path: &str, kind: &str| {
            let settings = Settings::of(sharing);
            let headers = headers(&[modified, &format!("Content-Type: {kind}")]);
            let directives = ResponseDirectives::parse(&headers, &settings);
            let target = TargetFacts::of(path);
            let freshness = lifetime(target, StatusCode::OK, &headers, &directives, NOW, &settings);
            freshness.lifetime > Seconds::ZERO
        };
        for (path, kind, careful, rfc) in [
            ("/a", "text/html", true, true),
            ("/a?", "text/html", true, true),
            ("/a?b", "text/html", false, true),
            ("/feed", "application/rss+xml; charset=utf-8", false, true),
            ("/feed", "Text/XML", false, true),
            ("/a.css", "text/css", true, true),
            ("/account/a.css", "text/html", false, false),
            ("/account;a.css", "application/json", false, false),
        ] {
            assert_eq!(guessed(Sharing::Careful, path, kind), careful, "{path} {kind}");
            assert_eq!(guessed(Sharing::Rfc, path, kind), rfc, "{path} {kind}");
        }
    }
}
