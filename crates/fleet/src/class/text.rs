//! Text form of a class table: TOML, written by operators, sent between nodes, printed by tools.
//!
//! ```toml
//! [[class]]
//! name = "pictures"
//! types = ["image/*"]
//! size-below = "1M"
//! replication = 2
//!
//! [[class]]
//! name = "rest"
//! lookup = ["memory", "disk", "owner", "origin"]
//! ```
//!
//! The criteria of a class are `size-from`, `size-below` (bytes, with K, M, G or T),
//! `requests-from`, `requests-below`, `types` and `sites`; an omitted one accepts all. Its policy
//! is `lookup` and `eviction`, lists of steps in order, `copies` and `replication`; an omitted one
//! is as in [`Policy::DEFAULT`]. A last class called `rest` has no criteria and takes all other
//! documents. Instead of classes a text may name a `preset`, one of
//! [`PRESETS`](crate::class::PRESETS).
//!
//! Writing and reading a table gives an equal table. The version is not part of it: it travels
//! beside the text, so equal texts are equal tables. All problems of a text are reported, each with
//! its line. A text may come from another node: at most [`TEXT_MAX`] bytes are read, and reading
//! takes time and memory in proportion to its length.

use std::error::Error;
use std::fmt::{self, Write};
use std::num::NonZeroU16;
use std::ops::Range;
use std::str::FromStr;

use cli::units;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::class::criteria::{Bounds, Criteria};
use crate::class::policy::{Policy, Procedure, Replication};
use crate::class::table::{Class, ClassTable, InvalidTable};

/// Maximum bytes of a text. Every valid table fits.
pub const TEXT_MAX: usize = 512 << 10;

/// One problem of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line, counted from 1.
    pub line: usize,
    /// Class and key, the given value, and what is expected.
    pub text: String,
}

/// Why a text was rejected: all its problems, by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidText {
    /// Problems; never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for InvalidText {
    /// Writes one line per fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Fault { line, text }) in self.faults.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}line {line}: {text}")?;
        }
        Ok(())
    }
}

impl Error for InvalidText {}

impl ClassTable {
    /// Reads a table and gives it `version`.
    ///
    /// # Errors
    ///
    /// All problems of the text.
    pub fn from_text(version: u64, text: &str) -> Result<ClassTable, InvalidText> {
        let mut reader = Reader { text, faults: Vec::new() };
        let table = reader.table(version);
        reader.faults.sort_by_key(|fault| fault.line);
        match table {
            Some(table) if reader.faults.is_empty() => Ok(table),
            _ => Err(InvalidText { faults: reader.faults }),
        }
    }

    /// Writes the table: each class with its criteria and its whole policy, `rest` last.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (at, class) in self.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{end}[[class]]\n{}", Written(class));
        }
        text
    }
}

/// Formats a class below its table header.
struct Written<'a>(&'a Class);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Class { name, criteria, policy } = self.0;
        let Criteria { size, requests, types, sites } = criteria;
        // Names, patterns and words never contain characters that TOML escapes.
        writeln!(f, "name = \"{name}\"")?;
        bounds(f, "size", *size, |bytes| format!("\"{}\"", units::size(bytes)))?;
        bounds(f, "requests", *requests, |number| number.to_string())?;
        list(f, "types", types.iter())?;
        list(f, "sites", sites.iter())?;
        let Policy { lookup, copies, eviction, replication } = policy;
        list(f, "lookup", lookup.steps())?;
        writeln!(f, "copies = \"{copies}\"")?;
        list(f, "eviction", eviction.steps())?;
        match replication {
            Replication::Owners(count) => writeln!(f, "replication = {count}"),
            Replication::All => writeln!(f, "replication = \"{replication}\""),
        }
    }
}

fn bounds(
    f: &mut fmt::Formatter<'_>,
    of: &str,
    bounds: Bounds,
    literal: impl Fn(u64) -> String,
) -> fmt::Result {
    if bounds.from > 0 {
        writeln!(f, "{of}-from = {}", literal(bounds.from))?;
    }
    match bounds.below {
        Some(below) => writeln!(f, "{of}-below = {}", literal(below)),
        None => Ok(()),
    }
}

fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    words: impl Iterator<Item = T>,
) -> fmt::Result {
    let quoted: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    if quoted.is_empty() {
        return Ok(());
    }
    writeln!(f, "{key} = [{}]", quoted.join(", "))
}

