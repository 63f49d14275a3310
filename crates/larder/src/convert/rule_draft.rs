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
                Some((_, old))
                    if is_headers(key) || key.starts_with("not-") || key == NOT_STATUSES =>
                {
                    let new: Vec<_> = values.iter().filter(|one| !old.contains(one)).collect();
                    let new: Vec<String> = new.into_iter().cloned().collect();
                    old.extend(new);
                }
                // All queries are no condition beside another.
                Some(_) if key == "query" && *values == ["*"] => {}
                Some((_, old)) if key == "query" && *old == ["*"] => old.clone_from(values),
                Some((_, old)) if key == "methods" => *old = methods_of_both(old, values),
                Some((_, old)) if key == "statuses" => *old = statuses_of_both(old, values),
                Some(_) => return None,
                None => all.0.push((key.clone(), values.clone())),
            }
        }
        Some(all)
    }

    /// Returns both conditions together; the second list of a kind becomes an alternative of `any`,
    /// which holds beside the first.
    pub fn and_also(&self, other: &Tests) -> Option<Tests> {
        self.and(other).or_else(|| {
            let also = |(key, values): &(String, Vec<String>)| {
                let is_second = self.get(key).is_some_and(|old| old != values)
                    && !is_headers(key)
                    && !key.contains(['-', '.']);
                let key = if is_second { format!("{ALSO}{key}") } else { key.clone() };
                (key, values.clone())
            };
            self.and(&Tests(other.0.iter().map(also).collect()))
        })
    }

    /// Returns whether no request can meet both conditions: one asks for what the other excludes.
    pub fn excludes(&self, other: &Tests) -> bool {
        let excludes = |one: &Tests, other: &Tests| {
            one.0.iter().any(|(key, values)| {
                let not = match key.as_str() {
                    "statuses" => other.get(NOT_STATUSES),
                    key => other.get(&format!("not-{}", key.trim_start_matches(ALSO))),
                };
                not.is_some_and(|not| values.iter().all(|one| not.contains(one)))
            })
        };
        excludes(self, other) || excludes(other, self)
    }

    /// Returns one condition for the requests of both, if they differ in one list only of which one
    /// value has to match.
    pub fn or(&self, other: &Tests) -> Option<Tests> {
        let is_same = |(key, values): &&(String, Vec<String>)| other.get(key) == Some(values);
        let mut differing = self.0.iter().filter(|one| !is_same(one));
        let (Some((key, _)), None) = (differing.next(), differing.next()) else { return None };
        let more = other.get(key)?;
        if self.0.len() != other.0.len()
            || is_headers(key)
            || key.starts_with("not-")
            || key == NOT_STATUSES
        {
            return None;
        }
        let mut all = self.clone();
        let (_, old) = all.0.iter_mut().find(|(known, _)| known == key)?;
        let new: Vec<String> = more.iter().filter(|one| !old.contains(one)).cloned().collect();
        old.extend(new);
        Some(all)
    }

    /// Returns whether no request can meet the condition: it asks for a test and its opposite.
    pub fn is_never(&self) -> bool {
        self.0.iter().any(|(key, values)| match key.as_str() {
            _ if values.is_empty() => true,
            key if is_headers(key) => values.iter().any(|one| values.contains(&format!("!{one}"))),
            key => {
                let not = self.get(&format!("not-{}", key.trim_start_matches(ALSO)));
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

/// Beginning of the key of a second list of one kind.
pub const ALSO: &str = "also.";

/// Key of the statuses that a response must not have.
pub const NOT_STATUSES: &str = "responses.not-statuses";

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

/// Returns the statuses of both lists; one such as `4xx` includes those of its class.
fn statuses_of_both(one: &[String], other: &[String]) -> Vec<String> {
    let has = |list: &[String], status: &String| {
        let of_class = |class: &str| status.starts_with(class);
        list.iter().any(|known| known == status || known.strip_suffix("xx").is_some_and(of_class))
    };
    let mut both: Vec<String> = one.iter().filter(|one| has(other, one)).cloned().collect();
    both.extend(other.iter().filter(|status| !one.contains(status) && has(one, status)).cloned());
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
                Some(key @ ("headers" | "not-statuses")) => {
                    parts.push(format!("{key} = {}", list(values)));
                }
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
        let is_second = |(key, _): &&(String, Vec<String>)| key.starts_with(ALSO);
        self.when.0.iter().filter(|one| !is_second(one)).for_each(|(key, values)| {
            table.set(key, list(values));
        });
        let second = self.when.0.iter().filter(is_second);
        let second = second.map(|(key, of)| (key.replacen(ALSO, "", 1), of.clone()));
        let second = Tests(second.collect());
        if !second.0.is_empty() {
            table.set("any", format!("[{}]", second.inline()));
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
