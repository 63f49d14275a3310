//! The converted configuration: settings and tables with the losses at their places, written as
//! TOML and checked as `larder check-config` checks a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use crate::config::file::{CONDITIONS, File};
use crate::config::layers::{Layer, Place, Problems};
use crate::config::loaded::Loaded;
use crate::convert::source::At;

/// A directive that was not taken over, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub at: At,
    pub directive: String,
    pub reason: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { at, directive, reason } = self;
        write!(f, "{}:{}: {directive}: {reason}", at.file, at.line)
    }
}

/// A table such as `[[rule]]`, with comments in front.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub kind: &'static str,
    pub comments: Vec<String>,
    /// Keys and their values as TOML.
    pub keys: Vec<(String, String)>,
    /// It is written as a comment.
    is_refused: bool,
}

impl Table {
    pub fn new(kind: &'static str) -> Table {
        Table { kind, ..Table::default() }
    }

    /// Sets a key to a value in TOML, in place of an earlier one.
    pub fn set(&mut self, key: &str, value: String) {
        match self.keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    fn write(&self, out: &mut String) {
        self.comments.iter().for_each(|text| comment(out, text));
        let mark = if self.is_refused { "#" } else { "" };
        let _ = writeln!(out, "{mark}[[{}]]", self.kind);
        for (key, value) in &self.keys {
            let _ = writeln!(out, "{mark}{key} = {value}");
        }
        out.push('\n');
    }

    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
    }

    /// Takes out a key that the check refused, so that the table does not let more pass: a test
    /// of a rule that keeps requests out is dropped, another such rule bypasses the cache, a rule
    /// whose action is lost answers with 501, a denial denies all, and a site has no server.
    fn mend(&mut self, key: &str) {
        let removed = self.keys.iter().position(|(known, _)| known == key);
        let removed = removed.map(|at| self.keys.remove(at));
        if let Some((key, value)) = &removed {
            self.comments.push(plain(&format!("{key} = {value}")));
        }
        let is_test = is_condition(key);
        match self.kind {
            _ if removed.is_none() => self.is_refused = true,
            "rule" if is_test && self.keeps_out() => {}
            "rule" if is_test => self.reduce("bypass", "true"),
            "rule" if FOR_CLIENTS.contains(&key) => {}
            "rule" if self.has("then") && !ACTIONS.contains(&key) => self.reduce("bypass", "true"),
            "rule" => self.reduce("respond", "\"501 Not converted\""),
            "access" if self.keys.iter().any(|(_, value)| value == "\"deny\"") => {
                self.keys.retain(|(key, _)| key == "action");
            }
            "site" if matches!(key, "upstream" | "root") => {
                self.set("upstream", list(&[NOWHERE]));
            }
            _ => self.is_refused = true,
        }
    }

    /// Leaves the conditions of a rule, and one action.
    fn reduce(&mut self, key: &str, value: &str) {
        self.keys.retain(|(key, _)| is_condition(key));
        if key == "bypass" {
            self.set("then", text("continue"));
        }
        self.set(key, value.to_owned());
    }

    fn keeps_out(&self) -> bool {
        self.keys.iter().any(|(key, value)| match key.as_str() {
            "bypass" | "deny" => value == "true",
            "store" => value == "false",
            "respond" => value.trim_start_matches(['"', '\'']).starts_with(['4', '5']),
            _ => false,
        })
    }
}

/// A server that does not answer.
pub const NOWHERE: &str = "http://127.0.0.1:9";

/// Keys of a rule that change what clients get, and nothing else.
const FOR_CLIENTS: [&str; 5] = ["client-set", "client-remove", "hide", "log-percent", "compress"];

/// Keys of a rule that decide who answers a request, and what is asked.
const ACTIONS: [&str; 11] = [
    "deny",
    "redirect",
    "respond",
    "allow-methods",
    "upstream",
    "set-path",
    "set-host",
    "set-query",
    "remove-prefix",
    "add-prefix",
    "remove-query",
];

/// Returns whether a key of a rule says which requests it is for, or what it is called.
fn is_condition(key: &str) -> bool {
    let key = key.trim_start_matches("not-");
    ["name", "any"].contains(&key) || CONDITIONS.contains(&key)
}

