//! Formats a paper's statement for people.

use plot::number::{attached, digits, with_unit};

use crate::experiment::Stated;

/// Returns the paper's statement with its unit; a dash if there is none.
pub fn stated(paper: Stated, unit: &str) -> String {
    match paper {
        Stated::Nothing => "–".to_owned(),
        Stated::Number(number) => with_unit(number, unit),
        Stated::Range(low, high) => attached(format!("{} – {}", digits(low), digits(high)), unit),
        Stated::AtLeast(low) => format!("≥ {}", with_unit(low, unit)),
        Stated::AtMost(high) => format!("≤ {}", with_unit(high, unit)),
    }
}

#[test]
fn a_range_and_a_bound_have_their_unit() {
    assert_eq!(stated(Stated::Range(7.0, 19.0), "×"), "7 – 19\u{a0}×");
    assert_eq!(stated(Stated::AtLeast(2.5), ""), "≥ 2.50");
}
