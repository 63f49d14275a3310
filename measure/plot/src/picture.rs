//! Drawings as standalone SVG files that turn dark if the reader prefers a dark colour scheme.

use super::palette::dark_rules;

/// Returns a drawing with the rules for a dark background embedded.
pub fn standalone(svg: &str) -> String {
    let rules = dark_rules("svg");
    let style = format!("<style>@media (prefers-color-scheme: dark){{{rules}}}</style>");
    match svg.find('>') {
        Some(end) => format!("{}{style}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_turns_dark() {
        let dark = standalone("<svg width=\"200\"><text fill=\"#262B33\">ms</text></svg>");
        assert!(dark.starts_with("<svg width=\"200\"><style>"), "{dark}");
        assert!(dark.contains("svg [fill=\"#262B33\"]{fill:#e6e9ee}"), "{dark}");
    }
}
