//! Tests of request fields, and fields that are added.

use semantics::claims::is_claim;

use crate::convert::nginx::forwarded;
use crate::convert::nginx::values::braced;
use crate::convert::output::Output;
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::squid::line::Line;
use crate::convert::squid::urls;
use crate::convert::url_test;

/// Returns the test of a field whose value has to match one of several expressions.
pub fn test(field: &str, expressions: &[String]) -> Result<String, String> {
    if is_claim(&field.to_ascii_lowercase()) {
        return Err(format!("{field} {}", forwarded::REASON));
    }
    let all: Result<Vec<String>, String> = expressions.iter().map(|one| urls::posix(one)).collect();
    let regex = match &all?[..] {
        [] => return Err("expected expressions".to_owned()),
        [one] => one.clone(),
        all => all.iter().map(|one| format!("(?:{one})")).collect::<Vec<_>>().join("|"),
    };
    url_test::urls(&regex)?;
    Ok(format!("{field}: ~{regex}"))
}

/// Returns the name, the value and the lists of `request_header_add NAME "VALUE" LIST…`.
fn parts(line: &Line) -> Option<(&str, String, &[String])> {
    let begin = line.word(2);
    let end = match begin.starts_with('"') {
        false => 2,
        true => (2..line.words.len()).find(|at| {
            let word = line.word(*at);
            word.ends_with('"') && (*at > 2 || word.len() > 1)
        })?,
    };
    let value = line.words.get(2..=end)?.join(" ");
    let value = value.trim_matches('"').to_owned();
    // Formats such as %>a are values of the request.
    let is_plain = !value.is_empty() && !value.contains(['%', '\\']);
    is_plain.then(|| (line.word(1), value, &line.words[end + 1..]))
}

/// Reads `request_header_add` and `reply_header_add`, whose condition `when` makes of the lists.
pub fn added(
    line: &Line,
    when: impl Fn(&[String]) -> Result<Option<Tests>, String>,
    out: &mut Output,
) {
    let what = line.words.join(" ");
    let Some((name, value, lists)) = parts(line) else {
        return out.lose(&line.at, &what, "only a text has an equivalent");
    };
    let when = match when(lists) {
        Ok(Some(when)) => when,
        Ok(None) => return,
        Err(why) => return out.lose(&line.at, &what, &why),
    };
    let key = if line.word(0) == "request_header_add" { "request-set" } else { "client-set" };
    let mut rule = RuleDraft::new(&what, &when);
    rule.continues = true;
    rule.add(key, format!("{name}: {}", braced(&value)));
    rule.push(out);
}
