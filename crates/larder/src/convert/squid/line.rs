//! Lines of a configuration of Squid.

use crate::convert::output::Output;
use crate::convert::source::At;

/// A line of a file.
#[derive(Clone)]
pub struct Line {
    pub at: At,
    pub words: Vec<String>,
    /// The line is within `if`.
    pub is_conditional: bool,
}

impl Line {
    /// Returns the word of this number, from 0; empty if there is none.
    pub fn word(&self, number: usize) -> &str {
        self.words.get(number).map_or("", String::as_str)
    }
}

/// Directives of which a denial within `if` is for all cases.
const DENYING: [&str; 9] = [
    "http_access",
    "miss_access",
    "http_reply_access",
    "adapted_http_access",
    "http_access2",
    "cache",
    "no_cache",
    "send_hit",
    "store_miss",
];

/// Takes the lines within `if` out and reports them, without a look at their conditions. Denials
/// stay, and lists and permissions without their tests.
pub fn without_conditional(all: Vec<Line>, out: &mut Output) -> Vec<Line> {
    let (mut depth, mut kept) = (0_usize, Vec::new());
    for mut line in all {
        match line.word(0) {
            "if" => depth += 1,
            "endif" => depth = depth.saturating_sub(1),
            "else" if depth > 0 => {}
            _ if depth == 0 => kept.push(line),
            directive => {
                let is_access = DENYING.contains(&directive);
                let is_denial = is_access && line.word(1) == "deny";
                let is_kept = is_access || directive == "acl";
                let effect = if is_denial { "denied in all cases" } else { "left out" };
                out.lose(&line.at, &line.words.join(" "), &format!("within if: {effect}"));
                line.is_conditional = true;
                kept.extend(is_kept.then_some(line));
            }
        }
    }
    kept
}
