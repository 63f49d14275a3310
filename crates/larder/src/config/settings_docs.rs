//! Tests that render the reference part of `docs/reference/configuration.md` and the example
//! `packaging/larder.toml` from the declarations of the settings.
//!
//! After changing a declaration, run the tests once with `LARDER_BLESS=1` in the environment to
//! rewrite both files, and read the diff.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cli::units;
use store::Preset;

use crate::config::example_file::example;
use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::setting::{Effect, Field};
use crate::config::settings::{Writer, write_all};
use crate::config::value::{Kind, Value};

/// The greatest delta-seconds of RFC 9111: in effect no bound.
const YEARS: Duration = Duration::from_secs(1 << 31);
const BEGIN: &str = "<!-- settings: rendered from crates/larder/src/config/settings.rs -->\n";
const END: &str = "<!-- end of settings -->\n";
const PRESETS_BEGIN: &str = "<!-- presets: rendered from crates/store/src/config/preset.rs -->\n";
const PRESETS_END: &str = "<!-- end of presets -->\n";

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The reference part of the documentation.
#[derive(Default)]
struct Reference {
    text: String,
    /// Keys of `[[site]]` that default to another table's value, each behind that table's name.
    inherited: Vec<(&'static str, &'static str)>,
    /// Keys of `[[rule]]` that negate another key.
    negations: Vec<String>,
    /// Settings that a key of `[[rule]]` with the same name replaces.
    replaced: Vec<String>,
}

impl Reference {
    /// Writes the keys that another key explains: those inherited by a site, one paragraph per
    /// table, and those of a rule.
    fn write_inherited(&mut self) {
        for keys in self.inherited.chunk_by(|a, b| a.0 == b.0) {
            let names: Vec<String> = keys.iter().map(|(_, key)| format!("`{key}`")).collect();
            let _ = writeln!(
                self.text,
                "As in `[{}]`, by default `\"inherit\"` (that table's value): {}.\n",
                keys[0].0,
                names.join(", "),
            );
        }
        self.inherited.clear();
        for (text, keys) in [
            ("As the key without `not-`, but none of the values may match", &mut self.negations),
            (
                "Keys in place of these settings, named without the table; by default `\"auto\"`",
                &mut self.replaced,
            ),
        ] {
            if !keys.is_empty() {
                let _ = writeln!(self.text, "{text}: {}.\n", keys.join(", "));
            }
            keys.clear();
        }
    }
}

impl Writer for Reference {
    fn group(&mut self, name: &str) {
        let _ = writeln!(self.text, "### `[{name}]`\n");
    }

    fn table(&mut self, name: &str, text: &str) {
        self.write_inherited();
        let _ = writeln!(self.text, "### `[[{name}]]`\n\n{text}\n");
    }

    fn key<T>(&mut self, key: &str, field: &Field<T>) {
        if field.text.ends_with("`, but none may match.") {
            self.negations.push(format!("`{key}`"));
            return;
        }
        let replaced = field.text.strip_prefix("Replaces `");
        if let Some(name) = replaced.and_then(|rest| rest.strip_suffix("` (\"auto\").")) {
            self.replaced.push(format!("`{name}`"));
            return;
        }
        match (field.word, field.text.split_once(" of `[")) {
            (Some("inherit"), Some((_, table))) => {
                let table = table.split_once(']').map_or("", |(table, _)| table);
                assert_eq!(field.effect, Effect::Reload, "{key}");
                self.inherited.push((table, field.key));
            }
            _ => entry(&mut self.text, key, field),
        }
    }
}

fn entry<T>(out: &mut String, key: &str, field: &Field<T>) {
    let flag = field.flag.map(|name| format!(" (`--{name}`)")).unwrap_or_default();
    let values = values(field);
    let default = match field.default_value() {
        Some(Value::Word(_)) => "(default)".to_owned(),
        // The page says that a list without a default is empty.
        Some(Value::List(items)) if items.is_empty() => String::new(),
        Some(value) => format!("default `{}`", value.literal()),
        None => "required".to_owned(),
    };
    let effect = match field.effect {
        Effect::Reload => "",
        Effect::Restart => "; restart",
        Effect::Creation => "; new cache",
    };
    let accepts = format!("{values}{default}");
    let accepts = accepts.trim_end_matches("; ");
    let _ = writeln!(out, "- **`{key}`**{flag}: {accepts}{effect}. {}\n", field.text);
}

