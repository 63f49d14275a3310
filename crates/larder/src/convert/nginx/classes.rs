//! `map`, `geo` and `split_clients` as `[[class]]` tables.

use std::collections::BTreeMap;
use std::rc::Rc;

use proxy::rules::classes::{Classes, Entries};
use proxy::rules::request_rules::PathTest;

use crate::convert::nginx::forwarded;
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::values::template_with;
use crate::convert::output::{Output, Table, list, text};
use crate::convert::rule_draft::Tests;

/// A table under construction. It has the name of the variable.
#[derive(Clone, Debug, Default)]
pub struct ClassDraft {
    name: String,
    of: String,
    values: Vec<String>,
    shares: Vec<String>,
    default: String,
    /// The value of each entry, and the default.
    given: Vec<String>,
    /// Value with variables in place of an empty one.
    otherwise: Option<String>,
}

/// The variables that have become classes.
#[derive(Debug, Default)]
pub struct ClassDrafts {
    all: BTreeMap<String, Rc<ClassDraft>>,
    /// Classes whose empty value stands for a text with variables.
    partial: BTreeMap<String, Rc<ClassDraft>>,
    /// Variables that are one text with variables for all requests.
    texts: BTreeMap<String, String>,
    /// In the order of the file.
    order: Vec<String>,
    /// The proxy's own tables, which check each draft.
    made: Classes,
}

impl ClassDrafts {
    /// Adds the class of a directive, if it can be one. The error is a sentence.
    pub fn add(&mut self, directive: &Directive) -> Result<(), String> {
        if directive.inner().iter().any(|one| one.name == "include") {
            return Err("a file of it is missing".to_owned());
        }
        let mut draft = match directive.name.as_str() {
            "map" => self.of_map(directive)?,
            "geo" => of_geo(directive)?,
            _ => self.of_shares(directive)?,
        };
        if let Some(text) = draft.otherwise.take_if(|_| draft.values.is_empty()) {
            self.texts.insert(draft.name, text);
            return Ok(());
        }
        if draft.of.is_empty() {
            return Err("its value is the same for all requests".to_owned());
        }
        let entries = match draft.shares.is_empty() {
            true => Entries::Values(&draft.values),
            false => Entries::Shares(&draft.shares),
        };
        let added = self.made.add(&draft.name, &draft.of, entries, &draft.default);
        added.map_err(|(_, why)| why)?;
        self.order.push(draft.name.clone());
        let made = if draft.otherwise.is_some() { &mut self.partial } else { &mut self.all };
        made.insert(draft.name.clone(), Rc::new(draft));
        Ok(())
    }

    /// Returns the class of a variable.
    pub fn get(&self, variable: &str) -> Option<&Rc<ClassDraft>> {
        self.all.get(variable)
    }

    /// Returns the class of a variable whose empty value stands for [`ClassDraft::otherwise`].
    pub fn partial(&self, variable: &str) -> Option<&Rc<ClassDraft>> {
        self.partial.get(variable)
    }

    /// Returns what stands for a variable in texts.
    pub fn text(&self, variable: &str) -> Option<String> {
        let text = || self.texts.get(variable).cloned();
        self.get(variable).map(|draft| draft.variable()).or_else(text)
    }

    /// Pushes the classes that the tables so far use, with those that these need.
    pub fn write(&self, out: &mut Output) {
        let mut used: Vec<&Rc<ClassDraft>> = Vec::new();
        for name in self.order.iter().rev() {
            let draft = self.all.get(name).or_else(|| self.partial.get(name));
            let Some(draft) = draft else { continue };
            let variable = format!("{{class.{name}}}");
            let is_part = used.iter().any(|other| other.of.contains(&variable));
            if is_part || out.mentions(&[&variable, &format!("\"{name}="), &format!("\"{name}\"")])
            {
                used.push(draft);
            }
        }
        used.iter().rev().for_each(|draft| out.push(draft.table()));
    }

