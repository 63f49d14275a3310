//! Colours and marks of plots: told apart by people who see colours differently, and on light and
//! dark ground.
//!
//! Plots are drawn for light ground with fixed colours. `DARK` gives for each of them the one on
//! dark ground; style sheets exchange them by their attributes, so that the drawing stays the same.

use plotters::style::RGBColor;

/// The ground.
pub const GROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);
/// Text.
pub const INK: RGBColor = RGBColor(0x26, 0x2b, 0x33);
/// Axes and their numbers.
pub const AXIS: RGBColor = RGBColor(0x5f, 0x68, 0x74);
/// Lines behind the points.
pub const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);

/// Of the series, in turn: after Okabe and Ito, without their yellow and black, which vanish on
/// white and on black.
pub const SERIES: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7b, 0x61, 0xb8),
    RGBColor(0x8a, 0x7a, 0x66),
];

/// On light and on dark ground; colours that are not here stay.
const DARK: [(RGBColor, &str); 8] = [
    (GROUND, "#14171c"),
    (INK, "#e6e9ee"),
    (AXIS, "#9aa4b2"),
    (GRID, "#2b313a"),
    (SERIES[0], "#4aa8e8"),
    (SERIES[1], "#f08a3c"),
    (SERIES[2], "#2cc79a"),
    (SERIES[6], "#a893e6"),
];

/// Rules that turn a plot within `scope` to dark ground.
pub fn dark_rules(scope: &str) -> String {
    let rule = |(RGBColor(red, green, blue), dark): &(RGBColor, &str)| {
        // As the drawing spells colours.
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        format!(
            "{scope} [fill=\"{light}\"]{{fill:{dark}}}{scope} [stroke=\"{light}\"]{{stroke:{dark}}}"
        )
    };
    DARK.iter().map(rule).collect()
}

/// What marks the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A disc.
    Circle,
    /// A square on its side.
    Square,
    /// A triangle on its side.
    Triangle,
    /// A square on its corner.
    Diamond,
}

/// Colour and mark of the series number `index`: both change with each, so that neither has to be
/// told apart alone.
pub fn look(index: usize) -> (RGBColor, Mark) {
    const MARKS: [Mark; 4] = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
    // A ninth has the first colour and another mark than the first.
    let mark = MARKS[(index + index / SERIES.len()) % MARKS.len()];
    (SERIES[index % SERIES.len()], mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thirty_two_series_differ() {
        let looks: Vec<_> = (0..32).map(look).collect();
        for (index, one) in looks.iter().enumerate() {
            let same = looks.iter().filter(|other| *other == one).count();
            assert_eq!(same, 1, "{index}: {one:?}");
        }
    }
}
