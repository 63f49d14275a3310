//! Draws plots as SVG: the paper's points hollow and dashed, ours filled and joined, one colour per
//! system.
//!
//! Text stays text, in any sans-serif font of the viewer, so no font is needed here. The drawing is
//! twice its intended size on screen.

use std::fmt;

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::drawing::IntoDrawingArea;
use plotters::prelude::SVGBackend;
use plotters::style::Color;

use super::canvas::{Area, DrawResult, Position};
use super::legend::Legend;
use super::marks;
use super::marks::SeriesStyle;
use super::palette::{AXIS, GRID, GROUND, INK};
use super::plot::{Axis, Kind, Plot, Series, Source};
use super::text_width::{LETTER, LINE, TITLE, centred, style, text, width, wrapped};
use super::ticks::{Ruler, RulerOf};

const WIDTH: u32 = 1_440;
const HEIGHT: u32 = 840;
const MARGIN: i32 = 24;

/// A plot that cannot be drawn.
#[derive(Debug)]
pub struct NotDrawn(String);

impl fmt::Display for NotDrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot be drawn: {}", self.0)
    }
}

impl std::error::Error for NotDrawn {}

/// Draws a plot for a light background.
pub fn draw(plot: &Plot) -> Result<String, NotDrawn> {
    let mut svg = String::new();
    let failed = |error: &dyn fmt::Display| NotDrawn(format!("{}: {error}", plot.id));
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        draw_into(plot, &root).map_err(|error| failed(&error))?;
        root.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

fn draw_into(plot: &Plot, root: &Area<'_>) -> DrawResult {
    root.fill(&GROUND)?;
    let mut top = MARGIN;
    for line in wrapped(&plot.title, WIDTH as i32 - 2 * MARGIN, TITLE) {
        text(root, &line, (MARGIN, top), TITLE, &INK)?;
        top += LINE + 6;
    }
    top += 8;
    let legend = Legend::of(plot, WIDTH as i32 - 2 * MARGIN);
    legend.draw(root, (MARGIN, top))?;
    top += legend.height();
    text(root, &plot.y.label, (MARGIN, top + 6), LETTER, &AXIS)?;
    top += LINE + 14;
    let frame = Frame::of(plot, top);
    frame.draw_axes(plot, root)
}

/// The axes of a plot and their space.
struct Frame {
    x: Ruler,
    y: Ruler,
    top: i32,
    /// The labels below the groups of bars, in lines.
    groups: Vec<Vec<String>>,
}

impl Frame {
    fn of(plot: &Plot, top: i32) -> Frame {
        let points = || plot.series.iter().flat_map(|series| series.points.iter());
        let lines = matches!(plot.kind, Kind::Lines);
        let heights = if lines { RulerOf::Points } else { RulerOf::Bars };
        let y = Ruler::new(&plot.y, points().map(|point| point.1), heights);
        let (x, groups) = match &plot.kind {
            Kind::Lines => {
                (Ruler::new(&plot.x, points().map(|point| point.0), RulerOf::Across), Vec::new())
            }
            Kind::Bars(names) | Kind::Histogram(names) => {
                let edges = Axis::linear("").range(-0.5, names.len().max(1) as f64 - 0.5);
                let mut ruler = Ruler::new(&edges, std::iter::empty(), RulerOf::Across);
                ruler.ticks.clear();
                let each = (WIDTH as i32 - 2 * MARGIN - 110) / names.len().max(1) as i32;
                (ruler, group_names(names, each, matches!(plot.kind, Kind::Histogram(_))))
            }
        };
        Frame { x, y, top, groups }
    }

    fn draw_axes(&self, plot: &Plot, root: &Area<'_>) -> DrawResult {
        let left = self.y.ticks.iter().map(|tick| width(&self.y.label(*tick), LETTER)).max();
        let lines = self.groups.iter().map(Vec::len).max().unwrap_or(1) as i32;
        let named = if plot.x.label.is_empty() { 0 } else { LINE + 6 };
        let bottom = lines * LINE + named;
        let room = root.margin(self.top, MARGIN, MARGIN, MARGIN + 20);
        let [x, y] = [self.x.bounds(), self.y.bounds()];
        let mut chart = ChartBuilder::on(&room)
            .set_label_area_size(LabelAreaPosition::Left, left.unwrap_or(0) + 16)
            .set_label_area_size(LabelAreaPosition::Bottom, bottom)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let letters = style(LETTER, &AXIS);
        let mut mesh = chart.configure_mesh();
        mesh.bold_line_style(GRID.stroke_width(2)).light_line_style(GRID).axis_style(AXIS);
        mesh.label_style(letters);
        if !matches!(plot.kind, Kind::Lines) {
            mesh.disable_x_mesh();
        }
        mesh.draw()?;
        let place = |x: f64, y: f64| chart.plotting_area().map_coordinate(&(x, y));
        let floor = place(x[0], y[0]).1;
        for (index, lines) in self.groups.iter().enumerate() {
            let middle = place(index as f64, y[0]).0;
            for (row, line) in lines.iter().enumerate() {
                let at = (middle, floor + 10 + row as i32 * LINE);
                centred(root, line, at, LETTER, &AXIS)?;
            }
        }
        if named > 0 {
            let middle = (place(x[0], y[0]).0 + place(x[1], y[0]).0) / 2;
            let at = (middle, HEIGHT as i32 - MARGIN - LINE + 4);
            centred(root, &plot.x.label, at, LETTER, &AXIS)?;
        }
        match plot.kind {
            Kind::Lines => self.draw_lines(plot, root, place),
            _ => self.draw_bars(plot, root, place),
        }
    }

    fn draw_lines(
        &self,
        plot: &Plot,
        root: &Area<'_>,
        place: impl Fn(f64, f64) -> Position,
    ) -> DrawResult {
        let inside = |bounds: [f64; 2], position: f64| {
            let slack = 1e-9 * (bounds[1] - bounds[0]);
            (bounds[0] - slack..=bounds[1] + slack).contains(&position)
        };
        // Ours are drawn above the paper's.
        for source in [Source::Paper, Source::Ours] {
            for series in plot.series.iter().filter(|series| series.source == source) {
                let mut points: Vec<(f64, f64)> = series
                    .points
                    .iter()
                    .filter_map(|(x, y)| self.x.position(*x).zip(self.y.position(*y)))
                    .filter(|(x, y)| inside(self.x.bounds(), *x) && inside(self.y.bounds(), *y))
                    .collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                let places: Vec<Position> = points.iter().map(|(x, y)| place(*x, *y)).collect();
                let series_style = SeriesStyle::of(plot, series);
                marks::line(root, &places, series_style)?;
                // Marks would only clutter a series with many points.
                for at in places.iter().filter(|_| places.len() <= 60) {
                    marks::mark(root, *at, series_style)?;
                }
            }
        }
        Ok(())
    }

    fn draw_bars(
        &self,
        plot: &Plot,
        root: &Area<'_>,
        place: impl Fn(f64, f64) -> Position,
    ) -> DrawResult {
        let [low, high] = self.y.bounds();
        let ground = if low <= 0.0 && high >= 0.0 && plot.y.scale.is_linear() { 0.0 } else { low };
        let order = beside(plot);
        let share = match plot.kind {
            Kind::Histogram(_) => 0.94,
            _ => 0.78,
        };
        let each = share / order.len().max(1) as f64;
        for (slot, series) in order.iter().enumerate() {
            let series_style = SeriesStyle::of(plot, series);
            for (group, height) in &series.points {
                let Some(top) = self.y.position(*height) else { continue };
                let from = group - share / 2.0 + slot as f64 * each;
                // Leaves a small gap between bars.
                let [left, right] = [from + 0.04 * each, from + 0.96 * each];
                let corners = [place(left, top.clamp(low, high)), place(right, ground)];
                marks::bar(root, corners, series_style)?;
            }
        }
        Ok(())
    }
}

/// Returns the label below each group, in lines, where a group is `each` wide. If the labels of
/// bins do not fit side by side, only every second bin has one, or every third, and so on.
fn group_names(names: &[String], each: i32, bins: bool) -> Vec<Vec<String>> {
    const APART: i32 = 10;
    let words = names.iter().flat_map(|name| name.split(' ')).map(|word| width(word, LETTER));
    let widest = words.max().unwrap_or(0) + APART;
    let every = if bins { (widest / each.max(1) + 1).max(1) } else { 1 };
    let lines = |(index, name): (usize, &String)| match index % every as usize {
        0 => wrapped(name, each * every - APART, LETTER),
        _ => Vec::new(),
    };
    names.iter().enumerate().map(lines).collect()
}

/// Returns the series in the order of their bars within a group: the paper's and ours of one system
/// are adjacent.
fn beside(plot: &Plot) -> Vec<&Series> {
    let mut order: Vec<&Series> = plot.series.iter().collect();
    let first = |series: &Series| plot.series.iter().position(|known| known.label == series.label);
    order.sort_by_key(|series| (first(series), series.source == Source::Ours));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(svg: &str, what: &str) -> usize {
        svg.matches(what).count()
    }

    #[test]
    fn every_point_and_every_bar_is_drawn() {
        let lines = Plot::lines("l", "L < M", Axis::log("across"), Axis::linear("up"))
            .ours("one", [(1.0, 2.0), (10.0, 4.0), (0.0, 3.0)])
            .paper("one", [(1.0, 2.0), (100.0, 4.0)]);
        let svg = draw(&lines).unwrap();
        // Two points of each series, none at a logarithm of zero; in the legend the system and the
        // two sources. A hollow circle consists of two.
        assert_eq!(count(&svg, "<circle"), 2 * 2 + 2 + 1 + 2 + 1, "{svg}");
        for word in ["L &lt; M", "across", "up", "one", "paper", "ours", "100"] {
            assert!(svg.contains(word), "{word}");
        }
        let bars = Plot::bars("b", "B", ["x", "LAZY-READS-LOC"], Axis::linear("up"))
            .paper_bars("one", [1.0, 2.0])
            .ours_bars("one", [1.5, f64::NAN])
            .ours_bars("two", [1.5, 3.0]);
        let order = beside(&bars);
        assert_eq!(order[1].source, Source::Ours);
        let svg = draw(&bars).unwrap();
        assert!(svg.contains("LAZY-"), "{svg}");
        let many: Vec<String> = (0..40).map(|bin| bin.to_string()).collect();
        let shown = group_names(&many, 30, true).iter().filter(|lines| !lines.is_empty()).count();
        assert_eq!(shown, 20, "every second number of 40 bins");
        assert!(group_names(&many, 30, false).iter().all(|lines| lines.len() == 1));
        let none = Plot::lines("n", "N", Axis::linear(""), Axis::log(""));
        assert!(draw(&none).is_ok());
    }
}
