//! HTTP dates (RFC 9110, 5.6.7): parses the three required forms, writes IMF-fixdate.
//!
//! Parsing is strict about values (month lengths, leap years, ranges). It does not compare the
//! weekday with the date, since the weekday does not change the moment meant. `now` is only needed
//! for the obsolete two-digit years.

use std::cell::RefCell;
use std::fmt;

use http::header::{DATE, HeaderMap, HeaderName, HeaderValue};

use crate::fields::value;
use crate::fields::view::Fields;
use crate::time::Time;

const DAY: u64 = 24 * 3600;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Parses an HTTP date in any of its three forms. Returns `None` for other text and for dates
/// before 1970.
///
/// Case does not matter (RFC 9111, 4.2). The zone must be `GMT`; any other zone, even `UTC`, makes
/// the date invalid. The effect depends on the field: an invalid `Expires` has passed (RFC 9111,
/// 5.3), a condition is ignored (RFC 9110, 13.1.3), a `Date` is replaced by the time of receipt
/// (RFC 9110, 6.6.1), and a `Last-Modified` is ignored. A two-digit year more than 50 years after
/// `now` is in the past century.
pub fn parse(text: &[u8], now: Time) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    imf_fixdate(text).or_else(|| rfc850(text, now)).or_else(|| asctime(text))
}

/// Returns the date in the first line of field `name`; `None` if absent or malformed.
pub fn of_field(fields: &impl Fields, name: &HeaderName, now: Time) -> Option<Time> {
    parse(fields.line(name)?, now)
}

/// Formats `time` as an IMF-fixdate. Years after 9999 become the end of 9999.
pub fn format(time: Time) -> String {
    ImfFixdate(time).to_string()
}

thread_local! {
    /// The last value written and its second. Most dates written are of the same second.
    static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
}

/// Returns the date that [`format()`] writes, as a header value.
pub fn to_value(time: Time) -> HeaderValue {
    LAST.with_borrow_mut(|last| match last {
        Some((of, value)) if *of == time.unix() => value.clone(),
        _ => {
            let value = value::of(ImfFixdate(time)).unwrap_or(HeaderValue::from_static(""));
            *last = Some((time.unix(), value.clone()));
            value
        }
    })
}

struct ImfFixdate(Time);

impl fmt::Display for ImfFixdate {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        const END_OF_9999: u64 = 253_402_300_799;
        let seconds = self.0.unix().min(END_OF_9999);
        let (days, second) = (seconds / DAY, seconds % DAY);
        let (year, month, day) = civil_from_days(days);
        write!(
            text,
            "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
            WEEKDAYS[((days + 3) % 7) as usize],
            MONTHS[month as usize - 1],
            second / 3600,
            second / 60 % 60,
            second % 60,
        )
    }
}

