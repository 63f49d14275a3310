//! Formats numbers for display.

/// Formats a time given in milliseconds, with three significant digits.
pub fn time(ms: f64) -> String {
    match ms {
        _ if ms >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        _ if ms >= 1_000.0 => format!("{:.2} s", ms / 1e3),
        _ if ms >= 100.0 => format!("{ms:.0} ms"),
        _ if ms >= 10.0 => format!("{ms:.1} ms"),
        _ if ms >= 1.0 => format!("{ms:.2} ms"),
        _ => format!("{:.0} µs", ms * 1e3),
    }
}

/// Formats a number of requests per second.
pub fn rate(rate: f64) -> String {
    if rate >= 100.0 { count(rate.round() as u64) } else { format!("{rate:.1}") }
}

/// Formats a count with thousands separators.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut apart = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

/// Formats a share in percent.
pub fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Formats bytes in powers of 1,000.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        _ if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        _ if bytes >= 1e3 => format!("{:.1} KB", bytes / 1e3),
        _ => format!("{bytes:.0} B"),
    }
}

#[test]
fn numbers_have_the_digits_that_count() {
    let times = [0.0421, 1.234, 12.34, 123.4, 1_234.0, 12_345.0].map(time);
    assert_eq!(times, ["42 µs", "1.23 ms", "12.3 ms", "123 ms", "1.23 s", "12.3 s"]);
    assert_eq!(
        (rate(12.34), rate(12_345.6), count(7)),
        ("12.3".into(), "12,346".into(), "7".into())
    );
    assert_eq!((share(0.1234), bytes(1_234.0)), ("12.3%".into(), "1.2 KB".into()));
}
