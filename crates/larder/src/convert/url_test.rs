//! Regular expressions on path and query as the condition of a rule.

use crate::convert::glob_of_regex::{alternatives, globs};
use crate::convert::rule_draft::Tests;

/// Ends of expressions that stand for the end of the path.
const PATH_ENDS: [&str; 7] =
    ["(\\?.*)?$", "(\\?.*|)$", "(?:\\?.*)?$", "(\\?.*$|$)", "(\\?|$)", "($|\\?)", "(?:\\?|$)"];

/// Begins of expressions that stand for the begin of a parameter.
pub const PARAMETER_BEGINS: [&str; 7] =
    ["(\\?|&)", "(\\?|\\&)", "(?:\\?|&)", "([?&])", "[?&]", "[\\?&]", "[?|&]"];

/// Returns the requests whose path and query match an expression; an error is why there is no
/// equivalent.
pub fn of(regex: &str) -> Result<Tests, String> {
    let (case, body) = split_case(regex);
    supported(regex)?;
    let all = alternatives(body).ok_or(UNSUPPORTED)?;
    if let [one] = all[..]
        && let Some(names) = parameters(one)
    {
        return Ok(Tests(vec![("query".to_owned(), names)]));
    }
    let paths: Option<Vec<String>> =
        all.into_iter().map(|one| Some(format!("~{case}{}", path(one)?))).collect();
    Ok(match paths {
        Some(paths) => Tests(vec![("paths".to_owned(), paths)]),
        None => Tests::one("urls", format!("~{regex}")),
    })
}

/// Returns the requests whose path and query match an expression, always as `urls`.
pub fn urls(regex: &str) -> Result<Tests, String> {
    supported(regex)?;
    Ok(Tests::one("urls", format!("~{regex}")))
}

/// Returns the requests whose path matches an expression on path and query if there is no query;
/// `None` if no path does.
pub fn of_path(regex: &str) -> Result<Option<Tests>, String> {
    supported(regex)?;
    let (_, body) = split_case(regex);
    let all = alternatives(body).ok_or(UNSUPPORTED)?;
    let asks_query = |one: &&str| one.starts_with("\\?") || parameters(one).is_some();
    let is_never = all.iter().all(asks_query);
    Ok((!is_never).then(|| Tests::one("paths", format!("~{regex}"))))
}

/// Returns the paths of requests for files that an expression matches by their ends, such as
/// `\.css(\?.*)?$`: those whose path alone matches.
pub fn files(regex: &str) -> Option<Tests> {
    let (case, body) = split_case(regex);
    let [one] = alternatives(body)?[..] else { return None };
    let by_path = PATH_ENDS.iter().find_map(|end| one.strip_suffix(end));
    let name = by_path.or_else(|| one.strip_suffix('$'))?;
    let is_name = name.starts_with("\\.") && is_within_path(name);
    let mut tests = Tests::one("paths", format!("~{case}{name}$"));
    if by_path.is_none() {
        tests.add("not-query", ["*".to_owned()]);
    }
    is_name.then_some(tests)
}

/// Returns the paths of all requests that an expression with a begin matches, whatever the query;
/// `None` if a match may begin in the query.
pub fn paths_around(regex: &str) -> Option<Tests> {
    let (case, body) = split_case(regex);
    let ends = ["(/.*)?$", "/.*$", "$"];
    let one = |one: &str| {
        let begin = ends.iter().find_map(|end| one.strip_suffix(end))?;
        let is_path = begin.strip_prefix('^').is_some_and(is_within_path);
        is_path.then(|| format!("~{case}{one}"))
    };
    let all: Option<Vec<String>> = alternatives(body)?.into_iter().map(one).collect();
    Some(Tests(vec![("paths".to_owned(), all?)]))
}

/// Returns whether a part of an expression has no anchor and no match with a query.
fn is_within_path(part: &str) -> bool {
    let plain = part.replace("\\.", "");
    !plain.contains(['^', '$', '?', '\\']) && !may_match(&plain, b'?')
}

/// Returns whether an expression that matches a part of path and query matches the whole: it is a
/// text, or alternatives of texts, within the path or a parameter, or several in their order.
pub fn is_of_part(regex: &str) -> bool {
    let (_, body) = split_case(regex);
    let plain = body.replace("\\.", "").replace("\\/", "").replace("\\-", "").replace(".*", "");
    let is_text = |c: char| c.is_ascii_alphanumeric() || "/_-()|=%,:^".contains(c);
    // An anchor is that of the path.
    plain.chars().all(is_text) && plain.rfind('^').is_none_or(|at| at == 0)
}

/// Returns an expression that matches more: a sign that stands for any becomes any text.
pub fn loosened(regex: &str) -> String {
    let (mut all, mut rest) = (String::new(), regex);
    while let Some(c) = rest.chars().next() {
        let length =
            if c == '\\' { rest.chars().take(2).map(char::len_utf8).sum() } else { c.len_utf8() };
        all.push_str(&rest[..length]);
        rest = &rest[length..];
        if c == '.' {
            all.push('*');
            rest = rest.strip_prefix(['*', '+', '?']).unwrap_or(rest);
        }
    }
    all
}

const UNSUPPORTED: &str = "the expression is not supported";

