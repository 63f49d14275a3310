//! Regular expressions on the host as conditions of rules.

use proxy::rules::request_rules::PathTest;

use crate::convert::glob_of_regex::{alternatives, words};
use crate::convert::rule_draft::Tests;

/// Returns the requests whose host matches an expression, or if `is_not` does not match it. The
/// rules compare hosts without ports and in either case.
pub fn of(regex: &str, is_not: bool) -> Result<Tests, String> {
    let (key, values) = match words(regex) {
        Some(hosts) => ("hosts", hosts),
        None => ("absolute-urls", absolute(regex).ok_or(UNSUPPORTED)?),
    };
    let key = if is_not { format!("not-{key}") } else { key.to_owned() };
    Ok(Tests(vec![(key, values)]))
}

const UNSUPPORTED: &str = "this expression on hosts has no equivalent";

/// Returns the expressions on absolute URLs.
fn absolute(regex: &str) -> Option<Vec<String>> {
    let body = regex.strip_prefix("(?i)").unwrap_or(regex);
    let all = alternatives(body)?.into_iter().map(|one| {
        let (one, begin) = match one.strip_prefix('^') {
            Some(rest) => (rest, ""),
            None => (one, "[^/]*"),
        };
        let (one, end) = match one.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
            Some(rest) => (rest, "/"),
            None => (one, ""),
        };
        let test = format!("~(?i)^https?://{begin}{}{end}", within_host(one)?);
        PathTest::parse_absolute(&test, false).ok().map(|_| test)
    });
    all.collect()
}

/// Returns an expression that matches nothing behind the host.
fn within_host(regex: &str) -> Option<String> {
    let (mut all, mut chars, mut in_class) = (String::new(), regex.chars().peekable(), false);
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let next = chars.next()?;
                if next.is_ascii_alphanumeric() && !matches!(next, 'd' | 'w' | 'b') {
                    return None;
                }
                all.extend([c, next]);
                continue;
            }
            '/' | ':' if in_class || !all.ends_with("(?") => return None,
            '.' if !in_class => {
                all.push_str("[^/]");
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                all.push(c);
                if chars.next_if_eq(&'^').is_some() {
                    all.push_str("^/");
                }
                continue;
            }
            '[' | '&' if in_class => return None,
            ']' => in_class = false,
            '^' | '$' | '#' if !in_class => return None,
            '-' if in_class && !is_plain_range(&all, chars.peek()) => return None,
            _ => {}
        }
        all.push(c);
    }
    Some(all)
}

/// Returns whether a `-` in brackets, behind a text, is a sign or a range of letters or digits.
fn is_plain_range(before: &str, next: Option<&char>) -> bool {
    let is_sign = |c: char| c == '[' || c == '/';
    next.is_none_or(|next| *next == ']' || next.is_ascii_alphanumeric())
        && before.ends_with(|c: char| c.is_ascii_alphanumeric() || is_sign(c) || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_on_hosts_stay_within_them() {
        let url = |url: &str| Ok(Tests::one("absolute-urls", url));
        for (regex, expected) in [
            ("(?i)^api\\.", url("~(?i)^https?://api\\.")),
            ("secure\\.test$", url("~(?i)^https?://[^/]*secure\\.test/")),
            ("^[a-z0-9-]+\\.a.*$", url("~(?i)^https?://[a-z0-9-]+\\.a[^/]*/")),
            ("^(?:www|[^.]+)\\.a", url("~(?i)^https?://(?:www|[^/.]+)\\.a")),
            (
                "^(a|b)\\.test$",
                Ok(Tests(vec![("hosts".into(), vec!["a.test".into(), "b.test".into()])])),
            ),
        ] {
            assert_eq!(of(regex, false), expected, "{regex}");
        }
        let two = vec!["~(?i)^https?://[^/]*\\.a/".into(), "~(?i)^https?://b\\.".into()];
        assert_eq!(of("\\.a$|^b\\.", true), Ok(Tests(vec![("not-absolute-urls".into(), two)])));
        for regex in ["a/b", "a:80$", "a\\S+", "a[!-~]", "(a$|b)", "(?!x)a", "a[[:alpha:]]"] {
            assert!(of(regex, false).is_err(), "{regex}");
        }
    }
}
