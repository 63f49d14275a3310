//! A `[[rule]]` under construction: its conditions and its keys.

use crate::convert::output::{Output, Table, list, text};

/// Lists of a condition by key; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tests(pub Vec<(String, Vec<String>)>);

impl Tests {
    /// Returns a condition of one list.
    pub fn one(key: &str, value: impl Into<String>) -> Tests {
        Tests(vec![(key.to_owned(), vec![value.into()])])
    }

    pub fn get(&self, key: &str) -> Option<&Vec<String>> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, values)| values)
    }

    /// Adds values to a list.
    pub fn add(&mut self, key: &str, values: impl IntoIterator<Item = String>) {
        let values: Vec<String> = values.into_iter().collect();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => old.extend(values),
            None if values.is_empty() => {}
            None => self.0.push((key.to_owned(), values)),
        }
    }

    /// Returns both conditions together; `None` if both have a list of the same kind of which one
    /// value may match, which a rule cannot state.
    pub fn and(&self, other: &Tests) -> Option<Tests> {
        let mut all = self.clone();
        for (key, values) in &other.0 {
            match all.0.iter_mut().find(|(known, _)| known == key) {
                Some((_, old)) if old == values => {}
                // All tests of `headers` must hold, and none of `not-…` may.
                Some((_, old)) if is_headers(key) || key.starts_with("not-") => {
                    let new: Vec<_> = values.iter().filter(|one| !old.contains(one)).collect();
                    let new: Vec<String> = new.into_iter().cloned().collect();
                    old.extend(new);
                }
                Some((_, old)) if key == "methods" => *old = methods_of_both(old, values),
                Some(_) => return None,
                None => all.0.push((key.clone(), values.clone())),
            }
        }
        Some(all)
    }

    /// Returns whether no request can meet the condition: it asks for a test and its opposite.
    pub fn is_never(&self) -> bool {
        self.0.iter().any(|(key, values)| match key.as_str() {
            _ if values.is_empty() => true,
            key if is_headers(key) => values.iter().any(|one| values.contains(&format!("!{one}"))),
            key => {
                let not = self.get(&format!("not-{key}"));
                not.is_some_and(|not| values.iter().all(|one| not.contains(one)))
            }
        })
    }

    /// Returns whether a list of methods has GET and not HEAD, which GET includes in a rule.
    pub fn adds_head(&self) -> bool {
        let has = |values: &[String], name: &str| values.iter().any(|one| one == name);
        let keys = ["methods", "not-methods"];
        let lists = keys.iter().filter_map(|key| self.get(key));
        lists.into_iter().any(|values| has(values, "GET") && !has(values, "HEAD"))
    }

    fn inline(&self) -> String {
        let all = self.0.iter().map(|(key, values)| format!("{key} = {}", list(values)));
        format!("{{ {} }}", all.collect::<Vec<_>>().join(", "))
    }
}

/// Returns whether a key has tests of fields.
pub fn is_headers(key: &str) -> bool {
    key == "headers" || key == RESPONSE_HEADERS
}

/// Beginning of the keys of tests of responses, which become an entry of `responses`.
const OF_RESPONSE: &str = "responses.";

/// Key of tests of a response's fields.
pub const RESPONSE_HEADERS: &str = "responses.headers";

/// Keys that an entry of `responses` may have.
const IN_ENTRY: [&str; 7] =
    ["ttl", "default-ttl", "store", "answer-set", "answer-remove", "client-set", "client-remove"];

impl Tests {
    /// Returns whether there are tests of responses other than of their status.
    pub fn is_of_response(&self) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with(OF_RESPONSE))
    }
}

/// Returns the methods of both lists; GET includes HEAD.
fn methods_of_both(one: &[String], other: &[String]) -> Vec<String> {
    let has = |list: &[String], name: &String| {
        list.contains(name) || (name == "HEAD" && list.iter().any(|known| known == "GET"))
    };
    let mut both: Vec<String> = one.iter().filter(|name| has(other, name)).cloned().collect();
    both.extend(other.iter().filter(|name| !one.contains(name) && has(one, name)).cloned());
    both
}