/// Sets `Date` to `received` if the response has no valid one. RFC 9110, 6.6.1 requires this of a
/// recipient with a clock.
pub fn ensure(headers: &mut HeaderMap, received: Time) {
    if of_field(headers, &DATE, received).is_none() {
        headers.insert(DATE, to_value(received));
    }
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`; returns `None` for anything else. All parts of this form
/// have fixed positions. Only very old programs send another form.
fn imf_fixdate(text: &str) -> Option<Time> {
    let text: &[u8; 29] = text.as_bytes().try_into().ok()?;
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0, |sum, byte| {
            byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0'))
        })
    };
    let between = [(3, b','), (4, b' '), (7, b' '), (11, b' '), (16, b' '), (19, b':')];
    let rest = [(22, b':'), (25, b' ')];
    let in_place = between.iter().chain(&rest).all(|(place, byte)| text[*place] == *byte);
    (in_place && text[26..].eq_ignore_ascii_case(b"GMT")).then_some(())?;
    three(&WEEKDAYS, &text[..3])?;
    let (day, month, year) = (number(5, 7)?, three(&MONTHS, &text[8..11])? + 1, number(12, 16)?);
    let (hour, minute, second) = (number(17, 19)?, number(20, 22)?, number(23, 25)?);
    (hour < 24 && minute < 60 && second <= 60).then_some(())?;
    at(year, month, day, hour * 3600 + minute * 60 + second)
}

/// Returns the index of a three-letter name in `names`.
fn three(names: &[&str], name: &[u8]) -> Option<u64> {
    names.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name)).map(|at| at as u64)
}

/// Parses `Sunday, 06-Nov-94 08:49:37 GMT`; returns `None` for anything else.
fn rfc850(text: &str, now: Time) -> Option<Time> {
    let (weekday, rest) = text.split_once(", ")?;
    one_of(&LONG_WEEKDAYS, weekday)?;
    let mut parts = rest.split(' ');
    let mut date = parts.next()?.split('-');
    let day = digits(date.next()?, 2)?;
    let month = one_of(&MONTHS, date.next()?)? + 1;
    let short_year = digits(date.next()?, 2)?;
    let second = time_of_day(parts.next()?)?;
    (date.next().is_none() && is_zone(parts.next()?) && parts.next().is_none()).then_some(())?;
    let (this_year, ..) = civil_from_days(now.unix() / DAY);
    let mut year = this_year / 100 * 100 + short_year;
    if year > this_year + 50 {
        year -= 100;
    }
    at(year, month, day, second)
}

/// Parses `Sun Nov  6 08:49:37 1994`; returns `None` for anything else.
fn asctime(text: &str) -> Option<Time> {
    let (weekday, rest) = text.split_once(' ')?;
    one_of(&WEEKDAYS, weekday)?;
    let (month, rest) = rest.split_once(' ')?;
    let month = one_of(&MONTHS, month)? + 1;
    let (day, rest) = (rest.get(..2)?, rest.get(2..)?);
    let day = match day.strip_prefix(' ') {
        Some(digit) => digits(digit, 1)?,
        None => digits(day, 2)?,
    };
    let (time, year) = rest.strip_prefix(' ')?.split_once(' ')?;
    at(digits(year, 4)?, month, day, time_of_day(time)?)
}

fn is_zone(text: &str) -> bool {
    text.eq_ignore_ascii_case("GMT")
}

fn one_of(names: &[&str], name: &str) -> Option<u64> {
    names.iter().position(|known| known.eq_ignore_ascii_case(name)).map(|at| at as u64)
}

fn digits(text: &str, count: usize) -> Option<u64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    text.parse().ok()
}

/// Parses a time of day into seconds since midnight. Allows a leap second (`:60`), which counts as
/// the first second of the next minute.
fn time_of_day(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = digits(parts.next()?, 2)?;
    (parts.next().is_none() && hour < 24 && minute < 60 && second <= 60).then_some(())?;
    Some(hour * 3600 + minute * 60 + second)
}

fn at(year: u64, month: u64, day: u64, second: u64) -> Option<Time> {
    (year >= 1970).then_some(())?;
    let days = days_from_civil(year, month, day);
    // An invalid day, such as 30 February, converts back to another date.
    (civil_from_days(days) == (year, month, day)).then_some(())?;
    Some(Time::from_unix(days * DAY + second))
}

/// Returns the days from 1970-01-01 to a date in the Gregorian calendar. Years start on 1 March
/// internally, so the leap day is the last of its year.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (march_year / 400, march_year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.max(1) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).saturating_sub(719_468)
}

/// Returns the (year, month, day) of a day since 1970-01-01: the inverse of [`days_from_civil`].
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_unix(1_800_000_000); // January 2027

    fn read(text: &str) -> Option<u64> {
        parse(text.as_bytes(), NOW).map(Time::unix)
    }

    #[test]
    fn all_three_forms_mean_the_same_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "sun, 06 nov 1994 08:49:37 gmt",
            "SUNDAY, 06-NOV-94 08:49:37 GMT",
        ] {
            assert_eq!(read(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_at_most_fifty_years_ahead() {
        assert_eq!(read("Friday, 01-Jan-77 00:00:00 GMT"), Some(3_376_684_800)); // 2077
        assert_eq!(read("Sunday, 01-Jan-78 00:00:00 GMT"), Some(252_460_800)); // 1978
    }

    #[test]
    fn malformed_dates_are_refused() {
        for text in [
            "",
            "0",
            "-1",
            "now",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 EST",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sunday, 06-Nov-94 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 0000 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  \u{e9} 08:49:37 1994",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn writing_and_reading_agree_with_the_crate_httpdate() {
        use std::time::{Duration, UNIX_EPOCH};
        // The step is coprime to the day length, so it covers all hours, month ends and leap years
        // up to 9999.
        for seconds in (0..253_402_300_800).step_by(86_400 * 97 + 4_219) {
            let text = format(Time::from_unix(seconds));
            assert_eq!(text, httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds)));
            assert_eq!(read(&text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn a_missing_or_broken_date_is_replaced() {
        let mut headers = HeaderMap::new();
        ensure(&mut headers, NOW);
        assert_eq!(headers[DATE], "Fri, 15 Jan 2027 08:00:00 GMT");
        headers.insert(DATE, HeaderValue::from_static("yesterday"));
        ensure(&mut headers, NOW);
        assert_eq!(headers[DATE], "Fri, 15 Jan 2027 08:00:00 GMT");
        headers.insert(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        ensure(&mut headers, NOW);
        assert_eq!(headers[DATE], "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
