//! The common log format of servers, and the combined one: `host identity user [time] "request"
//! status bytes`, followed in the combined format by referrer and agent, which are ignored. Larder
//! adds the outcome.

use super::event::{self, Event, Measure, hash, number, shown};
use super::filter::Filter;
use super::outcome::Outcome;
use super::url::Url;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses a line.
///
/// # Errors
/// A description of what is wrong with the line.
pub(super) fn parse(line: &[u8], filter: Filter) -> Result<Event, String> {
    let (host, _) = split(line, b" ").ok_or("no client: there is no space")?;
    if host.is_empty() {
        return Err("no client: the line begins with a space".to_owned());
    }
    let (_, rest) = split(line, b" [").ok_or("no time in brackets")?;
    let (time, rest) = split(rest, b"] \"").ok_or("no request in quotes after the time")?;
    let time_ms = millis(time).ok_or_else(|| {
        format!("the time {} is not like 10/Oct/2000:13:55:36 -0700", shown(time))
    })?;
    let (request, status, rest) =
        request_and_status(rest).ok_or("no status of three digits after the request in quotes")?;
    let bytes = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    let size = match bytes {
        b"-" => 0,
        bytes => {
            number(bytes).ok_or_else(|| format!("{} is not a number of bytes", shown(bytes)))?
        }
    };
    let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (Some(method), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("the request {} is not a method and a path", shown(request)));
    };
    let (method, url) = (event::method(method), Url::new(name));
    let mut event = Event {
        time_ms,
        object: hash(name),
        site: url.site,
        group: url.group,
        client: hash(host),
        size: (status != 304).then_some(size),
        measure: if status == 206 { Measure::Part } else { Measure::Sent },
        kind: url.kind,
        method,
        status,
        skip_reason: event::skip_reason(method, url.is_dynamic, status, filter),
        ..Event::default()
    };
    if let Some(outcome) = outcome(rest) {
        Outcome::apply(outcome, &mut event);
    }
    Ok(event)
}

/// Returns the outcome behind the agent in quotes, as Larder writes it: capital letters, and
/// perhaps a reason in parentheses.
fn outcome(rest: &[u8]) -> Option<&[u8]> {
    let (_, word) = rest.split_at(memchr::memmem::rfind(rest, b"\" ")? + 2);
    let name = word.split(|byte| *byte == b'(').next()?;
    let is_name = name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    (is_name && !name.is_empty() && !word.contains(&b' ')).then_some(word)
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let found = memchr::memmem::find(bytes, at)?;
    Some((&bytes[..found], &bytes[found + at.len()..]))
}

/// Finds the quote that ends the request: the first one followed by a status, since some logs have
/// quotes within requests. Returns the request, the status, and what follows the status.
fn request_and_status(rest: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    memchr::memchr_iter(b'"', rest).find_map(|quote| {
        let after = rest[quote + 1..].strip_prefix(b" ")?;
        let (status, more) = (after.get(..3)?, after.get(3..)?.strip_prefix(b" ")?);
        let status = number(status).and_then(|status| u16::try_from(status).ok())?;
        Some((&rest[..quote], status, more))
    })
}

/// Converts `10/Oct/2000:13:55:36 -0700` to milliseconds since 1970; without a zone it is UTC.
fn millis(time: &[u8]) -> Option<u64> {
    let digits = |from: usize, len: usize| {
        number(time.get(from..from + len)?).and_then(|number| i64::try_from(number).ok())
    };
    for (at, mark) in [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':')] {
        if time.get(at) != Some(&mark) {
            return None;
        }
    }
    let month = MONTHS.iter().position(|month| *month == &time[3..6])? as i64 + 1;
    let (day, year) = (digits(0, 2)?, digits(7, 4)?);
    let (hour, minute, second) = (digits(12, 2)?, digits(15, 2)?, digits(18, 2)?);
    if !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let zone = match time.get(20..) {
        None | Some([]) => 0,
        Some(zone) => {
            let sign = match zone.strip_prefix(b" ")?.first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            if zone.len() != 6 {
                return None;
            }
            sign * (digits(22, 2)? * 60 + digits(24, 2)?)
        }
    };
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - zone;
    u64::try_from((minutes * 60 + second) * 1_000).ok()
}

