//! Tests that hold for every key of a `[[rule]]`: a test shows its effect, `larder explain` shows
//! that a rule states it, `check-config` reports a wrong value, and the guide has it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CONDITION, RESPONSE, RULE, SUBSTITUTE};
use crate::config::file::File;
use crate::config::setting::Field;
use crate::config::value::Kind;

/// Keys whose effect the rules of the scripts cannot show, and the tests that do, below `crates`.
const SHOWN_ELSEWHERE: [(&str, &str); 6] = [
    ("body-timeout", "larder/tests/protocols/failures.rs"),
    ("connect-timeout", "larder/tests/protocols/failures.rs"),
    ("log-percent", "larder/tests/e2e/process.rs"),
    ("query-send", "larder/tests/e2e/neighbours.rs"),
    ("refuse-upgrades", "larder/tests/protocols/websocket.rs"),
    ("validate-neighbours", "larder/tests/e2e/neighbours.rs"),
];

fn in_crates(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns all keys: those of a rule, and those of its inner tables with the table's name.
fn keys() -> Vec<(Option<&'static str>, &'static str)> {
    let rule = RULE.iter().map(|field| (None, field.key));
    let responses = RESPONSE.iter().map(|field| (Some("responses"), field.key));
    let substitute = SUBSTITUTE.iter().map(|field| (Some("substitute"), field.key));
    rule.chain(responses).chain(substitute).collect()
}

/// Returns whether a text of TOML states a key.
fn states(text: &str, key: &str) -> bool {
    text.split(['\n', '{', ',', '"', '\'']).any(|piece| {
        piece.trim_start().strip_prefix(key).is_some_and(|rest| rest.starts_with(" = "))
    })
}

#[test]
fn every_key_of_a_rule_has_a_test_of_its_effect() {
    let scripts = fs::read_to_string(in_crates("larder/tests/http/rules.toml")).unwrap();
    let scripts: String = scripts.split("[[").filter(|table| table.starts_with("rule]]")).collect();
    for (_, key) in keys() {
        match SHOWN_ELSEWHERE.iter().find(|(name, _)| *name == key) {
            None => assert!(states(&scripts, key), "no rule of rules.toml has {key}"),
            Some((_, path)) => {
                let text = fs::read_to_string(in_crates(path)).unwrap();
                assert!(text.contains(&format!("{key} = ")), "{path} has no {key}");
            }
        }
    }
}

#[test]
fn every_key_of_a_rule_is_in_the_guide() {
    let pages = fs::read_dir(in_crates("../docs/guide")).unwrap();
    let pages = pages.map(|page| fs::read_to_string(page.unwrap().path()).unwrap());
    let guide: String = pages.collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words: Vec<&str> = guide.split(|c: char| !is_part(c)).collect();
    // The guide says of all negations at once that they exist.
    for (_, key) in keys().into_iter().filter(|(_, key)| !key.starts_with("not-")) {
        assert!(words.contains(&key), "docs/guide has no {key}");
    }
}

#[test]
fn a_wrong_value_of_any_key_of_a_rule_is_reported() {
    for (table, key) in keys() {
        let (text, name) = match table {
            None => (format!("{key} = 1.5"), format!("rule.{key}: expected")),
            Some(table) => {
                (format!("{table} = [{{ {key} = 1.5 }}]"), format!("rule.{table}.{key}: expected"))
            }
        };
        let problems = File::parse("x", &format!("[[rule]]\n{text}\n")).map(drop).unwrap_err();
        assert!(problems.to_string().contains(&name), "{problems}");
    }
}

/// Returns a value of a key, as written in a file.
fn value<T>(field: &Field<T>) -> &'static str {
    field.example.unwrap_or(match field.kind {
        Kind::Bool => "true",
        Kind::List(_) => "[]",
        _ => "\"x\"",
    })
}

#[test]
fn every_key_of_a_rule_is_explained() {
    let is_condition = |key: &str| CONDITION.iter().any(|field| field.key == key);
    for field in RULE.iter().filter(|field| !is_condition(field.key)) {
        let stated = format!("{} = {}", field.key, value(field));
        let file = File::parse("x", &format!("[[rule]]\n{stated}\n"));
        let rules = file.unwrap_or_else(|problems| panic!("{problems}")).layer.rules;
        // `larder explain` names the rule, and shows that it continues by those after it.
        let is_shown = ["name", "then"].contains(&field.key) || rules[0].0.states == [stated];
        assert!(is_shown, "{}: {:?}", field.key, rules[0].0.states);
    }
}
