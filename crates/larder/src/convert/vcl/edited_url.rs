//! The parts of the client's URL that are left after the edits of subroutines.

use crate::convert::cases::{Cases, both_also, negated};
use crate::convert::rule_draft::Tests;
use crate::convert::url_test;

/// The part of a URL that is left, in the order in which edits add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    Whole,
    /// Parameters are sorted.
    Sorted,
    /// Parameters are gone.
    Less,
    /// The path without query.
    Path,
    Unknown,
}

/// The requests by what is left of their URLs; each request is in one case.
#[derive(Clone, Debug)]
pub struct EditedUrl {
    parts: Vec<(Cases, Left)>,
}

impl Default for EditedUrl {
    fn default() -> EditedUrl {
        EditedUrl { parts: vec![(vec![Tests::default()], Left::Whole)] }
    }
}

impl EditedUrl {
    /// Records an edit of the URLs of these requests.
    pub fn edit(&mut self, requests: &Cases, left: Left) {
        self.parts = self
            .edited(requests, left)
            .unwrap_or_else(|_| vec![(vec![Tests::default()], Left::Unknown)]);
    }

    fn edited(&self, requests: &Cases, left: Left) -> Result<Vec<(Cases, Left)>, String> {
        let others = negated(requests)?;
        let mut parts: Vec<(Cases, Left)> = Vec::new();
        for (cases, old) in &self.parts {
            if left <= *old {
                parts.push((cases.clone(), *old));
                continue;
            }
            let changed = (both_also(cases, requests)?, left.max(*old));
            for (cases, left) in [changed, (both_also(cases, &others)?, *old)] {
                match parts.iter_mut().find(|(_, known)| *known == left) {
                    Some((known, _)) => known.extend(cases),
                    None => parts.push((cases, left)),
                }
            }
        }
        parts.retain(|(cases, _)| !cases.is_empty());
        Ok(parts)
    }

    /// Returns the requests whose URLs match an expression; if `is_not`, those whose do not. Where
    /// that is not exact, they are more if `widens` is set, with the reason.
    pub fn matching(
        &self,
        regex: &str,
        is_not: bool,
        fit: Fit,
    ) -> Result<(Cases, Option<Inexact>), String> {
        let (mut all, mut inexact) = (Cases::new(), None);
        for (cases, left) in &self.parts {
            let found = match left {
                Left::Whole => vec![url_test::of(regex)?],
                Left::Path => url_test::of_path(regex)?.into_iter().collect(),
                Left::Unknown => return Err("req.url is set before".to_owned()),
                // What is within a parameter stays there.
                Left::Sorted if url_test::is_of_part(regex) => vec![url_test::of(regex)?],
                Left::Sorted | Left::Less => {
                    let (found, why) = without_parameters(regex, fit)?;
                    inexact = inexact.or(why);
                    found
                }
            };
            let found = if is_not { negated(&found)? } else { found };
            all.extend(both_also(cases, &found)?);
        }
        Ok((all, inexact))
    }
}

/// The requests that are wanted where a test cannot be stated exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    More,
    /// Fewer, if these are the requests for files by their names.
    Files,
    None,
}

/// Why a test is not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inexact {
    Loss(&'static str),
    /// The requests are those of the path, and what it is for is only stricter.
    ByPath(&'static str),
}

/// Returns the requests whose URLs match an expression after they have lost parameters.
fn without_parameters(regex: &str, fit: Fit) -> Result<(Cases, Option<Inexact>), String> {
    let whole = url_test::of(regex)?;
    if whole.get("paths").is_some() {
        return Ok((vec![whole], None));
    }
    if fit != Fit::More {
        let files = url_test::files(regex).filter(|_| fit == Fit::Files).ok_or(WHY)?;
        return Ok((vec![files], Some(Inexact::ByPath("only by the path, not by the query"))));
    }
    if let Some(paths) = url_test::paths_around(regex) {
        return Ok((vec![paths], Some(Inexact::ByPath("by the path, whatever the query is"))));
    }
    let loose = url_test::loosened(regex);
    if url_test::is_of_part(&loose) {
        let why = "also where a parameter that is taken out has this text";
        let why = if loose == regex { Inexact::ByPath(why) } else { Inexact::Loss(WHY) };
        return Ok((vec![url_test::of(&loose)?], Some(why)));
    }
    let mut all: Cases = url_test::of_path(regex)?.into_iter().collect();
    all.push(Tests::one("query", "*"));
    Ok((all, Some(Inexact::Loss(WHY))))
}

const WHY: &str = "parameters are taken out or sorted before this test of the whole URL";
