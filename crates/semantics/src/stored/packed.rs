//! The facts of a stored response that decide its reuse, in 40 bytes.
//!
//! They are computed once, when the response is stored or refreshed, so that a hit parses no
//! header. The layout, little-endian:
//!
//! ```text
//!  0  u8   version (2)
//!  1  u8   zero
//!  2  u16  status
//!  4  u32  flags
//!  8  u64  time received, milliseconds since 1970
//! 16  u32  age when received, whole seconds
//! 20  u32  lifetime, seconds
//! 24  u32  stale-while-revalidate, seconds
//! 28  u32  stale-if-error, seconds
//! 32  u48  Last-Modified, seconds since 1970; 0 without the flag
//! 38  u16  age when received, remaining milliseconds
//! ```
//!
//! Version 1 can still be read. It has the time received in seconds and 64 bits for Last-Modified.

use http::StatusCode;
use http::header::{DATE, ETAG, HeaderMap, LAST_MODIFIED};

use crate::fields::cache_control::{Delta, ResponseDirectives, Scope};
use crate::fields::date;
use crate::fields::etag::EntityTag;
use crate::fields::validators::Selected;
use crate::fields::vary::Vary;
use crate::fields::view::Fields;
use crate::request::facts::TargetFacts;
use crate::response::age;
use crate::response::freshness;
use crate::response::freshness::Basis;
use crate::response::storability;
use crate::settings::Settings;
use crate::time::{ExchangeTimes, Millis, Seconds, Time};

/// A boolean fact. The values are part of the stored format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Flag {
    /// `must-revalidate`.
    MustRevalidate = 1 << 0,
    /// `proxy-revalidate`.
    ProxyRevalidate = 1 << 1,
    /// `s-maxage`, which implies `proxy-revalidate` (RFC 9111, 5.2.2.10).
    SMaxAge = 1 << 2,
    /// `no-cache` for the whole response, or `Vary: *`, which has the same effect: no use without
    /// asking the origin (RFC 9111, 4.1).
    NoCache = 1 << 3,
    /// A well-formed strong `ETag`.
    StrongEtag = 1 << 4,
    /// A well-formed weak `ETag`, or a malformed one, such as one without quotes.
    WeakEtag = 1 << 5,
    /// A well-formed `Last-Modified`.
    LastModified = 1 << 6,
    /// `Last-Modified` is a strong validator: at least a second before `Date` (RFC 9110, 8.8.2.2).
    StrongLastModified = 1 << 7,
    /// The lifetime is heuristic, or the operator's for errors: it was not stated for all clients.
    Heuristic = 1 << 8,
    /// `immutable`.
    Immutable = 1 << 9,
    /// The response may explicitly be used for requests with `Authorization` (RFC 9111, 3.5).
    Shareable = 1 << 10,
    /// `stale-while-revalidate` is present.
    StaleWhileRevalidate = 1 << 11,
    /// `stale-if-error` is present.
    StaleIfError = 1 << 12,
    /// The directives come from a targeted field (RFC 9213).
    Targeted = 1 << 13,
    /// The response has a `Vary` field.
    Varies = 1 << 14,
    /// The response to a HEAD: it has no body for a GET (RFC 9110, 9.3.2).
    HeadOnly = 1 << 15,
    /// Trailers are stored after the fields (RFC 9110, 6.5).
    Trailers = 1 << 16,
}

const KNOWN_FLAGS: u32 = (1 << 17) - 1;

/// The facts of a stored response. The layout is in the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    status: StatusCode,
    flags: u32,
    received: Time,
    /// Age when received: whole seconds, with the remaining milliseconds in `initial_millis`.
    initial_age: Seconds,
    initial_millis: u16,
    lifetime: Seconds,
    stale_while_revalidate: Seconds,
    stale_if_error: Seconds,
    last_modified: Time,
    /// Minimum age, whatever the clock says; not stored.
    age_at_least: Seconds,
    /// True if the origin or the operator stated a positive lifetime. Not stored: it follows from
    /// the lifetime before a soft purge.
    stated: bool,
}

/// How far the time of receipt may lie after the current time before the clock counts as set back.
/// Covers rounding, and clocks that are read one after another.
const CLOCK_SLACK: Seconds = Seconds::new(2);

