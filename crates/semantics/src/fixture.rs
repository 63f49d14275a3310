//! Headers and times for the tests of this crate, in forms short enough for a table.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::request::facts::TargetFacts;
use crate::settings::Settings;
use crate::stored::packed::Packed;
use crate::stored::stored_head::StoredHead;
use crate::time::{ExchangeTimes, Time};

/// The time of test exchanges: Fri, 15 Jan 2027 08:00:00 GMT.
pub(crate) const NOW: Time = Time::from_unix(1_800_000_000);
/// [`NOW`] as a `Date`.
pub(crate) const NOW_DATE: &str = "Fri, 15 Jan 2027 08:00:00 GMT";
/// A thousand seconds before [`NOW`].
pub(crate) const EARLIER_DATE: &str = "Fri, 15 Jan 2027 07:43:20 GMT";
/// A thousand seconds after [`NOW`].
pub(crate) const LATER_DATE: &str = "Fri, 15 Jan 2027 08:16:40 GMT";

/// An exchange at [`NOW`] that took no time.
pub(crate) const AT_NOW: ExchangeTimes = ExchangeTimes { requested: NOW, received: NOW };

/// Returns [`NOW`] plus `seconds`.
pub(crate) fn later(seconds: u64) -> Time {
    Time::from_unix(NOW.unix() + seconds)
}

/// Parses header lines such as `"Cache-Control: max-age=60"`.
pub(crate) fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).unwrap());
    }
    headers
}

/// Returns the facts of a 200 with these header lines, received [`NOW`].
pub(crate) fn packed(lines: &[&str]) -> Packed {
    let (target, ok) = (TargetFacts::default(), http::StatusCode::OK);
    Packed::of(target, ok, &headers(lines), AT_NOW, &Settings::default())
}

/// Returns a stored 200 with these header lines, received [`NOW`].
pub(crate) fn stored(lines: &[&str]) -> StoredHead {
    let (target, ok) = (TargetFacts::default(), http::StatusCode::OK);
    StoredHead::new(target, ok, &headers(lines), AT_NOW, &Settings::default())
}
