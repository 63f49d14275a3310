//! One `[[class]]`: a table from values of a request to words. Its keys, and their translation for
//! the proxy.

use proxy::rules::classes::{Classes, Entries};

use crate::config::rule_condition::Wrong;

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Class {
    pub name: String,
    pub of: String,
    pub values: Vec<String>,
    pub shares: Vec<String>,
    pub default: String,
}

impl Class {
    /// Adds the class to those before it.
    pub fn add_to(&self, classes: &mut Classes) -> Result<(), Wrong> {
        let entries = match (self.values.is_empty(), self.shares.is_empty()) {
            (true, false) => Entries::Shares(&self.shares),
            (false, false) => {
                return Err(("shares", "expected either values or shares".to_owned()));
            }
            (_, true) => Entries::Values(&self.values),
        };
        classes.add(&self.name, &self.of, entries, &self.default)
    }
}
