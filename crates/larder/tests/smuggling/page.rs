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

Smuggling and splitting need two programs that read the same bytes differently. Below is every
message of this kind that the tests send through Larder, byte for byte, with what becomes of it,
what others make of it, and why we do it so. The page is written from the tables of
`crates/larder/tests/smuggling` (`requests.rs`, `answers.rs`: there are the bytes), which the
tests hold Larder to; a cell with `=` says what Larder's says.

The origin server behind all of them reads strictly: a request that any two parsers could read
differently is none to it. Behind each request an ordinary one follows on the same connection, and
within many bodies lies one that must never show up. *passed on*: the origin server got exactly
this request; *body*: and its body; *ends*: the one behind it was not answered; a number: this
status, and the origin server got nothing; *passed on with …*: it got bytes that it takes for no
request, for that reason; **second request**: what lies behind the head was taken for a request of
its own. Where RFC 9112 leaves a choice (a fold may be taken for a blank) that is no fault by
itself; with somebody in front, or behind, who chooses otherwise, it is smuggling. *no answer*:
neither an answer nor a request.

Of answers, *kept* says that the same was given again later from the cache, *cut* that the client
sees that the end is missing, **split** that what lay behind an answer, or in a field, came out as
an answer or a field of its own.
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

/// Renders the page.
pub fn write(columns: &[Column]) -> String {
    let mut text = BEGINNING.to_owned();
    let versions: Vec<_> = columns.iter().map(|c| format!("{} {}", c.name, c.version)).collect();
    let _ = writeln!(text, "\nCompared with {}, each as it comes.", versions.join(", "));
    let mut at = 0;
    for (number, (title, cites, why, cases)) in sections().enumerate() {
        match number {
            0 => text.push_str("\n## Requests\n"),
            n if n == requests::GROUPS.len() => text.push_str("\n## Answers of origin servers\n"),
            _ => {}
        }
        let why = wrapped(&format!("{cites}: {why}."));
        let _ = write!(text, "\n### {title}\n\n{why}\n\n| | Larder |");
        columns.iter().for_each(|column| text.push_str(&format!(" {} |", column.name)));
        text.push_str("\n|---|---|");
        columns.iter().for_each(|_| text.push_str("---|"));
        text.push('\n');
        for (name, ours) in cases {
            let _ = write!(text, "| {name} | {ours} |");
            for column in columns {
                let theirs = &column.verdicts[at].words;
                let _ = write!(text, " {} |", if *theirs == ours { "=" } else { theirs });
            }
            text.push('\n');
            at += 1;
        }
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

/// Compares our own columns of the page, without those of others.
#[test]
fn the_page_says_what_the_tables_say() {
    let page = std::fs::read_to_string(path()).unwrap();
    let mut lines = page.lines();
    let wanted = write(&[]);
    let ours =
        wanted.lines().filter(|line| !line.starts_with("Compared") && !line.starts_with("|--"));
    for line in ours {
        let there = lines.any(|other| other == line || other.starts_with(line));
        assert!(
            there,
            "docs/reference/smuggling.md lacks {line:?} in its place: see tests/smuggling/main.rs"
        );
    }
}
