//! Purges by other methods and bans, where they mean what the purge dialect means.

use proxy::rules::purge_dialect::{FIELDS, METHODS, PurgeField};
use semantics::TagFields;

use crate::convert::output::{Output, list, text};
use crate::convert::vcl::syntax::{Kind, Statement, Token};

/// The reason for a ban that is not translated.
const REASON: &str = "say in purge.methods and purge.fields what the method and its fields mean";

/// Returns whether `all`, or what they contain, purge.
pub fn purge(all: &[&Statement]) -> bool {
    all.iter().any(|one| {
        let inner: Vec<&Statement> = one.inner().iter().collect();
        one.word(0) == "ban" || (one.word(0), one.word(2)) == ("return", "purge") || purge(&inner)
    })
}

/// Translates the bans among the statements for a method. `is_regex` is true if a condition says
/// that the URL is a regular expression.
pub fn translate(method: &str, all: &[&Statement], is_regex: bool, out: &mut Output) {
    for one in all {
        let asks = one.tokens.iter().any(|token| token.text.to_ascii_lowercase().contains("regex"));
        let inner: Vec<&Statement> = one.inner().iter().collect();
        translate(method, &inner, is_regex || asks, out);
        if one.word(0) != "ban" {
            continue;
        }
        let text = expression(&one.tokens);
        let conditions: Vec<&str> = text.split("&&").map(str::trim).collect();
        let is_known = |condition: &&str| is_known(condition, is_regex || method == "BAN");
        if let Some((field, is_part)) = by_field(&conditions) {
            add_field(&field, out);
            if is_part {
                let reason = "the value is found within words, too: more is purged";
                out.note(&one.at(), &one.text(), reason);
            }
        } else if is_everything(&conditions) {
            set_method(&format!("{method}=everything"), out);
        } else if !conditions.iter().all(is_known) || !names_host(&conditions) {
            out.lose(&one.at(), &one.text(), REASON);
        }
    }
}

/// Returns the expression of a ban, with variables in braces.
fn expression(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens.get(2..).unwrap_or_default() {
        match token.kind {
            Kind::Text => text.push_str(&token.text),
            Kind::Word => text.push_str(&format!("{{{}}}", token.text)),
            Kind::Sign => {}
        }
    }
    text.to_ascii_lowercase()
}

fn is_everything(conditions: &[&str]) -> bool {
    matches!(conditions, ["req.http.host ~ .*" | "req.url ~ .*" | "req.url ~ /" | "req.url ~ ."])
}

/// Returns whether bans of URLs are confined to the request's host, as those of the dialect are.
fn names_host(conditions: &[&str]) -> bool {
    let of_url = |condition: &&str| condition.ends_with("{req.url}");
    let of_host = |condition: &&str| condition.ends_with("{req.http.host}");
    !conditions.iter().any(of_url) || conditions.iter().any(of_host)
}

/// Returns the meaning of a request field whose value stored responses must have in a field of
/// theirs, and whether texts are joined to the value; `None` if the default dialect knows it.
fn by_field(conditions: &[&str]) -> Option<(String, bool)> {
    let [condition] = conditions else { return None };
    let (left, right) = condition.split_once(" ~ ").filter(|_| !is_known(condition, true))?;
    let (before, rest) = right.split_once("{req.http.")?;
    let (from, after) = rest.split_once('}')?;
    let field = left.strip_prefix("obj.http.")?;
    let is_plain = |text: &str| !text.contains(['{', '|', '(', '[', '\\']);
    let meaning = format!("{from}=regex:{field}");
    let is_valid = meaning.parse::<PurgeField>().is_ok() && is_plain(before) && is_plain(after);
    is_valid.then_some((meaning, !before.is_empty() || !after.is_empty()))
}

/// Adds a field to those of the dialect.
fn add_field(field: &str, out: &mut Output) {
    let known = out.get("purge.fields").cloned();
    let known = known.unwrap_or_else(|| list(&FIELDS));
    let own = text(field);
    if !known.contains(&own) {
        out.set("purge.fields", format!("{}, {own}]", known.trim_end_matches(']')));
    }
}

/// Returns whether a condition means what the default dialect means.
fn is_known(condition: &str, is_regex: bool) -> bool {
    let words: Vec<&str> = condition.split_ascii_whitespace().collect();
    let [left, operator, right] = words[..] else { return false };
    let field = left.strip_prefix("obj.http.");
    let from = right.strip_prefix("{req.http.").and_then(|rest| rest.strip_suffix('}'));
    match (field, operator, from) {
        (_, "~", None) if right == "{req.url}" => {
            is_regex && matches!(left, "req.url" | "obj.http.x-url")
        }
        (_, "==" | "~", Some("host")) => matches!(left, "req.http.host" | "obj.http.x-host"),
        (Some(field), "~", Some(from)) => {
            let tags = TagFields::default();
            let is_tag = field == from && tags.names().any(|name| name.as_str() == from);
            let meanings = FIELDS.iter().filter_map(|known| known.split_once('='));
            let of = |(name, meaning): (&str, &str)| {
                name == from
                    && match meaning {
                        "url-regex" => field == "x-url",
                        "host-regex" => field == "x-host",
                        meaning => meaning.split_once(':').is_some_and(|(_, of)| of == field),
                    }
            };
            is_tag || meanings.into_iter().any(of)
        }
        _ => false,
    }
}

/// Adds a method to those of the dialect.
fn set_method(method: &str, out: &mut Output) {
    if METHODS.contains(&method) {
        return;
    }
    let (name, _) = method.split_once('=').unwrap_or((method, ""));
    let others = METHODS.iter().filter(|known| known.split('=').next() != Some(name));
    let all: Vec<String> = others.map(|known| format!("{known:?}")).collect();
    out.set("purge.methods", format!("[{}, {method:?}]", all.join(", ")));
}