/// Sets the value of a key, or says what is wrong with it.
type Set = fn(&mut Class, &DeValue<'_>) -> Result<(), String>;

const KEYS: [(&str, Set); 11] = [
    ("name", |class, value| string(value).map(|name| class.name = name.into())),
    ("size-from", |class, value| size(value).map(|from| class.criteria.size.from = from)),
    ("size-below", |class, value| size(value).map(|below| class.criteria.size.below = Some(below))),
    ("requests-from", |class, value| number(value).map(|n| class.criteria.requests.from = n)),
    ("requests-below", |class, value| {
        number(value).map(|below| class.criteria.requests.below = Some(below))
    }),
    ("types", |class, value| words(value).map(|types| class.criteria.types = types)),
    ("sites", |class, value| words(value).map(|sites| class.criteria.sites = sites)),
    ("lookup", |class, value| steps(value).map(|lookup| class.policy.lookup = lookup)),
    ("copies", |class, value| word(value).map(|copies| class.policy.copies = copies)),
    ("eviction", |class, value| steps(value).map(|eviction| class.policy.eviction = eviction)),
    ("replication", |class, value| replication(value).map(|r| class.policy.replication = r)),
];

struct Reader<'t> {
    text: &'t str,
    faults: Vec<Fault>,
}

type Node<'t> = Spanned<DeValue<'t>>;

impl Reader<'_> {
    fn add_fault(&mut self, at: Range<usize>, text: String) {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        self.faults.push(Fault { line, text });
    }

    /// Reads the text; `None` if it is not a table at all.
    fn table(&mut self, version: u64) -> Option<ClassTable> {
        if self.text.len() > TEXT_MAX {
            let text = format!("expected at most {TEXT_MAX} bytes, got {}", self.text.len());
            self.add_fault(0..0, text);
            return None;
        }
        let parsed = DeTable::parse(self.text).map_err(|error| {
            let why = error.message().trim().replace('\n', ", ");
            self.add_fault(error.span().unwrap_or(0..0), format!("this is not TOML: {why}"));
        });
        let root = parsed.ok()?;
        let (mut preset, mut classes) = (None, None);
        for (key, node) in root.get_ref() {
            match key.get_ref().as_ref() {
                "preset" => preset = Some(node),
                "class" => classes = Some(node),
                other => {
                    let text = format!("{other}: there is no such key: use preset, or [[class]]");
                    self.add_fault(key.span(), text);
                }
            }
        }
        match (preset, classes) {
            (Some(preset), None) => self.preset(version, preset),
            (None, Some(classes)) => self.classes(version, classes),
            (Some(preset), Some(_)) => {
                let text = "preset: expected it or [[class]] tables, got both".to_owned();
                self.add_fault(preset.span(), text);
                None
            }
            (None, None) => {
                self.add_fault(0..0, "expected preset or [[class]] tables, got neither".to_owned());
                None
            }
        }
    }

    fn preset(&mut self, version: u64, node: &Node<'_>) -> Option<ClassTable> {
        let named = string(node.get_ref()).and_then(|name| ClassTable::named(version, name));
        named.map_err(|why| self.add_fault(node.span(), format!("preset: {why}"))).ok()
    }

    fn classes(&mut self, version: u64, node: &Node<'_>) -> Option<ClassTable> {
        let nodes = match node.get_ref() {
            DeValue::Array(nodes) => nodes,
            other => {
                let text = format!("class: expected [[class]] tables, got {}", describe(other));
                self.add_fault(node.span(), text);
                return None;
            }
        };
        let read = nodes.iter().enumerate().map(|(at, node)| self.class(at + 1, node)).collect();
        // A class that could not be read was reported already.
        if !self.faults.is_empty() {
            return None;
        }
        let wrong = |InvalidTable { number, name, problem }| {
            // The generated last class stands at the end of the text.
            let at = nodes.get(number - 1).map_or(self.text.len()..0, Spanned::span);
            self.add_fault(at, format!("{}: {problem}", class_label(number, &name)));
        };
        ClassTable::of_classes(version, read).map_err(wrong).ok()
    }

    fn class(&mut self, number: usize, node: &Node<'_>) -> Class {
        let mut class = Class::default();
        let DeValue::Table(table) = node.get_ref() else {
            let text =
                format!("class {number}: expected a table, got {}", describe(node.get_ref()));
            self.add_fault(node.span(), text);
            return class;
        };
        let name = table.iter().find(|(key, _)| key.get_ref() == "name");
        let name = name.and_then(|(_, node)| node.get_ref().as_str()).unwrap_or_default();
        if !table.iter().any(|(key, _)| key.get_ref() == "name") {
            let text = "name: is missing: expected 1 to 32 of a-z, 0-9 and '-'";
            self.add_fault(node.span(), format!("{}: {text}", class_label(number, name)));
        }
        for (key, node) in table {
            let set = KEYS.iter().find(|(known, _)| known == key.get_ref());
            let read = match set {
                Some((_, set)) => set(&mut class, node.get_ref()).map_err(|why| (node.span(), why)),
                None => {
                    let known = KEYS.map(|(known, _)| known).join(", ");
                    Err((key.span(), format!("there is no such key: use {known}")))
                }
            };
            if let Err((at, why)) = read {
                let class = class_label(number, name);
                self.add_fault(at, format!("{class}: {}: {why}", key.get_ref()));
            }
        }
        class
    }
}

