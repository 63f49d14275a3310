//! The `Cache-Status` member that Larder appends (RFC 9211), behind those of caches nearer to the
//! origin: `larder; hit; ttl=30; detail=HIT_DISK`, `larder; fwd=uri-miss; ttl=60; detail=MISS`.
//!
//! It is sent with every answer, those that Larder generates itself included: RFC 9211 section 2
//! advises against the latter, but an outcome in every answer is worth more to operators and
//! testers than the bytes it costs.

use std::cell::RefCell;

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use semantics::Seconds;
use semantics::cache_status as rfc9211;

pub use rfc9211::{CACHE_STATUS, Forward as Fwd};

use crate::observe::outcome::{Bypass, Error, Outcome, Stale};

/// The content of the member. [`CacheStatus::new`] fills in what follows from the outcome alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// The outcome: the `detail`, and `collapsed` for [`Outcome::HitFill`].
    pub outcome: Outcome,
    /// Why the request went forward; `None` with a hit, or when the answer is the proxy's own.
    pub fwd: Option<Fwd>,
    /// The upstream's status code, where it differs from the answer's.
    pub fwd_status: Option<u16>,
    /// The answer has been stored. False while its body is being sent: that may break off, or turn
    /// out too large.
    pub stored: bool,
    /// Seconds of freshness left as the cache counts it; negative when stale.
    pub ttl: Option<i64>,
}

/// Lifetimes from which on nothing expires: half of the longest.
const ENDLESS: i64 = Seconds::MAX.get() as i64 / 2;

thread_local! {
    /// The last value, what it is of, and the name in it.
    static LAST: RefCell<Option<(CacheStatus, String, HeaderValue)>> =
        const { RefCell::new(None) };
}

impl CacheStatus {
    /// Makes the status that follows from the outcome alone.
    pub fn new(outcome: Outcome) -> CacheStatus {
        let fwd = match outcome {
            Outcome::HitRam | Outcome::HitDisk => None,
            Outcome::Miss | Outcome::HitFill | Outcome::HitPeer => Some(Fwd::UriMiss),
            Outcome::Revalidated | Outcome::Refreshed => Some(Fwd::Stale),
            Outcome::Stale(Stale::IfError | Stale::Unreachable) => Some(Fwd::Stale),
            Outcome::Stale(Stale::WhileRevalidate | Stale::MaxStale) => None,
            Outcome::Bypass(Bypass::Method | Bypass::Upgrade) => Some(Fwd::Method),
            Outcome::Bypass(Bypass::Range | Bypass::RangeBeyondFill) => Some(Fwd::Miss),
            Outcome::Bypass(Bypass::Variant) => Some(Fwd::VaryMiss),
            Outcome::Bypass(_) => Some(Fwd::Bypass),
            Outcome::Error(
                Error::Dns
                | Error::Connect
                | Error::ConnectTimeout
                | Error::Upstream
                | Error::UpstreamTimeout
                | Error::BadAnswer,
            ) => Some(Fwd::Miss),
            Outcome::Error(_)
            | Outcome::Denied(_)
            | Outcome::Tunnel
            | Outcome::Purge
            | Outcome::Fleet
            | Outcome::Invalid(_) => None,
        };
        let fwd_status = (outcome == Outcome::Revalidated).then_some(304);
        CacheStatus { outcome, fwd, fwd_status, stored: false, ttl: None }
    }

    /// Sets another reason for going forward.
    pub fn fwd(mut self, fwd: Fwd) -> CacheStatus {
        self.fwd = Some(fwd);
        self
    }

    /// Sets the upstream's status code.
    pub fn fwd_status(mut self, status: u16) -> CacheStatus {
        self.fwd_status = Some(status);
        self
    }

    /// Sets whether the answer has been stored.
    pub fn stored(mut self, stored: bool) -> CacheStatus {
        self.stored = stored;
        self
    }

    /// Sets the seconds of freshness left. What does not expire has none.
    pub fn ttl(mut self, seconds: i64) -> CacheStatus {
        self.ttl = Some(seconds).filter(|seconds| *seconds < ENDLESS);
        self
    }

    /// Returns the member as a field value; `name` is the proxy's pseudonym.
    pub fn value(&self, name: &str) -> HeaderValue {
        // Most follow one of their own kind: without a time there are few, and what is fetched has
        // one of few lifetimes, of which nothing has passed.
        LAST.with_borrow_mut(|last| match last {
            Some((of, by, value)) if of == self && by == name => value.clone(),
            _ => {
                let value = self.written(name);
                *last = Some((*self, name.to_owned(), value.clone()));
                value
            }
        })
    }

    fn written(&self, name: &str) -> HeaderValue {
        let member = rfc9211::CacheStatus {
            hit: self.fwd.is_none() && self.outcome.is_hit(),
            forward: self.fwd,
            forward_status: self.fwd_status.and_then(|code| StatusCode::from_u16(code).ok()),
            // A structured field's integer has at most fifteen digits (RFC 9651 section 3.3.1).
            ttl: self.ttl.map(|ttl| ttl.clamp(-999_999_999_999_999, 999_999_999_999_999)),
            stored: self.stored,
            collapsed: self.outcome == Outcome::HitFill,
            key: None,
            detail: Some(&self.outcome.text()),
        };
        member.to_value(name).unwrap_or(HeaderValue::from_static("larder"))
    }

