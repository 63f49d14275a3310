//! The examples as drawings: the space in rows of 128 KiB, each object in the colour of its site
//! with its runs connected, free space hatched.

use std::fmt::Write as _;

use device::Extent;

use super::example::{Example, Piece, SITES, site};
use super::text::summary;
use super::{kib, letter};

const ROW: u64 = 128 << 10;
/// Pixels per KiB, of a row's height, and of the gap between rows.
const KIB: f64 = 8.0;
const HEIGHT: f64 = 30.0;
const GAP: f64 = 14.0;
/// Pixels to the left of the rows, and of the whole width.
const LEFT: f64 = 76.0;
const WIDTH: f64 = LEFT + 128.0 * KIB + 24.0;
/// Pixels above the first row of an example, for its heading and scale.
const HEADING: f64 = 64.0;
/// Pixels of the legend.
const LEGEND: f64 = 50.0;

/// Fill and outline of a site's objects.
const COLOURS: [(&str, &str); SITES] = [
    ("#a6cee9", "#1f6fa8"),
    ("#fdc98b", "#c2620a"),
    ("#abdca0", "#2b7f35"),
    ("#d3bfe8", "#6a3fa0"),
];

const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,\
sans-serif;fill:#222}.h{font-size:19px;font-weight:600}.s{font-size:13px;fill:#555}\
.a{font-size:11.5px;fill:#666}.o{font-size:12px;font-weight:600;text-anchor:middle}\
.d{font-size:12px;text-anchor:middle;fill:#888;text-decoration:line-through}";

const PATTERNS: &str = "<defs><pattern id=\"free\" width=\"7\" height=\"7\" \
patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" \
fill=\"#fff\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"#c9ced4\" stroke-width=\"1.6\"/>\
</pattern></defs>";

/// Returns one drawing of these examples, one below another, with a legend.
pub fn svg(examples: &[Example]) -> String {
    let mut body = String::new();
    legend(&mut body);
    let mut top = LEGEND;
    for example in examples {
        draw(&mut body, example, top);
        top += HEADING + rows(example) as f64 * (HEIGHT + GAP) + 14.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" \
         viewBox=\"0 0 {WIDTH} {top}\" role=\"img\" \
         aria-label=\"The same objects on the device under every layout\">\n\
         <style>{STYLE}</style>\n{PATTERNS}\n\
         <rect width=\"{WIDTH}\" height=\"{top}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn rows(example: &Example) -> u64 {
    example.len.div_ceil(ROW)
}

fn legend(out: &mut String) {
    let mut x = LEFT;
    let mut item = |swatch: &str, label: &str| {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"18\" width=\"26\" height=\"16\" rx=\"2\" {swatch}/>\
             <text class=\"s\" x=\"{}\" y=\"31\">{label}</text>",
            x + 33.0
        );
        x += 33.0 + 7.6 * label.len() as f64 + 20.0;
    };
    for (number, (fill, line)) in (1..).zip(COLOURS) {
        item(&format!("fill=\"{fill}\" stroke=\"{line}\""), &format!("site {number}"));
    }
    let (fill, line) = COLOURS[0];
    item(&dead_style(fill, line), "dead record");
    item("fill=\"url(#free)\" stroke=\"#aab\"", "free");
    item("fill=\"#e4e6e9\" stroke=\"#aab\"", "rest and summary of a cluster");
}

fn dead_style(fill: &str, line: &str) -> String {
    format!(
        "fill=\"{fill}\" fill-opacity=\"0.3\" stroke=\"{line}\" stroke-opacity=\"0.6\" \
         stroke-dasharray=\"3 2\""
    )
}

fn draw(out: &mut String, example: &Example, top: f64) {
    let _ = writeln!(
        out,
        "<text class=\"h\" x=\"{LEFT}\" y=\"{}\">{}</text>\
         <text class=\"s\" x=\"{}\" y=\"{}\">{}</text>\
         <text class=\"a\" x=\"{LEFT}\" y=\"{}\">{}</text>",
        top + 20.0,
        example.variant.name,
        LEFT + 12.0 * example.variant.name.len() as f64 + 14.0,
        top + 20.0,
        example.variant.text,
        top + 40.0,
        summary(example),
    );
    let top = top + HEADING;
    scale(out, example, top);
    for gap in example.gaps() {
        let fill = if example.is_rest(&gap) { "#e4e6e9" } else { "url(#free)" };
        for (x, y, width) in segments(&gap, top) {
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{HEIGHT}\" \
                 fill=\"{fill}\"/>"
            );
        }
    }
    example.pieces.iter().for_each(|piece| record(out, piece, top));
    frames(out, example, top);
    example.pieces.iter().for_each(|piece| ties(out, piece, top));
}

/// Draws the scale above the first row and the offset of each row.
fn scale(out: &mut String, example: &Example, top: f64) {
    for kib in (0..=128).step_by(16) {
        let x = LEFT + f64::from(kib) * KIB;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\" stroke=\"#999\"/>\
             <text class=\"a\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{kib}{}</text>",
            top - 6.0,
            top - 2.0,
            top - 9.0,
            if kib == 128 { " KiB" } else { "" },
        );
    }
    for row in 0..rows(example) {
        let _ = writeln!(
            out,
            "<text class=\"a\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{} KiB</text>",
            LEFT - 8.0,
            top + row as f64 * (HEIGHT + GAP) + 19.0,
            row * ROW / 1024,
        );
    }
}

