//! Sizes and durations in their written form: `10G`, `256M`, `30s`, `250ms`.
//!
//! The command line, the configuration file, the documentation and all messages write quantities
//! the same way. The output of [`size`] and [`duration`] parses back to the same value, except that
//! durations drop fractions of a millisecond.

use std::time::Duration;

/// An example of a size, for messages.
pub const SIZE_EXAMPLE: &str = "a size such as 10G";

/// An example of a duration, for messages.
pub const DURATION_EXAMPLE: &str = "a duration such as 30s";

const SIZE_UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// Units in milliseconds, smallest first.
const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a number of bytes: digits and at most one of K, M, G, T, powers of 1,024. Returns `None`
/// for anything else, including values that exceed 64 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let last = text.chars().last()?.to_ascii_uppercase();
    let shift = SIZE_UNITS.iter().find(|(unit, _)| *unit == last).map(|(_, shift)| *shift);
    let digits = if shift.is_some() { &text[..text.len() - 1] } else { text };
    digits_only(digits)?.checked_mul(1 << shift.unwrap_or(0))
}

/// Formats bytes exactly, in the largest unit that divides them.
pub fn size(bytes: u64) -> String {
    for (unit, shift) in SIZE_UNITS {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Formats bytes for display, rounded to about three digits: `9.31G`.
pub fn about(bytes: u64) -> String {
    for (unit, shift) in SIZE_UNITS {
        let amount = bytes as f64 / (1_u64 << shift) as f64;
        // Use the unit if the amount rounds to at least 1 of it.
        if amount < 0.9995 {
            continue;
        }
        let digits = if amount < 10.0 { 2 } else { usize::from(amount < 100.0) };
        let text = format!("{amount:.digits$}");
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        return format!("{text}{unit}");
    }
    format!("{bytes} bytes")
}

/// Parses digits and a unit: ms, s, m, h or d. Only a plain 0 may omit the unit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let (_, millis) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    digits_only(digits)?.checked_mul(*millis).map(Duration::from_millis)
}

/// Formats a duration in the largest unit that divides it; fractions of a millisecond are dropped.
pub fn duration(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let fits = DURATION_UNITS.iter().rev().find(|(_, unit)| millis % unit == 0);
    fits.map_or_else(|| format!("{millis}ms"), |(name, unit)| format!("{}{name}", millis / unit))
}

fn digits_only(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let cases = [
            ("0", 0),
            ("512", 512),
            ("1K", 1 << 10),
            ("256M", 256 << 20),
            ("10G", 10 << 30),
            ("2T", 2 << 40),
            ("3g", 3 << 30),
            ("007k", 7 << 10),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let wrong = [
            "",
            "K",
            "10X",
            "10GB",
            "10GiB",
            "1.5G",
            "-1",
            "+1",
            " 1",
            "1 G",
            "1_000",
            "G10",
            "é",
            "16777216T",
            "18446744073709551616",
        ];
        for text in wrong {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }

    #[test]
    fn durations() {
        let cases = [("0", 0), ("0s", 0), ("250ms", 250), ("30s", 30_000), ("5m", 300_000)];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("2h"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse_duration("7d"), Some(Duration::from_secs(604_800)));
        for text in ["", "s", "30", "30 s", "1.5s", "-1s", "30S", "1h30m", "213503982335d1"] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn printed_quantities_read_back() {
        for bytes in [0, 1, 1023, 1024, 1536, 12 << 10, 10 << 30, (10 << 30) + 1, 3 << 40] {
            assert_eq!(parse_size(&size(bytes)), Some(bytes), "{}", size(bytes));
        }
        for millis in [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000] {
            let time = Duration::from_millis(millis);
            assert_eq!(parse_duration(&duration(time)), Some(time), "{}", duration(time));
        }
        assert_eq!(size(10 << 30), "10G");
        assert_eq!(duration(Duration::from_secs(90)), "90s");
        assert_eq!(duration(Duration::from_secs(3600)), "1h");
    }

    #[test]
    fn rounded_sizes() {
        assert_eq!(about(999), "999 bytes");
        assert_eq!(about(10_000_000_000), "9.31G");
        assert_eq!(about(10 << 30), "10G");
        assert_eq!(about(100 << 20), "100M");
        assert_eq!(about(1 << 30), "1G");
        assert_eq!(about((1 << 30) - 4096), "1G");
    }
}
