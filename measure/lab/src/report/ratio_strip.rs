//! A strip that shows how close the numbers of an experiment are to the paper's: a dot for each, on
//! a line from a quarter to four times.

use maud::{Markup, html};

use crate::experiment::{Outcome, TOLERATED};

const WIDTH: f64 = 176.0;
const HEIGHT: f64 = 22.0;
/// Space for half a dot on both sides.
const EDGE: f64 = 5.0;

/// Returns the dots of all numbers that the paper states; empty if there are none.
pub fn strip(outcome: &Outcome) -> Markup {
    let mut dots = Vec::new();
    for table in &outcome.tables {
        for (index, row) in table.rows.iter().enumerate() {
            let ratio = row.paper.ratio(row.ours);
            dots.extend(ratio.map(|ratio| (across(ratio), table.deviation(index).is_some())));
        }
    }
    // Deviating numbers are drawn on top.
    dots.sort_by_key(|(_, off)| *off);
    let [low, high] = [across(1.0 - TOLERATED), across(1.0 + TOLERATED)];
    let [one, middle] = [across(1.0), HEIGHT / 2.0];
    let off = dots.iter().filter(|(_, off)| *off).count();
    let label = format!("{} of {} numbers are off", off, dots.len());
    html! {
        @if !dots.is_empty() {
            svg.strip viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(label) {
                rect.band x=(low) y="2" width=(high - low) height=(HEIGHT - 4.0) rx="3" {}
                line x1=(EDGE) x2=(WIDTH - EDGE) y1=(middle) y2=(middle) {}
                line x1=(one) x2=(one) y1="3" y2=(HEIGHT - 3.0) {}
                @for (x, off) in &dots {
                    circle class=(if *off { "out" } else { "in" }) cx=(x) cy=(middle) r="4" {}
                }
            }
        }
    }
}

/// Returns the position of a ratio; ratios beyond the ends are at the ends.
fn across(ratio: f64) -> f64 {
    let share = (ratio.max(f64::MIN_POSITIVE).log2() + 2.0) / 4.0;
    let place = EDGE + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * EDGE);
    (place * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Stated, Table};

    #[test]
    fn a_dot_for_each_number_that_is_stated() {
        assert_eq!([0.0, 0.25, 1.0, 4.0, 99.0].map(across), [5.0, 5.0, 88.0, 171.0, 171.0]);
        let mut table = Table::new("t", "T");
        table.row("a", "", 1.0, 1.0).row("b", "", 1.0, 9.0).row("c", "", Stated::Nothing, 1.0);
        let strip = strip(&Outcome::new("").table(table)).into_string();
        assert_eq!(strip.matches("<circle").count(), 2);
        assert!(strip.contains("1 of 2 numbers are off"), "{strip}");
        assert_eq!(super::strip(&Outcome::new("")).into_string(), "");
    }
}
