//! The age of a response (RFC 9111, 4.2.3).

use http::header::{AGE, DATE, HeaderMap};

use crate::fields::cache_control::Delta;
use crate::fields::date;
use crate::fields::list;
use crate::time::{ExchangeTimes, Millis, Seconds, Time};

/// Returns the first member of `Age` (RFC 9111, 5.1); zero if it is absent or not a number.
pub fn of_header(headers: &HeaderMap) -> Seconds {
    let first = list::members(headers, &AGE).next().map_or(Delta::Absent, Delta::parse);
    match first {
        Delta::Value(seconds) => seconds,
        Delta::Absent | Delta::Invalid => Seconds::ZERO,
    }
}

/// Returns the age of a response when its head was received: `corrected_initial_age`.
///
/// This is the `Age` reported by caches on the path plus the duration of this exchange. `Date`
/// counts only if it proves a higher age. It names a whole second, so it proves only the time since
/// the end of that second. A missing `Date` proves nothing.
pub fn initial(headers: &HeaderMap, times: ExchangeTimes) -> Millis {
    let received = times.received;
    let delay = received.millis_since(times.requested);
    let corrected = of_header(headers).millis().plus(delay);
    match date::of_field(headers, &DATE, received) {
        Some(date) if proven(date, received) >= corrected => {
            corrected.max(received.since(date).millis())
        }
        _ => corrected,
    }
}

/// Returns the minimum age of a response at the time of the request, by its `Age` and `Date`,
/// without the time spent waiting for it. Zero if it was generated for this exchange.
pub fn when_asked(headers: &HeaderMap, times: ExchangeTimes) -> Millis {
    let received = times.received;
    let by_date = date::of_field(headers, &DATE, received)
        .map_or(Millis::ZERO, |date| proven(date, received));
    let said = of_header(headers).millis().max(by_date);
    said.minus(received.millis_since(times.requested))
}

/// Returns the time since the end of the second that `date` names.
fn proven(date: Time, received: Time) -> Millis {
    received.millis_since(date.after(Seconds::new(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{EARLIER_DATE, LATER_DATE, NOW, NOW_DATE, headers, later};

    #[test]
    fn the_header_is_read_leniently() {
        for (lines, expected) in [
            (&["Age: 30"][..], 30),
            (&["Age: 30, 40"], 30),
            (&["Age: 30", "Age: 40"], 30),
            (&["Age: 99999999999999999999"], 1 << 31),
            (&["Age: -1"], 0),
            (&["Age: 1.5"], 0),
            (&["Age: 7200;foo=bar"], 0),
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
            let times = ExchangeTimes { requested: NOW, received: NOW };
            let slow = ExchangeTimes { requested: NOW, received: later(delay) };
            let times = if delay == 0 { times } else { slow };
            let age = initial(&headers(&lines), times);
            assert_eq!(age, Seconds::new(expected).millis(), "{lines:?}");
        }
    }

    #[test]
    fn a_date_within_the_exchange_adds_nothing() {
        let at = |millis| Time::from_unix_millis(NOW.unix_millis() + millis);
        let date = format!("Date: {NOW_DATE}");
        for (asked, received, lines, initially, asked_for) in [
            // Generated right after the request, late in the second.
            (900, 1200, vec![date.as_str()], 300, 0),
            (900, 2400, vec![&date], 1500, 0),
            // Generated in a second that was over at the time of the request.
            (2100, 2400, vec![&date], 2000, 1100),
            (2100, 2400, vec![&date, "Age: 1"], 2000, 1100),
            (2100, 2400, vec![&date, "Age: 2"], 2300, 1700),
            // The caches on the path waited as long as this one.
            (0, 1500, vec!["Age: 1"], 2500, 0),
            (0, 1500, vec!["Age: 9"], 10_500, 7500),
            (0, 0, vec!["Age: 99999999999999999999"], 2_147_483_648_000, 2_147_483_648_000),
        ] {
            let times = ExchangeTimes { requested: at(asked), received: at(received) };
            let (lines, case) = (headers(&lines), format!("{asked} {received} {lines:?}"));
            assert_eq!(initial(&lines, times).get(), initially, "{case}");
            assert_eq!(when_asked(&lines, times).get(), asked_for, "{case}");
        }
    }
}
