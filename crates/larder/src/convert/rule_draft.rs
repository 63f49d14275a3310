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
                Some((_, old)) if key == "headers" || key.starts_with("not-") => {
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
            "headers" => values.iter().any(|one| values.contains(&format!("!{one}"))),
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

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.lists.is_empty()
    }

    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
            || self.lists.iter().any(|(known, _)| known == key)
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
        out.push(table);
    }
}
