//! Calendar times of logs, as milliseconds since 1970.

use super::event::number;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Converts `10/Oct/2000:13:55:36 -0700`; without a zone it is UTC.
pub(super) fn of_servers(time: &[u8]) -> Option<u64> {
    has_marks(time, [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':')])?;
    let month = MONTHS.iter().position(|month| *month == &time[3..6])? as i64 + 1;
    let date = [digits(time, 7, 4)?, month, digits(time, 0, 2)?];
    let clock = [digits(time, 12, 2)?, digits(time, 15, 2)?, digits(time, 18, 2)?];
    let zone = match time.get(20..) {
        None | Some([]) => 0,
        Some(zone) => minutes(zone.strip_prefix(b" ")?)?,
    };
    millis(date, clock, zone)
}

/// Converts `2000-10-10T13:55:36.123-07:00` (RFC 3339); a space may stand for the `T`, decimals and
/// zone may be absent.
pub(super) fn iso(time: &[u8]) -> Option<u64> {
    has_marks(time, [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')])?;
    if !matches!(time.get(10)?, b'T' | b't' | b' ') {
        return None;
    }
    let date = [digits(time, 0, 4)?, digits(time, 5, 2)?, digits(time, 8, 2)?];
    let clock = [digits(time, 11, 2)?, digits(time, 14, 2)?, digits(time, 17, 2)?];
    let rest = &time[19..];
    let decimals = rest.strip_prefix(b".").unwrap_or_default();
    let len = decimals.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (decimals, zone) = match rest.first() {
        Some(b'.') => decimals.split_at(len),
        _ => (&b""[..], rest),
    };
    let zone = match zone {
        b"" | b"Z" | b"z" => 0,
        zone => minutes(zone)?,
    };
    let thousandths = decimals.iter().chain(b"000").take(3);
    let thousandths = thousandths.fold(0, |all, digit| all * 10 + u64::from(digit - b'0'));
    Some(millis(date, clock, zone)? + thousandths)
}

fn has_marks<const N: usize>(time: &[u8], marks: [(usize, u8); N]) -> Option<()> {
    marks.iter().all(|(at, mark)| time.get(*at) == Some(mark)).then_some(())
}

fn digits(time: &[u8], from: usize, len: usize) -> Option<i64> {
    number(time.get(from..from + len)?).and_then(|number| i64::try_from(number).ok())
}

/// Converts a zone, `-0700` or `-07:00`, to minutes.
fn minutes(zone: &[u8]) -> Option<i64> {
    let sign = match zone.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let minute = match (zone.len(), zone.get(3)) {
        (5, _) => 3,
        (6, Some(b':')) => 4,
        _ => return None,
    };
    Some(sign * (digits(zone, 1, 2)? * 60 + digits(zone, minute, 2)?))
}

fn millis(date: [i64; 3], clock: [i64; 3], zone: i64) -> Option<u64> {
    let ([year, month, day], [hour, minute, second]) = (date, clock);
    let is_time = hour <= 23 && minute <= 59 && second <= 60;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !is_time {
        return None;
    }
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
    use super::super::event::shown;
    use super::*;

    #[test]
    fn times_of_servers() {
        assert_eq!(of_servers(b"01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(of_servers(b"29/Feb/2000:23:59:59"), Some(951_868_799_000));
        assert_eq!(of_servers(b"10/Oct/2000:13:55:36 -0700"), Some(971_211_336_000));
        for bad in [
            &b""[..],
            b"32/Jan/2000:00:00:00",
            b"01/Foo/2000:00:00:00",
            b"01/Jan/2000:24:00:00",
            b"01/Jan/2000:00:00:00 *0000",
            b"01/Jan/2000:00:00:00 +00",
            b"01/Jan/1969:00:00:00 +0000",
        ] {
            assert_eq!(of_servers(bad), None, "{}", shown(bad));
        }
    }

    #[test]
    fn times_of_rfc_3339() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59", 951_868_799_000),
            ("2000-10-10T13:55:36.1239-07:00", 971_211_336_123),
            ("2000-10-10 20:55:36.5", 971_211_336_500),
        ] {
            assert_eq!(iso(text.as_bytes()), Some(millis), "{text}");
        }
        for bad in ["", "2000-13-10T13:55:36Z", "2000-10-10T13:55", "2000-10-10T13:55:36 CET"] {
            assert_eq!(iso(bad.as_bytes()), None, "{bad}");
        }
    }
}
