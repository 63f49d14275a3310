//! Reads a configuration file: TOML in, values with line numbers out.
//!
//! The document is walked along the tables of [`crate::config::settings`] instead of being
//! deserialised. This finds every problem in one pass, and reports each with its line, its key, the
//! expected value and, for an unknown key, the nearest known one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::env_values::Expanded;
use crate::config::include;
use crate::config::layers::{FileLayer, Given, Location, Place, Problem, Problems, nearest};
use crate::config::rule_condition::RuleCondition;
use crate::config::rule_response::RESPONSES;
use crate::config::rule_substitute;
use crate::config::setting::Field;
use crate::config::settings::{
    ACCESS, CERTIFICATE, CLASS, CONDITION, FLEET_CLASS, LISTENER, RESPONSE, RULE, SETTINGS, SITE,
    SUBSTITUTE, find,
};
use crate::config::sources::Sources;
use crate::config::value::{Kind, Value, alone, one_of};

/// Depth of nested includes below the main file.
const DEPTH_MAX: usize = 8;

/// A configuration file as read with all files that it includes: their values, and the name of the
/// main file for messages.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub name: Arc<str>,
    pub layer: FileLayer,
}

impl File {
    /// Reads a file and those that it includes. The error has one line for each problem.
    pub fn read(path: &Path) -> Result<File, String> {
        let name = path.display().to_string();
        let bytes = include::read(path).map_err(|why| format!("{name}: {why}"))?;
        let mut loader = Loader::default();
        loader.layer.sources.main = Some(path.to_owned());
        loader.bytes(path, bytes);
        loader.finish(&name).map_err(|problems| problems.to_string())
    }

    /// Reads the lists of a configuration again, and takes its texts as they were. `None` if it
    /// had no main file.
    pub fn reread(sources: &Arc<Sources>) -> Option<Result<File, String>> {
        let path = sources.main.as_ref()?;
        let mut loader = Loader { before: Some(sources.clone()), ..Loader::default() };
        loader.layer.sources.main = Some(path.clone());
        loader.bytes(path, sources.texts.get(path)?.clone());
        let read = loader.finish(&path.display().to_string());
        Some(read.map_err(|problems| problems.to_string()))
    }

    /// Parses the text of a file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<File, Problems> {
        let mut loader = Loader::default();
        loader.text(Path::new(name), text);
        loader.finish(name)
    }
}

/// The keys of a rule that hold tables, besides [`ANY`].
const NESTED: [&str; 2] = [RESPONSES, rule_substitute::SUBSTITUTE];

/// The key of a rule's alternatives.
const ANY: &str = "any";

/// Lists of conditions, which match everything when they are empty.
pub const CONDITIONS: [&str; 15] = [
    "sites",
    "hosts",
    "paths",
    "urls",
    "absolute-urls",
    "methods",
    "headers",
    "schemes",
    "clients",
    "query",
    "cookies",
    "classes",
    "listeners",
    "destinations",
    "ports",
];

const REPEATED: [&str; 7] =
    ["site", "access", "class", "rule", "listener", "certificate", "fleet.class"];

/// Reads a file and those that it includes.
#[derive(Default)]
struct Loader {
    layer: FileLayer,
    problems: Vec<Problem>,
    /// The included files read so far, by their paths without links, with the lines that include
    /// them.
    known: BTreeMap<PathBuf, Location>,
    /// The file being read and the files that include it, by their paths without links.
    open: Vec<PathBuf>,
    /// The texts to be read, in place of those in the file system.
    before: Option<Arc<Sources>>,
}

impl Loader {
    fn finish(self, name: &str) -> Result<File, Problems> {
        match self.problems.is_empty() {
            true => Ok(File { name: name.into(), layer: self.layer }),
            false => Err(Problems { list: self.problems }),
        }
    }

