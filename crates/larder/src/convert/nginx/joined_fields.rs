//! Fields that `add_header` and `expires` add to responses. nginx sends a line for each, a rule one
//! field of a name: values of lists are joined.

use crate::convert::nginx::syntax::Directive;
use crate::convert::output::Output;

/// Fields whose values are lists.
const LISTS: [&str; 16] = [
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-expose-headers",
    "allow",
    "alt-svc",
    "cache-control",
    "clear-site-data",
    "content-language",
    "content-security-policy",
    "link",
    "permissions-policy",
    "pragma",
    "server-timing",
    "timing-allow-origin",
    "vary",
    "x-robots-tag",
];

/// A field as a directive adds it.
pub struct Added<'a> {
    pub key: &'a str,
    pub value: String,
    pub is_always: bool,
    pub at: &'a Directive,
}

/// A field as a rule sets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Joined<'a> {
    pub key: &'a str,
    /// The value of responses with the usual statuses.
    pub usual: String,
    /// The value of all others.
    pub always: Option<String>,
}

/// Joins the values of each name. Values that cannot be joined are lost but for the last.
pub fn join<'a>(all: &[Added<'a>], out: &mut Output) -> Vec<Joined<'a>> {
    let mut joined: Vec<Joined<'a>> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let is_same = |other: &Added<'_>| other.key.eq_ignore_ascii_case(one.key);
        if all[..at].iter().any(is_same) {
            continue;
        }
        let mut same: Vec<&Added<'_>> = all.iter().filter(|other| is_same(other)).collect();
        same.dedup_by(|one, other| one.value == other.value && one.is_always == other.is_always);
        if !LISTS.contains(&one.key.to_ascii_lowercase().as_str()) {
            for lost in same.drain(..same.len() - 1) {
                let reason = "of several fields with a name the last is sent";
                out.lose(&lost.at.at, &format!("add_header {}", lost.key), reason);
            }
        }
        let values = |is_part: &dyn Fn(&Added<'_>) -> bool| {
            let values = same.iter().filter(|one| is_part(one)).map(|one| one.value.as_str());
            values.collect::<Vec<_>>().join(", ")
        };
        let always = values(&|one| one.is_always);
        let always = Some(always).filter(|text| !text.is_empty());
        joined.push(Joined { key: one.key, usual: values(&|_| true), always });
    }
    joined
}