    /// Appends the member behind the existing ones (RFC 9211 section 2: the list runs from the
    /// cache nearest to the origin to the one nearest to the user). An empty value, which says
    /// nothing, is replaced by it.
    pub fn append_to(&self, name: &str, headers: &mut HeaderMap) {
        let value = self.value(name);
        match headers.get_mut(&CACHE_STATUS) {
            Some(place) if place.is_empty() => *place = value,
            _ => {
                headers.append(CACHE_STATUS, value);
            }
        }
    }
}

/// The members of fresh hits, made beforehand but for the seconds of freshness left.
#[derive(Debug)]
pub struct HitStatus {
    /// What stands before the seconds and behind them: from memory, from the device.
    memory: (String, String),
    disk: (String, String),
}

impl HitStatus {
    /// Makes them for the proxy of this pseudonym.
    pub fn new(name: &str) -> HitStatus {
        let around = |outcome| {
            let value = CacheStatus::new(outcome).value(name);
            let text = value.to_str().unwrap_or_default();
            let at = text.find("; detail=").unwrap_or(text.len());
            (text[..at].to_owned(), text[at..].to_owned())
        };
        HitStatus { memory: around(Outcome::HitRam), disk: around(Outcome::HitDisk) }
    }

    /// Appends what [`CacheStatus::value`] returns for a hit from memory, or from the device, with
    /// this [`CacheStatus::ttl`].
    pub fn write(&self, from_memory: bool, ttl: i64, out: &mut Vec<u8>) {
        let (before, behind) = if from_memory { &self.memory } else { &self.disk };
        out.extend_from_slice(before.as_bytes());
        if ttl < ENDLESS {
            out.extend_from_slice(b"; ttl=");
            out.extend_from_slice(itoa::Buffer::new().format(ttl).as_bytes());
        }
        out.extend_from_slice(behind.as_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::observe::outcome::{Denied, Invalid};

    #[test]
    fn hits_have_the_values_that_are_made_beforehand() {
        for name in ["larder", "edge.example", "with; semicolon"] {
            let texts = HitStatus::new(name);
            for (from_memory, outcome) in [(true, Outcome::HitRam), (false, Outcome::HitDisk)] {
                for ttl in [0, 7, 86_400, ENDLESS - 1, ENDLESS, i64::MAX] {
                    let mut written = Vec::new();
                    texts.write(from_memory, ttl, &mut written);
                    let expected = CacheStatus::new(outcome).ttl(ttl).value(name);
                    assert_eq!(written, expected.as_bytes(), "{name} {ttl}");
                }
            }
        }
    }

    #[test]
    fn values() {
        let new = CacheStatus::new;
        let cases = [
            (new(Outcome::HitDisk), "larder; hit; detail=HIT_DISK"),
            (new(Outcome::HitRam).ttl(-3), "larder; hit; ttl=-3; detail=HIT_RAM"),
            (new(Outcome::Miss).stored(true), "larder; fwd=uri-miss; stored; detail=MISS"),
            (
                new(Outcome::Miss).fwd(Fwd::VaryMiss).fwd_status(200).ttl(60),
                "larder; fwd=vary-miss; fwd-status=200; ttl=60; detail=MISS",
            ),
            (new(Outcome::HitFill), "larder; fwd=uri-miss; collapsed; detail=HIT_FILL"),
            (new(Outcome::Revalidated), "larder; fwd=stale; fwd-status=304; detail=REVALIDATED"),
            (
                new(Outcome::Stale(Stale::IfError)).fwd_status(503),
                "larder; fwd=stale; fwd-status=503; detail=\"STALE(if-error)\"",
            ),
            (
                new(Outcome::Stale(Stale::WhileRevalidate)),
                "larder; hit; detail=\"STALE(while-revalidate)\"",
            ),
            (new(Outcome::Bypass(Bypass::Method)), "larder; fwd=method; detail=\"BYPASS(method)\""),
            (new(Outcome::Denied(Denied::Client)), "larder; detail=\"DENIED(client)\""),
            (new(Outcome::Invalid(Invalid::Host)), "larder; detail=\"INVALID(host)\""),
        ];
        for (status, expected) in cases {
            assert_eq!(status.value("larder").to_str().unwrap(), expected);
        }
    }

    #[test]
    fn goes_behind_what_an_upstream_wrote() {
        let mut headers = HeaderMap::new();
        headers.append(CACHE_STATUS, HeaderValue::from_static("Origin; hit, Mid; fwd=stale"));
        CacheStatus::new(Outcome::Miss).append_to("larder", &mut headers);
        let all: Vec<_> =
            headers.get_all(CACHE_STATUS).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(all, ["Origin; hit, Mid; fwd=stale", "larder; fwd=uri-miss; detail=MISS"]);
    }

    #[test]
    fn every_outcome_is_a_valid_value_with_its_name_in_it() {
        for outcome in Outcome::all() {
            let value = CacheStatus::new(outcome).ttl(i64::MIN).value("larder");
            let text = value.to_str().unwrap();
            assert!(text.contains(&outcome.to_string()), "{text}");
            assert!(text.contains("ttl=-999999999999999;"), "{text}");
        }
    }
}