    fn bytes(&mut self, path: &Path, bytes: Vec<u8>) {
        self.layer.sources.texts.insert(path.to_owned(), bytes.clone());
        match String::from_utf8(bytes) {
            Ok(text) => self.text(path, &text),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
                let place = Place::File(Location { file: path.display().to_string().into(), line });
                let text = "expected UTF-8 text".to_owned();
                self.problems.push(Problem { place, key: String::new(), text });
            }
        }
    }

    /// Reads the values of a file, those of the files that it includes first: an include stands for
    /// their text, and at the top level it stands before all tables.
    fn text(&mut self, path: &Path, text: &str) {
        let file: Arc<str> = path.display().to_string().into();
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.open.push(real);
        let feeds = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut reader = Reader {
            file,
            text: text.to_owned(),
            feeds,
            layer: FileLayer::default(),
            expanded: BTreeSet::new(),
            problems: Vec::new(),
        };
        match DeTable::parse(text) {
            Ok(mut root) => self.table(path, &mut reader, root.get_mut()),
            Err(error) => {
                let at = error.span().unwrap_or(0..0);
                let why = error.message().trim().replace('\n', ", ");
                reader.complain(at, "", format!("this is not TOML: {why}"));
            }
        }
        let Reader { mut problems, .. } = reader;
        problems.sort_by_key(|problem| match &problem.place {
            Place::File(location) => location.line,
            Place::Flag | Place::Variable | Place::Unknown => 0,
        });
        self.problems.extend(problems);
        self.open.pop();
    }

    fn table(&mut self, path: &Path, reader: &mut Reader, root: &mut DeTable<'_>) {
        let mut expanded = Expanded::default();
        expanded.table("", root);
        if !expanded.failed.is_empty() {
            let failed = expanded.failed.into_iter();
            return failed.for_each(|(at, key, text)| reader.complain(at, &key, text));
        }
        reader.expanded = expanded.at;
        for (element, at) in reader.includes(root) {
            self.include(&element, path, reader, at);
        }
        reader.layer = std::mem::take(&mut self.layer);
        reader.root(root);
        self.layer = std::mem::take(&mut reader.layer);
    }

    /// Reads the files that one element of `include` names. `reader` reads the including file.
    fn include(&mut self, element: &str, from: &Path, reader: &mut Reader, at: Range<usize>) {
        let location = reader.location(at.start);
        let mut complain = |text| reader.complain(at.clone(), "include", text);
        if self.open.len() > DEPTH_MAX {
            return complain(format!("expected at most {DEPTH_MAX} includes within each other"));
        }
        let key = (element.to_owned(), from.to_owned());
        let before = self.before.as_ref().map(|before| before.included.get(&key).cloned());
        let named = || include::named(element, from);
        let all = match before.map_or_else(named, |all| Ok(all.unwrap_or_default())) {
            Ok(all) => all,
            Err(why) => return complain(why),
        };
        self.layer.sources.included.insert(key, all.clone());
        for path in all {
            let shown = path.display();
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if self.open.contains(&real) {
                complain(format!("{shown} includes itself"));
            } else if let Some(other) = self.known.insert(real, location.clone()) {
                complain(format!("{shown} is included already at {other}"));
            } else {
                let before = self.before.as_ref().and_then(|before| before.texts.get(&path));
                let read = || include::read_regular(&path);
                match before.map_or_else(read, |bytes| Ok(bytes.clone())) {
                    Ok(bytes) => self.bytes(&path, bytes),
                    Err(why) => complain(format!("{shown}: {why}")),
                }
            }
        }
    }
}

/// Reads the values of one file.
struct Reader {
    file: Arc<str>,
    text: String,
    /// The positions of all line feeds.
    feeds: Vec<usize>,
    layer: FileLayer,
    /// Where values with environment variables begin.
    expanded: BTreeSet<usize>,
    problems: Vec<Problem>,
}

type Node<'i> = Spanned<DeValue<'i>>;

