//! Regular expressions on path and query, which rules test apart.

use crate::convert::glob_of_regex::{alternatives, globs};
use crate::convert::rule_draft::Tests;

/// Requests whose path and query match an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTest {
    /// All of them, and perhaps more.
    pub wide: Vec<Tests>,
    /// None but them, and perhaps not all; an error is why there is no such condition.
    pub narrow: Result<Vec<Tests>, String>,
}

impl UrlTest {
    pub fn is_exact(&self) -> bool {
        self.narrow.as_ref().is_ok_and(|narrow| *narrow == self.wide)
    }
}

/// Ends of expressions that stand for the end of the path.
const PATH_ENDS: [&str; 8] = [
    "(\\?.*)?$",
    "(\\?.*|)$",
    "(?:\\?.*)?$",
    "(\\?[a-z0-9]+)?$",
    "(\\?.*$|$)",
    "(\\?|$)",
    "($|\\?)",
    "(?:\\?|$)",
];

/// Begins of expressions that stand for the begin of a parameter.
pub const PARAMETER_BEGINS: [&str; 7] =
    ["(\\?|&)", "(\\?|\\&)", "(?:\\?|&)", "([?&])", "[?&]", "[\\?&]", "[?|&]"];

/// Returns the requests that match an expression; an error is why there is no equivalent.
pub fn of(regex: &str) -> Result<UrlTest, String> {
    let (case, body) = match regex.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", regex),
    };
    let Some(all) = alternatives(body) else {
        return Err("the expression is not supported".to_owned());
    };
    let mut found = UrlTest { wide: Vec::new(), narrow: Ok(Vec::new()) };
    for one in all {
        let one = alternative(case, one)?;
        extend(&mut found.wide, one.wide);
        match (&mut found.narrow, one.narrow) {
            (Ok(all), Ok(narrow)) => extend(all, narrow),
            (Ok(_), Err(why)) => found.narrow = Err(why),
            (Err(_), _) => {}
        }
    }
    Ok(found)
}

fn extend(all: &mut Vec<Tests>, more: Vec<Tests>) {
    for one in more {
        // Paths are alternatives of one list.
        let paths = |tests: &Tests| match tests.0.as_slice() {
            [(key, values)] if key == "paths" => Some(values.clone()),
            _ => None,
        };
        let known = all.iter().position(|known| paths(known).is_some());
        match (paths(&one), known) {
            (Some(more), Some(known)) => all[known].add("paths", more),
            _ if all.contains(&one) => {}
            _ => all.push(one),
        }
    }
}

/// Returns the requests that match an expression without `|` outside groups.
fn alternative(case: &str, one: &str) -> Result<UrlTest, String> {
    let query = || Tests::one("query", "*");
    if let Some(names) = parameters(one) {
        let wide = vec![Tests(vec![("query".to_owned(), names.all)])];
        let narrow = if names.is_exact { Ok(wide.clone()) } else { Err(WIDER.to_owned()) };
        return Ok(UrlTest { wide, narrow });
    }
    let cut = PATH_ENDS.iter().find_map(|end| one.strip_suffix(end));
    let (path, ends_path) = match cut {
        Some(path) => (format!("{path}$"), true),
        None => (one.to_owned(), false),
    };
    let (path, is_within_path) = match path.strip_prefix("^[^?]*").or(path.strip_prefix("^[^\\?]*"))
    {
        Some(rest) => (rest.to_owned(), true),
        None => (path, false),
    };
    if path.contains('?') && (path.contains("\\?") || path.contains("[?") || path.contains("?&]")) {
        return Ok(UrlTest { wide: vec![query()], narrow: Err(QUERY.to_owned()) });
    }
    let path = path.strip_suffix(".*$").or(path.strip_suffix(".*")).unwrap_or(&path);
    let test = format!("~{case}{path}");
    if proxy::rules::request_rules::PathTest::parse(&test, false).is_err() {
        return Err("the expression is not supported".to_owned());
    }
    let of_path = Tests::one("paths", test);
    let ends = path.ends_with('$') && !path.ends_with("\\$");
    let crosses = path.replace("\\.", "").contains('.')
        || ["[^", "\\S", "\\W", "\\D"].iter().any(|sign| path.contains(sign));
    if is_within_path || (path.starts_with('^') && !crosses && (ends_path || !ends)) {
        let wide = vec![of_path];
        return Ok(UrlTest { narrow: Ok(wide.clone()), wide });
    }
    let mut narrow = of_path.clone();
    if ends && !ends_path {
        narrow.add("not-query", ["*".to_owned()]);
    }
    let is_whole = path.starts_with('^') && !crosses;
    let narrow = Ok(vec![narrow]);
    let wide = if is_whole { vec![of_path] } else { vec![of_path, query()] };
    Ok(UrlTest { wide, narrow })
}

const WIDER: &str = "the patterns match more than the expression";
const QUERY: &str = "an expression on the query has no equivalent";

/// Returns the parameters that an expression such as `(\?|&)(a|b)=` asks for.
fn parameters(regex: &str) -> Option<crate::convert::glob_of_regex::Globs> {
    let rest = PARAMETER_BEGINS.iter().find_map(|begin| regex.strip_prefix(begin))?;
    let name = rest.strip_suffix('=')?;
    if name.contains('=') {
        return None;
    }
    let globs = globs(&format!("^{name}$"))?;
    (!globs.all.iter().any(|glob| glob == "*" || glob.is_empty())).then_some(globs)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn expressions_on_urls_are_exact_or_wider() {
        let path = |path: &str| Tests::one("paths", path);
        let query = |name: &str| Tests::one("query", name);
        for (regex, wide, is_exact) in [
            ("^/admin", vec![path("~^/admin")], true),
            ("^/admin.*", vec![path("~^/admin")], true),
            ("(?i)^/admin", vec![path("~(?i)^/admin")], true),
            ("^/admin(\\?.*)?$", vec![path("~^/admin$")], true),
            ("^[^?]*\\.(css|js)(\\?.*)?$", vec![path("~\\.(css|js)$")], true),
            (
                "[?&](utm_source|gclid)=",
                vec![Tests(vec![("query".into(), vec!["utm_source".into(), "gclid".into()])])],
                true,
            ),
            ("^/admin$", vec![path("~^/admin$")], false),
            ("\\.css$", vec![path("~\\.css$"), query("*")], false),
            ("\\.css(\\?.*)?$", vec![path("~\\.css$"), query("*")], false),
            ("^/a/.*/b", vec![path("~^/a/.*/b"), query("*")], false),
            ("preview=true|\\?s=", vec![path("~preview=true"), query("*")], false),
            ("(\\?|&)utm_[a-z]+=", vec![query("utm_*")], false),
        ] {
            let found = of(regex).unwrap();
            assert_eq!((&found.wide, found.is_exact()), (&wide, is_exact), "{regex}");
        }
        let narrow = of("\\.css$").unwrap().narrow.unwrap();
        assert_eq!(narrow[0].get("not-query").unwrap(), &["*"]);
        assert!(of("\\?x").unwrap().narrow.is_err());
        assert!(of("^/(?!x)").is_err() && of("(").is_err());
    }
}