/// Returns the accepted values of a key in a few words. The page explains how each kind is written.
fn values<T>(field: &Field<T>) -> String {
    let (list, kind) = match field.kind {
        Kind::List(item) => ("list of ", *item),
        kind => ("", kind),
    };
    let words = match kind {
        Kind::Bool if field.word.is_none() => return String::new(),
        Kind::Bool => "true, false".to_owned(),
        Kind::Int(min, u64::MAX) => format!("from {min}"),
        Kind::Int(min, max) => format!("{min} to {max}"),
        Kind::Size(min, max) if max == u64::MAX || (min == 0 && max >= 1 << 50) => {
            "size".to_owned()
        }
        Kind::Size(0, max) => format!("size to {}", units::size(max)),
        Kind::Size(min, max) => format!("size {} to {}", units::size(min), units::size(max)),
        Kind::Time(min, max) if min.is_zero() && max == YEARS => "time".to_owned(),
        Kind::Time(min, max) if min.is_zero() => format!("time to {}", units::duration(max)),
        Kind::Time(min, max) => {
            format!("time {} to {}", units::duration(min), units::duration(max))
        }
        Kind::Addr => "address".to_owned(),
        Kind::Listen => "address or socket".to_owned(),
        Kind::Network => "network".to_owned(),
        Kind::Origin => "URL".to_owned(),
        Kind::Host => "host".to_owned(),
        Kind::HostPattern => "host or .domain".to_owned(),
        Kind::CertificateHost => "host or *.domain".to_owned(),
        Kind::Checked(checked) => checked.expected.to_owned(),
        Kind::OneOf(words) => words.join(" | "),
        Kind::PathPrefix => "path".to_owned(),
        Kind::LogFormat => "combined | squid | json | text with variables".to_owned(),
        Kind::Mode
        | Kind::Method
        | Kind::Ports
        | Kind::Header
        | Kind::Token
        | Kind::Path
        | Kind::Text(_) => {
            let words = kind.expected();
            let words = words.split(" such as ").next().unwrap_or_default();
            let words = words.trim_start_matches("a ").trim_start_matches("the ");
            words.replace("text in which * stands for anything", "pattern")
        }
        Kind::List(_) => unreachable!("a list of lists"),
    };
    let word = field.word.map(|word| format!(" or {word:?}")).unwrap_or_default();
    let separator = if matches!(field.default_value(), Some(Value::Word(_))) { " " } else { "; " };
    format!("{list}{words}{word}{separator}")
}

/// Returns a list of the presets: the first with all settings that presets decide, the others with
/// what differs from it.
fn presets() -> String {
    let all: Vec<Preset> = store::PRESETS.iter().map(|name| store::preset(name).unwrap()).collect();
    let mut out = String::from("\n");
    for (at, preset) in all.iter().enumerate() {
        let own = PRESET_VALUES.iter().filter(|(_, show)| at == 0 || show(preset) != show(&all[0]));
        let values: Vec<String> =
            own.map(|(key, show)| format!("`{key}` {}", show(preset))).collect();
        let _ = writeln!(out, "- **`{}`**: {}. {}.", preset.name, preset.text, values.join(", "));
    }
    out.push('\n');
    out
}

type Show = fn(&Preset) -> String;

/// The settings that a preset decides, with functions that format its values.
const PRESET_VALUES: &[(&str, Show)] = &[
    ("layout", |p| p.format.layout.to_string()),
    ("mean-object", |p| or(p.format.mean_object, "by size and memory", |n| units::size(n.into()))),
    ("cluster-size", |p| or(p.format.cluster_size, "by cache size", |n| units::size(n.into()))),
    ("write-policy", |p| match p.options.write_policy {
        store::WritePolicy::OnInsert => "on-insert".to_owned(),
        store::WritePolicy::OnEvict => "on-evict".to_owned(),
    }),
    ("read-unit", |p| match p.options.read_unit {
        store::ReadUnit::Object => "object".to_owned(),
        store::ReadUnit::Cluster => "cluster".to_owned(),
        store::ReadUnit::Auto => "by each read".to_owned(),
    }),
    ("read-batch", |p| p.options.read_batch.to_string()),
    ("read-batch-split", |p| p.options.read_batch_split.to_string()),
    ("durability-bound", |p| units::duration(p.options.durability_bound)),
    ("max-object", |p| or(p.options.object_max, "a quarter", units::size)),
    ("admission", |p| p.options.admission.to_string()),
    ("one-timer-hours", |p| {
        or(p.options.one_timer_age, "never", |age| (age.as_secs() / 3600).to_string())
    }),
    ("reference-half-life", |p| p.options.reference_half_life.to_string()),
    ("aging-mean", |p| p.options.aging_mean.to_string()),
    ("young-percent", |p| p.options.young_percent.to_string()),
    ("prefer", |p| match p.options.prefer {
        store::Prefer::Requests => "requests".to_owned(),
        store::Prefer::Bytes => "bytes".to_owned(),
    }),
    ("index", |p| p.options.index.kind.to_string()),
    ("tier-hot", |p| p.options.tier_shares.hot.to_string()),
    ("tier-medium", |p| p.options.tier_shares.medium.to_string()),
    ("tier-admission", |p| match p.options.tier_admission {
        store::TierAdmission::All => "all".to_owned(),
        store::TierAdmission::SecondUse => "second-use".to_owned(),
    }),
    ("group-share", |p| p.options.group_share.to_string()),
    ("group-batch", |p| p.options.group_batch.to_string()),
    ("group-small", |p| units::size(p.options.group_small.into())),
    ("group-slack", |p| units::size(p.options.group_slack.into())),
    ("slot-size", |p| units::size(p.format.slot_size.into())),
    ("buddy-threshold", |p| units::size(p.format.buddy_threshold.into())),
    ("stream-runs", |p| p.format.stream_runs.to_string()),
    ("policy", |p| p.options.policy.to_string()),
    ("fill-percent", |p| or(p.options.fill_percent, "by layout", |percent| percent.to_string())),
    ("packet", |p| units::size(p.options.packet.into())),
    ("batch", |p| units::size(p.options.batch.into())),
    ("locality-buffers", |p| p.options.locality.map_or(0, |l| l.buffers).to_string()),
    ("locality-size", |p| or(p.options.locality, "—", |l| units::size(l.bytes.into()))),
    ("evict-max", |p| p.options.evict_max.to_string()),
];

