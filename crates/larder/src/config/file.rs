//! Reads a configuration file: TOML in, values with line numbers out.
//!
//! The document is walked along the tables of [`crate::config::settings`] instead of being
//! deserialised. This finds every problem in one pass, and reports each with its line, its key, the
//! expected value and, for an unknown key, the nearest known one.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::layers::{FileLayer, Given, Place, Problem, Problems, nearest};
use crate::config::rule_condition::RuleCondition;
use crate::config::setting::Field;
use crate::config::settings::{
    ACCESS, CERTIFICATE, CONDITION, FLEET_CLASS, LISTENER, RULE, SETTINGS, SITE, find,
};
use crate::config::value::{Kind, Value, alone};

/// A configuration file as read: its values, and its name for messages.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub name: String,
    pub layer: FileLayer,
}

impl File {
    /// Reads a file. The error has one line for each problem.
    pub fn read(path: &Path) -> Result<File, String> {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("{name}:{line}: expected UTF-8 text")
        })?;
        File::parse(&name, &text).map_err(|problems| problems.to_string())
    }

    /// Parses the text of a file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<File, Problems> {
        let (layer, list) = read(text);
        match list.is_empty() {
            true => Ok(File { name: name.to_owned(), layer }),
            false => Err(Problems { file: name.to_owned(), list }),
        }
    }
}

/// The key of a rule's alternatives.
const ANY: &str = "any";

const REPEATED: [&str; 6] = ["site", "access", "rule", "listener", "certificate", "fleet.class"];

/// Returns all values in the text, and all its problems.
fn read(text: &str) -> (FileLayer, Vec<Problem>) {
    let mut reader = Reader { text, layer: FileLayer::default(), problems: Vec::new() };
    match DeTable::parse(text) {
        Ok(root) => reader.root(root.get_ref()),
        Err(error) => {
            let at = error.span().unwrap_or(0..0);
            let why = error.message().trim().replace('\n', ", ");
            reader.complain(at, "", format!("this is not TOML: {why}"));
        }
    }
    reader.problems.sort_by_key(|problem| match problem.place {
        Place::Line(line) => line,
        Place::Flag => 0,
    });
    (reader.layer, reader.problems)
}

struct Reader<'a> {
    text: &'a str,
    layer: FileLayer,
    problems: Vec<Problem>,
}

