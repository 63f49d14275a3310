//! The values of the file and of the flags, each with its place, and the problems found in them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use proxy::rules::access::Rule;

use crate::config::class::Class;
use crate::config::configuration::Site;
use crate::config::listener::{Certificate, Listener};
use crate::config::request_rule::RequestRule;
use crate::config::settings::find;
use crate::config::sources::Sources;
use crate::config::value::{Value, alone};

/// A line of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the file as messages print it.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: usize,
}

impl Location {
    /// Returns how a message about `other` names this location: `line 7` within the same file,
    /// else `sites/a.toml:7`.
    pub fn seen_from(&self, other: &Location) -> String {
        match self.file == other.file {
            true => format!("line {}", self.line),
            false => self.to_string(),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the command line, as the flag of the setting.
    Flag,
    /// In the environment, as the variable of the setting.
    Variable,
    File(Location),
    /// Nowhere: the problem is not one of a line, or no value was given.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    /// The key concerned; empty if the problem concerns the file as a whole.
    pub key: String,
    /// The problem and the expected value.
    pub text: String,
}

#[derive(Clone, Debug)]
pub struct Given {
    pub value: Value,
    pub place: Place,
}

/// The values of one layer, by key.
pub type Layer = BTreeMap<&'static str, Given>;

/// The values of a file and of those that it includes: settings and repeated tables, the tables
/// with their locations if needed.
#[derive(Clone, Debug, Default)]
pub struct FileLayer {
    pub settings: Layer,
    pub sites: Vec<(Site, Location)>,
    pub access: Vec<Rule>,
    pub rules: Vec<(RequestRule, Location)>,
    pub listeners: Vec<(Listener, Location)>,
    pub certificates: Vec<(Certificate, Location)>,
    pub classes: Vec<(Class, Location)>,
    pub fleet_classes: Vec<(fleet::class::Class, Location)>,
    pub sources: Sources,
}

/// All problems found, ready to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    pub list: Vec<Problem>,
}

/// Returns the name that was probably meant by `key`: one within an edit distance of a third of its
/// length.
pub fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &&str| strsim::osa_distance(key, name);
    names.min_by_key(distance).filter(|name| distance(name) <= name.len().max(3) / 3)
}

/// The beginning of the environment variables of settings.
pub const VARIABLE_PREFIX: &str = "LARDER_";

/// Returns the name of the variable of a setting.
pub fn variable(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace(['.', '-'], "_").to_ascii_uppercase())
}

fn flag_of(key: &str) -> &str {
    find(key).and_then(|setting| setting.flag).unwrap_or(key)
}

impl fmt::Display for Problems {
    /// Writes one line per problem: `larder.toml:12: cache-size: expected …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { place, key, text }) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            match place {
                Place::Flag => write!(f, "--{}: {text}", flag_of(key))?,
                Place::Variable => write!(f, "{}: {text}", variable(key))?,
                Place::File(location) if key.is_empty() => write!(f, "{location}: {text}")?,
                Place::File(location) => write!(f, "{location}: {key}: {text}")?,
                Place::Unknown => write!(f, "{key}: {text}")?,
            }
        }
        Ok(())
    }
}

/// Parses the values of one flag into `layer`.
pub fn add_flag(layer: &mut Layer, key: &'static str, texts: &[String]) -> Result<(), Problem> {
    if texts.is_empty() { Ok(()) } else { add_given(layer, key, texts, Place::Flag) }
}

/// Parses the values of one key, given at `place`, into `layer`.
pub fn add_given(
    layer: &mut Layer,
    key: &'static str,
    texts: &[String],
    place: Place,
) -> Result<(), Problem> {
    let Some(setting) = find(key) else { return Ok(()) };
    let mut all = Vec::new();
    let wrong = |text| Problem { place: place.clone(), key: key.to_owned(), text };
    for text in texts {
        match setting.parse(text).map_err(wrong)? {
            Value::List(values) => all.extend(values),
            Value::Word(word) if texts.len() > 1 => return Err(wrong(alone(word))),
            value => {
                layer.insert(key, Given { value, place });
                return Ok(());
            }
        }
    }
    layer.insert(key, Given { value: Value::List(all), place });
    Ok(())
}