fn or<T>(value: Option<T>, none: &str, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| none.to_owned(), show)
}

/// Returns whether files are to be rewritten.
fn blessing() -> bool {
    std::env::var_os("LARDER_BLESS").is_some()
}

/// Compares a rendered part of the documentation with the file, or rewrites the file when blessing.
fn check(begin: &str, end: &str, fresh: &str) {
    // The tests of both parts write the same file.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = in_repository("docs/reference/configuration.md");
    let text = fs::read_to_string(&path).unwrap();
    let from = text.find(begin).unwrap() + begin.len();
    let to = text.find(end).unwrap();
    if blessing() {
        fs::write(&path, format!("{}{fresh}{}", &text[..from], &text[to..])).unwrap();
    } else {
        assert!(
            text[from..to] == *fresh,
            "docs/reference/configuration.md is out of date: run this test with LARDER_BLESS=1"
        );
    }
}

#[test]
fn the_documentation_lists_every_setting_with_its_default() {
    let mut reference = Reference::default();
    write_all(&mut reference);
    reference.write_inherited();
    check(BEGIN, END, &format!("\n{}", reference.text));
}

#[test]
fn the_documentation_shows_what_every_preset_decides() {
    check(PRESETS_BEGIN, PRESETS_END, &presets());
}

fn load(text: &str) -> Loaded {
    let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    Loaded::build(&file, &Layer::new()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Tables that a code block of a page may omit: the words that need one, the table, and its keys.
const GRANTED: [(&str, &str, &str); 2] = [
    ("sites = ", "[[site]]", "name = \"shop\"\nhosts = [\"shop.test\"]\nupstream = \"http://a\"\n"),
    ("tls = true", "[[certificate]]", "chain = \"chain.pem\"\nkey = \"key.pem\"\n"),
];

/// Returns the TOML blocks of a page, each followed by the tables that it omits.
fn blocks(page: &str) -> Vec<String> {
    let whole = |block: &str| {
        let granted = GRANTED
            .iter()
            .filter(|(needs, table, _)| block.contains(needs) && !block.contains(table));
        granted.fold(block.to_owned(), |all, (_, table, keys)| format!("{all}\n{table}\n{keys}"))
    };
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(whole).collect()
}

#[test]
fn the_examples_of_the_guide_are_configurations() {
    let mut loaded = 0;
    for entry in fs::read_dir(in_repository("docs/guide")).unwrap() {
        for block in blocks(&fs::read_to_string(entry.unwrap().path()).unwrap()) {
            load(&block);
            loaded += 1;
        }
    }
    assert!(loaded > 5, "{loaded} blocks of TOML in docs/guide");
}

/// Returns the example with every commented key enabled. A real comment has a space after its `#`.
fn switched_on(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_shows_every_setting() {
    let (path, fresh) = (in_repository("packaging/larder.toml"), example());
    if blessing() {
        fs::write(&path, &fresh).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(text == fresh, "packaging/larder.toml is out of date: LARDER_BLESS=1 writes it anew");
}

#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    let text = example();
    load(&text);
    let (settings, tables) = text.split_once("#[[site]]").unwrap();
    let shown = load(&switched_on(settings));
    let changed = load("").reload(&shown);
    assert_eq!((changed.applied, changed.waiting), (vec![], vec!["cache"]));
    let repeated = load(&switched_on(&format!("#[[site]]{tables}"))).config;
    assert_eq!((repeated.sites.len(), repeated.access.len(), repeated.rules.len()), (1, 1, 1));
    assert_eq!((repeated.listeners.len(), repeated.certificates.len()), (1, 1));
}