/// The converted configuration.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Settings by key, with a dot behind the table's name.
    settings: BTreeMap<String, String>,
    tables: Vec<Table>,
    losses: Vec<Loss>,
    /// Comments for the next table.
    pending: Vec<String>,
    /// Comments at the beginning.
    first: Vec<String>,
    /// Names of rules and sites in use.
    names: BTreeSet<(&'static str, String)>,
}

/// Most rounds of mending what the check refuses.
const ROUNDS_MAX: usize = 40;

/// Order of the tables in the file.
const ORDER: [&str; 6] = ["certificate", "listener", "site", "access", "class", "rule"];

impl Output {
    /// Sets a setting to a value in TOML.
    pub fn set(&mut self, key: &str, value: String) {
        self.settings.insert(key.to_owned(), value);
    }

    pub fn get(&self, key: &str) -> Option<&String> {
        self.settings.get(key)
    }

    /// Adds a table behind those of its kind, with the comments of the losses since the last one.
    pub fn push(&mut self, mut table: Table) {
        table.comments.append(&mut self.pending);
        self.tables.push(table);
    }

    /// Returns the name of a table that differs from this one in its name only.
    pub fn known(&self, table: &Table) -> Option<&str> {
        let keys = |of: &Table| {
            of.keys.iter().filter(|(key, _)| key != "name").cloned().collect::<Vec<_>>()
        };
        let same =
            self.tables.iter().find(|one| one.kind == table.kind && keys(one) == keys(table));
        let name = same?.keys.iter().find(|(key, _)| key == "name");
        name.map(|(_, value)| value.as_str())
    }

    /// Records a loss; its comment stands before the next table.
    pub fn lose(&mut self, at: &At, directive: &str, reason: &str) {
        let loss =
            Loss { at: at.clone(), directive: plain(directive), reason: reason.trim().to_owned() };
        if !self.losses.contains(&loss) {
            self.pending.push(format!("not converted: {loss}"));
            self.losses.push(loss);
        }
    }

    /// Records a loss that is the same for other directives, unless it was recorded for one.
    pub fn lose_once(&mut self, at: &At, directive: &str, reason: &str) {
        let is_same = |loss: &Loss| loss.reason == reason.trim() && loss.directive == directive;
        if !self.losses.iter().any(is_same) {
            self.lose(at, directive, reason);
        }
    }

    /// Writes a comment before the next table about what is otherwise there, and no loss.
    pub fn note(&mut self, at: &At, directive: &str, text: &str) {
        let note = format!("{}:{}: {}: {text}", at.file, at.line, plain(directive));
        if !self.pending.contains(&note) {
            self.pending.push(note);
        }
    }

    /// Returns whether a value of a table has one of these texts.
    pub fn mentions(&self, texts: &[&str]) -> bool {
        let mut values = self.tables.iter().flat_map(|table| &table.keys);
        values.any(|(_, value)| texts.iter().any(|text| value.contains(text)))
    }

    /// Moves the comments of the losses so far to the beginning of the file.
    pub fn settle(&mut self) {
        self.first.append(&mut self.pending);
    }

    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Returns a name that no other table of this kind has.
    pub fn unique(&mut self, kind: &'static str, name: &str) -> String {
        let name: String = plain(name).chars().take(80).collect();
        let mut number = 1;
        loop {
            let tried = if number == 1 { name.clone() } else { format!("{name} ({number})") };
            if self.names.insert((kind, tried.clone())) {
                return tried;
            }
            number += 1;
        }
    }

