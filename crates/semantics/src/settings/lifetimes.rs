//! Lifetimes set by an operator, and the response statuses that they apply to.
//!
//! Lifetimes concern the document that a URL names. An error or a login redirect is not that
//! document and must not be kept for as long. Lifetimes therefore apply only to some statuses,
//! unless the operator names others.

use std::str::FromStr;

use http::StatusCode;

use crate::time::Seconds;

/// An operator's lifetimes, used if the origin states none or in place of the origin's. They do not
/// override prohibitions: `no-store`, `private` and `no-cache` still apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lifetimes {
    /// The statuses to which the other fields apply unless they name their own, and to which the
    /// edits of a rule apply. `None`: the default statuses ([`Lifetimes::scope_of`]).
    pub statuses: Option<Vec<StatusPattern>>,
    /// Lifetime in place of the origin's.
    pub fixed: Option<Lifetime>,
    /// Lifetime in place of a heuristic one if the origin states none.
    pub unsaid: Option<Lifetime>,
    /// Minimum lifetime.
    pub min: Option<Seconds>,
    /// Maximum lifetime, for any status. It does not bound `fixed`.
    pub max: Option<Seconds>,
    /// Lifetime of responses with status 400 and above for which the origin states none and
    /// `unsaid` does not apply: negative caching.
    pub errors: Option<Seconds>,
}

/// A lifetime set by an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Lifetime {
    /// One lifetime for every status in [`Lifetimes::statuses`].
    Same(Seconds),
    /// A lifetime for each named status. A single status has precedence over its class.
    ByStatus(Vec<(StatusPattern, Seconds)>),
}

/// A status or a class of statuses. 206 and 304 never match: see [`counted_as`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// One status, such as 404.
    Status(StatusCode),
    /// All statuses with this first digit, such as 4xx.
    Class(u16),
}

/// The responses of one status to which the operator's lifetimes and edits apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusScope {
    /// No response.
    Nothing,
    /// Responses that shared caches may keep for a lifetime stated by the origin.
    Stated,
    /// All responses.
    All,
}

impl Lifetimes {
    /// Returns whether `status` is an error and the operator sets a zero lifetime for errors. No
    /// error is then served stale.
    pub(crate) fn keep_no_error(&self, status: StatusCode) -> bool {
        status.as_u16() >= 400 && self.errors == Some(Seconds::ZERO)
    }

    /// Returns the responses with this status that take part. By default these are documents (200,
    /// 203, 204), permanent redirects (301, 308), and the response that opens a tunnel (101), which
    /// is never stored. Other redirects (302, 303, 307) are often for one user or one moment; they
    /// take part if the origin states that they may be kept.
    pub fn scope_of(&self, status: StatusCode) -> StatusScope {
        let status = counted_as(status);
        let is_all = match &self.statuses {
            Some(named) => named.iter().any(|pattern| pattern.matches(status)),
            None => matches!(status.as_u16(), 101 | 200 | 203 | 204 | 301 | 308),
        };
        match status.as_u16() {
            _ if is_all => StatusScope::All,
            302 | 303 | 307 if self.statuses.is_none() => StatusScope::Stated,
            _ => StatusScope::Nothing,
        }
    }

    /// Returns whether a response with this status may get a longer lifetime than the origin's.
    /// `takes_part` is derived from [`Lifetimes::scope_of`].
    pub fn lengthen(&self, status: StatusCode, takes_part: bool) -> bool {
        let applies = |lifetime: &Lifetime| lifetime.of(status, takes_part).is_some();
        let (fixed, unsaid) = (&self.fixed, &self.unsaid);
        fixed.iter().chain(unsaid).any(applies) || (takes_part && self.min.is_some())
    }
}

impl Lifetime {
    /// Returns the lifetime of a response with this status. `takes_part` is derived from
    /// [`Lifetimes::scope_of`].
    pub(crate) fn of(&self, status: StatusCode, takes_part: bool) -> Option<Seconds> {
        let named = match self {
            Lifetime::Same(lifetime) => return takes_part.then_some(*lifetime),
            Lifetime::ByStatus(named) => named,
        };
        let status = counted_as(status);
        let matching = || named.iter().filter(|(pattern, _)| pattern.matches(status));
        let is_single = |pattern: &StatusPattern| matches!(pattern, StatusPattern::Status(_));
        let exact = matching().find(|(pattern, _)| is_single(pattern));
        exact.or_else(|| matching().next()).map(|(_, lifetime)| *lifetime)
    }
}

