//! The table of a class: which value a text, or the client's address, has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use net::networks::NetworkMap;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use semantics::Pattern;

use crate::rules::request_rules::Share;
use crate::rules::tables::pattern_table::PatternTable;
use crate::rules::tables::words::Words;

/// Largest value in bytes.
const VALUE_MAX: usize = 256;

/// Largest memory in bytes of one compiled regular expression.
const REGEX_MAX: usize = 1 << 20;

/// Largest memory in bytes of all regular expressions of a class together.
const REGEXES_MAX: usize = 16 << 20;

/// The entries of a class as the configuration has them.
#[derive(Clone, Copy, Debug)]
pub enum Entries<'a> {
    /// `PATTERN => VALUE`: a text, a text with `*`, or a regular expression after `~` (`~*` in
    /// either case); networks if the class is of the client's address alone.
    Values(&'a [String]),
    /// `PERCENTAGE => VALUE`: shares of the texts, chosen by a digest.
    Shares(&'a [String]),
}

/// Values by texts or addresses. Values are known by their numbers.
pub(super) struct ClassTable {
    values: Vec<Arc<str>>,
    /// Number of the value of what no entry matches.
    default: u32,
    lookup: Lookup,
}

enum Lookup {
    Texts(Box<TextTable>),
    Networks(NetworkMap<u32>),
    /// Ends of the shares in ten-thousandths, ascending.
    Shares(Vec<(u32, u32)>),
}

/// Values by texts, patterns and regular expressions.
struct TextTable {
    exact: Words<u32>,
    /// Patterns and regular expressions in order, with their values.
    entries: Vec<(String, u32)>,
    /// Positions in `entries`.
    patterns: PatternTable<usize>,
    regexes: RegexSet,
    /// Positions in `entries` of the regular expressions.
    places: Vec<usize>,
}

/// A value and the entry that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Exact(u32),
    /// The position of the pattern.
    Pattern(usize, u32),
    Network(IpNet, u32),
    Share(u32),
    Default(u32),
}

impl Found {
    /// Returns the number of the value.
    pub fn value(self) -> u32 {
        match self {
            Found::Exact(value)
            | Found::Pattern(_, value)
            | Found::Network(_, value)
            | Found::Share(value)
            | Found::Default(value) => value,
        }
    }
}

/// A key and a sentence.
type Wrong = (&'static str, String);

impl ClassTable {
    /// Creates a table. `is_client` tells that the texts are addresses of clients.
    pub fn new(entries: Entries<'_>, default: &str, is_client: bool) -> Result<ClassTable, Wrong> {
        let mut values = Numbered::default();
        let default = values.number(default).map_err(|why| ("default", why))?;
        let lookup = match entries {
            Entries::Values(texts) if is_client => networks(texts, &mut values),
            Entries::Values(texts) => of_texts(texts, &mut values),
            Entries::Shares(texts) => {
                let made = shares(texts, &mut values).map_err(|why| ("shares", why))?;
                return Ok(ClassTable { values: values.all, default, lookup: made });
            }
        };
        let lookup = lookup.map_err(|why| ("values", why))?;
        Ok(ClassTable { values: values.all, default, lookup })
    }

    /// Returns a value by its number.
    pub fn value(&self, number: u32) -> &Arc<str> {
        &self.values[number as usize]
    }

    /// Returns the number of a value; `None` if the table never gives it.
    pub fn number_of(&self, value: &str) -> Option<u32> {
        let number = self.values.iter().position(|known| **known == *value)?;
        u32::try_from(number).ok()
    }

    /// Returns what a client has; `None` if the table is not of clients.
    pub fn of_client(&self, client: IpAddr) -> Option<Found> {
        let Lookup::Networks(networks) = &self.lookup else { return None };
        let found = networks.longest(client);
        Some(found.map_or(Found::Default(self.default), |(net, value)| Found::Network(net, *value)))
    }

    /// Returns what a text has.
    pub fn of_text(&self, text: &[u8]) -> Found {
        let found = match &self.lookup {
            Lookup::Texts(table) => table.find(text),
            Lookup::Networks(_) => None,
            Lookup::Shares(ends) => {
                let part = Share::part_of(text);
                ends.iter().find(|(end, _)| part < *end).map(|(_, value)| Found::Share(*value))
            }
        };
        found.unwrap_or(Found::Default(self.default))
    }

    /// Describes the entry that gave a value.
    pub fn told(&self, found: Found) -> String {
        match (found, &self.lookup) {
            (Found::Exact(_), _) => "by its text".to_owned(),
            (Found::Pattern(at, _), Lookup::Texts(table)) => format!("by {}", table.entries[at].0),
            (Found::Network(network, _), _) => format!("by {network}"),
            (Found::Share(_), _) => "by its share".to_owned(),
            (Found::Default(_) | Found::Pattern(..), _) => "by default".to_owned(),
        }
    }
}

impl TextTable {
    fn find(&self, text: &[u8]) -> Option<Found> {
        let words = std::str::from_utf8(text).ok();
        let equal = words.and_then(|text| self.exact.find(text).next());
        if let Some((_, value)) = equal {
            return Some(Found::Exact(*value));
        }
        let mut first: Option<usize> = None;
        let mut take = |at: usize| first = Some(first.map_or(at, |one| one.min(at)));
        self.patterns.each(text, |at| take(*at));
        if !self.places.is_empty() {
            self.regexes.matches(text).iter().for_each(|regex| take(self.places[regex]));
        }
        first.map(|at| Found::Pattern(at, self.entries[at].1))
    }
}

/// Distinct values, numbered.
#[derive(Default)]
struct Numbered {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Numbered {
    fn number(&mut self, value: &str) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(value) {
            return Ok(*number);
        }
        if value.len() > VALUE_MAX || value.contains(char::is_control) {
            return Err(format!("expected a value of at most {VALUE_MAX} bytes, got {value:?}"));
        }
        let number = u32::try_from(self.all.len()).map_err(|_| "too many values".to_owned())?;
        let value: Arc<str> = value.into();
        self.all.push(value.clone());
        self.numbers.insert(value, number);
        Ok(number)
    }

    /// Returns what an entry matches, and the number of its value.
    fn entry<'a>(&mut self, text: &'a str) -> Result<(&'a str, u32), String> {
        // The pattern may have the arrow.
        let (pattern, value) = text
            .rsplit_once("=>")
            .ok_or_else(|| format!("expected \"PATTERN => VALUE\", got {text:?}"))?;
        Ok((pattern.trim(), self.number(value.trim())?))
    }
}

