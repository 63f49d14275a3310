//! Colours and marks of plots, distinguishable with colour vision deficiencies and on light and
//! dark backgrounds.
//!
//! Plots are drawn in fixed colours for a light background. `DARK` maps these to the colours for a
//! dark background. Style sheets replace them by matching their attributes, so the drawing stays
//! the same.

use plotters::style::RGBColor;

/// The background.
pub const GROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);
/// Text.
pub const INK: RGBColor = RGBColor(0x26, 0x2b, 0x33);
/// Axes and their numbers.
pub const AXIS: RGBColor = RGBColor(0x5f, 0x68, 0x74);
/// Grid lines behind the points.
pub const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);

/// Colours of the series, in turn: after Okabe and Ito, without their yellow and black, which are
/// invisible on white and on black.
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

/// Colours for light and dark backgrounds; colours that are not listed stay the same.
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

/// Returns CSS rules that switch a plot within `scope` to a dark background.
pub fn dark_rules(scope: &str) -> String {
    let rule = |(RGBColor(red, green, blue), dark): &(RGBColor, &str)| {
        // Colours must be spelled as in the drawing.
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        format!(
            "{scope} [fill=\"{light}\"]{{fill:{dark}}}{scope} [stroke=\"{light}\"]{{stroke:{dark}}}"
        )
    };
    DARK.iter().map(rule).collect()
}

/// The marker of the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A disc.
    Circle,
    /// A square with horizontal and vertical sides.
    Square,
    /// A triangle that stands on a side.
    Triangle,
    /// A square that stands on a corner.
    Diamond,
}

/// Returns colour and mark of the series with number `index`. Both change from one series to the
/// next, so that neither has to be distinguished alone.
pub fn look(index: usize) -> (RGBColor, Mark) {
    const MARKS: [Mark; 4] = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
    // The ninth series has the first colour, and a different mark than the first.
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