/// A rule under construction.
#[derive(Clone, Debug, Default)]
pub struct RuleDraft {
    pub name: String,
    pub when: Tests,
    /// Alternatives of which one must hold; none: no such condition.
    pub any: Vec<Tests>,
    pub continues: bool,
    /// Keys and their values as TOML.
    pub keys: Vec<(String, String)>,
    lists: Vec<(String, Vec<String>)>,
    /// Entries of `responses`: conditions as TOML, and fields for clients.
    entries: Vec<(String, Vec<String>)>,
}

impl RuleDraft {
    pub fn new(name: &str, when: &Tests) -> RuleDraft {
        RuleDraft { name: name.to_owned(), when: when.clone(), ..RuleDraft::default() }
    }

    /// Sets a key to a value in TOML.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// Adds a text to a list.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.lists.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) if old.contains(&value) => {}
            Some((_, old)) => old.push(value),
            None => self.lists.push((key.to_owned(), vec![value])),
        }
    }

    /// Sets a field for clients of the responses that meet conditions, written as TOML.
    pub fn client_set_if(&mut self, conditions: &str, field: &str) {
        match self.entries.iter_mut().find(|(known, _)| known == conditions) {
            Some((_, fields)) => fields.push(field.to_owned()),
            None => self.entries.push((conditions.to_owned(), vec![field.to_owned()])),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.lists.is_empty() && self.entries.is_empty()
    }

    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
            || self.lists.iter().any(|(known, _)| known == key)
    }

    /// Returns whether an entry of `responses` can have all keys.
    pub fn fits_entry(&self) -> bool {
        let keys =
            self.keys.iter().map(|(key, _)| key).chain(self.lists.iter().map(|(key, _)| key));
        keys.into_iter().all(|key| key == "statuses" || IN_ENTRY.contains(&key.as_str()))
    }

    /// Moves the keys into an entry of `responses` with the tests of responses in `when`, and these
    /// statuses.
    pub fn make_entry(&mut self, when: &Tests, statuses: Option<&Vec<String>>) {
        let mut parts: Vec<String> =
            statuses.iter().map(|statuses| format!("statuses = {}", list(statuses))).collect();
        for (key, values) in &when.0 {
            match key.strip_prefix(OF_RESPONSE) {
                Some("headers") => parts.push(format!("headers = {}", list(values))),
                Some(key) => parts.push(format!("{key} = {}", values.join(""))),
                None => {}
            }
        }
        let lists = self.lists.drain(..).map(|(key, values)| (key, list(&values)));
        let all: Vec<(String, String)> = self.keys.drain(..).chain(lists).collect();
        let all = all.into_iter().filter(|(key, _)| key != "statuses");
        parts.extend(all.map(|(key, value)| format!("{key} = {value}")));
        self.set("responses", format!("[{{ {} }}]", parts.join(", ")));
    }

    /// Adds the rule to the output.
    pub fn push(self, out: &mut Output) {
        let mut table = Table::new("rule");
        table.set("name", text(&out.unique("rule", &self.name)));
        for (key, values) in &self.when.0 {
            table.set(key, list(values));
        }
        match self.any.as_slice() {
            [] => {}
            [one] if one.0.iter().all(|(key, _)| self.when.get(key).is_none()) => {
                one.0.iter().for_each(|(key, values)| table.set(key, list(values)));
            }
            any => {
                let any: Vec<String> = any.iter().map(Tests::inline).collect();
                table.set("any", format!("[{}]", any.join(", ")));
            }
        }
        if self.continues {
            table.set("then", text("continue"));
        }
        self.keys.into_iter().for_each(|(key, value)| table.set(&key, value));
        self.lists.iter().for_each(|(key, values)| table.set(key, list(values)));
        let entry = |(conditions, fields): &(String, Vec<String>)| {
            format!("{{ {conditions}, client-set = {} }}", list(fields))
        };
        if !self.entries.is_empty() {
            let all: Vec<String> = self.entries.iter().map(entry).collect();
            table.set("responses", format!("[{}]", all.join(", ")));
        }
        out.push(table);
    }
}