/// Returns how messages name a class: its number in the text, from 1, and its name.
fn class_label(number: usize, name: &str) -> String {
    if name.is_empty() { format!("class {number}") } else { format!("class {number} ({name:?})") }
}

/// Describes a value for a message.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?} in quotes"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn string<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("expected a text in quotes, got {}", describe(value)))
}

fn word<T: FromStr<Err: ToString>>(value: &DeValue<'_>) -> Result<T, String> {
    string(value)?.parse().map_err(|error: T::Err| error.to_string())
}

/// Reads the steps of a procedure.
fn steps<S, const MAX: usize>(value: &DeValue<'_>) -> Result<Procedure<S, MAX>, String>
where
    S: Copy + FromStr<Err: ToString>,
{
    Ok(words::<S>(value)?.into_iter().collect())
}

/// Reads a list of words, or a single one.
fn words<T: FromStr<Err: ToString>>(value: &DeValue<'_>) -> Result<Vec<T>, String> {
    match value {
        DeValue::Array(nodes) => nodes.iter().map(|node| word(node.get_ref())).collect(),
        single => word(single).map(|pattern| vec![pattern]),
    }
}

fn unsigned(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn number(value: &DeValue<'_>) -> Result<u64, String> {
    let number = value.as_integer().and_then(unsigned);
    number.ok_or_else(|| format!("expected a whole number, 0 or more, got {}", describe(value)))
}

fn size(value: &DeValue<'_>) -> Result<u64, String> {
    let bytes = match value {
        DeValue::String(text) => units::parse_size(text),
        DeValue::Integer(number) => unsigned(number),
        _ => None,
    };
    bytes.ok_or_else(|| format!("expected {}, got {}", units::SIZE_EXAMPLE, describe(value)))
}

fn replication(value: &DeValue<'_>) -> Result<Replication, String> {
    let owners = |number| NonZeroU16::new(u16::try_from(unsigned(number)?).ok()?);
    let read = match value {
        DeValue::String(word) if word == "all" => Some(Replication::All),
        DeValue::Integer(number) => owners(number).map(Replication::Owners),
        _ => None,
    };
    read.ok_or_else(|| {
        format!("expected a number of owners from 1 to 65535, or \"all\", got {}", describe(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::policy::{Copies, Eviction, Lookup};
    use crate::class::preset::PRESETS;

    fn faults(text: &str) -> Vec<String> {
        ClassTable::from_text(1, text).unwrap_err().to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_text_is_read_with_the_defaults_of_what_it_does_not_say() {
        let text = "
            [[class]]
            name = 'pictures'
            types = ['image/*', 'Video/MP4']
            sites = '*.example.com'
            size-from = 1_000
            size-below = '1M'
            requests-from = 0x10
            requests-below = 100
            lookup = ['memory', 'disk', 'owner', 'origin']
            copies = 'inclusive'
            eviction = 'drop'
            replication = 2

            [[class]]
            name = 'rest'
            lookup = ['memory', 'disk', 'origin']
            replication = 'all'
        ";
        let table = ClassTable::from_text(7, text).unwrap();
        assert_eq!((table.version(), table.iter().count()), (7, 2));
        let expected = Class {
            name: "pictures".into(),
            criteria: Criteria {
                size: Bounds { from: 1000, below: Some(1 << 20) },
                requests: Bounds { from: 16, below: Some(100) },
                types: vec!["image/*".parse().unwrap(), "video/mp4".parse().unwrap()],
                sites: vec!["*.example.com".parse().unwrap()],
            },
            policy: Policy {
                lookup: Lookup::OWNER,
                copies: Copies::Inclusive,
                eviction: Eviction::DROP,
                replication: Replication::Owners(NonZeroU16::new(2).unwrap()),
            },
        };
        assert_eq!(table.iter().next(), Some(&expected));
        let rest = table.rest().policy;
        let local = Policy { lookup: Lookup::LOCAL, replication: Replication::All, ..rest };
        assert_eq!((rest, rest.copies), (local, Policy::DEFAULT.copies));
        let one =
            ClassTable::from_text(1, "class = [{ name = 'small', size-below = 10 }]").unwrap();
        assert_eq!((one.iter().count(), one.rest().policy), (2, Policy::DEFAULT));
    }

    #[test]
    fn a_preset_is_named() {
        for name in PRESETS {
            let table = ClassTable::from_text(1, &format!("preset = '{name}'")).unwrap();
            let again = ClassTable::from_text(1, &table.to_text()).unwrap();
            assert!(table.iter().eq(again.iter()), "{name}");
        }
    }

    #[test]
    fn every_problem_is_told_with_its_line_class_and_key() {
        let text = "[[class]]
name = 'a'
lookup = 'peer'
size-below = '10X'
colour = 1
[[class]]
types = ['text', 1]
replication = 0
requests-from = -1
eviction = true
[[class]]
name = 3
replication = '2'
sites = {}
other = 1
";
        assert_eq!(
            faults(text),
            [
                "line 3: class 1 (\"a\"): lookup: \"peer\" is not a valid step of a lookup: use \
                 memory, peers, disk, owner, origin",
                "line 4: class 1 (\"a\"): size-below: expected a size such as 10G, got \"10X\" in \
                 quotes",
                "line 5: class 1 (\"a\"): colour: there is no such key: use name, size-from, \
                 size-below, requests-from, requests-below, types, sites, lookup, copies, \
                 eviction, replication",
                "line 6: class 2: name: is missing: expected 1 to 32 of a-z, 0-9 and '-'",
                "line 7: class 2: types: \"text\" is not a valid pattern: write a media type such \
                 as text/html, or image/* for all of a kind",
                "line 8: class 2: replication: expected a number of owners from 1 to 65535, or \
                 \"all\", got the number 0",
                "line 9: class 2: requests-from: expected a whole number, 0 or more, got the \
                 number -1",
                "line 10: class 2: eviction: expected a text in quotes, got true",
                "line 12: class 3: name: expected a text in quotes, got the number 3",
                "line 13: class 3: replication: expected a number of owners from 1 to 65535, or \
                 \"all\", got \"2\" in quotes",
                "line 14: class 3: sites: expected a text in quotes, got a table",
                "line 15: class 3: other: there is no such key: use name, size-from, size-below, \
                 requests-from, requests-below, types, sites, lookup, copies, eviction, \
                 replication",
            ]
        );
    }

    #[test]
    fn contradictions_are_reported_with_their_line() {
        let cases = [
            ("", "line 1: expected preset or [[class]] tables, got neither"),
            ("preset = 'x'\n", "line 1: preset: \"x\" is not a preset: use larder, replicated"),
            ("\npreset = 1", "line 2: preset: expected a text in quotes, got the number 1"),
            ("class = 1", "line 1: class: expected [[class]] tables, got the number 1"),
            ("class = [1]", "line 1: class 1: expected a table, got the number 1"),
            ("[rest]\nlookup = 'x'", "line 1: rest: there is no such key"),
            (
                "preset = 'larder'\n[[class]]\nname = 'a'",
                "line 1: preset: expected it or [[class]] tables, got both",
            ),
            (
                "[[class]]\nname='a'\nsize-below=1\n\n[[class]]\nname='b'\n\
                 lookup=['memory', 'disk', 'origin']\nsize-from=1",
                "line 5: class 2 (\"b\"): lookup asks no owner",
            ),
            ("[[class]]\nname = 'rest'\nsites = 'a'", "line 1: class 1 (\"rest\"): class \"rest\""),
            ("a = 'é\n", "line 1: this is not TOML: "),
            ("\n[[class]]\nname = 'a'\nname = 'b'", "line 4: this is not TOML: "),
        ];
        for (text, expected) in cases {
            let said = faults(text);
            assert!(said[0].starts_with(expected), "{text:?}: {said:?}");
        }
    }

    #[test]
    fn hostile_texts_are_rejected() {
        let deep = format!("class = {}", "[".repeat(100_000));
        let dotted = format!("{}a = 1", "a.".repeat(100_000));
        let long = "#".repeat(TEXT_MAX + 1);
        let nul = "class = '\0'".to_owned();
        for text in [deep, dotted, long, nul] {
            assert!(ClassTable::from_text(1, &text).is_err(), "{}", &text[..20.min(text.len())]);
        }
        let many = "[[class]]\nname = 'a'\n".repeat(10_000);
        assert_eq!(faults(&many).len(), 1);
    }
}
