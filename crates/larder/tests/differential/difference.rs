//! Differences between two programs.

use std::fmt::Write as _;

use crate::masked::{Masked, latin1};

/// Where a difference is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The bytes to the client, and which side ended the connection.
    Client,
    /// The requests at the origin.
    Origin,
    /// The lines of the access log.
    Log,
    /// The counters of `/metrics`.
    Metrics,
}

/// A difference.
#[derive(Debug)]
pub struct Difference {
    /// The configuration and the case.
    pub case: String,
    /// Where it is observed.
    pub place: Place,
    /// The lines that only the older program has, between those that both have.
    pub old: String,
    /// The lines that only the newer program has.
    pub new: String,
    /// The complete texts of both sides, in readable form.
    pub detail: String,
}

impl Difference {
    /// Returns the difference of two texts, or `None` if they are alike.
    pub fn of(case: &str, place: Place, [old, new]: [&Masked; 2]) -> Option<Difference> {
        if old.is_like(new) {
            return None;
        }
        let detail = detail([&old.shown(), &new.shown()]);
        // If only numbers differ, show them in the lines.
        let texts = match old.text == new.text {
            true => [old.shown(), new.shown()],
            false => [old.text.clone(), new.text.clone()],
        };
        let [old, new] = &texts;
        let [old, new] = unlike([&lines(old), &lines(new)]).map(|lines| lines.join("\n"));
        Some(Difference { case: case.to_owned(), place, old, new, detail })
    }

    /// Returns whether another difference has the same lines.
    pub fn is_same(&self, other: &Difference) -> bool {
        let of = |of: &Difference| (of.place, of.old.clone(), of.new.clone());
        of(self) == of(other)
    }

    /// Returns the differences of unordered lines: those that only one side has, side by side.
    pub fn of_lines(case: &str, place: Place, sides: [&[Masked]; 2]) -> Vec<Difference> {
        let [mut old, mut new] = sides.map(<[Masked]>::to_vec);
        old.sort();
        new.sort();
        old.retain(|line| match new.iter().position(|other| line.is_like(other)) {
            Some(at) => {
                new.remove(at);
                false
            }
            None => true,
        });
        let count = old.len().max(new.len());
        let shown = |lines: &[Masked], at: usize| lines.get(at).map_or("".into(), Masked::shown);
        let pairs = (0..count).map(|at| [shown(&old, at), shown(&new, at)]);
        pairs
            .map(|[old, new]| {
                let detail = detail([&old, &new]);
                Difference { case: case.to_owned(), place, old, new, detail }
            })
            .collect()
    }
}

/// Returns two texts in readable form.
fn detail(sides: [&str; 2]) -> String {
    let mut detail = String::new();
    for (side, text) in ["old", "new"].into_iter().zip(sides) {
        let shown = latin1(text).escape_ascii().to_string().replace("\\n", "\\n\n      ");
        let _ = writeln!(detail, "    {side}: {shown}");
    }
    detail
}

fn lines(text: &str) -> Vec<&str> {
    text.split('\n').map(|line| line.trim_end_matches('\r')).collect()
}

/// Returns the lines of both, without the equal ones at the beginning and at the end.
fn unlike<'a>([old, new]: [&[&'a str]; 2]) -> [Vec<&'a str>; 2] {
    let begin = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let [old, new] = [&old[begin..], &new[begin..]];
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    [old[..old.len() - end].to_vec(), new[..new.len() - end].to_vec()]
}

#[test]
fn only_lines_that_differ_are_told() {
    let of = |text: &str| Masked::of(text.as_bytes(), &[], 0);
    let [old, new] = [of("a\r\nb\r\nc\r\n"), of("a\r\nx\r\ny\r\nc\r\n")];
    let difference = Difference::of("c", Place::Client, [&old, &new]).unwrap();
    assert_eq!((difference.old.as_str(), difference.new.as_str()), ("b", "x\ny"));
    assert!(Difference::of("c", Place::Client, [&old, &old]).is_none());
}

#[test]
fn lines_that_one_side_lacks_are_told_whatever_their_order() {
    let of = |lines: &[&str]| -> Vec<Masked> {
        lines.iter().map(|line| Masked::of(line.as_bytes(), &[], 0)).collect()
    };
    let [old, new] = [of(&["a 1", "b 2", "c", "c"]), of(&["c", "b 3", "a 1"])];
    let all = Difference::of_lines("x", Place::Log, [&old, &new]);
    let told: Vec<_> = all.iter().map(|told| (told.old.as_str(), told.new.as_str())).collect();
    assert_eq!(told, [("b 2", "b 3"), ("c", "")]);
}
