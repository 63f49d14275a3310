//! Durations and sizes as other proxies write them, in Larder's spelling.

use cli::units;
use std::time::Duration;

/// Longest lifetime that a rule may state.
const LONGEST: u64 = 2_147_483_647;

/// Converts a duration of nginx or VCL (`1d12h`, `30`, `500ms`, `1w`). Months have 30 days, years
/// 365.
pub fn time(text: &str) -> Option<String> {
    let millis = millis(text)?;
    (millis / 1000 <= LONGEST).then(|| units::duration(Duration::from_millis(millis)))
}

/// Returns the shorter of two durations.
pub fn shorter<'a>(one: &'a str, other: &'a str) -> &'a str {
    if millis(one) < millis(other) { one } else { other }
}

fn millis(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..]
            .find(|c: char| !c.is_ascii_alphabetic())
            .map_or(rest.len(), |length| end + length);
        let unit: f64 = match &rest[end..unit_end] {
            "ms" => 1.0,
            "" | "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            "w" => 604_800_000.0,
            "M" => 2_592_000_000.0,
            "y" => 31_536_000_000.0,
            _ => return None,
        };
        let part = number * unit;
        if !(0.0..=1e15).contains(&part) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1e15")]
        let part = part as u64;
        total = total.checked_add(part)?;
        rest = rest[unit_end..].trim_start();
    }
    Some(total)
}

/// Converts a size of nginx (`10m`, `1G`, `512`).
pub fn size(text: &str) -> Option<u64> {
    units::parse_size(text)
}

/// Writes a size as TOML.
pub fn size_text(bytes: u64) -> String {
    format!("\"{}\"", units::size(bytes))
}
