//! The examples as text: one letter for 2 KiB.

use std::fmt::Write as _;

use super::example::Example;
use super::{kib, letter};

const CELL: u64 = 2 << 10;
const LINE: u64 = 64;

/// The legend of the characters.
pub const LEGEND: &str = "A letter is 2 KiB: A-Z an object, a-z a dead record, + metadata, . free, \
                          ~ the rest of a cluster in use";

/// Returns an example as text, its heading first.
pub fn text(example: &Example) -> String {
    let mut text = format!("{}: {}\n", example.variant.name, example.variant.text);
    let cells: Vec<char> =
        (0..example.len / CELL).map(|cell| cell_of(example, cell * CELL)).collect();
    for (number, line) in (0..).zip(cells.chunks(LINE as usize)) {
        let line: String = line.iter().collect();
        let _ = writeln!(text, "{:>5} KiB |{line}|", number * CELL * LINE / 1024);
    }
    let _ = writeln!(text, "          {}", summary(example));
    text
}

/// Summarises free and dead space, runs, and evicted objects.
pub fn summary(example: &Example) -> String {
    let free = example.gaps().iter().filter(|gap| !example.is_rest(gap)).count();
    let what = if example.cluster.is_some() { "cluster" } else { "piece" };
    let plural = if free == 1 { "" } else { "s" };
    let mut text = format!("free: {} in {free} {what}{plural}", kib(example.free()));
    if example.dead() > 0 {
        let _ = write!(text, "; dead: {}", kib(example.dead()));
    }
    let split: Vec<String> = example
        .pieces
        .iter()
        .filter(|piece| piece.runs.len() > 1)
        .map(|piece| format!("{} in {}", letter(piece.object), piece.runs.len()))
        .collect();
    if !split.is_empty() {
        let _ = write!(text, "; in several runs: {}", split.join(", "));
    }
    if !example.evicted.is_empty() {
        let evicted: Vec<String> =
            example.evicted.iter().map(|object| letter(*object).to_string()).collect();
        let _ = write!(text, "; gone with their cluster: {}", evicted.join(", "));
    }
    text
}

/// Returns the character for the content that takes most of a cell.
fn cell_of(example: &Example, at: u64) -> char {
    let covers =
        |offset: u64, len: u64| (offset + len).min(at + CELL).saturating_sub(offset.max(at));
    let pieces = example.pieces.iter().flat_map(|piece| {
        let shown = match (piece.metadata, piece.live) {
            (true, _) => '+',
            (false, true) => letter(piece.object),
            (false, false) => letter(piece.object).to_ascii_lowercase(),
        };
        piece.runs.iter().map(move |run| (covers(run.offset, run.len), shown))
    });
    let gaps = example
        .gaps()
        .into_iter()
        .map(|gap| (covers(gap.offset, gap.len), if example.is_rest(&gap) { '~' } else { '.' }));
    pieces.chain(gaps).max_by_key(|(bytes, _)| *bytes).map_or('.', |(_, shown)| shown)
}
