//! Alternatives of conditions, and what is made of them.

use crate::convert::rule_draft::{ALSO, NOT_STATUSES, Tests, is_headers};

/// Alternatives, each a list of tests that must all hold. Empty: never.
pub type Cases = Vec<Tests>;

/// Most alternatives of a condition.
const MOST: usize = 64;

/// Key of a test of the response's status, which becomes a key of the rule.
pub const STATUS: &str = "statuses";

pub const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Joins alternatives that differ in one list.
pub fn merge(all: &mut Cases) {
    let mut merged: Cases = Vec::new();
    for one in std::mem::take(all) {
        let joined = merged.iter().enumerate().find_map(|(at, old)| Some((at, old.or(&one)?)));
        match joined {
            Some((at, joined)) => merged[at] = joined,
            None if merged.contains(&one) => {}
            None => merged.push(one),
        }
    }
    *all = merged;
}

/// Returns the alternatives of both conditions together.
pub fn both(one: &Cases, other: &Cases) -> Result<Cases, String> {
    joined(one, other, Tests::and)
}

/// Returns the same; a condition may have two lists of one kind.
pub fn both_also(one: &Cases, other: &Cases) -> Result<Cases, String> {
    joined(one, other, Tests::and_also)
}

fn joined(
    one: &Cases,
    other: &Cases,
    join: impl Fn(&Tests, &Tests) -> Option<Tests>,
) -> Result<Cases, String> {
    let mut all = Vec::new();
    for left in one {
        for right in other {
            if left.excludes(right) {
                continue;
            }
            let joined = join(left, right).ok_or("two conditions of one kind cannot be joined")?;
            if !joined.is_never() && !all.contains(&joined) {
                all.push(joined);
            }
        }
    }
    if all.len() > MOST { Err("too many alternatives".to_owned()) } else { Ok(all) }
}

/// Returns the opposite of a condition.
pub fn negated(cases: &Cases) -> Result<Cases, String> {
    let mut all = vec![Tests::default()];
    for case in cases {
        let mut opposite = Vec::new();
        for (key, values) in &case.0 {
            if key == STATUS {
                let others: Vec<String> = CLASSES
                    .iter()
                    .filter(|class| !values.iter().any(|one| one == *class))
                    .map(|class| (*class).to_owned())
                    .collect();
                let is_classes = others.len() + values.len() == CLASSES.len();
                opposite.push(Tests(vec![match is_classes {
                    true => (STATUS.to_owned(), others),
                    false => (NOT_STATUSES.to_owned(), values.clone()),
                }]));
                continue;
            }
            if key == NOT_STATUSES {
                opposite.push(Tests(vec![(STATUS.to_owned(), values.clone())]));
                continue;
            }
            if key.starts_with("responses.") && !is_headers(key) {
                return Err("the opposite of a size has no equivalent".to_owned());
            }
            if is_headers(key) {
                // All tests of a list hold, so one of them must not.
                for value in values {
                    let value = match value.strip_prefix('!') {
                        Some(rest) => rest.to_owned(),
                        None => format!("!{value}"),
                    };
                    opposite.push(Tests::one(key, value));
                }
                continue;
            }
            let key = key.trim_start_matches(ALSO);
            let other = match key.strip_prefix("not-") {
                Some(rest) => rest.to_owned(),
                None => format!("not-{key}"),
            };
            opposite.push(Tests(vec![(other, values.clone())]));
        }
        all = both(&all, &opposite)?;
    }
    Ok(all)
}