    fn of_text(&self, of: &str) -> Result<String, String> {
        let made = template_with(of, "", &|name| self.text(name));
        made.ok_or_else(|| format!("{of} has a variable without an equivalent"))
    }

    fn of_map(&self, directive: &Directive) -> Result<ClassDraft, String> {
        let mut draft = ClassDraft::named(directive.arg(1));
        draft.of = self.of_text(directive.arg(0))?;
        let is_scheme = draft.of == "{scheme}"
            && directive.inner().iter().any(|one| {
                let is_default = one.name == "default" && one.arg(0).contains('$');
                is_default && self.of_text(one.arg(0)).is_ok_and(|text| text == "{scheme}")
            });
        let has_hosts = directive.inner().iter().any(|one| one.name == "hostnames");
        let (mut plain, mut wild, mut expressions) = (Vec::new(), Vec::new(), Vec::new());
        for entry in directive.inner() {
            let (key, value) = (entry.name.as_str(), entry.arg(0));
            match key {
                "hostnames" | "volatile" if entry.args.is_empty() => continue,
                "default" if value.contains('$') => {
                    let text = self.of_text(value)?;
                    if text.contains("{capture.") {
                        return Err("groups of an expression have no equivalent".to_owned());
                    }
                    draft.otherwise = Some(text);
                    continue;
                }
                "default" => {
                    draft.default = draft.value(value)?;
                    continue;
                }
                _ => {}
            }
            // What a proxy in front states is the scheme.
            if is_scheme && value.contains('$') && self.of_text(value)? == "{scheme}" {
                continue;
            }
            let value = draft.value(value)?;
            let is_wild = key.starts_with(['.', '*']) || key.ends_with(".*");
            if key.starts_with('~') {
                expressions.push(format!("{key} => {value}"));
            } else if has_hosts && is_wild {
                if let Some(name) = key.strip_prefix('.') {
                    plain.push(entry_of(name, &value));
                }
                wild.push((key.trim_start_matches('*').to_owned(), value));
            } else {
                plain.push(entry_of(key.strip_prefix('\\').unwrap_or(key), &value));
            }
        }
        if draft.otherwise.is_some() && draft.given.iter().any(String::is_empty) {
            return Err("an empty value and one with variables have no equivalent".to_owned());
        }
        // Of names with a star at the beginning the longest comes first, then those at the end.
        wild.sort_by_key(|(key, _)| (key.ends_with('*'), std::cmp::Reverse(key.len())));
        let wild = wild.into_iter().map(|(key, value)| match key.ends_with('*') {
            true => format!("{key} => {value}"),
            false => format!("*{key} => {value}"),
        });
        draft.values = plain.into_iter().chain(wild).chain(expressions).collect();
        Ok(draft.settled())
    }

    fn of_shares(&self, directive: &Directive) -> Result<ClassDraft, String> {
        let mut draft = ClassDraft::named(directive.arg(1));
        draft.of = self.of_text(directive.arg(0))?;
        for entry in directive.inner() {
            let value = draft.value(entry.arg(0))?;
            match entry.name.as_str() {
                "*" => draft.default = value,
                share => draft.shares.push(format!("{share} => {value}")),
            }
        }
        Ok(draft.settled())
    }
}

fn of_geo(directive: &Directive) -> Result<ClassDraft, String> {
    let (of, name) = match directive.args.as_slice() {
        [name] => ("$remote_addr", name),
        [of, name] => (of.as_str(), name),
        _ => return Err("expected a variable".to_owned()),
    };
    if of != "$remote_addr" {
        return Err(format!("networks are those of the client, not of {of}"));
    }
    let mut draft = ClassDraft::named(name);
    draft.of = "{client_ip}".to_owned();
    for entry in directive.inner() {
        match entry.name.as_str() {
            word @ ("ranges" | "delete" | "proxy" | "proxy_recursive") => {
                return Err(format!("{word} has no equivalent"));
            }
            "default" => draft.default = draft.value(entry.arg(0))?,
            network => {
                let value = draft.value(entry.arg(0))?;
                draft.values.push(format!("{network} => {value}"));
            }
        }
    }
    Ok(draft.settled())
}