/// Remembers the value of a pattern, and refuses another one.
fn note<K: std::hash::Hash + Eq>(
    known: &mut HashMap<K, u32>,
    key: K,
    value: u32,
    text: &str,
) -> Result<bool, String> {
    match known.insert(key, value) {
        Some(other) if other != value => {
            Err(format!("{text:?} contradicts another entry for the same"))
        }
        other => Ok(other.is_none()),
    }
}

fn networks(texts: &[String], values: &mut Numbered) -> Result<Lookup, String> {
    let mut known = HashMap::with_capacity(texts.len());
    for text in texts {
        let (pattern, value) = values.entry(text)?;
        let network =
            pattern.parse::<IpNet>().or_else(|_| pattern.parse::<IpAddr>().map(IpNet::from));
        let network = network
            .map_err(|_| format!("expected a network or address before =>, got {text:?}"))?;
        note(&mut known, network.trunc(), value, text)?;
    }
    Ok(Lookup::Networks(known.into_iter().collect()))
}

fn of_texts(texts: &[String], values: &mut Numbered) -> Result<Lookup, String> {
    let (mut exact, mut all) = (HashMap::new(), HashMap::new());
    let (mut entries, mut expressions, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts {
        let (pattern, value) = values.entry(text)?;
        if !pattern.starts_with('~') && !pattern.contains('*') {
            note(&mut exact, pattern.to_ascii_lowercase(), value, text)?;
        } else if note(&mut all, pattern, value, text)? {
            if let Some(expression) = pattern.strip_prefix('~') {
                places.push(entries.len());
                expressions.push(regex(expression).map_err(|why| format!("{text:?}: {why}"))?);
            }
            entries.push((pattern.to_owned(), value));
        }
    }
    let patterns = entries.iter().enumerate().filter(|(_, (text, _))| !text.starts_with('~'));
    let patterns = patterns.map(|(at, (text, _))| (Pattern::ignoring_case(text), at));
    let patterns: Vec<_> = patterns.collect();
    let mut builder = RegexSetBuilder::new(expressions.iter().map(Regex::as_str));
    builder.unicode(!expressions.iter().all(|one| one.as_str().is_ascii()));
    builder.size_limit(REGEXES_MAX).dfa_size_limit(REGEXES_MAX);
    let regexes = builder
        .build()
        .map_err(|_| format!("the regular expressions take more than {} MiB", REGEXES_MAX >> 20))?;
    let table = TextTable {
        exact: exact.iter().map(|(text, value)| (text.as_str(), *value)).collect(),
        patterns: patterns.iter().map(|(pattern, at)| (pattern, *at)).collect(),
        entries,
        regexes,
        places,
    };
    Ok(Lookup::Texts(Box::new(table)))
}

/// Compiles what follows `~`. The expression itself says if it ignores case. One in ASCII looks at
/// bytes: a word boundary between characters of Unicode takes much longer to find in a text that is
/// not ASCII.
fn regex(expression: &str) -> Result<Regex, String> {
    let expression = match expression.strip_prefix('*') {
        Some(rest) => format!("(?i){rest}"),
        None => expression.to_owned(),
    };
    let mut builder = RegexBuilder::new(&expression);
    builder.unicode(!expression.is_ascii());
    builder.size_limit(REGEX_MAX).dfa_size_limit(REGEX_MAX);
    builder.build().map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim();
        format!("expected a regular expression after ~: {why}")
    })
}

fn shares(texts: &[String], values: &mut Numbered) -> Result<Lookup, String> {
    let (mut ends, mut end) = (Vec::new(), 0);
    for text in texts {
        let (share, value) = values.entry(text)?;
        end += share.parse::<Share>()?.parts();
        ends.push((end, value));
    }
    match end <= 10_000 {
        true => Ok(Lookup::Shares(ends)),
        false => Err("expected shares of at most 100% together".to_owned()),
    }
}
