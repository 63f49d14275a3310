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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{EARLIER_DATE, LATER_DATE, NOW, headers, later};

    #[test]
    fn the_header_is_read_leniently() {
        for (lines, expected) in [
            (&["Age: 30"][..], 30),
            (&["Age: 30, 40"], 30),
            (&["Age: 30", "Age: 40"], 30),
            (&["Age: 99999999999999999999"], 1 << 31),
            (&["Age: -1"], 0),
            (&["Age: 1.5"], 0),
            (&["Age: abc, 40"], 0),
            (&["Age:"], 0),
            (&[], 0),
        ] {
            assert_eq!(of_header(&headers(lines)).get(), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_larger_of_clock_and_header_counts() {
        let earlier = format!("Date: {EARLIER_DATE}");
        let future = format!("Date: {LATER_DATE}");
        for (lines, delay, expected) in [
            (vec![earlier.as_str()], 0, 1000),
            (vec![earlier.as_str(), "Age: 30"], 0, 1000),
            (vec![earlier.as_str(), "Age: 2000"], 5, 2005),
            (vec![future.as_str()], 0, 0),
            (vec![future.as_str(), "Age: 30"], 5, 35),
            (vec!["Date: never", "Age: 30"], 0, 30),
            (vec![], 7, 7),
        ] {
            let exchange = Exchange { requested: NOW, received: NOW };
            let slow = Exchange { requested: NOW, received: later(delay) };
            let exchange = if delay == 0 { exchange } else { slow };
            assert_eq!(initial(&headers(&lines), exchange).get(), expected, "{lines:?}");
        }
    }
}
