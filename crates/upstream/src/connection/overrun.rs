//! Overruns: bytes that an origin sends after the end of a response, such as a body in response to
//! HEAD. On a reused connection they would be read as the next response.
//!
//! Guarantees: a detected overrun is counted and logged, and its connection is not reused. From
//! then on no worker reuses a connection to that origin after HEAD, or after a response of the kind
//! that the bytes followed. Memory use is bounded.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, StatusCode};

use crate::connection::events::{Event, Events};
use crate::failure::failure_log::{FailureLog, Phase};
use crate::settings::endpoint::Endpoint;
use net::clock::TokioClock;

/// Maximum number of origins that are remembered. Beyond that, no connection to any origin is
/// reused after HEAD.
const ORIGINS_MAX: usize = 1024;

/// Kind of response, as far as overruns are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// A response whose framing defines the end of its body.
    #[default]
    Framed,
    /// A response to HEAD, which ends with its head.
    Head,
    /// A 204 or 304, which ends with its head.
    Bodiless,
}

impl ResponseKind {
    /// Returns the kind of a response with this status to a request with this method.
    pub fn of(method: &Method, status: StatusCode) -> ResponseKind {
        match status {
            _ if *method == Method::HEAD => ResponseKind::Head,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => ResponseKind::Bodiless,
            _ => ResponseKind::Framed,
        }
    }
}

impl fmt::Display for ResponseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseKind::Framed => "one with a body",
            ResponseKind::Head => "to a HEAD",
            ResponseKind::Bodiless => "a 204 or 304",
        })
    }
}

/// Origins with overruns, shared by all workers.
#[derive(Debug, Default)]
pub struct Overruns {
    /// Set by the first overrun. Until then requests skip the lock.
    any: AtomicBool,
    origins: Mutex<Origins>,
}

#[derive(Debug, Default)]
struct Origins {
    known: HashMap<Endpoint, Kinds>,
    /// Set when there were more origins than can be remembered.
    is_full: bool,
}

/// Kinds of responses, besides those to HEAD, after which no connection to an origin is reused.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    framed: bool,
    bodiless: bool,
}

impl Overruns {
    /// Remembers an overrun. Returns whether this newly disables reuse after some kind of response.
    fn note(&self, endpoint: &Endpoint, after: ResponseKind) -> bool {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(true, Release);
        if !origins.known.contains_key(endpoint) && origins.known.len() == ORIGINS_MAX {
            return !std::mem::replace(&mut origins.is_full, true);
        }
        let is_new = !origins.known.contains_key(endpoint);
        let kinds = origins.known.entry(endpoint.clone()).or_default();
        let of_kind = match after {
            ResponseKind::Head => return is_new,
            ResponseKind::Framed => &mut kinds.framed,
            ResponseKind::Bodiless => &mut kinds.bodiless,
        };
        !std::mem::replace(of_kind, true)
    }

    fn permits_reuse(&self, endpoint: &Endpoint, after: ResponseKind) -> bool {
        if !self.any.load(Acquire) {
            return true;
        }
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        match (after, origins.known.get(endpoint)) {
            (ResponseKind::Head, None) => !origins.is_full,
            (ResponseKind::Framed | ResponseKind::Bodiless, None) => true,
            (ResponseKind::Head, Some(_)) => false,
            (ResponseKind::Framed, Some(kinds)) => !kinds.framed,
            (ResponseKind::Bodiless, Some(kinds)) => !kinds.bodiless,
        }
    }
}

/// A worker's recorder of overruns, which also counts and logs them.
pub(crate) struct OverrunWatch {
    pub overruns: Arc<Overruns>,
    pub events: Arc<dyn Events>,
    /// Log of failures; `None`: overruns are not logged.
    pub failures: Option<Arc<FailureLog>>,
    pub clock: TokioClock,
}

impl OverrunWatch {
    /// Counts and logs an overrun after a response of this kind.
    pub fn note(&self, endpoint: &Endpoint, after: ResponseKind) {
        self.events.count(Event::Overrun);
        let is_new = self.overruns.note(endpoint, after);
        if let Some(failures) = &self.failures {
            let consequence = match is_new {
                true => {
                    "; from now on its connections are not reused after such responses and HEAD"
                }
                false => "",
            };
            let cause = format!("bytes followed a response, probably {after}{consequence}");
            failures.note(endpoint, Phase::Idle, &cause, self.clock.instant());
        }
    }

    /// Returns whether a connection whose last response was of this kind may be reused.
    pub fn permits_reuse(&self, endpoint: &Endpoint, after: Option<ResponseKind>) -> bool {
        self.overruns.permits_reuse(endpoint, after.unwrap_or_default())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_overrun_ends_reuse_after_head_and_its_kind_of_response() {
        use ResponseKind::{Bodiless, Framed, Head};
        let (overruns, a) = (Overruns::default(), Endpoint::plain("a.example", 80));
        let permitted = |endpoint: &Endpoint| {
            [Framed, Head, Bodiless].map(|after| overruns.permits_reuse(endpoint, after))
        };
        assert_eq!(permitted(&a), [true, true, true]);
        assert!(overruns.note(&a, Head));
        assert_eq!(permitted(&a), [true, false, true]);
        assert!(overruns.note(&a, Bodiless) && !overruns.note(&a, Bodiless));
        assert_eq!(permitted(&a), [true, false, false]);
        assert!(overruns.note(&a, Framed) && !overruns.note(&a, Head));
        assert_eq!(permitted(&a), [false, false, false]);
        let b = Endpoint::plain("b.example", 80);
        assert_eq!(permitted(&b), [true, true, true]);
    }

    #[test]
    fn with_too_many_origins_none_is_trusted_after_a_head() {
        let overruns = Overruns::default();
        let endpoint = |n: usize| Endpoint::plain(&format!("s{n}.example"), 80);
        for n in 0..ORIGINS_MAX {
            assert!(overruns.note(&endpoint(n), ResponseKind::Head));
        }
        let other = endpoint(ORIGINS_MAX + 5);
        assert!(overruns.permits_reuse(&other, ResponseKind::Head));
        assert!(overruns.note(&endpoint(ORIGINS_MAX), ResponseKind::Head));
        assert!(!overruns.note(&endpoint(ORIGINS_MAX + 1), ResponseKind::Head));
        assert!(!overruns.permits_reuse(&other, ResponseKind::Head));
        assert!(overruns.permits_reuse(&other, ResponseKind::Framed));
        assert_eq!(overruns.origins.lock().unwrap().known.len(), ORIGINS_MAX);
    }
}
