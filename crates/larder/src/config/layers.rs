//! The values of the file and of the flags, each with its place, and the problems found in them.

use std::collections::BTreeMap;
use std::fmt;

use fleet::class::Class;
use proxy::rules::access::Rule;

use crate::config::configuration::Site;
use crate::config::listener::{Certificate, Listener};
use crate::config::request_rule::RequestRule;
use crate::config::settings::find;
use crate::config::value::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the command line, as the flag of the setting.
    Flag,
    /// In a file, at a line counted from 1.
    Line(usize),
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

/// The values of a file: settings and repeated tables, the tables with their line numbers if
/// needed.
#[derive(Clone, Debug, Default)]
pub struct FileLayer {
    pub settings: Layer,
    pub sites: Vec<(Site, usize)>,
    pub access: Vec<Rule>,
    pub rules: Vec<(RequestRule, usize)>,
    pub listeners: Vec<(Listener, usize)>,
    pub certificates: Vec<(Certificate, usize)>,
    pub classes: Vec<(Class, usize)>,
}

/// All problems found, ready to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    pub file: String,
    pub list: Vec<Problem>,
}

/// Returns the name that was probably meant by `key`: one within an edit distance of a third of its
/// length.
pub fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &&str| strsim::osa_distance(key, name);
    names.min_by_key(distance).filter(|name| distance(name) <= name.len().max(3) / 3)
}

impl Problems {
    /// Returns the problems of the command line alone.
    pub fn of_flags(list: Vec<Problem>) -> Problems {
        Problems { file: String::new(), list }
    }
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
                Place::Line(line) if key.is_empty() => write!(f, "{}:{line}: {text}", self.file)?,
                Place::Line(line) => write!(f, "{}:{line}: {key}: {text}", self.file)?,
            }
        }
        Ok(())
    }
}