/// Returns the entry of a text, which is no pattern.
fn entry_of(text: &str, value: &str) -> String {
    let is_odd = text.contains('*') || text.starts_with(['@', '~']) || text.trim() != text;
    if !is_odd {
        return format!("{text} => {value}");
    }
    let mut expression = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() || !c.is_ascii() {
            true => expression.push(c),
            false => expression.push_str(&format!("\\x{:02X}", u32::from(c))),
        }
    }
    format!("~*^{expression}$ => {value}")
}

impl ClassDraft {
    fn named(variable: &str) -> ClassDraft {
        let name = variable.trim_start_matches('$').to_owned();
        ClassDraft { name, ..ClassDraft::default() }
    }

    /// Notes a value.
    fn value(&mut self, value: &str) -> Result<String, String> {
        if value.contains('$') {
            return Err("a value with variables has no equivalent".to_owned());
        }
        if value.contains("=>") || value.trim() != value {
            return Err(format!("the value {value:?} has no equivalent"));
        }
        self.given.push(value.to_owned());
        Ok(value.to_owned())
    }

    fn settled(mut self) -> ClassDraft {
        self.given.push(self.default.clone());
        self.given.sort();
        self.given.dedup();
        self
    }

    /// Returns the name of the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text with variables for which the empty value stands.
    pub fn otherwise(&self) -> Option<&String> {
        self.otherwise.as_ref()
    }

    /// Returns the values that the class can have.
    pub fn possible_values(&self) -> &[String] {
        &self.given
    }

    /// Returns the variable of the class in texts.
    pub fn variable(&self) -> String {
        format!("{{class.{}}}", self.name)
    }

    /// Returns the alternatives in which the value is neither empty nor 0.
    pub fn truth(&self) -> Result<Vec<Tests>, String> {
        let is_false = |value: &str| matches!(value, "" | "0");
        let count = self.given.iter().filter(|value| is_false(value)).count();
        match count {
            0 => Ok(vec![Tests::default()]),
            count if count == self.given.len() => Ok(Vec::new()),
            _ => self.where_value(true, is_false).map(|test| vec![test]),
        }
    }

    /// Returns the condition of a comparison.
    pub fn compare(&self, operator: &str, value: &str) -> Result<Tests, String> {
        let is_not = operator.starts_with('!');
        let expression = match operator.trim_start_matches('!') {
            "~" => Some(value.to_owned()),
            "~*" => Some(format!("(?i){value}")),
            _ => None,
        };
        match expression {
            None => self.where_value(is_not, |known| known == value),
            Some(text) => {
                let regex = PathTest::parse(&format!("~{text}"), false);
                let regex = regex.map_err(|_| "the expression is not supported")?;
                self.where_value(is_not, |known| regex.matches(known.as_bytes()))
            }
        }
    }

    /// Returns the condition that the value is one of those (or `is_not` one) that fit.
    fn where_value(&self, is_not: bool, fits: impl Fn(&str) -> bool) -> Result<Tests, String> {
        if ["{path}", "{uri}"].iter().any(|name| self.of.contains(name)) {
            return Err("a class sees one reading of the path".to_owned());
        }
        if forwarded::has_removed(&self.of) {
            return Err(format!("a field of ${} {}", self.name, forwarded::REASON));
        }
        let all = self.given.iter().filter(|value| fits(value));
        let all: Vec<String> = all.map(|value| format!("{}={value}", self.name)).collect();
        let key = if is_not { "not-classes" } else { "classes" };
        match all.is_empty() {
            true => Err(format!("${} never has such a value", self.name)),
            false => Ok(Tests(vec![(key.to_owned(), all)])),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new("class");
        table.set("name", text(&self.name));
        table.set("of", text(&self.of));
        for (key, entries) in [("values", &self.values), ("shares", &self.shares)] {
            if !entries.is_empty() {
                table.set(key, list(entries));
            }
        }
        if !self.default.is_empty() {
            table.set("default", text(&self.default));
        }
        table
    }
}
