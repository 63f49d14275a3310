//! Freshness lifetime of a response (RFC 9111, 4.2.1 and 4.2.2).

use http::StatusCode;
use http::header::{CONTENT_TYPE, DATE, EXPIRES, HeaderMap, HeaderValue, LAST_MODIFIED};

use crate::fields::cache_control::ResponseDirectives;
use crate::fields::date;
use crate::request::facts::TargetFacts;
use crate::response::disguise;
use crate::settings::{Lifetimes, Settings, Sharing};
use crate::time::{Seconds, Time};

/// Types of feeds, which change at any moment; many are sent as plain XML.
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
    /// A guess from `Last-Modified`, or the configured one.
    Heuristic,
    /// The operator, where the origin states nothing.
    Operator,
    /// The origin says itself at every use whether the response is current.
    Vouched,
    /// No source: the lifetime is zero.
    Nothing,
}

/// A lifetime and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// The age up to which the response is fresh: `freshness_lifetime`.
    pub lifetime: Seconds,
    /// The source of the lifetime. One that the origin stated stays the origin's, also when the
    /// operator has changed it.
    pub basis: Basis,
}

impl Freshness {
    /// Returns whether the origin or the operator stated the lifetime, be it zero.
    pub fn is_explicit(&self) -> bool {
        !matches!(self.basis, Basis::Heuristic | Basis::Nothing)
    }

    /// Returns whether the origin or the operator stated that the response is fresh for a while.
    pub fn is_stated_positive(&self) -> bool {
        self.is_explicit() && self.lifetime > Seconds::ZERO
    }

    /// Returns whether the origin stated a lifetime.
    pub fn is_stated_by_origin(&self) -> bool {
        matches!(self.basis, Basis::SMaxAge | Basis::MaxAge | Basis::Expires)
    }

    /// Returns the lifetime after the operator's settings have been applied.
    fn under(self, lifetimes: &Lifetimes, status: StatusCode) -> Freshness {
        let Some((key, lifetime)) = self.decided_by(lifetimes, status) else { return self };
        // An upper bound makes no statement out of a guess.
        let basis = match key == "max-ttl" || self.is_stated_by_origin() {
            true => self.basis,
            false => Basis::Operator,
        };
        Freshness { lifetime, basis }
    }

    /// Returns the setting that decides this lifetime, by its name in a rule, and its result;
    /// `None` where none does.
    fn decided_by(
        &self,
        lifetimes: &Lifetimes,
        status: StatusCode,
    ) -> Option<(&'static str, Seconds)> {
        let unsaid = |said: Option<Seconds>| said.filter(|_| !self.is_stated_by_origin());
        if status.as_u16() >= 400 {
            return unsaid(lifetimes.errors).map(|lifetime| ("error-ttl", lifetime));
        }
        if let Some(fixed) = lifetimes.fixed {
            return Some(("ttl", fixed));
        }
        let mut decided = unsaid(lifetimes.unsaid).map(|lifetime| ("default-ttl", lifetime));
        let lifetime = |decided: Option<(&str, Seconds)>| decided.map_or(self.lifetime, |d| d.1);
        if let Some(min) = lifetimes.min.filter(|min| lifetime(decided) < *min) {
            decided = Some(("min-ttl", min));
        }
        if let Some(max) = lifetimes.max.filter(|max| lifetime(decided) > *max) {
            decided = Some(("max-ttl", max));
        }
        decided
    }
}

/// Returns whether a status may be given a heuristic lifetime (RFC 9110, 15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns the lifetime of a response in a shared cache, in the order of RFC 9111 (4.2.1):
/// `s-maxage`, `max-age`, `Expires`, heuristic. A value that is there but unusable makes the
/// response stale.
///
/// `received` stands in for a missing `Date`, `target` is what was asked for. What the operator
/// says of lifetimes comes last.
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
    of_origin.under(&settings.lifetimes, status)
}

/// Returns the operator's setting that [`lifetime`] follows, by its name in a rule; `None` where it
/// follows the origin.
pub fn setting(
    target: TargetFacts,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    received: Time,
    settings: &Settings,
) -> Option<&'static str> {
    let of_origin = by_origin(target, status, headers, directives, received, settings);
    of_origin.decided_by(&settings.lifetimes, status).map(|(name, _)| name)
}

