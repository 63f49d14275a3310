//! Differences between an older program and this one that are intended.

use std::cell::Cell;

use crate::difference::{Difference, Place};

/// Differences of one kind. `*` stands for anything.
pub struct Intended {
    /// The configuration and the case, such as `bare/damage *`.
    pub cases: &'static str,
    /// Where they show.
    pub place: Place,
    /// The lines that the older program has and this one has not.
    pub old: &'static str,
    /// The lines that this program has and the older one has not.
    pub new: &'static str,
    /// Why this is better.
    pub why: &'static str,
}

/// All that are intended.
pub const INTENDED: &[Intended] = &[];

/// The table, and how often each of its entries has occurred.
pub struct Uses {
    table: &'static [Intended],
    counts: Vec<Cell<usize>>,
}

impl Uses {
    /// Begins to count.
    pub fn of(table: &'static [Intended]) -> Uses {
        Uses { table, counts: table.iter().map(|_| Cell::new(0)).collect() }
    }

    /// Returns whether a difference is intended, and counts it.
    pub fn covers(&self, difference: &Difference) -> bool {
        let at = self.table.iter().position(|intended| {
            intended.place == difference.place
                && fits(intended.cases, &difference.case)
                && fits(intended.old, &difference.old)
                && fits(intended.new, &difference.new)
        });
        at.inspect(|at| self.counts[*at].set(self.counts[*at].get() + 1)).is_some()
    }

    /// Prints how often each has occurred.
    pub fn print(&self) {
        for (intended, count) in self.table.iter().zip(&self.counts) {
            let Intended { cases, place, why, .. } = intended;
            match count.get() {
                0 => eprintln!("UNUSED: {cases} ({place:?}): {why}"),
                count => eprintln!("intended, {count} times: {cases} ({place:?}): {why}"),
            }
        }
    }
}

/// Returns whether `text` is what `pattern` says, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(begin) else { return false };
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    rest.is_empty() || starts.into_iter().any(|at| fits(rest, &text[at..]))
}

#[test]
fn patterns_fit_texts() {
    for (pattern, text, is) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b*d", "abcd", true),
        ("*b*d", "abcde", false),
        ("HTTP/1.1 400 *", "HTTP/1.1 431 x", false),
        ("", "", true),
    ] {
        assert_eq!(fits(pattern, text), is, "{pattern} {text}");
    }
}

#[test]
fn an_intended_difference_is_counted_and_another_is_not_covered() {
    const TABLE: &[Intended] = &[Intended {
        cases: "bare/*",
        place: Place::Client,
        old: "HTTP/1.1 400 *",
        new: "HTTP/1.1 431 *",
        why: "a test",
    }];
    let uses = Uses::of(TABLE);
    let difference = |case: &str, new: &str| Difference {
        case: case.to_owned(),
        place: Place::Client,
        old: "HTTP/1.1 400 Bad Request".to_owned(),
        new: new.to_owned(),
        detail: String::new(),
    };
    assert!(uses.covers(&difference("bare/x", "HTTP/1.1 431 y")));
    assert!(!uses.covers(&difference("bare/x", "HTTP/1.1 414 y")));
    assert!(!uses.covers(&difference("trust/x", "HTTP/1.1 431 y")));
    assert_eq!(uses.counts[0].get(), 1);
}