    /// Returns the file. Tables that the check refuses are losses.
    ///
    /// # Errors
    ///
    /// The problems that remain.
    pub fn finish(&mut self) -> Result<String, String> {
        self.settle();
        self.tables.sort_by_key(|table| ORDER.iter().position(|kind| *kind == table.kind));
        // Each round takes a key out of each refused table.
        for _ in 0..ROUNDS_MAX {
            let (text, lines) = self.write();
            let Err(problems) = check(&text) else { return Ok(text) };
            let (mut found, mut is_changed) = (Vec::<(usize, String, String)>::new(), false);
            for problem in &problems.list {
                if self.settings.remove(&problem.key).is_some() {
                    is_changed = true;
                    if matches!(problem.key.as_str(), "reverse" | "static") {
                        self.set("reverse", self::text(NOWHERE));
                    }
                    self.refused(&problem.key, &problem.text);
                    continue;
                }
                let Place::File(place) = &problem.place else { continue };
                let table = lines.partition_point(|line| *line <= place.line);
                let Some(table) = table.checked_sub(1) else { continue };
                if !self.tables[table].is_refused
                    && !found.iter().any(|(known, ..)| *known == table)
                {
                    let key = problem.key.split('.').nth(1).unwrap_or_default().to_owned();
                    found.push((table, key, format!("{}: {}", problem.key, problem.text)));
                }
            }
            if found.is_empty() && !is_changed {
                return Err(problems.to_string());
            }
            for (table, key, why) in found {
                let at = At { file: "the result".into(), line: lines[table] };
                let kind = format!("[[{}]]", self.tables[table].kind);
                self.losses.push(Loss { at, directive: kind, reason: why.clone() });
                let text = format!("not valid: {}", plain(&why));
                self.tables[table].comments.push(text);
                self.tables[table].mend(&key);
            }
        }
        Err("the result is not valid".to_owned())
    }

    /// Records a setting that the check refused.
    fn refused(&mut self, key: &str, why: &str) {
        let at = At { file: "the result".into(), line: 1 };
        let loss = Loss { at, directive: key.to_owned(), reason: plain(why) };
        self.first.push(format!("not converted: {loss}"));
        self.losses.push(loss);
    }

    /// Returns the text, and the line at which each table begins.
    fn write(&self) -> (String, Vec<usize>) {
        let mut text = String::new();
        self.first.iter().for_each(|line| comment(&mut text, line));
        let (inner, outer): (Vec<_>, Vec<_>) =
            self.settings.iter().partition(|(key, _)| key.contains('.'));
        for (key, value) in outer {
            let _ = writeln!(text, "{key} = {value}");
        }
        let mut section = "";
        for (key, value) in inner {
            let (table, key) = key.split_once('.').unwrap_or(("", key));
            if table != section {
                let _ = writeln!(text, "\n[{table}]");
                section = table;
            }
            let _ = writeln!(text, "{key} = {value}");
        }
        text.push('\n');
        let (mut lines, mut line) = (Vec::new(), text.matches('\n').count() + 1);
        for table in &self.tables {
            lines.push(line);
            let mut one = String::new();
            table.write(&mut one);
            line += one.matches('\n').count();
            text.push_str(&one);
        }
        (text, lines)
    }
}

/// Checks a text as a configuration file, without looking at this machine. Text of another
/// configuration must not name variables of the environment.
fn check(text: &str) -> Result<(), Problems> {
    let name = "larder.toml";
    // The files of pages and users are on another machine.
    let of_files = ["error-page = ", "basic-auth = ", "realm = "];
    let is_checked = |line: &&str| !of_files.iter().any(|key| line.starts_with(key));
    let text: Vec<&str> =
        text.lines().map(|line| Some(line).filter(is_checked).unwrap_or("#")).collect();
    let file = File::parse(name, &text.join("\n").replace(HOSTNAME, "a").replace("{env:", "{?:"))?;
    Loaded::build(&file, &Layer::new())?;
    Ok(())
}

/// The name of the machine in values.
pub const HOSTNAME: &str = "{env:HOSTNAME:larder}";

/// Returns a text as a TOML string. Any other `{env:NAME}` is none of a variable of ours, so
/// it is broken up.
pub fn text(text: &str) -> String {
    let parts = text.split(HOSTNAME).map(|part| part.replace("{env:", "{ env:"));
    let safe = parts.collect::<Vec<_>>().join(HOSTNAME).replace('\0', "");
    if !safe.contains(char::is_control) {
        return toml::Value::String(safe).to_string();
    }
    let mut quoted = String::from("\"");
    for c in safe.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns texts as a TOML list.
pub fn list<T: AsRef<str>>(texts: &[T]) -> String {
    let all: Vec<String> = texts.iter().map(|one| text(one.as_ref())).collect();
    format!("[{}]", all.join(", "))
}

fn comment(out: &mut String, text: &str) {
    let _ = writeln!(out, "# {}", plain(text));
}

/// Returns a text in one line of bounded length.
fn plain(text: &str) -> String {
    let is_odd = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let mut short: String =
        text.chars().take(400).map(|c| if is_odd(c) { ' ' } else { c }).collect();
    if text.chars().nth(400).is_some() {
        short.push('…');
    }
    short
}
