//! The legend: the meaning of the colours of a plot, and of hollow and filled marks.

use super::canvas::{Area, DrawResult, Position};
use super::marks;
use super::marks::SeriesStyle;
use super::palette::{AXIS, INK, Mark};
use super::plot::{Kind, Plot, Source};
use super::text_width::{LETTER, LINE, text, width};

const SAMPLE: i32 = 56;
const APART: i32 = 34;

/// The entries of a legend, in rows.
pub struct Legend {
    entries: Vec<(Position, Entry)>,
    rows: i32,
    bars: bool,
}

struct Entry {
    text: String,
    /// The style of the sample; ours if both sources have the system.
    series_style: SeriesStyle,
    /// True if the entry explains a source instead of a system.
    key: bool,
}

impl Legend {
    /// Creates the legend for all series of `plot`, in rows of at most `room`.
    pub fn of(plot: &Plot, room: i32) -> Legend {
        let mut entries: Vec<Entry> = Vec::new();
        for series in &plot.series {
            let series_style = SeriesStyle::of(plot, series);
            match entries.iter_mut().find(|entry| entry.text == series.label) {
                Some(known) if series.source == Source::Ours => known.series_style = series_style,
                Some(_) => {}
                None => {
                    entries.push(Entry { text: series.label.clone(), series_style, key: false })
                }
            }
        }
        // If all series are ours, there are no sources to distinguish.
        let papers = plot.series.iter().any(|series| series.source == Source::Paper);
        for (source, text) in [(Source::Paper, "paper"), (Source::Ours, "ours")] {
            if papers {
                let series_style = SeriesStyle { colour: AXIS, mark: Mark::Circle, source };
                entries.push(Entry { text: text.to_owned(), series_style, key: true });
            }
        }
        let (mut x, mut row) = (0, 0);
        let placed = entries.into_iter().map(|entry| {
            let wide = SAMPLE + 12 + width(&entry.text, LETTER);
            if x > 0 && x + wide > room {
                (x, row) = (0, row + 1);
            }
            let at = (x, row * LINE);
            x += wide + APART;
            (at, entry)
        });
        let entries: Vec<_> = placed.collect();
        let rows = entries.iter().map(|((_, y), _)| y / LINE + 1).max().unwrap_or(0);
        Legend { entries, rows, bars: !matches!(plot.kind, Kind::Lines) }
    }

    /// Returns the height of the legend.
    pub fn height(&self) -> i32 {
        self.rows * LINE
    }

    /// Draws the legend with its top left corner at `corner`.
    pub fn draw(&self, root: &Area<'_>, corner: Position) -> DrawResult {
        for ((x, y), entry) in &self.entries {
            let (x, y) = (corner.0 + x, corner.1 + y);
            let middle = y + LINE / 2 - 3;
            if self.bars {
                marks::bar(
                    root,
                    [(x + 8, middle - 13), (x + SAMPLE - 8, middle + 13)],
                    entry.series_style,
                )?;
            } else {
                marks::line(root, &[(x, middle), (x + SAMPLE, middle)], entry.series_style)?;
                marks::mark(root, (x + SAMPLE / 2, middle), entry.series_style)?;
            }
            let colour = if entry.key { AXIS } else { INK };
            text(root, &entry.text, (x + SAMPLE + 12, y + 2), LETTER, &colour)?;
        }
        Ok(())
    }
}