impl StatusPattern {
    /// Returns whether the pattern names this status.
    pub fn matches(self, status: StatusCode) -> bool {
        match self {
            StatusPattern::Status(named) => named == status,
            StatusPattern::Class(digit) => status.as_u16() / 100 == digit,
        }
    }
}

impl FromStr for StatusPattern {
    type Err = String;

    /// Parses `404` or `4xx`. Interim statuses other than 101 are not accepted.
    fn from_str(text: &str) -> Result<StatusPattern, String> {
        let wrong =
            || format!("expected a status such as 404 or a class such as 4xx, got {text:?}");
        if let [digit @ b'2'..=b'5', b'x', b'x'] = text.as_bytes() {
            return Ok(StatusPattern::Class(u16::from(digit - b'0')));
        }
        let status = StatusCode::from_bytes(text.as_bytes()).map_err(|_| wrong())?;
        match status.as_u16() {
            101 | 200..=599 => Ok(StatusPattern::Status(status)),
            _ => Err(wrong()),
        }
    }
}

/// Returns the status that determines how a response is treated: a part of a document (206) and its
/// validation (304) count as the whole (200).
pub fn counted_as(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED => StatusCode::OK,
        status => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16) -> StatusCode {
        StatusCode::from_u16(status).unwrap()
    }

    fn patterns(texts: &[&str]) -> Vec<StatusPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn lifetimes_are_for_documents_unless_statuses_are_named() {
        let usual = Lifetimes::default();
        let named = Lifetimes { statuses: Some(patterns(&["2xx", "302", "404"])), ..usual.clone() };
        for status in 100..600 {
            let expected = match status {
                101 | 200 | 203 | 204 | 206 | 301 | 304 | 308 => StatusScope::All,
                302 | 303 | 307 => StatusScope::Stated,
                _ => StatusScope::Nothing,
            };
            assert_eq!(usual.scope_of(code(status)), expected, "{status}");
            let is_named = matches!(status, 200..=299 | 302 | 304 | 404);
            let expected = if is_named { StatusScope::All } else { StatusScope::Nothing };
            assert_eq!(named.scope_of(code(status)), expected, "{status} named");
        }
        // A part and a validation count as the whole.
        let redirects = Lifetimes { statuses: Some(patterns(&["3xx"])), ..usual };
        assert_eq!(redirects.scope_of(code(304)), StatusScope::Nothing);
        assert_eq!(redirects.scope_of(code(206)), StatusScope::Nothing);
    }

    #[test]
    fn a_single_status_outranks_its_class() {
        let times = [("4xx", 10), ("404", 60), ("200", 9)];
        let times = times.map(|(text, time)| (text.parse().unwrap(), Seconds::new(time)));
        let by_status = Lifetime::ByStatus(times.to_vec());
        let of = |status| by_status.of(code(status), false).map(Seconds::get);
        assert_eq!((of(404), of(410)), (Some(60), Some(10)));
        assert_eq!((of(200), of(206), of(304)), (Some(9), Some(9), Some(9)));
        assert_eq!((of(301), of(500)), (None, None));
        let same = Lifetime::Same(Seconds::new(5));
        assert_eq!(same.of(code(500), true), Some(Seconds::new(5)));
        assert_eq!(same.of(code(200), false), None);
    }

    #[test]
    fn a_longer_lifetime_is_for_some_statuses() {
        let second = Seconds::new(1);
        let min = Lifetimes { min: Some(second), ..Lifetimes::default() };
        assert!(min.lengthen(code(200), true) && !min.lengthen(code(200), false));
        let times = vec![("404".parse().unwrap(), second)];
        let listed = Lifetimes { fixed: Some(Lifetime::ByStatus(times)), ..Lifetimes::default() };
        assert!(listed.lengthen(code(404), false) && !listed.lengthen(code(200), true));
        let bounded = Lifetimes { max: Some(second), ..Lifetimes::default() };
        assert!(!bounded.lengthen(code(200), true));
    }

    #[test]
    fn statuses_and_classes_are_read() {
        assert_eq!("404".parse(), Ok(StatusPattern::Status(StatusCode::NOT_FOUND)));
        assert_eq!("5xx".parse(), Ok(StatusPattern::Class(5)));
        assert!("101".parse::<StatusPattern>().is_ok());
        for text in ["", "2", "2x", "xx", "1xx", "6xx", "2XX", "+2xx", "100", "600", "4 04", "200 "]
        {
            let error = text.parse::<StatusPattern>().unwrap_err();
            assert!(error.starts_with("expected a status such as 404 or a class"), "{error}");
        }
    }
}