impl Packed {
    /// Length of the encoded form in bytes.
    pub const LEN: usize = 40;
    const VERSION: u8 = 2;

    /// Computes the facts of a response as received, before `Age` is removed. `target` holds the
    /// facts of the request target.
    pub fn of(
        target: TargetFacts,
        status: StatusCode,
        headers: &HeaderMap,
        times: ExchangeTimes,
        settings: &Settings,
    ) -> Packed {
        let directives = ResponseDirectives::parse(headers, settings);
        Packed::by(target, status, headers, &directives, times, settings)
    }

    /// Same as [`Packed::of`], with the directives already parsed.
    pub(crate) fn by(
        target: TargetFacts,
        status: StatusCode,
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        times: ExchangeTimes,
        settings: &Settings,
    ) -> Packed {
        let received = times.received;
        let freshness =
            freshness::lifetime(target, status, headers, directives, received, settings);
        let is_guess = matches!(freshness.basis, Basis::Heuristic | Basis::ErrorTtl);
        let modified = date::of_field(headers, &LAST_MODIFIED, received);
        let flags = directive_flags(directives)
            | validator_flags(headers, modified, received)
            | flag_if(is_guess, Flag::Heuristic)
            | flag_if(headers.contains_key(http::header::VARY), Flag::Varies)
            | flag_if(Vary::of(headers) == Vary::Star, Flag::NoCache);
        let initial_age = age::initial(headers, times);
        let window = |delta: Delta| delta.or_zero_when_invalid().unwrap_or(Seconds::ZERO);
        Packed {
            status,
            flags,
            received,
            initial_age: initial_age.seconds(),
            initial_millis: initial_age.beside_seconds(),
            lifetime: freshness.lifetime,
            stale_while_revalidate: window(directives.stale_while_revalidate),
            stale_if_error: window(directives.stale_if_error),
            last_modified: modified.unwrap_or_default(),
            age_at_least: Seconds::ZERO,
            stated: freshness.is_stated_positive(),
        }
    }

