//! Formats numbers for sentences.

/// Formats bytes as settings have them, with about three digits: `1.5G`.
pub(super) fn size(bytes: u64) -> String {
    for (unit, shift) in [('T', 40), ('G', 30), ('M', 20), ('K', 10)] {
        let amount = bytes as f64 / f64::from(2).powi(shift);
        if amount >= 0.9995 {
            let digits = if amount < 10.0 { 2 } else { usize::from(amount < 100.0) };
            let text = format!("{amount:.digits$}");
            let text = match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            };
            return format!("{text}{unit}");
        }
    }
    format!("{bytes} bytes")
}

/// Formats a share of 1 as a percentage.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.1}", 100.0 * share);
    format!("{}%", text.trim_end_matches(".0"))
}

/// Formats a difference of shares in percentage points.
pub(super) fn points(share: f64) -> String {
    let text = format!("{:.1}", 100.0 * share);
    let text = text.trim_end_matches(".0");
    if text == "1" { "1 point".to_owned() } else { format!("{text} points") }
}

pub(super) fn count(number: f64) -> String {
    format!("{number:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(size(48 << 30), "48G");
        assert_eq!(size(3 << 29), "1.5G");
        assert_eq!(size(100 << 20), "100M");
        assert_eq!(size(700), "700 bytes");
        assert_eq!([percent(0.5), percent(0.123), percent(1.0)], ["50%", "12.3%", "100%"]);
        assert_eq!([points(0.01), points(0.005)], ["1 point", "0.5 points"]);
    }
}