impl Reader {
    fn location(&self, at: usize) -> Location {
        let line = self.feeds.partition_point(|feed| *feed < at) + 1;
        Location { file: self.file.clone(), line }
    }

    fn complain(&mut self, at: Range<usize>, key: &str, text: String) {
        let place = Place::File(self.location(at.start));
        self.problems.push(Problem { place, key: key.to_owned(), text });
    }

    /// Returns the elements of `include`, with their positions.
    fn includes(&mut self, root: &DeTable<'_>) -> Vec<(String, Range<usize>)> {
        let Some(node) = root.get("include") else { return Vec::new() };
        let nodes = match node.get_ref() {
            DeValue::Array(nodes) => &nodes[..],
            _ => std::slice::from_ref(node),
        };
        let Some(setting) = find("include") else { return Vec::new() };
        let mut all = Vec::new();
        for node in nodes {
            match self.single(setting, node) {
                Ok(elements) => all.push((elements.to_string(), node.span())),
                Err(text) => self.complain(node.span(), "include", text),
            }
        }
        all
    }

    fn root(&mut self, root: &DeTable<'_>) {
        for (key, node) in root {
            let name = key.get_ref().as_ref();
            match name {
                // Read before.
                "include" => {}
                "site" => {
                    let sites = self.repeated(name, SITE, node);
                    self.layer.sites.extend(sites);
                }
                "access" => {
                    let rules = self.repeated(name, ACCESS, node);
                    self.layer.access.extend(rules.into_iter().map(|(rule, _)| rule));
                }
                "class" => {
                    let classes = self.repeated(name, CLASS, node);
                    self.layer.classes.extend(classes);
                }
                "rule" => self.rules(node),
                "listener" => {
                    let listeners = self.repeated(name, LISTENER, node);
                    self.layer.listeners.extend(listeners);
                }
                "certificate" => {
                    let certificates = self.repeated(name, CERTIFICATE, node);
                    self.layer.certificates.extend(certificates);
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
            let classes = self.repeated(name, FLEET_CLASS, node);
            self.layer.fleet_classes.extend(classes);
            return;
        }
        let Some(setting) = find(name) else {
            return self.unknown(name, at, node);
        };
        if let Some(value) = self.value(name, setting, node) {
            let place = Place::File(self.location(at.start));
            if let Some(Given { place: Place::File(other), .. }) =
                self.layer.settings.get(setting.key)
            {
                let text = format!("is given already at {other}");
                return self.complain(at, name, text);
            }
            self.layer.settings.insert(setting.key, Given { value, place });
        }
    }

    fn unknown(&mut self, name: &str, at: Range<usize>, node: &Node<'_>) {
        let (table, key) = name.rsplit_once('.').unwrap_or(("", name));
        let within = match table {
            "" => "the top level".to_owned(),
            table => format!("[{table}]"),
        };
        let misplaced = match node.get_ref() {
            DeValue::Table(_) => None,
            _ => misplaced(key, &within),
        };
        let text = misplaced.unwrap_or_else(|| {
            let known = SETTINGS.iter().map(|setting| setting.key).chain(tables()).chain(REPEATED);
            no_such_key(nearest(name, known).map(str::to_owned))
        });
        self.complain(at, name, text);
    }

    /// Reads the `[[rule]]` tables, with what each states.
    fn rules(&mut self, node: &Node<'_>) {
        let mut rules = self.repeated("rule", RULE, node);
        for ((rule, _), table) in rules.iter_mut().zip(tables_in(node)) {
            rule.when.any = self.alternatives(table);
            // A default must not replace what a rule before it states.
            rule.own.retain(|own| table.iter().any(|(key, _)| key.get_ref() == own.key));
            let entries = self.within("rule", RESPONSES, RESPONSE, table);
            rule.responses = entries.into_iter().map(|(entry, _)| entry).collect();
            let texts = self.within("rule", rule_substitute::SUBSTITUTE, SUBSTITUTE, table);
            rule.substitution.list = texts.into_iter().map(|(text, _)| text).collect();
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
        self.layer.rules.extend(rules);
    }

    /// Reads the alternatives of a condition.
    fn alternatives(&mut self, table: &DeTable<'_>) -> Vec<RuleCondition> {
        let mut all = self.within("rule", ANY, CONDITION, table);
        let tables = table.iter().filter(|(key, _)| key.get_ref() == ANY);
        let tables = tables.flat_map(|(_, node)| tables_in(node));
        for ((when, _), table) in all.iter_mut().zip(tables) {
            when.any = self.alternatives(table);
        }
        all.into_iter().map(|(when, _)| when).collect()
    }

    /// Reads the tables that a table `name` has under `key`.
    fn within<T: Default>(
        &mut self,
        name: &str,
        key: &str,
        fields: &'static [Field<T>],
        table: &DeTable<'_>,
    ) -> Vec<(T, Location)> {
        let found = table.iter().find(|(known, _)| known.get_ref() == key);
        found.map_or_else(Vec::new, |(_, node)| {
            self.repeated(&format!("{name}.{key}"), fields, node)
        })
    }

    /// Reads the tables of an array of tables, each with the location where it begins.
    fn repeated<T: Default>(
        &mut self,
        name: &str,
        fields: &'static [Field<T>],
        node: &Node<'_>,
    ) -> Vec<(T, Location)> {
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
            all.push((
                self.item(name, fields, table, node.span()),
                self.location(node.span().start),
            ));
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
                // Read by `rules` and `alternatives`.
                None if key.get_ref() == ANY && name.starts_with("rule") => {}
                None if name == "rule" && NESTED.contains(&key.get_ref().as_ref()) => {}
                None => {
                    let within = format!("[[{name}]]");
                    let text = misplaced(key.get_ref(), &within).unwrap_or_else(|| {
                        let near = nearest(key.get_ref(), fields.iter().map(|field| field.key));
                        no_such_key(near.map(|near| format!("{name}.{near}")))
                    });
                    self.complain(key.span(), &full, text);
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

    fn single<T>(&self, field: &Field<T>, node: &Node<'_>) -> Result<Value, String> {
        single(field, node.get_ref(), self.expanded.contains(&node.span().start))
    }

    /// Reads the elements of a list from a file: one in each line that is not empty and does not
    /// begin with `#`. A relative path begins at the configuration file. `value` is that of a class
    /// for the lines that name none.
    fn listed<T>(
        &mut self,
        (path, value): (&str, Option<&str>),
        field: &Field<T>,
    ) -> Result<Vec<Value>, String> {
        let directory = Path::new(&*self.file).parent().unwrap_or(Path::new(""));
        let path = directory.join(path);
        let at = path.display();
        let read = include::read_stamped(&path).map_err(|why| format!("{at}: {why}"));
        let (bytes, stamp) = read?;
        self.layer.sources.lists.insert(path.clone(), stamp);
        let text = String::from_utf8(bytes).map_err(|_| format!("{at}: expected UTF-8 text"))?;
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut all = Vec::new();
        for (number, line) in lines {
            let whole = match value.filter(|_| !line.contains("=>")) {
                None => Cow::Borrowed(line),
                Some(value) => Cow::Owned(format!("{line} => {value}")),
            };
            match field.kind.parse(&whole).map_err(|why| format!("{at}:{number}: {why}"))? {
                Value::List(values) => all.extend(values),
                value => all.push(value),
            }
        }
        Ok(all)
    }

    fn value<T>(&mut self, key: &str, field: &Field<T>, node: &Node<'_>) -> Option<Value> {
        let (Kind::List(_), DeValue::Array(nodes)) = (field.kind, node.get_ref()) else {
            let read = self.single(field, node);
            return read.map_err(|text| self.complain(node.span(), key, text)).ok();
        };
        let mut all = Vec::new();
        let before = self.problems.len();
        for node in nodes.iter() {
            if let Some(file) = listed_file(key, node.get_ref()) {
                match self.listed(file, field) {
                    Ok(values) => all.extend(values),
                    Err(text) => self.complain(node.span(), key, text),
                }
                continue;
            }
            match self.single(field, node) {
                Ok(Value::List(values)) => all.extend(values),
                Ok(Value::Word(word)) if nodes.len() == 1 => return Some(Value::Word(word)),
                Ok(Value::Word(word)) => self.complain(node.span(), key, alone(word)),
                Ok(value) => all.push(value),
                Err(text) => self.complain(node.span(), key, text),
            }
        }
        let is_condition = key.rsplit('.').next().is_some_and(|key| CONDITIONS.contains(&key));
        if all.is_empty() && !nodes.is_empty() && is_condition && self.problems.len() == before {
            let text = "the file has no entries, and an empty list would match everything: remove \
                        the key, or name what never occurs";
            self.complain(node.span(), key, text.to_owned());
        }
        (self.problems.len() == before).then_some(Value::List(all))
    }
}

/// Returns the path of a file with elements of a list: `@` and a path, in tables of rules; and what
/// follows `=>` in a class.
fn listed_file<'a>(key: &str, value: &'a DeValue<'_>) -> Option<(&'a str, Option<&'a str>)> {
    let DeValue::String(text) = value else { return None };
    let is_of_rules = ["rule.", "access.", "class."].iter().any(|table| key.starts_with(table));
    let path = text.strip_prefix('@').filter(|_| is_of_rules)?;
    Some(match path.rsplit_once("=>").filter(|_| key.starts_with("class.")) {
        Some((path, value)) => (path.trim_end(), Some(value.trim())),
        None => (path, None),
    })
}

/// Reads a scalar value: that of the setting, or one element of its list. `is_expanded`: it had
/// variables, so it must be in quotes.
fn single<T>(field: &Field<T>, value: &DeValue<'_>, is_expanded: bool) -> Result<Value, String> {
    let kind = match field.kind {
        Kind::List(item) => *item,
        kind => kind,
    };
    let bare = matches!(kind, Kind::Bool | Kind::Int(..));
    match value {
        DeValue::String(text) if !bare || is_expanded || field.word == Some(text) => {
            field.parse(text)
        }
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

fn no_such_key(near: Option<String>) -> String {
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("there is no such key{hint}")
}

/// Returns the problem of a key that other tables than `within` have; `None` if none has it.
fn misplaced(key: &str, within: &str) -> Option<String> {
    let mut homes: Vec<String> = Vec::new();
    for setting in SETTINGS {
        match setting.key.rsplit_once('.') {
            Some((table, last)) if last == key => homes.push(format!("[{table}]")),
            None if setting.key == key => homes.push("the top level, before all tables".to_owned()),
            _ => {}
        }
    }
    homes.extend(tables_with(key).into_iter().map(|table| format!("[[{table}]]")));
    let homes: Vec<&str> = homes.iter().map(String::as_str).collect();
    (!homes.is_empty()).then(|| format!("{key} is a key of {}, not of {within}", one_of(&homes)))
}

/// Returns the names of the repeated tables that have this key.
fn tables_with(key: &str) -> Vec<&'static str> {
    fn has<T>(fields: &[Field<T>], key: &str) -> bool {
        fields.iter().any(|field| field.key == key)
    }
    let all = [
        ("site", has(SITE, key)),
        ("access", has(ACCESS, key)),
        ("class", has(CLASS, key)),
        ("rule", has(RULE, key)),
        // Most of its keys a rule has as well.
        ("rule.responses", has(RESPONSE, key) && !has(RULE, key)),
        ("listener", has(LISTENER, key)),
        ("certificate", has(CERTIFICATE, key)),
        ("fleet.class", has(FLEET_CLASS, key)),
    ];
    all.into_iter().filter_map(|(table, has)| has.then_some(table)).collect()
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

#[cfg(test)]
mod tests;