    /// Returns the status of the stored response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns whether `flag` holds.
    pub fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u32 != 0
    }

    /// Returns when the response, or the 304 that last confirmed it, was received.
    pub fn received(&self) -> Time {
        self.received
    }

    /// Returns the validators among the fields of the response.
    pub(crate) fn selected<'a>(&self, fields: &'a impl Fields) -> Selected<'a> {
        let is_strong = self.is(Flag::StrongLastModified);
        Selected::of_stored(self.status, fields, self.received, is_strong)
    }

    /// Returns the age at `now`: `current_age` of RFC 9111 (4.2.3) in whole seconds. Computed in
    /// milliseconds: a response stays fresh until its lifetime, in whole seconds, is over, not
    /// until the clock shows another second. If the clock was set back to before the receipt, the
    /// age is unknown and the maximum is returned: the response is stale and past every window for
    /// stale use.
    pub fn age(&self, now: Time) -> Seconds {
        if self.received.since(now) > CLOCK_SLACK {
            return Seconds::MAX;
        }
        self.age_by_clock(now).max(self.age_at_least)
    }

    fn age_by_clock(&self, now: Time) -> Seconds {
        self.initial_age().plus(now.millis_since(self.received)).seconds()
    }

    /// Returns the age at a time before the receipt; zero if the response had not been generated by
    /// then.
    pub(crate) fn age_as_of(&self, then: Time) -> Seconds {
        self.initial_age().minus(self.received.millis_since(then)).seconds()
    }

    fn initial_age(&self) -> Millis {
        self.initial_age.millis().plus(Millis::new(u64::from(self.initial_millis)))
    }

    /// Returns the age up to which the response is fresh.
    pub fn lifetime(&self) -> Seconds {
        self.lifetime
    }

    /// Returns whether the origin or the operator stated a positive lifetime. A soft purge does not
    /// change this.
    pub fn is_stated(&self) -> bool {
        self.stated
    }

    /// Returns whether the response is fresh at `now`, apart from request directives and
    /// `no-cache`.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.lifetime > self.age(now)
    }

    /// Returns the remaining freshness at `now` in seconds, negative if stale: the `ttl` of
    /// RFC 9211.
    pub fn ttl(&self, now: Time) -> i64 {
        i64::from(self.lifetime.get()) - i64::from(self.age(now).get())
    }

    /// Returns the origin's `stale-while-revalidate`; `None` if absent.
    pub fn stale_while_revalidate(&self) -> Option<Seconds> {
        self.is(Flag::StaleWhileRevalidate).then_some(self.stale_while_revalidate)
    }

    /// Returns the origin's `stale-if-error`; `None` if absent.
    pub fn stale_if_error(&self) -> Option<Seconds> {
        self.is(Flag::StaleIfError).then_some(self.stale_if_error)
    }

    /// Returns the time in `Last-Modified`.
    pub fn last_modified(&self) -> Option<Time> {
        self.is(Flag::LastModified).then_some(self.last_modified)
    }

    /// Returns whether the response has a validator.
    pub fn has_validator(&self) -> bool {
        self.is(Flag::StrongEtag) || self.is(Flag::WeakEtag) || self.is(Flag::LastModified)
    }

    /// Returns the facts with a lifetime of zero and `must-revalidate`, for a response that an
    /// update showed to be outdated.
    pub fn expired(mut self) -> Packed {
        (self.lifetime, self.stated) = (Seconds::ZERO, false);
        self.flags |= Flag::MustRevalidate as u32;
        self
    }

    /// Returns the facts without a lifetime, which was only guessed.
    pub(crate) fn unguessed(mut self) -> Packed {
        self.lifetime = Seconds::ZERO;
        self
    }

    /// Returns the facts with a lifetime that ends at `at`, unless it ends before. The origin's
    /// windows for stale use start there. `at` counts as past even if the clock was set back to
    /// before it.
    pub fn outdated(mut self, at: Time) -> Packed {
        self.age_at_least = self.age_by_clock(at);
        self.lifetime = self.lifetime.min(self.age_at_least);
        self
    }

    /// Returns the facts with a lifetime that is over and `must-revalidate`: a purge that was
    /// missed may have removed the response, so nothing permits its use without validation.
    pub(crate) fn doubted(self) -> Packed {
        let mut doubted = self.outdated(Time::from_unix(0));
        doubted.flags |= Flag::MustRevalidate as u32;
        doubted
    }

    /// Returns the facts of a response with trailers.
    pub(crate) fn with_trailers(mut self) -> Packed {
        self.flags |= Flag::Trailers as u32;
        self
    }

    /// Returns the facts as those of the response to a HEAD.
    pub(crate) fn of_head(mut self) -> Packed {
        self.flags |= Flag::HeadOnly as u32;
        self
    }

    /// Returns the facts with `Last-Modified` as a weak validator.
    pub(crate) fn with_weak_last_modified(mut self) -> Packed {
        self.flags &= !(Flag::StrongLastModified as u32);
        self
    }

    /// Encodes the facts.
    pub fn encode(&self) -> [u8; Packed::LEN] {
        let mut bytes = [0; Packed::LEN];
        bytes[0] = Self::VERSION;
        bytes[2..4].copy_from_slice(&self.status.as_u16().to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.received.unix_millis().to_le_bytes());
        bytes[16..20].copy_from_slice(&self.initial_age.get().to_le_bytes());
        bytes[20..24].copy_from_slice(&self.lifetime.get().to_le_bytes());
        bytes[24..28].copy_from_slice(&self.stale_while_revalidate.get().to_le_bytes());
        bytes[28..32].copy_from_slice(&self.stale_if_error.get().to_le_bytes());
        // The year 9999, the last that a date can express, needs 38 bits.
        bytes[32..38].copy_from_slice(&self.last_modified.unix().to_le_bytes()[..6]);
        bytes[38..40].copy_from_slice(&self.initial_millis.to_le_bytes());
        bytes
    }

    /// Decodes the facts; `None` for an unknown version or flag, or a value that [`Packed::encode`]
    /// never writes.
    pub fn decode(bytes: &[u8; Packed::LEN]) -> Option<Packed> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let seconds_at = |at: usize| {
            let raw = u32_at(at);
            (raw <= Seconds::MAX.get()).then(|| Seconds::new(u64::from(raw)))
        };
        let flags = u32_at(4);
        if bytes[1] != 0 || flags & !KNOWN_FLAGS != 0 {
            return None;
        }
        let (received, modified, initial_millis) = match bytes[0] {
            1 => (Time::from_unix(u64_at(8)), u64_at(32), 0),
            Self::VERSION => {
                let modified = u64_at(32) & ((1 << 48) - 1);
                let millis = u16::from_le_bytes([bytes[38], bytes[39]]);
                (Time::from_unix_millis(u64_at(8)), modified, millis)
            }
            _ => return None,
        };
        let (initial_age, lifetime) = (seconds_at(16)?, seconds_at(20)?);
        let is_guess = flags & Flag::Heuristic as u32 != 0;
        let is_longest = initial_age == Seconds::MAX;
        if modified >> 48 != 0 || initial_millis >= 1000 || (is_longest && initial_millis > 0) {
            return None;
        }
        Some(Packed {
            status: StatusCode::from_u16(u16::from_le_bytes([bytes[2], bytes[3]])).ok()?,
            flags,
            received,
            initial_age,
            initial_millis,
            lifetime,
            stale_while_revalidate: seconds_at(24)?,
            stale_if_error: seconds_at(28)?,
            last_modified: Time::from_unix(modified),
            age_at_least: Seconds::ZERO,
            stated: lifetime > Seconds::ZERO && !is_guess,
        })
    }
}

