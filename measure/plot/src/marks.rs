//! Points, lines and bars: the paper's are hollow and dashed, ours are filled.

use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::series::DashedLineSeries;
use plotters::style::{Color, RGBColor, ShapeStyle};

use super::canvas::{Area, DrawResult, Position};
use super::palette::{GROUND, Mark, look};
use super::plot::{Plot, Series, Source};

/// Half the size of a mark.
const SIZE: i32 = 9;
const STROKE: u32 = 4;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesStyle {
    /// The colour of the system.
    pub colour: RGBColor,
    /// The mark of the system.
    pub mark: Mark,
    /// The origin of the numbers.
    pub source: Source,
}

impl SeriesStyle {
    /// Returns the style of a series of `plot`, determined by the first series with the same label.
    pub fn of(plot: &Plot, series: &Series) -> SeriesStyle {
        let mut labels: Vec<&str> = Vec::new();
        for known in &plot.series {
            if !labels.contains(&known.label.as_str()) {
                labels.push(&known.label);
            }
        }
        let index = labels.iter().position(|label| *label == series.label).unwrap_or(0);
        let (colour, mark) = look(index);
        SeriesStyle { colour, mark, source: series.source }
    }
}

/// Draws a line through `places`.
pub fn line(root: &Area<'_>, places: &[Position], series_style: SeriesStyle) -> DrawResult {
    let style = series_style.colour.stroke_width(STROKE);
    match series_style.source {
        Source::Ours => root.draw(&PathElement::new(places.to_vec(), style)),
        Source::Paper if places.len() < 2 => Ok(()),
        Source::Paper => {
            let dashes = DashedLineSeries::new(places.to_vec(), 14, 10, style);
            dashes.into_iter().try_for_each(|dash| root.draw(&dash))
        }
    }
}

/// Draws a point.
pub fn mark(root: &Area<'_>, at: Position, series_style: SeriesStyle) -> DrawResult {
    let full = series_style.colour.filled();
    match series_style.source {
        Source::Ours => shape(root, at, SIZE, series_style.mark, full),
        Source::Paper => {
            // A ring: plotters has no polygon outlines wider than a pixel.
            shape(root, at, SIZE + 2, series_style.mark, full)?;
            shape(root, at, SIZE - 3, series_style.mark, GROUND.filled())
        }
    }
}

fn shape(
    root: &Area<'_>,
    (x, y): Position,
    size: i32,
    mark: Mark,
    style: ShapeStyle,
) -> DrawResult {
    let polygon = |corners: &[Position]| {
        let corners: Vec<Position> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        root.draw(&Polygon::new(corners, style))
    };
    match mark {
        Mark::Circle => root.draw(&Circle::new((x, y), size, style)),
        Mark::Square => polygon(&[(-size, -size), (size, -size), (size, size), (-size, size)]),
        Mark::Triangle => {
            let wide = size + 2;
            polygon(&[(0, -wide - 1), (wide, size), (-wide, size)])
        }
        Mark::Diamond => {
            let wide = size + 3;
            polygon(&[(0, -wide), (wide, 0), (0, wide), (-wide, 0)])
        }
    }
}

/// Draws a bar between two corners.
pub fn bar(root: &Area<'_>, corners: [Position; 2], series_style: SeriesStyle) -> DrawResult {
    match series_style.source {
        Source::Ours => root.draw(&Rectangle::new(corners, series_style.colour.filled())),
        Source::Paper => {
            root.draw(&Rectangle::new(corners, series_style.colour.mix(0.22).filled()))?;
            root.draw(&Rectangle::new(corners, series_style.colour.stroke_width(3)))
        }
    }
}
