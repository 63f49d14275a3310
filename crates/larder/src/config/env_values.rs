//! `{env:NAME}` and `{env:NAME:default}` in the text values of a configuration file: replaced by
//! environment variables before the values are parsed. Other braces stay as they are.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

const BEGIN: &str = "{env:";

/// A value that could not be expanded: its position, its key, and a sentence.
pub type Failed = (Range<usize>, String, String);

/// The result of expanding the values of a file.
#[derive(Debug, Default)]
pub struct Expanded {
    /// Where values with variables begin.
    pub at: BTreeSet<usize>,
    pub failed: Vec<Failed>,
}

impl Expanded {
    /// Expands all values of a table and of those below it. `prefix` is put before their keys.
    pub fn table(&mut self, prefix: &str, table: &mut DeTable<'_>) {
        for (key, node) in table.iter_mut() {
            self.value(&format!("{prefix}{}", key.get_ref()), node);
        }
    }

    fn value(&mut self, key: &str, node: &mut Spanned<DeValue<'_>>) {
        let span = node.span();
        match node.get_mut() {
            DeValue::String(text) if text.contains(BEGIN) => {
                match expand(text, |name| std::env::var_os(name)) {
                    Ok(expanded) => {
                        *text = expanded.into();
                        self.at.insert(span.start);
                    }
                    Err(why) => self.failed.push((span, key.to_owned(), why)),
                }
            }
            DeValue::Array(nodes) => nodes.iter_mut().for_each(|node| self.value(key, node)),
            DeValue::Table(table) => self.table(&format!("{key}."), table),
            _ => {}
        }
    }
}

/// Returns the text with its variables replaced. Their values are not expanded again.
fn expand(text: &str, variable: impl Fn(&str) -> Option<OsString>) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, from)) = rest.split_once(BEGIN) {
        let (inner, after) = from.split_once('}').ok_or_else(|| malformed(from))?;
        let (name, default) = match inner.split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(malformed(from));
        }
        expanded.push_str(before);
        match (variable(name), default) {
            (Some(value), _) => {
                let value = value.into_string();
                let value = value.map_err(|_| format!("the variable {name} is not UTF-8"))?;
                expanded.push_str(&value);
            }
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => {
                return Err(format!(
                    "the environment variable {name} is not set; set it, or give a default: \
                     {BEGIN}{name}:DEFAULT}}"
                ));
            }
        }
        rest = after;
    }
    Ok(expanded + rest)
}

/// Returns the error for a variable without a proper name or end. The rest of the text may be a
/// secret.
fn malformed(from: &str) -> String {
    let name: String =
        from.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    format!("expected {BEGIN}NAME}} or {BEGIN}NAME:DEFAULT}}, got {BEGIN}{name}…")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn of(text: &str) -> Result<String, String> {
        expand(text, |name| match name {
            "A" => Some("a".into()),
            "EMPTY" => Some(OsString::new()),
            "AGAIN" => Some("{env:A}".into()),
            "BYTES" => Some(OsString::from_vec(vec![0xff])),
            _ => None,
        })
    }

    #[test]
    fn variables_are_replaced_and_other_braces_stay() {
        for (text, expected) in [
            ("{host}/{env:A}{env:A}/{{x}} }{", "{host}/aa/{{x}} }{"),
            ("{env:NONE:http://[::1]:80}", "http://[::1]:80"),
            ("{env:NONE:}{env:A:b}{env:EMPTY:c}", "a"),
            ("{env:AGAIN}", "{env:A}"),
            ("{env :A}{ENV:A}", "{env :A}{ENV:A}"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_wrong_with_a_variable_is_said() {
        for (text, expected) in [
            ("x{env:NONE}", "the environment variable NONE is not set; set it, or give a default"),
            ("{env:A", "expected {env:NAME} or {env:NAME:DEFAULT}, got {env:A…"),
            ("{env:}", "expected {env:NAME} or {env:NAME:DEFAULT}, got {env:…"),
            ("{env:A B}", "expected {env:NAME} or"),
            ("{env:A}{env:{env:A}}", "expected {env:NAME} or"),
            ("{env:BYTES}", "the variable BYTES is not UTF-8"),
        ] {
            let why = of(text).expect_err(text);
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }
}