fn flag_if(holds: bool, flag: Flag) -> u32 {
    if holds { flag as u32 } else { 0 }
}

fn directive_flags(directives: &ResponseDirectives) -> u32 {
    flag_if(directives.must_revalidate, Flag::MustRevalidate)
        | flag_if(directives.proxy_revalidate, Flag::ProxyRevalidate)
        | flag_if(directives.s_maxage != Delta::Absent, Flag::SMaxAge)
        | flag_if(directives.no_cache == Scope::All, Flag::NoCache)
        | flag_if(directives.immutable, Flag::Immutable)
        | flag_if(storability::permits_sharing(directives), Flag::Shareable)
        | flag_if(directives.stale_while_revalidate != Delta::Absent, Flag::StaleWhileRevalidate)
        | flag_if(directives.stale_if_error != Delta::Absent, Flag::StaleIfError)
        | flag_if(directives.targeted, Flag::Targeted)
}

fn validator_flags(headers: &HeaderMap, modified: Option<Time>, received: Time) -> u32 {
    let text = headers.get(ETAG).filter(|value| !value.is_empty());
    let etag = text.and_then(|value| EntityTag::parse(value.as_bytes()));
    // A tag without its quotes can be sent in a condition but proves nothing.
    let weak = etag.map_or(text.is_some(), |tag| tag.weak);
    // Only a Date from the origin says something about its clock.
    let date = date::of_field(headers, &DATE, received);
    let strong = matches!((modified, date), (Some(modified), Some(date)) if modified < date);
    flag_if(etag.is_some_and(|tag| !tag.weak), Flag::StrongEtag)
        | flag_if(weak, Flag::WeakEtag)
        | flag_if(modified.is_some(), Flag::LastModified)
        | flag_if(strong, Flag::StrongLastModified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{EARLIER_DATE, NOW, NOW_DATE, headers, later, packed};

    #[test]
    fn each_fact_comes_from_its_header() {
        let date = format!("Date: {NOW_DATE}");
        let modified = format!("Last-Modified: {EARLIER_DATE}");
        let just_now = format!("Last-Modified: {NOW_DATE}");
        let cases: [(&[&str], &[Flag]); 17] = [
            (&["Cache-Control: must-revalidate"], &[Flag::MustRevalidate, Flag::Shareable]),
            (&["Cache-Control: proxy-revalidate"], &[Flag::ProxyRevalidate]),
            (&["Cache-Control: s-maxage=5"], &[Flag::SMaxAge, Flag::Shareable]),
            (&["Cache-Control: public"], &[Flag::Shareable]),
            (&["Cache-Control: no-cache"], &[Flag::NoCache]),
            (&["Cache-Control: no-cache=\"x-a\""], &[]),
            (&["Cache-Control: immutable"], &[Flag::Immutable]),
            (&["Cache-Control: stale-while-revalidate=5"], &[Flag::StaleWhileRevalidate]),
            (&["Cache-Control: stale-if-error=5"], &[Flag::StaleIfError]),
            (&["ETag: \"a\""], &[Flag::StrongEtag]),
            (&["ETag: W/\"a\""], &[Flag::WeakEtag]),
            (&["ETag: a"], &[Flag::WeakEtag]),
            (&["ETag:"], &[]),
            (&["Vary: Accept"], &[Flag::Varies]),
            (&[&modified], &[Flag::LastModified, Flag::Heuristic]),
            (&[&just_now, &date], &[Flag::LastModified]),
            (&[&modified, &date], &[Flag::LastModified, Flag::StrongLastModified, Flag::Heuristic]),
        ];
        for (lines, expected) in cases {
            let flags = expected.iter().fold(0, |flags, flag| flags | *flag as u32);
            assert_eq!(packed(lines).flags, flags, "{lines:?}");
        }
    }

    #[test]
    fn age_and_ttl_run_with_now() {
        let facts = packed(&["Cache-Control: max-age=60", "Age: 10"]);
        assert_eq!(facts.age(NOW).get(), 10);
        assert_eq!(facts.age(later(5)).get(), 15);
        assert_eq!(facts.ttl(later(5)), 45);
        assert!(facts.is_fresh(later(49)));
        assert!(!facts.is_fresh(later(50)));
        assert_eq!(facts.ttl(later(60)), -10);
        let back = facts.age(Time::from_unix(0));
        assert_eq!(back, Seconds::MAX, "a clock that went back");
        assert_eq!(facts.age(Time::from_unix(u64::MAX)), Seconds::MAX);
    }

    #[test]
    fn even_what_is_fresh_for_ever_ends() {
        let facts = packed(&["Cache-Control: max-age=99999999999"]);
        assert!(facts.is_fresh(later(1 << 30)));
        assert!(!facts.is_fresh(Time::from_unix(u64::MAX)));
    }

    #[test]
    fn bytes_that_encode_never_writes_are_not_decoded() {
        let facts = packed(&["Cache-Control: max-age=60", "ETag: \"a\""]);
        let good = facts.encode();
        assert_eq!(Packed::decode(&good), Some(facts));
        for (at, byte) in
            [(0, 0), (0, 3), (1, 1), (2, 0), (3, 255), (6, 2), (7, 1), (23, 129), (39, 4)]
        {
            let mut bad = good;
            bad[at] = byte;
            if at == 2 {
                bad[3] = 0; // status 0
            }
            assert_eq!(Packed::decode(&bad), None, "byte {at} = {byte}");
        }
    }

    #[test]
    fn the_format_is_what_the_head_of_the_module_draws() {
        let facts = packed(&[
            "Cache-Control: max-age=60, stale-while-revalidate=7, stale-if-error=8",
            "Age: 9",
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        ]);
        let mut expected = vec![2, 0, 200, 0];
        expected.extend((1u32 << 11 | 1 << 12 | 1 << 6).to_le_bytes());
        expected.extend(1_800_000_000_000u64.to_le_bytes());
        for number in [9u32, 60, 7, 8] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend(784_111_777u64.to_le_bytes());
        assert_eq!(facts.encode()[..], expected);
        let (aged, mut beside) = (Packed { initial_millis: 678, ..facts }, expected.clone());
        beside[38..].copy_from_slice(&678u16.to_le_bytes());
        assert_eq!(aged.encode()[..], beside);
        assert_eq!(Packed::decode(&aged.encode()), Some(aged));
        // The encoding of version 1.
        expected[0] = 1;
        expected[8..16].copy_from_slice(&1_800_000_000u64.to_le_bytes());
        assert_eq!(Packed::decode(expected.first_chunk().unwrap()), Some(facts));
    }

    #[test]
    fn a_second_of_freshness_lasts_a_second() {
        let at = |millis| Time::from_unix_millis(NOW.unix_millis() + millis);
        let times = ExchangeTimes { requested: at(700), received: at(900) };
        let headers = headers(&["Cache-Control: max-age=1"]);
        let facts = Packed::of(
            TargetFacts::default(),
            StatusCode::OK,
            &headers,
            times,
            &Settings::default(),
        );
        assert!(facts.is_fresh(at(1699)));
        assert!(!facts.is_fresh(at(1700)));
        assert_eq!((facts.age(at(1699)).get(), facts.age(at(1700)).get()), (0, 1));
    }
}
