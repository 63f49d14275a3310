//! Outcomes by which the cache that wrote a log says where a response came from: those of Squid,
//! of Larder, of nginx and of CloudFront.

use super::event::{Event, Measure, SkipReason};

/// The source of a response, as an outcome names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The cache had it.
    Hit,
    /// The origin sent it.
    Fetched,
    /// The origin sent it in place of an older version.
    Replaced,
    /// The cache refused the request, or passed it on without using what it has.
    Passed,
}

/// Outcomes for which the cache sent what it had, and whose names have no word that says so.
const HITS: [&[u8]; 5] =
    [b"REVALIDATED", b"STALE", b"UPDATING", b"TCP_REFRESH_UNMODIFIED", b"TCP_REFRESH_FAIL_OLD"];

/// Outcomes for which the origin sent a new version of a stored object.
const REPLACED: [&[u8]; 3] = [b"TCP_REFRESH_MISS", b"TCP_REFRESH_MODIFIED", b"REFRESHED"];

/// Outcomes for which the origin sent the object, and whose names have no word that says so. Larder
/// and nginx pass on a range of an object that they do not store.
const FETCHED: [&[u8]; 5] =
    [b"EXPIRED", b"BYPASS(range)", b"BYPASS(range-beyond-fill)", b"BYPASS(busy)", b"SCARCE"];

/// Beginnings of outcomes of requests that the cache refused or passed on, and of all other
/// outcomes of Squid.
const PASSED: [&[u8]; 13] = [
    b"TCP_",
    b"UDP_",
    b"TAG_",
    b"NONE",
    b"BYPASS",
    b"ERROR",
    b"DENIED",
    b"TUNNEL",
    b"PURGE",
    b"INVALID",
    b"LIMITEXCEEDED",
    b"CAPACITYEXCEEDED",
    b"REDIRECT",
];

/// The ending of Squid's outcomes of requests that the client gave up.
const ABORTED: &[u8] = b"_ABORTED";

impl Outcome {
    /// Returns the outcome of this name; `None` if it is not known as one. Names are compared
    /// without regard to case.
    pub(super) fn named(name: &[u8]) -> Option<Outcome> {
        let name = name.strip_suffix(ABORTED).unwrap_or(name);
        let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        let has =
            |word: &[u8]| name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
        let begins = |start: &&[u8]| {
            name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
        };
        if name.starts_with(b"UDP_") {
            Some(Outcome::Passed)
        } else if REPLACED.iter().any(is) {
            Some(Outcome::Replaced)
        } else if HITS.iter().any(is) || name.starts_with(b"STALE(") || has(b"hit") {
            Some(Outcome::Hit)
        } else if FETCHED.iter().any(is) || has(b"miss") {
            Some(Outcome::Fetched)
        } else {
            PASSED.iter().any(begins).then_some(Outcome::Passed)
        }
    }

    /// Applies the outcome of this name to an event.
    pub(super) fn apply(name: &[u8], event: &mut Event) {
        if name.ends_with(ABORTED) && event.size.is_some() {
            event.measure = Measure::Part;
        }
        match Outcome::named(name) {
            None | Some(Outcome::Fetched) => {}
            Some(Outcome::Hit) => event.is_hit = true,
            Some(Outcome::Replaced) => event.is_new_version = event.status == 200,
            Some(Outcome::Passed) => {
                event.skip_reason = event.skip_reason.or(Some(SkipReason::Outcome));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_several_programs() {
        let all = [
            (Outcome::Hit, "TCP_HIT TCP_MEM_HIT TCP_IMS_HIT TCP_CF_HIT TCP_NEGATIVE_HIT HIT_RAM"),
            (Outcome::Hit, "HIT_DISK HIT_PEER HIT_FILL REVALIDATED STALE(if-error) HIT Hit"),
            (Outcome::Hit, "RefreshHit OriginShieldHit STALE UPDATING TCP_REFRESH_UNMODIFIED"),
            (Outcome::Hit, "TCP_REFRESH_HIT TCP_REF_FAIL_HIT TCP_REFRESH_FAIL_OLD TCP_HIT_ABORTED"),
            (Outcome::Fetched, "TCP_MISS TCP_IMS_MISS TCP_CLIENT_REFRESH_MISS TCP_SWAPFAIL_MISS"),
            (Outcome::Fetched, "MISS Miss EXPIRED BYPASS(range) TCP_MISS_ABORTED"),
            (Outcome::Replaced, "TCP_REFRESH_MISS TCP_REFRESH_MODIFIED REFRESHED"),
            (Outcome::Passed, "TCP_DENIED TCP_TUNNEL UDP_HIT NONE_NONE BYPASS(rule) BYPASS Error"),
            (Outcome::Passed, "ERROR(connect) DENIED(client) TUNNEL PURGE LimitExceeded Redirect"),
        ];
        for (outcome, names) in all {
            for name in names.split(' ') {
                assert_eq!(Outcome::named(name.as_bytes()), Some(outcome), "{name}");
            }
        }
        for name in ["DE", "success", "-"] {
            assert_eq!(Outcome::named(name.as_bytes()), None, "{name}");
        }
    }
}