fn split_case(regex: &str) -> (&str, &str) {
    regex.strip_prefix("(?i)").map_or(("", regex), |rest| ("(?i)", rest))
}

fn supported(regex: &str) -> Result<(), String> {
    let test = format!("~{regex}");
    let read = proxy::rules::request_rules::PathTest::parse(&test, false);
    read.map(drop).map_err(|_| UNSUPPORTED.to_owned())
}

/// Returns an expression on the path alone for one without `|` outside groups; `None` if it is also
/// about the query.
fn path(one: &str) -> Option<String> {
    let cut = PATH_ENDS.iter().find_map(|end| one.strip_suffix(end));
    let path = cut.map_or_else(|| one.to_owned(), |path| format!("{path}$"));
    let within = path.strip_prefix("^[^?]*").or(path.strip_prefix("^[^\\?]*"));
    let is_within = within.is_some();
    let path = within.unwrap_or(&path);
    if path.contains("\\?") || path.contains("[?") || path.contains("?&]") {
        return None;
    }
    let path = path.strip_suffix(".*$").or(path.strip_suffix(".*")).unwrap_or(path);
    let plain = path.replace("\\.", "").replace("\\$", "");
    let body = plain.strip_suffix('$').unwrap_or(&plain);
    let ends_url = body.len() < plain.len() && cut.is_none();
    let is_within = is_within || plain.starts_with('^');
    (is_within && !ends_url && !body.contains('$') && !may_match(body, b'?'))
        .then(|| path.to_owned())
}

/// Returns whether a part of an expression, without `\\.`, may match a sign.
pub fn may_match(regex: &str, sign: u8) -> bool {
    let kinds = [".", "[^", "[:", "\\S", "\\W", "\\D", "\\x", "\\p", "\\P"];
    let is_range = |at: &[u8]| at[1] == b'-' && at[0] < sign && at[2] > sign;
    let regex = regex.replace("\\.", "");
    kinds.iter().any(|kind| regex.contains(kind)) || regex.as_bytes().windows(3).any(is_range)
}

/// Returns the parameters that an expression such as `(\?|&)(a|b)=` asks for.
fn parameters(regex: &str) -> Option<Vec<String>> {
    let rest = PARAMETER_BEGINS.iter().find_map(|begin| regex.strip_prefix(begin))?;
    let name = rest.strip_suffix('=')?;
    if name.contains('=') {
        return None;
    }
    let names = globs(&format!("^{name}$")).filter(|names| names.is_exact)?;
    let is_any = |name: &String| name == "*" || name.is_empty();
    (!names.all.iter().any(is_any)).then_some(names.all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_on_urls_are_exact() {
        let path = |path: &str| Tests::one("paths", path);
        let url = |url: &str| Tests::one("urls", url);
        let query = Tests(vec![("query".into(), vec!["utm_source".into(), "gclid".into()])]);
        for (regex, expected) in [
            ("^/admin", path("~^/admin")),
            ("^/admin.*", path("~^/admin")),
            ("(?i)^/admin", path("~(?i)^/admin")),
            ("^/admin(\\?.*)?$", path("~^/admin$")),
            ("^[^?]*\\.(css|js)(\\?.*)?$", path("~\\.(css|js)$")),
            ("[?&](utm_source|gclid)=", query),
            ("^/admin$", url("~^/admin$")),
            ("^[^?]*\\.css", path("~\\.css")),
            ("^[^?]*\\.css$", url("~^[^?]*\\.css$")),
            ("^/(a|b$)", url("~^/(a|b$)")),
            ("\\.css$", url("~\\.css$")),
            ("\\.css(\\?.*)?$", url("~\\.css(\\?.*)?$")),
            ("^/a/.*/b", url("~^/a/.*/b")),
            ("^/a|b", url("~^/a|b")),
            ("preview=true|\\?s=", url("~preview=true|\\?s=")),
            ("(\\?|&)utm_[a-z]+=", url("~(\\?|&)utm_[a-z]+=")),
        ] {
            assert_eq!(of(regex).as_ref(), Ok(&expected), "{regex}");
        }
        assert!(of("^/(?!x)").is_err() && of("(").is_err());
        assert_eq!(of_path("\\?a=|[?&]b="), Ok(None));
        assert_eq!(of_path("\\.css(\\?.*)?$"), Ok(Some(path("~\\.css(\\?.*)?$"))));
        let files = |end: &str| files(&format!("(?i)\\.(css|js){end}"));
        assert_eq!(files("(\\?.*)?$"), Some(path("~(?i)\\.(css|js)$")));
        assert!(
            files("$").is_some_and(|one| one.get("not-query").is_some()) && files("").is_none()
        );
        assert_eq!(paths_around("^/(a|b)(/.*)?$"), Some(path("~^/(a|b)(/.*)?$")));
        assert!(paths_around("^/a.c$").is_none() && paths_around("/a$").is_none());
        assert!(is_of_part("wp-(login|admin)") && is_of_part("^/a/b\\.php"));
        assert!(is_of_part(&loosened("xmlrpc.php|a\\.b")) && loosened("a.b.+\\.c") == "a.*b.*\\.c");
        assert!(!is_of_part("\\.css$") && !is_of_part("a.c") && !is_of_part("a&b"));
    }
}
