//! Text on a drawing. Widths are estimated, because no font is available.

use plotters::element::Text;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TextStyle};

use super::canvas::{Area, DrawResult, Position};

/// Font size of headings.
pub const TITLE: f64 = 40.0;
/// Font size of all other text.
pub const LETTER: f64 = 32.0;
/// Line height.
pub const LINE: i32 = 38;

/// Estimated width of a letter relative to the font size; rather too large than too small.
const WIDE: f64 = 0.47;

/// Returns a text style of this size and colour, with its anchor at the top left.
pub fn style(size: f64, colour: &RGBColor) -> TextStyle<'static> {
    TextStyle { color: colour.to_backend_color(), ..("sans-serif", size).into_font().into() }
}

/// Writes text to the right of and below `at`.
pub fn text(root: &Area<'_>, text: &str, at: Position, size: f64, colour: &RGBColor) -> DrawResult {
    root.draw(&Text::new(text.to_owned(), at, style(size, colour)))
}

/// Writes text below `at`, centred horizontally.
pub fn centred(
    root: &Area<'_>,
    text: &str,
    at: Position,
    size: f64,
    colour: &RGBColor,
) -> DrawResult {
    let style = style(size, colour).pos(Pos::new(HPos::Center, VPos::Top));
    root.draw(&Text::new(text.to_owned(), at, style))
}

/// Returns the estimated width of a text.
pub fn width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * size * WIDE).ceil() as i32
}

/// Breaks a text into lines that are not wider than `room`, at spaces and after hyphens, never
/// within a word.
pub fn wrapped(text: &str, room: i32, size: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in text.split_inclusive([' ', '-']) {
        let last = lines.len() - 1;
        let longer = format!("{}{piece}", lines[last]);
        if lines[last].is_empty() || width(longer.trim_end(), size) <= room {
            lines[last] = longer;
        } else {
            lines.push(piece.to_owned());
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_where_they_may_be() {
        let room = width("LAZY-READS-", 10.0);
        assert_eq!(wrapped("LAZY-READS-LOC", room, 10.0), ["LAZY-READS-", "LOC"]);
        assert_eq!(wrapped("a b", 1, 10.0), ["a", "b"]);
        assert_eq!(wrapped("one two", 1_000, 10.0), ["one two"]);
        assert_eq!(wrapped("", 10, 10.0), [""]);
    }
}
