//! How long a response stays fresh (RFC 9111, 4.2.1 and 4.2.2).

use http::StatusCode;
use http::header::{DATE, EXPIRES, HeaderMap, LAST_MODIFIED};

use crate::cache_control::ResponseDirectives;
use crate::date;
use crate::settings::Settings;
use crate::time::{Seconds, Time};

/// What a lifetime was taken from.
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
    /// Nothing: the lifetime is zero.
    Nothing,
}

/// A lifetime and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// How old the response may get: `freshness_lifetime`.
    pub lifetime: Seconds,
    /// What it was taken from.
    pub basis: Basis,
}

impl Freshness {
    /// True when the origin stated the lifetime, be it zero.
    pub fn is_explicit(&self) -> bool {
        !matches!(self.basis, Basis::Heuristic | Basis::Nothing)
    }
}

/// The statuses that may be given a heuristic lifetime (RFC 9110, 15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The lifetime of a response in a shared cache, in the order of RFC 9111 (4.2.1): `s-maxage`,
/// `max-age`, `Expires`, heuristic. A value that is there but unusable makes the response stale.
///
/// `received` stands in for a missing `Date`.
pub fn lifetime(
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
        return heuristic(headers, date, received, settings);
    }
    Freshness { lifetime: Seconds::ZERO, basis: Basis::Nothing }
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