/// Returns left, top and width of the parts of an extent, one for each row.
fn segments(extent: &Extent, top: f64) -> Vec<(f64, f64, f64)> {
    let mut parts = Vec::new();
    let mut at = extent.offset;
    while at < extent.end() {
        let end = extent.end().min((at / ROW + 1) * ROW);
        let (x, y) = point(at, top);
        parts.push((x, y, (end - at) as f64 / 1024.0 * KIB));
        at = end;
    }
    parts
}

/// Returns left and top of a byte.
fn point(at: u64, top: f64) -> (f64, f64) {
    let (row, column) = (at / ROW, at % ROW);
    (LEFT + column as f64 / 1024.0 * KIB, top + row as f64 * (HEIGHT + GAP))
}

fn record(out: &mut String, piece: &Piece, top: f64) {
    let (fill, line) = COLOURS[site(piece.object)];
    let style = match piece.live {
        true => format!("fill=\"{fill}\" stroke=\"{line}\""),
        false => dead_style(fill, line),
    };
    let all = piece.runs.iter().map(|run| run.len).sum();
    let letter = letter(piece.object);
    let what = match (piece.metadata, piece.live) {
        (true, _) => "new metadata of ",
        (false, true) => "",
        (false, false) => "dead: ",
    };
    for run in &piece.runs {
        let place = kib(run.offset);
        for (x, y, width) in segments(run, top) {
            let _ = write!(
                out,
                "<rect x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" rx=\"1.5\" {style}>\
                 <title>{what}{letter}, {} in {} at {place}</title></rect>",
                x + 0.5,
                y + 0.5,
                (width - 1.0).max(1.0),
                HEIGHT - 1.0,
                kib(all),
                if piece.runs.len() == 1 { "one run" } else { "several runs" },
            );
            if width >= 11.0 {
                let class = if piece.live { "o" } else { "d" };
                let _ = write!(
                    out,
                    "<text class=\"{class}\" x=\"{:.1}\" y=\"{}\">{letter}</text>",
                    x + width / 2.0,
                    y + 19.5,
                );
            }
            out.push('\n');
        }
    }
}

/// Draws the outline of each row, and the borders of clusters.
fn frames(out: &mut String, example: &Example, top: f64) {
    let step = example.cluster.unwrap_or(ROW);
    for start in (0..example.len).step_by(step as usize) {
        let len = step.min(example.len - start);
        for (x, y, width) in segments(&Extent { offset: start, len }, top) {
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{HEIGHT}\" \
                 fill=\"none\" stroke=\"#555\" stroke-width=\"1.2\"/>"
            );
        }
    }
}

/// Draws lines between the runs of an object.
fn ties(out: &mut String, piece: &Piece, top: f64) {
    let (_, line) = COLOURS[site(piece.object)];
    for pair in piece.runs.windows(2) {
        let (from_x, from_y) = point(pair[0].end() - 1, top);
        let (to_x, to_y) = point(pair[1].offset, top);
        let (from_x, to_x) = (from_x - 3.0, to_x + 3.0);
        let (from_y, to_y) = match to_y >= from_y {
            true if to_y > from_y => (from_y + HEIGHT - 3.0, to_y + 3.0),
            true => (from_y + HEIGHT - 3.0, to_y + HEIGHT - 3.0),
            false => (from_y + 3.0, to_y + HEIGHT - 3.0),
        };
        let bend = if (to_y - from_y).abs() < 1.0 { GAP + 2.0 } else { (to_y - from_y) / 2.0 };
        let (first, second) = match (to_y - from_y).abs() < 1.0 {
            true => (from_y + bend, to_y + bend),
            false => (from_y + bend, to_y - bend),
        };
        let _ = writeln!(
            out,
            "<path d=\"M{from_x:.1} {from_y:.1}C{from_x:.1} {first:.1} {to_x:.1} {second:.1} \
             {to_x:.1} {to_y:.1}\" fill=\"none\" stroke=\"{line}\" stroke-width=\"1.8\" \
             stroke-opacity=\"0.8\"/>\
             <circle cx=\"{from_x:.1}\" cy=\"{from_y:.1}\" r=\"2.4\" fill=\"{line}\"/>\
             <circle cx=\"{to_x:.1}\" cy=\"{to_y:.1}\" r=\"2.4\" fill=\"{line}\"/>"
        );
    }
}
