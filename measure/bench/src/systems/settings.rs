//! Settings of Larder for a comparison, from one argument: `KEY=VALUE,KEY=VALUE`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Keys that the comparison sets for each system, and the option for it, if there is one.
const OWN: [(&str, &str); 7] = [
    ("cache", ""),
    ("cache-size", "--cache-size"),
    ("listen", ""),
    ("listener", "--http2"),
    ("admin", ""),
    ("reverse", ""),
    ("static", ""),
];

/// Returns the keys and values. A comma within a value, as in a list, is part of it: a setting
/// begins with a key.
///
/// # Errors
/// Fails if there is no key, or one that the comparison sets.
pub(super) fn split(settings: &str) -> Result<Vec<(&str, String)>, String> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for part in settings.split(',') {
        let key = part.split_once('=').filter(|(key, _)| is_key(key));
        match (key, all.last_mut()) {
            (Some((key, value)), _) => all.push((key.trim(), value.trim().to_owned())),
            (None, Some((_, value))) => value.push_str(&format!(",{part}")),
            (None, None) => return Err(format!("{part:?}: expected KEY=VALUE")),
        }
    }
    for (key, _) in &all {
        if let Some((_, option)) = OWN.iter().find(|(own, _)| own == key) {
            let hint = if option.is_empty() { String::new() } else { format!(": see {option}") };
            return Err(format!("{key} is the same for all systems{hint}"));
        }
    }
    Ok(all)
}

fn is_key(text: &str) -> bool {
    let text = text.trim();
    let has = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(has)
}

/// Returns a value as TOML: as it is if it is a number, a truth value, a list, a table or in
/// quotes, else in quotes.
pub(super) fn literal(value: &str) -> String {
    let is_literal = value.parse::<f64>().is_ok()
        || matches!(value, "true" | "false")
        || value.starts_with(['[', '{', '"', '\'']);
    if is_literal { value.to_owned() } else { format!("{value:?}") }
}

/// Asks Larder whether it accepts the settings.
///
/// # Errors
/// Fails with Larder's own message if it does not.
pub(super) fn check(larder: &Path, configuration: &str, words: &[String]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("larder check-config: {error}");
    let directory = tempfile::tempdir().map_err(failed)?;
    let flags = words
        .chunks_exact(2)
        .map(|pair| format!("{} = {}\n", pair[0].trim_start_matches('-'), literal(&pair[1])));
    let text: String = flags.chain([configuration.to_owned()]).collect();
    fs::write(directory.path().join("larder-with"), text).map_err(failed)?;
    let mut command = Command::new(larder);
    command.args(["check-config", "larder-with"]).current_dir(&directory);
    let output = command.output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(told.trim_end().trim_start_matches("larder: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_divided_at_their_keys() {
        let found = split("store.policy=lru, connect-ports=[80,443],memory=64M").unwrap();
        let expected = [("store.policy", "lru"), ("connect-ports", "[80,443]"), ("memory", "64M")];
        assert_eq!(found, expected.map(|(key, value)| (key, value.to_owned())));
        assert!(split("layout").unwrap_err().contains("expected KEY=VALUE"));
        assert!(split("cache-size=1G").unwrap_err().contains("--cache-size"));
        let literals = ["lru", "64M", "3", "true", "[80,443]", "\"3\""].map(literal);
        assert_eq!(literals, ["\"lru\"", "\"64M\"", "3", "true", "[80,443]", "\"3\""]);
    }
}
