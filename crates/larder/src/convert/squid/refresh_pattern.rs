//! `refresh_pattern`: heuristic lifetimes by URL. The first pattern that matches decides.

use std::time::Duration;

use crate::convert::output::{Output, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::squid::line::Line;
use crate::convert::squid::urls;

/// The rules of all patterns.
#[derive(Default)]
pub struct RefreshPatterns {
    patterns: Vec<Pattern>,
    /// A pattern for all URLs was read, so that no later one matches.
    has_last: bool,
}

/// The rules of one pattern.
#[derive(Default)]
struct Pattern {
    lifetimes: Option<RuleDraft>,
    /// For the requests with `If-Modified-Since` (`refresh-ims`).
    renewal: Option<RuleDraft>,
}

impl RefreshPatterns {
    /// Reads `refresh_pattern [-i] REGEX MIN PERCENT MAX OPTION…`.
    pub fn read(&mut self, line: &Line, out: &mut Output) {
        if self.has_last {
            out.lose(&line.at, &line.words.join(" "), "the pattern . before it takes all");
            return;
        }
        let is_insensitive = line.word(1) == "-i";
        let start = if is_insensitive { 2 } else { 1 };
        self.has_last = matches!(line.word(start), "." | ".*");
        let regex = match is_insensitive {
            true => format!("(?i){}", line.word(start)),
            false => line.word(start).to_owned(),
        };
        self.patterns.extend(pattern(line, start, &regex, out));
    }

    /// Adds the rules. The first pattern that matches decides, so its rule comes last.
    pub fn push(self, out: &mut Output) {
        let last = self.patterns.iter().rposition(|one| one.renewal.is_some());
        let is_bound = |one: &Pattern| one.lifetimes.as_ref().is_some_and(|one| one.has(BOUND));
        let bound = self.patterns.iter().rposition(is_bound);
        for (at, mut pattern) in self.patterns.into_iter().enumerate().rev() {
            let is_before = last.is_some_and(|last| at < last) && pattern.renewal.is_none();
            if let Some(lifetimes) = pattern.lifetimes.as_mut().filter(|_| is_before) {
                lifetimes.set("refresh", "false");
            }
            let is_free = bound.is_some_and(|bound| at < bound) && !is_bound(&pattern);
            if let Some(lifetimes) = pattern.lifetimes.as_mut().filter(|_| is_free) {
                lifetimes.set(BOUND, text("0s"));
            }
            [pattern.lifetimes, pattern.renewal]
                .into_iter()
                .flatten()
                .for_each(|one| one.push(out));
        }
    }
}

/// Key of a lifetime that a later pattern must not bound.
const BOUND: &str = "min-ttl";

/// Options that have an equivalent, or are what Larder does: a reload of what is stored is
/// conditional. Squid no longer has those that end the list.
const KNOWN: [&str; 6] = [
    "refresh-ims",
    "override-expire",
    "reload-into-ims",
    "ignore-no-cache",
    "ignore-auth",
    "ignore-must-revalidate",
];

fn pattern(line: &Line, start: usize, regex: &str, out: &mut Output) -> Option<Pattern> {
    let what = line.words.join(" ");
    let minutes = |at: usize| line.word(at).parse::<u64>().ok().filter(|n| *n <= 35_000_000);
    let percent = line.word(start + 2).trim_end_matches('%').parse::<u64>().ok();
    let times = (minutes(start + 1), percent, minutes(start + 3));
    let (Some(least), Some(percent), Some(most)) = times else {
        out.lose(&line.at, &what, "expected REGEX MIN PERCENT MAX");
        return None;
    };
    if percent > 100 {
        out.lose(&line.at, &what, "PERCENT is 100 at most");
    }
    let options = line.words.get(start + 4..).unwrap_or_default();
    let has = |name: &str| options.iter().any(|one| one == name);
    let bound = written(least.min(most));
    for option in options.iter().filter(|one| !KNOWN.contains(&one.as_str())) {
        let reason = "this option has no equivalent: rules have ttl and answer-ignore";
        out.lose(&line.at, &format!("refresh_pattern {option}"), reason);
    }
    let new = |when: &Tests| {
        let mut rule = RuleDraft::new(&what, when);
        rule.continues = true;
        rule
    };
    let heuristics = [
        ("heuristic-percent", percent.min(100).to_string()),
        ("heuristic-max", written(most)),
        ("heuristic-without-date", written(least.min(most))),
    ];
    let (when, mut lifetimes) = match line.word(start) {
        "." | ".*" => {
            heuristics.iter().for_each(|(key, value)| {
                out.set(&format!("caching.{key}"), value.clone());
            });
            (Tests::default(), None)
        }
        "^ftp:" | "^gopher:" => return None,
        plain if plain.contains("cgi-bin") && least == 0 && percent == 0 => {
            let mut rule = new(&Tests::default());
            rule.any = vec![Tests::one("paths", "*/cgi-bin/*"), Tests::one("query", "*")];
            rule.set("default-ttl", text("0s"));
            return Some(Pattern { lifetimes: Some(rule), renewal: None });
        }
        _ => match urls::posix(regex).and_then(|one| urls::of_list(urls::WHOLE_URLS, &[one])) {
            Ok(when) => (when.clone(), Some(new(&when))),
            Err(why) => {
                out.lose(&line.at, &what, &why);
                return None;
            }
        },
    };
    if let Some(rule) = &mut lifetimes {
        heuristics.into_iter().for_each(|(key, value)| rule.set(key, value));
    }
    if has("override-expire") && least > 0 {
        lifetimes.get_or_insert_with(|| new(&when)).set(BOUND, bound);
    }
    let renewal = has("refresh-ims").then(|| {
        let when = when.and(&Tests::one("headers", "If-Modified-Since")).unwrap_or(when);
        let mut rule = new(&when);
        rule.set("refresh", "true");
        rule
    });
    Some(Pattern { lifetimes, renewal })
}

/// Returns a number of minutes as a value.
fn written(minutes: u64) -> String {
    text(&cli::units::duration(Duration::from_secs(minutes.saturating_mul(60))))
}
