//! The reference part of `docs/configuration.md` and the example `packaging/larder.toml`, checked
//! against the declarations of the settings.
//!
//! The tables in the documentation are rendered from the declarations. When one changed, run the
//! tests once with `LARDER_BLESS=1` in the environment to write them anew, and read the diff.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::{File, Layer, Loaded};
use crate::field::{Effect, Field};
use crate::settings::{ACCESS, SETTINGS, SITE};
use crate::value::{Kind, Value};

const BEGIN: &str = "<!-- settings: rendered from crates/larder/src/settings.rs -->\n";
const END: &str = "<!-- end of settings -->\n";

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn reference() -> String {
    let mut out = String::new();
    let mut table = None;
    for setting in SETTINGS {
        let group = setting.key.split_once('.').map(|(group, _)| group);
        if group != table {
            let _ = writeln!(out, "### `[{}]`\n", group.unwrap_or_default());
            table = group;
        }
        entry(&mut out, setting, group.map_or(0, |group| group.len() + 1));
    }
    let _ = writeln!(out, "### `[[site]]`\n\nOne origin server of a reverse proxy.\n");
    SITE.iter().for_each(|field| entry(&mut out, field, 0));
    let _ = writeln!(out, "### `[[access]]`\n\nOne access rule; the first that matches decides.\n");
    ACCESS.iter().for_each(|field| entry(&mut out, field, 0));
    out
}

fn entry<T>(out: &mut String, field: &Field<T>, prefix: usize) {
    let flag = if field.flag { format!(" (flag `--{}`)", field.key) } else { String::new() };
    let list = if matches!(field.kind, Kind::List(_)) { "a list, each " } else { "" };
    let default = match field.default_value() {
        Some(value) => format!("Default: `{}`", literal(&value)),
        None => "Must be given".to_owned(),
    };
    let effect = match field.effect {
        Effect::Reload => "a reload",
        Effect::Restart => "a restart",
        Effect::Creation => "the creation of a cache",
    };
    let _ = writeln!(
        out,
        "- **`{}`**{flag}: {list}{}. {default}. A change takes effect at {effect}.\n  {}\n",
        &field.key[prefix..],
        field.expected(),
        field.text,
    );
}

/// The value as it is written in a file.
fn literal(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Int(_) => value.to_string(),
        Value::List(values) => {
            format!("[{}]", values.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        other => format!("\"{other}\""),
    }
}

#[test]
fn the_documentation_lists_every_setting_with_its_default() {
    let path = in_repository("docs/configuration.md");
    let text = fs::read_to_string(&path).unwrap();
    let from = text.find(BEGIN).unwrap() + BEGIN.len();
    let to = text.find(END).unwrap();
    let fresh = format!("\n{}", reference());
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, format!("{}{fresh}{}", &text[..from], &text[to..])).unwrap();
    } else {
        assert!(
            text[from..to] == fresh,
            "docs/configuration.md is out of date: run this test with LARDER_BLESS=1"
        );
    }
}

fn example() -> String {
    fs::read_to_string(in_repository("packaging/larder.toml")).unwrap()
}

fn load(text: &str) -> Loaded {
    let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    Loaded::build(&file, &Layer::new()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The example with every commented key switched on: a comment proper has a blank behind its `#`.
fn switched_on(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    load(&example());
    let text = example();
    let (settings, tables) = text.split_once("#[[site]]").unwrap();
    let settings = switched_on(settings);
    let shown = load(&settings);
    let defaults = load("");
    let changed = defaults.clone().reload(&shown);
    assert_eq!((changed.applied, changed.waiting), (vec![], vec!["cache"]));
    let mut group = "";
    let mut keys = Vec::new();
    for line in settings.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            group = name;
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.push(if group.is_empty() { key.to_owned() } else { format!("{group}.{key}") });
        }
    }
    assert_eq!(keys, SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>());
    let repeated = load(&switched_on(&format!("#[[site]]{tables}")));
    assert!(!repeated.config.sites.is_empty() && !repeated.config.access.is_empty());
    for key in SITE.iter().map(|f| f.key).chain(ACCESS.iter().map(|f| f.key)) {
        assert!(tables.contains(&format!("\n#{key} = ")), "{key}");
    }
}
