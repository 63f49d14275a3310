//! `docs/reference/smuggling.md`: every case with the behaviour of Larder and of other proxies,
//! generated from the tables.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::play::Verdict;
use crate::{answers, requests};

/// The results of another proxy for all cases.
pub struct Column {
    pub name: &'static str,
    pub version: String,
    pub verdicts: Vec<Verdict>,
}

const BEGINNING: &str = "\
# Messages that two parsers may read differently

How Larder and others read messages that make smuggling and splitting possible, generated from the
tables in `crates/larder/tests/smuggling`. The origin server behind them refuses whatever two
parsers could read differently. `=`: as Larder.

Requests: `sent`, `body`: received exactly, without or with its body; a number: answered with this
status, not received; `-ends`: last on its connection; `malformed`: received in a form that the
origin server refuses; **second**: read as two requests; `silence`: neither answered nor received.

Responses: `sent`: delivered; `kept`: delivered again from the cache; `cut`: delivered with a
visible end missing; **split**: read as two responses, or a field as two.
";

/// Returns the path of the page.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/smuggling.md")
}

/// A group of cases: title, sections, reason, and for each case its name and our result.
type Section = (&'static str, &'static str, &'static str, Vec<(&'static str, String)>);

/// Returns all groups in order.
fn sections() -> impl Iterator<Item = Section> {
    let requests = requests::GROUPS.iter().map(|group| {
        let cases = group.cases.iter().map(|case| (case.0, case.2.words())).collect();
        (group.title, group.cites, group.why, cases)
    });
    let answers = answers::GROUPS.iter().map(|group| {
        let cases = group.cases.iter().map(|case| (case.0, case.4.words().to_owned())).collect();
        (group.title, group.cites, group.why, cases)
    });
    requests.chain(answers)
}

/// Wraps text at 100 columns.
fn wrapped(text: &str) -> String {
    let lines = textwrap::Options::new(100)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, lines)
}

/// Returns the short form of a result, as in a cell.
fn cell(words: &str) -> String {
    if words.starts_with("passed on with ") {
        return "malformed".to_owned();
    }
    let short = words
        .replace("passed on, body", "body")
        .replace("passed on, kept", "kept")
        .replace("passed on", "sent")
        .replace("no answer", "silence")
        .replace("**second request**", "**second**");
    short.replace(", ", "-")
}

/// Separates the names of cases that share a row.
const BETWEEN_NAMES: &str = "; ";

/// Returns the rows of a group: one for all cases with the same results. `at` is the number of its
/// first case.
fn rows(cases: &[(&'static str, String)], at: usize, columns: &[Column]) -> String {
    let mut rows: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for (number, (name, ours)) in (at..).zip(cases) {
        let ours = cell(ours);
        let theirs = columns.iter().map(|column| cell(&column.verdicts[number].words));
        let theirs = theirs.map(|cell| if cell == ours { "=".to_owned() } else { cell });
        let cells: Vec<String> = std::iter::once(ours.clone()).chain(theirs).collect();
        match rows.iter_mut().find(|row| row.0 == cells) {
            Some((_, names)) => names.push(name),
            None => rows.push((cells, vec![name])),
        }
    }
    let row = |(cells, names): (Vec<String>, Vec<&str>)| {
        format!("| {} | {} |\n", names.join(BETWEEN_NAMES), cells.join(" | "))
    };
    rows.into_iter().map(row).collect()
}

/// Renders the page.
pub fn write(columns: &[Column]) -> String {
    let mut text = BEGINNING.to_owned();
    let versions: Vec<_> = columns.iter().map(|c| format!("{} {}", c.name, c.version)).collect();
    let _ = writeln!(text, "\nCompared with {}, by default.", versions.join(", "));
    let mut at = 0;
    for (number, (title, cites, why, cases)) in sections().enumerate() {
        match number {
            0 => text.push_str("\n## Requests\n"),
            n if n == requests::GROUPS.len() => text.push_str("\n## Responses\n"),
            _ => {}
        }
        let why = wrapped(&format!("{cites}: {why}."));
        let _ = write!(text, "\n### {title}\n\n{why}\n\n|case|Larder|");
        columns.iter().for_each(|column| text.push_str(&format!("{}|", column.name)));
        text.push_str("\n|---|---|");
        columns.iter().for_each(|_| text.push_str("---|"));
        text.push('\n');
        text.push_str(&rows(&cases, at, columns));
        at += cases.len();
    }
    text
}

impl Column {
    /// Prints where it differs from Larder, with our reason.
    pub fn print_differences(&self) {
        let ours = sections().flat_map(|(title, _, why, cases)| {
            cases.into_iter().map(move |(name, ours)| (title, why, name, ours))
        });
        let differ =
            |((_, _, _, ours), theirs): &((_, _, _, String), &Verdict)| *ours != theirs.words;
        let all: Vec<_> = ours.zip(&self.verdicts).filter(differ).collect();
        eprintln!("{} does otherwise in {} of {}:", self.name, all.len(), self.verdicts.len());
        for ((title, why, name, ours), theirs) in all {
            eprintln!("  {title}, {name}: {}; we: {ours}: {why}", theirs.words);
        }
    }
}

/// Returns the cases of a page with Larder's results, each with the heading above it, and the lines
/// outside tables.
fn read(page: &str) -> (Vec<[&str; 3]>, Vec<&str>) {
    let (mut cases, mut prose, mut heading) = (Vec::new(), Vec::new(), "");
    for line in page.lines() {
        heading = if line.starts_with('#') { line } else { heading };
        let cells: Vec<&str> = line.split(" | ").collect();
        match (line.strip_prefix("| "), cells.as_slice()) {
            (Some(_), [names, ours, ..]) if !names.ends_with('|') => {
                let names = names.trim_start_matches("| ").split(BETWEEN_NAMES);
                cases.extend(names.map(|name| [heading, name, ours.trim_end_matches(" |")]));
            }
            _ if !line.starts_with('|') && !line.starts_with("Compared") => prose.push(line),
            _ => {}
        }
    }
    cases.sort_unstable();
    (cases, prose)
}

#[test]
fn the_page_says_what_the_tables_say() {
    let page = std::fs::read_to_string(path()).unwrap();
    let wanted = write(&[]);
    assert_eq!(read(&page), read(&wanted), "docs/reference/smuggling.md: see main.rs");
    let cases: usize = sections().map(|(_, _, _, cases)| cases.len()).sum();
    assert_eq!(read(&page).0.len(), cases);
}