/// Returns the lifetime that the origin states, or that is guessed for it.
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
    if !directives.targeted && headers.contains_key(EXPIRES) {
        let expires = date::of_field(headers, &EXPIRES, received);
        let lifetime = expires.map_or(Seconds::ZERO, |expires| expires.since(date));
        return Freshness { lifetime, basis: Basis::Expires };
    }
    if directives.public || is_heuristically_cacheable(status) {
        if may_guess(target, headers, settings) {
            return heuristic(headers, date, received, settings);
        }
    }
    Freshness { lifetime: Seconds::ZERO, basis: Basis::Nothing }
}

/// Returns whether a lifetime may be guessed: never for a document under the name of a file, and
/// with careful sharing neither for the answer to a query nor for a feed.
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

    #[test]
    fn explicit_lifetimes_are_taken_in_order() {
        let date = &*format!("Date: {NOW_DATE}");
        let expires = &*format!("Expires: {LATER_DATE}");
        let past = &*format!("Expires: {EARLIER_DATE}");
        let cases: [(&[&str], u32, Basis); 13] = [
            (&["Cache-Control: s-maxage=5, max-age=6", date, expires], 5, Basis::SMaxAge),
            (&["Cache-Control: max-age=6, s-maxage=5"], 5, Basis::SMaxAge),
            (&["Cache-Control: max-age=6", date, expires], 6, Basis::MaxAge),
            (&["Cache-Control: max-age=0", date, expires], 0, Basis::MaxAge),
            (&["Cache-Control: max-age=x", date, expires], 0, Basis::MaxAge),
            (&["Cache-Control: s-maxage=x, max-age=6"], 0, Basis::SMaxAge),
            (&[date, expires], 1000, Basis::Expires),
            (&[expires], 1000, Basis::Expires),
            (&["Date: bad", expires], 1000, Basis::Expires),
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
            unsaid: Some(Seconds::new(9)),
            min: Some(Seconds::new(5)),
            max: Some(Seconds::new(20)),
            errors: Some(Seconds::new(7)),
            fixed: None,
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
        ] {
            assert_eq!(named(all(), status, &[line]), expected, "{status} {line}");
            let fixed = Lifetimes { fixed: Some(Seconds::new(3)), ..all() };
            let ttl = if status == 200 { Some("ttl") } else { expected };
            assert_eq!(named(fixed, status, &[line]), ttl, "{status} {line}");
        }
    }

    #[test]
    fn an_operator_moves_lifetimes() {
        let with = |lifetimes: Lifetimes, status: u16, lines: &[&str]| {
            with(status, lines, &Settings { lifetimes, ..Settings::default() })
        };
        let seconds = |seconds| Some(Seconds::new(seconds));
        let fixed = || Lifetimes { fixed: seconds(9), max: seconds(5), ..Lifetimes::default() };
        assert_eq!(with(fixed(), 200, &["Cache-Control: max-age=60"]), (9, Basis::MaxAge));
        assert_eq!(with(fixed(), 302, &[]), (9, Basis::Operator));
        assert_eq!(with(fixed(), 404, &["Cache-Control: max-age=60"]), (60, Basis::MaxAge));
        let unsaid = || Lifetimes { unsaid: seconds(9), ..Lifetimes::default() };
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        assert_eq!(with(unsaid(), 200, &[modified]), (9, Basis::Operator));
        assert_eq!(with(unsaid(), 200, &["Cache-Control: max-age=0"]), (0, Basis::MaxAge));
        assert_eq!(with(unsaid(), 500, &[]), (0, Basis::Nothing));
        let bounds = || Lifetimes { min: seconds(50), max: seconds(70), ..Lifetimes::default() };
        assert_eq!(with(bounds(), 200, &["Cache-Control: max-age=60"]), (60, Basis::MaxAge));
        assert_eq!(with(bounds(), 200, &["Cache-Control: max-age=1"]), (50, Basis::MaxAge));
        // An upper bound states nothing.
        assert_eq!(with(bounds(), 200, &[modified]), (70, Basis::Heuristic));
        assert_eq!(with(bounds(), 200, &[]), (50, Basis::Operator));
        let errors = || Lifetimes { errors: seconds(5), ..Lifetimes::default() };
        assert_eq!(with(errors(), 404, &[modified]), (5, Basis::Operator));
        assert_eq!(with(errors(), 503, &[]), (5, Basis::Operator));
        assert_eq!(with(errors(), 404, &["Cache-Control: max-age=60"]), (60, Basis::MaxAge));
        assert_eq!(with(errors(), 200, &[]), (0, Basis::Nothing));
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
