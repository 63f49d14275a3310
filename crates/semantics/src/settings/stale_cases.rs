//! The errors of an origin in place of which a stale response may be served.

use http::StatusCode;

/// A set of errors: statuses, and failures without a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleCases(u16);

/// The names of errors, in the order of their bits. "5xx" includes the other 5xx.
pub const NAMES: [&str; 11] =
    ["500", "502", "503", "504", "5xx", "403", "404", "410", "429", "unreachable", "timeout"];

const ALL_5XX: u16 = 0b1_1111;
const UNREACHABLE: u16 = 1 << 9;
const TIMEOUT: u16 = 1 << 10;

impl StaleCases {
    /// The usual set (RFC 5861, 4): 500, 502, 503, 504 and all failures.
    pub const USUAL: StaleCases = StaleCases(0b1111 | UNREACHABLE | TIMEOUT);

    /// Returns the set of these names, each one of [`NAMES`]; `None` if a name is unknown.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<StaleCases> {
        names.into_iter().try_fold(StaleCases::default(), |StaleCases(set), name| {
            let bit = NAMES.iter().position(|known| *known == name)?;
            Some(StaleCases(set | if name == "5xx" { ALL_5XX } else { 1 << bit }))
        })
    }

    /// Returns whether the set has a status.
    pub fn has(self, status: StatusCode) -> bool {
        let bit = match status.as_u16() {
            500 => 0,
            502 => 1,
            503 => 2,
            504 => 3,
            505.. | 501 => 4,
            403 => 5,
            404 => 6,
            410 => 7,
            429 => 8,
            _ => return false,
        };
        self.0 & 1 << bit != 0
    }

    /// Returns whether the set has a failure, which a client would get as `status`.
    pub fn has_failure(self, status: StatusCode) -> bool {
        let bit = if status == StatusCode::GATEWAY_TIMEOUT { TIMEOUT } else { UNREACHABLE };
        self.0 & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_named_by_status_class_and_kind() {
        let has = |names: &[&str], status: u16| {
            let set = StaleCases::named(names.iter().copied()).unwrap();
            set.has(StatusCode::from_u16(status).unwrap())
        };
        for status in [200, 400, 403, 404, 410, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(has(&["5xx"], status), status >= 500, "{status}");
            assert_eq!(has(&["404", "503"], status), [404, 503].contains(&status), "{status}");
            let code = StatusCode::from_u16(status).unwrap();
            assert_eq!(StaleCases::USUAL.has(code), [500, 502, 503, 504].contains(&status));
        }
        let timeout = StaleCases::named(["timeout"]).unwrap();
        assert!(timeout.has_failure(StatusCode::GATEWAY_TIMEOUT));
        assert!(!timeout.has_failure(StatusCode::BAD_GATEWAY));
        assert_eq!(StaleCases::named(["nope"]), None);
    }
}
