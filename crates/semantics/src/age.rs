//! How old a response is (RFC 9111, 4.2.3).

use http::header::{AGE, DATE, HeaderMap};

use crate::cache_control::Delta;
use crate::date;
use crate::list;
use crate::time::{Exchange, Seconds};

/// The value of `Age`: its first member (RFC 9111, 5.1); zero when absent or not a number.
pub fn of_header(headers: &HeaderMap) -> Seconds {
    let first = list::members(headers, AGE).next().map_or(Delta::Absent, Delta::parse);
    match first {
        Delta::Value(seconds) => seconds,
        Delta::Absent | Delta::Invalid => Seconds::ZERO,
    }
}

/// The age of a response when its head had been received: `corrected_initial_age`.
///
/// The larger of what the clocks say (`Date`) and what the caches on the way say (`Age`, plus the
/// time this exchange took). A missing `Date` says nothing.
pub fn initial(headers: &HeaderMap, exchange: Exchange) -> Seconds {
    let received = exchange.received;
    let apparent =
        date::of_field(headers, &DATE, received).map_or(Seconds::ZERO, |date| received.since(date));
    let delay = received.since(exchange.requested);
    apparent.max(of_header(headers).plus(delay))
}
