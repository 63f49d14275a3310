//! Formats numbers for display: as many digits as are useful, with their unit.

/// Formats a number with three or four significant digits, and with thousands separators from
/// 10,000 on.
pub fn digits(number: f64) -> String {
    let size = number.abs();
    let whole = number.fract() == 0.0;
    let decimals = match size {
        _ if whole || size >= 1_000.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{number:.decimals$}");
    if size < 10_000.0 || !size.is_finite() {
        return text;
    }
    // The text is a whole number here: `decimals` is 0.
    let (sign, whole) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let mut apart = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    format!("{sign}{apart}")
}

/// Formats a number with its unit.
pub fn with_unit(number: f64, unit: &str) -> String {
    attached(digits(number), unit)
}

/// Appends a unit to a formatted number.
pub fn attached(number: String, unit: &str) -> String {
    match unit {
        "" => number,
        // A non-breaking space.
        _ => format!("{number}\u{a0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_count() {
        let texts = [0.012_34, 0.5, 6.129, 61.29, 612.94, 6_129.4, 1_058_206.0, -12_345.6, 7.0];
        let texts = texts.map(digits);
        let expected =
            ["0.0123", "0.500", "6.13", "61.29", "612.9", "6129", "1,058,206", "-12,346", "7"];
        assert_eq!(texts, expected);
        assert_eq!(with_unit(7.0, "ms"), "7\u{a0}ms");
    }
}