type Node<'i> = Spanned<DeValue<'i>>;

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn complain(&mut self, at: Range<usize>, key: &str, text: String) {
        let place = Place::Line(self.line(at.start));
        self.problems.push(Problem { place, key: key.to_owned(), text });
    }

    fn root(&mut self, root: &DeTable<'_>) {
        for (key, node) in root {
            let name = key.get_ref().as_ref();
            match name {
                "site" => {
                    let sites = self.repeated(name, SITE, node);
                    self.layer.sites = sites;
                }
                "access" => {
                    let rules = self.repeated(name, ACCESS, node);
                    self.layer.access = rules.into_iter().map(|(rule, _)| rule).collect();
                }
                "rule" => self.rules(node),
                "listener" => {
                    let listeners = self.repeated(name, LISTENER, node);
                    self.layer.listeners = listeners;
                }
                "certificate" => {
                    let certificates = self.repeated(name, CERTIFICATE, node);
                    self.layer.certificates = certificates;
                }
                _ if tables().any(|table| table == name) => match node.get_ref() {
                    DeValue::Table(table) => self.table(name, table),
                    other => {
                        let text = format!("expected a table [{name}], got {}", describe(other));
                        self.complain(node.span(), name, text);
                    }
                },
                _ => self.setting(name, key.span(), node),
            }
        }
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, node) in table {
            self.setting(&format!("{prefix}.{}", key.get_ref()), key.span(), node);
        }
    }

    fn setting(&mut self, name: &str, at: Range<usize>, node: &Node<'_>) {
        if name == "fleet.class" {
            self.layer.classes = self.repeated(name, FLEET_CLASS, node);
            return;
        }
        let Some(setting) = find(name) else {
            return self.unknown(name, at);
        };
        if let Some(value) = self.value(name, setting, node) {
            let place = Place::Line(self.line(at.start));
            self.layer.settings.insert(setting.key, Given { value, place });
        }
    }

    fn unknown(&mut self, name: &str, at: Range<usize>) {
        // A known key under the wrong table (or none) is a better hint than a similar spelling.
        let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
        let misplaced = SETTINGS.iter().find(|setting| last(setting.key) == last(name));
        let known = SETTINGS.iter().map(|setting| setting.key).chain(tables()).chain(REPEATED);
        let hint = misplaced.map(|setting| setting.key).or_else(|| nearest(name, known));
        let hint = hint.map(|hint| format!("; did you mean {hint}?")).unwrap_or_default();
        self.complain(at, name, format!("there is no such key{hint}"));
    }

    /// Reads the `[[rule]]` tables, with what each states.
    fn rules(&mut self, node: &Node<'_>) {
        let mut rules = self.repeated("rule", RULE, node);
        for ((rule, _), table) in rules.iter_mut().zip(tables_in(node)) {
            rule.when.any = self.alternatives(table);
            let is_condition =
                |key: &str| key == ANY || CONDITION.iter().any(|field| field.key == key);
            for (key, node) in table.iter() {
                let key = key.get_ref().as_ref();
                if !is_condition(key) && !["name", "then"].contains(&key) {
                    let written = self.text.get(node.span()).unwrap_or_default();
                    let written = written.split_whitespace().collect::<Vec<_>>().join(" ");
                    rule.states.push(format!("{key} = {written}"));
                }
            }
        }
        self.layer.rules = rules;
    }

    /// Reads the alternatives of a condition.
    fn alternatives(&mut self, table: &DeTable<'_>) -> Vec<RuleCondition> {
        let Some((_, node)) = table.iter().find(|(key, _)| key.get_ref() == ANY) else {
            return Vec::new();
        };
        let mut all = self.repeated("rule.any", CONDITION, node);
        for ((when, _), table) in all.iter_mut().zip(tables_in(node)) {
            when.any = self.alternatives(table);
        }
        all.into_iter().map(|(when, _)| when).collect()
    }

    /// Reads the tables of an array of tables, each with the line where it begins.
    fn repeated<T: Default>(
        &mut self,
        name: &str,
        fields: &'static [Field<T>],
        node: &Node<'_>,
    ) -> Vec<(T, usize)> {
        let DeValue::Array(tables) = node.get_ref() else {
            let text = format!("expected [[{name}]] tables, got {}", describe(node.get_ref()));
            self.complain(node.span(), name, text);
            return Vec::new();
        };
        let mut all = Vec::new();
        for node in tables.iter() {
            let DeValue::Table(table) = node.get_ref() else {
                let text = format!("expected [[{name}]] tables, got {}", describe(node.get_ref()));
                self.complain(node.span(), name, text);
                continue;
            };
            all.push((self.item(name, fields, table, node.span()), self.line(node.span().start)));
        }
        all
    }

    fn item<T: Default>(
        &mut self,
        name: &str,
        fields: &'static [Field<T>],
        table: &DeTable<'_>,
        at: Range<usize>,
    ) -> T {
        let mut item = T::default();
        let mut given: BTreeMap<&str, Option<Value>> = BTreeMap::new();
        for (key, node) in table {
            let full = format!("{name}.{}", key.get_ref());
            match fields.iter().find(|field| field.key == key.get_ref().as_ref()) {
                Some(field) => {
                    given.insert(field.key, self.value(&full, field, node));
                }
                // Read by `alternatives`.
                None if key.get_ref() == ANY && name.starts_with("rule") => {}
                None => {
                    let known = fields.iter().map(|field| field.key);
                    let hint = nearest(key.get_ref(), known)
                        .map(|hint| format!("; did you mean {name}.{hint}?"))
                        .unwrap_or_default();
                    self.complain(key.span(), &full, format!("there is no such key{hint}"));
                }
            }
        }
        for field in fields {
            let value = given.remove(field.key).unwrap_or_else(|| {
                let value = field.default_value();
                if value.is_none() {
                    let text = format!("is missing: expected {}", field.expected());
                    self.complain(at.clone(), &format!("{name}.{}", field.key), text);
                }
                value
            });
            if let Some(value) = value {
                field.apply(&mut item, value);
            }
        }
        item
    }

    fn value<T>(&mut self, key: &str, field: &Field<T>, node: &Node<'_>) -> Option<Value> {
        let (Kind::List(_), DeValue::Array(nodes)) = (field.kind, node.get_ref()) else {
            let read = single(field, node.get_ref());
            return read.map_err(|text| self.complain(node.span(), key, text)).ok();
        };
        let mut all = Vec::new();
        let before = self.problems.len();
        for node in nodes.iter() {
            match single(field, node.get_ref()) {
                Ok(Value::List(values)) => all.extend(values),
                Ok(Value::Word(word)) if nodes.len() == 1 => return Some(Value::Word(word)),
                Ok(Value::Word(word)) => self.complain(node.span(), key, alone(word)),
                Ok(value) => all.push(value),
                Err(text) => self.complain(node.span(), key, text),
            }
        }
        (self.problems.len() == before).then_some(Value::List(all))
    }
}

/// Reads a scalar value: that of the setting, or one element of its list.
fn single<T>(field: &Field<T>, value: &DeValue<'_>) -> Result<Value, String> {
    let kind = match field.kind {
        Kind::List(item) => *item,
        kind => kind,
    };
    let bare = matches!(kind, Kind::Bool | Kind::Int(..));
    match value {
        DeValue::String(text) if !bare || field.word == Some(text) => field.parse(text),
        DeValue::Integer(number)
            if matches!(kind, Kind::Int(..) | Kind::Size(..) | Kind::Ports | Kind::Listen) =>
        {
            let value = i128::from_str_radix(number.as_str(), number.radix());
            field.parse(&value.map_or_else(|_| number.to_string(), |value| value.to_string()))
        }
        DeValue::Boolean(value) if matches!(kind, Kind::Bool) => field.parse(&value.to_string()),
        DeValue::String(text) => Err(field.expected_not(&format!("{text:?} in quotes"))),
        // The value may be a secret, and errors are logged.
        DeValue::Integer(_) | DeValue::Float(_) if matches!(kind, Kind::Text(_)) => {
            Err(field.expected_not("a number without quotes"))
        }
        other => Err(field.expected_not(&describe(other))),
    }
}

/// Returns the tables of an array of tables.
fn tables_in<'n, 'i>(node: &'n Node<'i>) -> impl Iterator<Item = &'n DeTable<'i>> {
    let nodes = match node.get_ref() {
        DeValue::Array(nodes) => Some(nodes.iter()),
        _ => None,
    };
    nodes.into_iter().flatten().filter_map(|node| match node.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    })
}

/// Returns the names of the tables that group settings.
fn tables() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter_map(|setting| setting.key.split_once('.')).map(|(table, _)| table)
}

/// Describes a value of the wrong type, for a message.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