/// Returns the days from 1970-01-01 to a day of the Gregorian calendar. Years begin in March here,
/// so that the leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Kind, Method};
    use crate::trace::SkipReason;

    const LINE: &str = "host.example - - [01/Jul/1995:00:00:12 -0400] \
                        \"GET /shuttle/countdown/ HTTP/1.0\" 200 3985";

    #[test]
    fn a_line_says_everything() {
        let event = parse(LINE.as_bytes(), Filter::Served).unwrap();
        let url = Url::new(b"/shuttle/countdown/");
        let expected = Event {
            time_ms: 804_571_212_000,
            object: hash(b"/shuttle/countdown/"),
            group: url.group,
            client: hash(b"host.example"),
            size: Some(3_985),
            measure: Measure::Sent,
            kind: Kind::Html,
            status: 200,
            ..Event::default()
        };
        assert_eq!(event, expected);
        let combined = format!("{LINE} \"http://from.example/\" \"Mozilla/2.0 [en]\"");
        assert_eq!(parse(combined.as_bytes(), Filter::Served).unwrap(), expected);
    }

    #[test]
    fn lines_of_real_logs_are_read() {
        let event = |from: &str, to: &str| {
            parse(LINE.replace(from, to).as_bytes(), Filter::Served).unwrap()
        };
        assert_eq!(event("200 3985", "304 -").size, None);
        assert_eq!(event("3985", "-").size, Some(0));
        assert_eq!(event("GET", "POST").skip_reason, Some(SkipReason::Method));
        assert_eq!(event("GET", "HEAD").method, Method::Head);
        assert_eq!(event(" HTTP/1.0", "").object, hash(b"/shuttle/countdown/"), "HTTP/0.9");
        assert_eq!(event("countdown/", "a\"b\"").object, hash(b"/shuttle/a\"b\""));
    }

    #[test]
    fn larders_outcome_follows_the_agent() {
        let event =
            |end: &str| parse(format!("{LINE} \"-\" {end}").as_bytes(), Filter::Served).unwrap();
        assert!(event("\"Mozilla/2.0 [en]\" HIT_RAM").is_hit);
        assert!(event("\"a\" REFRESHED").is_new_version);
        assert_eq!(event("\"a\" BYPASS(rule)").skip_reason, Some(SkipReason::Outcome));
        for other in ["\"HIT_RAM\"", "\"a\" 0.005", "\"a\" 7 MISS"] {
            assert_eq!(event(other), parse(LINE.as_bytes(), Filter::Served).unwrap(), "{other}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(millis(b"01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(millis(b"29/Feb/2000:23:59:59"), Some(951_868_799_000));
        assert_eq!(millis(b"10/Oct/2000:13:55:36 -0700"), Some(971_211_336_000));
        for bad in [
            &b""[..],
            b"32/Jan/2000:00:00:00",
            b"01/Foo/2000:00:00:00",
            b"01/Jan/2000:24:00:00",
            b"01/Jan/2000:00:00:00 *0000",
            b"01/Jan/2000:00:00:00 +00",
            b"01/Jan/1969:00:00:00 +0000",
        ] {
            assert_eq!(millis(bad), None, "{}", shown(bad));
        }
    }

    #[test]
    fn damage_is_named() {
        let what = |from: &str, to: &str| {
            parse(LINE.replace(from, to).as_bytes(), Filter::Served).unwrap_err()
        };
        assert!(what("Jul", "Jly").contains("is not like 10/Oct/2000"));
        assert!(what("[", "").contains("no time"));
        assert!(what("GET /shuttle/countdown/ HTTP/1.0", "GET").contains("a method and a path"));
        assert!(what("200", "2xx").contains("no status"));
        assert!(what("3985", "many").contains("\"many\" is not a number of bytes"));
        assert!(parse(b"", Filter::Served).unwrap_err().contains("no client"));
    }
}
