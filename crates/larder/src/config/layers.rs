//! What the file and the flags say, each value with the place that it came from, and the problems
//! found in them.

use std::collections::BTreeMap;
use std::fmt;

use proxy::rules::access::Rule;

use crate::config::configuration::Site;
use crate::config::listener::{Certificate, Listener};
use crate::config::request_rule::RequestRule;
use crate::config::value::Value;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the command line, as the flag of the setting's name.
    Flag,
    /// In a file, at a line counted from 1.
    Line(usize),
}

/// Something wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// The key that it is about; empty when it is about the file as a whole.
    pub key: String,
    /// What is wrong and what was expected.
    pub text: String,
}

/// A value and where it was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// The value.
    pub value: Value,
    /// Where.
    pub place: Place,
}

/// Values by key: what one layer says.
pub type Layer = BTreeMap<&'static str, Given>;

/// What a file says: settings and repeated tables, these with the lines where they begin where that
/// is needed.
#[derive(Clone, Debug, Default)]
pub struct FileLayer {
    /// The settings.
    pub settings: Layer,
    /// The `[[site]]` tables.
    pub sites: Vec<(Site, usize)>,
    /// The `[[access]]` tables.
    pub access: Vec<Rule>,
    /// The `[[rule]]` tables.
    pub rules: Vec<(RequestRule, usize)>,
    /// The `[[listener]]` tables.
    pub listeners: Vec<(Listener, usize)>,
    /// The `[[certificate]]` tables.
    pub certificates: Vec<(Certificate, usize)>,
}

/// All problems found, ready to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The name of the file.
    pub file: String,
    /// What is wrong.
    pub list: Vec<Problem>,
}

/// Says which setting of a layer a person probably meant by `key`: within a third of its length.
pub fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &&str| strsim::osa_distance(key, name);
    names.min_by_key(distance).filter(|name| distance(name) <= name.len().max(3) / 3)
}

impl Problems {
    /// Problems of the command line alone.
    pub fn of_flags(list: Vec<Problem>) -> Problems {
        Problems { file: String::new(), list }
    }
}

impl fmt::Display for Problems {
    /// One line per problem: `larder.toml:12: cache-size: expected …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { place, key, text }) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            match place {
                Place::Flag => write!(f, "--{key}: {text}")?,
                Place::Line(line) if key.is_empty() => write!(f, "{}:{line}: {text}", self.file)?,
                Place::Line(line) => write!(f, "{}:{line}: {key}: {text}", self.file)?,
            }
        }
        Ok(())
    }
}
