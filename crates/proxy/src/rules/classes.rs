//! Classes of requests: the operator's own tables from values of a request to words.
//!
//! A [`Class`] reads a text with variables of the request, such as `{header.user-agent}`, and finds
//! its value in a table. The value is one of those that the table lists, never a text of the
//! client, so a class in the key makes no more variants than the operator names.
//!
//! A class is looked up when something asks for it, and once for a request ([`FoundClasses`]).

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_decode_str, utf8_percent_encode,
};
use semantics::Fields;
use smallvec::SmallVec;

use crate::message::cookies;
use crate::message::template::{Stage, Template, Values, Variable, write_shown};
use crate::rules::classes::class_table::{ClassTable, Found};
use crate::rules::request_rules::RuleFacts;

pub use class_table::Entries;

mod class_table;

/// Request field with the classes that are part of the key. It never leaves the proxy and is never
/// accepted from a client.
pub(crate) const KEY_CLASSES: HeaderName = HeaderName::from_static("x-larder-classes");

/// Bytes of values that are not escaped in [`KEY_CLASSES`].
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/');

/// A table from values of a request to words.
pub struct Class {
    name: Arc<str>,
    /// Position among the classes.
    number: u32,
    of: Template,
    table: ClassTable,
    /// The classes among the variables of `of`.
    parts: Vec<Arc<Class>>,
}

/// All classes of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Classes(Vec<Arc<Class>>);

/// The values of the classes that were looked up for one request.
#[derive(Debug, Default)]
pub struct FoundClasses(RefCell<SmallVec<[Known; 4]>>);

/// The value of a class for one request. Servers do not agree on which of several fields, cookies
/// or parameters with one name counts, and how a cookie's value is spelled. A class of such a text
/// has further values, those of its other readings.
#[derive(Clone, Debug)]
struct Known {
    class: u32,
    value: u32,
    /// The values of other readings that differ.
    others: SmallVec<[u32; 2]>,
    /// True if not all readings were looked up.
    is_open: bool,
}

impl Known {
    fn is_ambiguous(&self) -> bool {
        self.is_open || !self.others.is_empty()
    }
}

/// Maximum number of other readings that are looked up.
const READINGS_MAX: usize = 8;

/// A condition: that a class has a value.
#[derive(Clone)]
pub struct ClassTest {
    class: Arc<Class>,
    value: u32,
}

/// The values of the classes that a rule uses, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassValues(Vec<(Arc<str>, Arc<str>)>);

impl Classes {
    /// Adds a class. `of` may name classes that were added before. The error is a key and a
    /// sentence.
    pub fn add(
        &mut self,
        name: &str,
        of: &str,
        entries: Entries<'_>,
        default: &str,
    ) -> Result<(), (&'static str, String)> {
        if !is_name(name) {
            let text = format!("expected letters, digits, - and _, got {name:?}");
            return Err(("name", text));
        }
        let of = Template::parse(of, Stage::Request).map_err(|why| ("of", why))?;
        let mut parts = Vec::new();
        for variable in of.variables() {
            match variable {
                Variable::Class(part) => {
                    parts.push(self.named(part).cloned().ok_or_else(|| {
                        ("of", format!("there is no class {part:?} before this one"))
                    })?)
                }
                variable if is_of_request(variable) => {}
                variable => {
                    let text = format!("{variable} is not known yet when rules are chosen");
                    return Err(("of", text));
                }
            }
        }
        let is_client = of.is_only(&Variable::ClientIp);
        let table = ClassTable::new(entries, default, is_client)?;
        // Memory holds far fewer classes than `u32::MAX`.
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(Arc::new(Class { name: name.into(), number, of, table, parts }));
        Ok(())
    }

    /// Returns the class of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Class>> {
        self.0.iter().find(|class| *class.name == *name)
    }

    /// Returns the names of all classes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|class| &*class.name)
    }

    /// Parses a condition `NAME=VALUE`. The error is a sentence.
    pub fn test(&self, text: &str) -> Result<ClassTest, String> {
        let (name, value) = text
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .ok_or_else(|| format!("expected \"NAME=VALUE\", got {text:?}"))?;
        let class = self.named(name).ok_or_else(|| unknown(name))?;
        match class.table.number_of(value) {
            Some(value) => Ok(ClassTest { class: class.clone(), value }),
            None => Err(format!("the class {name:?} never has the value {value:?}")),
        }
    }

    /// Describes the classes of a request: of each its name, its value and what matched.
    pub(crate) fn described(
        &self,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
    ) -> Vec<(String, String, String)> {
        let described = |class: &Arc<Class>| {
            let (number, by) = class.find(asked, fields);
            (class.name.to_string(), class.table.value(number).to_string(), by)
        };
        self.0.iter().map(described).collect()
    }
}

/// Returns a message about a class that does not exist.
pub fn unknown(name: &str) -> String {
    format!("there is no class {name:?}: expected the name of a [[class]]")
}

/// Returns whether a text can name a class.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.bytes().all(is_plain)
}

/// Returns whether a variable is known when rules are chosen.
fn is_of_request(variable: &Variable) -> bool {
    is_of_place(variable)
        || matches!(
            variable,
            Variable::ClientIp
                | Variable::Query
                | Variable::Uri
                | Variable::Header(_)
                | Variable::Cookie(_)
                | Variable::Parameter(_)
        )
}

/// Returns whether the key of an object determines a variable.
fn is_of_place(variable: &Variable) -> bool {
    matches!(
        variable,
        Variable::Scheme | Variable::Host | Variable::Method | Variable::Path | Variable::Site
    )
}

impl Class {
    /// Returns the name of the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the value depends on more than the key of an object contains.
    pub fn looks_past_key(&self) -> bool {
        let mut parts = self.parts.iter();
        let is_past = |one: &Variable| !is_of_place(one) && !matches!(one, Variable::Class(_));
        self.of.variables().any(is_past) || parts.any(|part| part.looks_past_key())
    }

    /// Returns whether the value depends on the client's address.
    pub(crate) fn looks_at_client(&self) -> bool {
        let mut parts = self.parts.iter();
        self.of.variables().any(|one| *one == Variable::ClientIp)
            || parts.any(|part| part.looks_at_client())
    }

    /// Adds the names of the fields that the value depends on, for `Vary`: `*` stands for the
    /// client's address.
    pub(crate) fn add_names(&self, names: &mut Vec<HeaderValue>) {
        for variable in self.of.variables() {
            let name = match variable {
                Variable::Header(name) => HeaderValue::from_name(name.clone()),
                Variable::Cookie(_) => HeaderValue::from_static("cookie"),
                Variable::ClientIp => HeaderValue::from_static("*"),
                _ => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        self.parts.iter().for_each(|part| part.add_names(names));
    }

    /// Returns the number of the value for a request, and what matched.
    fn find(&self, asked: &RuleFacts<'_>, fields: &impl Fields) -> (u32, String) {
        let found = self.look_up(asked, fields);
        (found.value(), self.table.told(found))
    }

    fn look_up(&self, asked: &RuleFacts<'_>, fields: &impl Fields) -> Found {
        match self.table.of_client(asked.client) {
            Some(found) => found,
            None => self.table.of_text(&self.of.text(&FactValues::new(asked, fields, self, 0))),
        }
    }

    /// Looks the class up in all readings of its text.
    fn known(&self, asked: &RuleFacts<'_>, fields: &impl Fields) -> Known {
        let (class, mut others) = (self.number, SmallVec::new());
        if let Some(found) = self.table.of_client(asked.client) {
            return Known { class, value: found.value(), others, is_open: false };
        }
        let values = FactValues::new(asked, fields, self, 0);
        let value = self.table.of_text(&self.of.text(&values)).value();
        let readings = values.others.get();
        // The readings of several variables can be combined.
        let is_single = self.of.pieces().len() == 1;
        let is_open = values.is_open.get() || readings > if is_single { READINGS_MAX } else { 0 };
        for reading in 1..=readings.min(READINGS_MAX) {
            let text = self.of.text(&FactValues::new(asked, fields, self, reading));
            let other = self.table.of_text(&text).value();
            if other != value && !others.contains(&other) {
                others.push(other);
            }
        }
        Known { class, value, others, is_open }
    }
}

/// Prints the class without its table: rules with conditions on it stay the same when the table
/// changes.
impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Class({:?}, {:?}, {:?})", self.name, self.of, self.parts)
    }
}

impl FoundClasses {
    /// Returns the number of the class's value for the request.
    fn of(&self, class: &Class, asked: &RuleFacts<'_>, fields: &impl Fields) -> u32 {
        self.with(class, asked, fields, |known| known.value)
    }

    fn with<T>(
        &self,
        class: &Class,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
        take: impl FnOnce(&Known) -> T,
    ) -> T {
        let is_it = |known: &Known| known.class == class.number;
        let place = self.0.borrow().iter().position(is_it);
        let place = place.unwrap_or_else(|| {
            let known = class.known(asked, fields);
            let mut all = self.0.borrow_mut();
            all.push(known);
            all.len() - 1
        });
        take(&self.0.borrow()[place])
    }

    /// Returns whether a class that was looked up has several values, by the reading of its text.
    pub(crate) fn are_ambiguous(&self) -> bool {
        self.0.borrow().iter().any(Known::is_ambiguous)
    }
}

impl ClassTest {
    /// Returns whether the class of a request has the value: in all readings of its text, or
    /// `loosely` in any.
    pub(crate) fn holds(&self, asked: &RuleFacts<'_>, fields: &impl Fields, loosely: bool) -> bool {
        asked.classes.with(&self.class, asked, fields, |known| match loosely {
            true => {
                known.is_open || known.value == self.value || known.others.contains(&self.value)
            }
            false => known.value == self.value && !known.is_ambiguous(),
        })
    }

    pub(crate) fn class(&self) -> &Class {
        &self.class
    }
}

impl fmt::Debug for ClassTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} = {:?}", self.class, self.class.table.value(self.value))
    }
}

impl ClassValues {
    /// Looks up the values of these classes.
    pub fn of(classes: &[Arc<Class>], asked: &RuleFacts<'_>, fields: &impl Fields) -> ClassValues {
        let value = |class: &Arc<Class>| {
            let number = asked.classes.of(class, asked, fields);
            (class.name.clone(), class.table.value(number).clone())
        };
        ClassValues(classes.iter().map(value).collect())
    }

    /// Returns the value of a class; empty if the rule does not use it.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| **known == *name).map_or("", |(_, value)| value)
    }

    /// Returns the value of [`KEY_CLASSES`] for these classes.
    pub fn key(&self, classes: &[Arc<Class>]) -> HeaderValue {
        let mut names: Vec<&str> = classes.iter().map(|class| &*class.name).collect();
        names.sort_unstable();
        let text = written(names.into_iter().map(|name| (name, self.get(name))));
        // All of it is visible ASCII.
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Returns the values as a word for another node; `None` if there are none.
    pub fn word(&self) -> Option<String> {
        let all = self.0.iter().map(|(name, value)| (&**name, &**value));
        (!self.0.is_empty()).then(|| written(all))
    }

    /// Reads what [`ClassValues::word`] writes.
    pub fn read(word: &str) -> Option<ClassValues> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_decode_str(value).decode_utf8().ok()?;
            Some((name.into(), value.into()))
        };
        word.split(';').map(pair).collect::<Option<_>>().map(ClassValues)
    }
}

fn written<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = all.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, PLAIN)));
    pairs.collect::<Vec<_>>().join(";")
}

/// Values of the variables in a class's text.
struct FactValues<'a, F> {
    asked: &'a RuleFacts<'a>,
    fields: &'a F,
    of: &'a Class,
    /// The number of the reading, 0 for the usual one.
    reading: usize,
    /// The number of other readings that a variable has.
    others: Cell<usize>,
    /// True if a class among the variables has several values.
    is_open: Cell<bool>,
}

impl<'a, F: Fields> FactValues<'a, F> {
    fn new(
        asked: &'a RuleFacts<'a>,
        fields: &'a F,
        of: &'a Class,
        reading: usize,
    ) -> FactValues<'a, F> {
        let (others, is_open) = (Cell::new(0), Cell::new(false));
        FactValues { asked, fields, of, reading, others, is_open }
    }

    /// Writes the reading that is asked for, or the usual one, which is the first.
    fn write_one<T: AsRef<[u8]>>(&self, mut readings: Vec<T>, out: &mut Vec<u8>) {
        self.others.set(self.others.get().max(readings.len().saturating_sub(1)));
        let at = if self.reading < readings.len() { self.reading } else { 0 };
        if !readings.is_empty() {
            out.extend_from_slice(readings.swap_remove(at).as_ref());
        }
    }
}

/// Returns the readings of the cookies with a name: each value, without quotes, and
/// percent-decoded.
fn readings_of_cookie<'f>(fields: &'f impl Fields, name: &str) -> Vec<Cow<'f, [u8]>> {
    let named = cookies::pairs(fields).filter(|(known, _)| *known == name.as_bytes());
    let mut readings: Vec<Cow<'f, [u8]>> = Vec::new();
    for (_, value) in named {
        let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        let decoded = Cow::from(percent_decode(bare.unwrap_or(value)));
        for reading in [Cow::Borrowed(value), Cow::Borrowed(bare.unwrap_or(value)), decoded] {
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
    }
    readings
}

impl<F: Fields> Values for FactValues<'_, F> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
        let asked = self.asked;
        let text = asked.path.text;
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        match variable {
            Variable::ClientIp => write_shown(asked.client, out),
            Variable::Scheme => out.extend_from_slice(asked.scheme.name().as_bytes()),
            Variable::Host => out.extend(asked.host.bytes().map(|byte| byte.to_ascii_lowercase())),
            Variable::Method => out.extend_from_slice(asked.method.as_bytes()),
            Variable::Path => out.extend_from_slice(path.as_bytes()),
            Variable::Query => out.extend_from_slice(query.as_bytes()),
            Variable::Uri => out.extend_from_slice(text.as_bytes()),
            Variable::Site => out.extend_from_slice(asked.site.unwrap_or_default().as_bytes()),
            Variable::Header(name) => {
                let lines: Vec<&[u8]> = self.fields.lines(name).collect();
                match lines.len() {
                    0 | 1 => self.write_one(lines, out),
                    _ => {
                        let joined = lines.join(&b", "[..]);
                        let lines = lines.into_iter().map(Cow::Borrowed);
                        self.write_one(
                            [Cow::Owned(joined)].into_iter().chain(lines).collect(),
                            out,
                        );
                    }
                }
            }
            Variable::Cookie(name) => self.write_one(readings_of_cookie(self.fields, name), out),
            Variable::Parameter(name) => {
                let pairs = form_urlencoded::parse(query.as_bytes());
                let named = pairs.filter(|(known, _)| known == name);
                let values = named.map(|(_, value)| value.into_owned().into_bytes());
                self.write_one(values.collect(), out);
            }
            Variable::Class(name) => {
                let part = self.of.parts.iter().find(|part| *part.name == **name);
                if let Some(part) = part {
                    asked.classes.with(part, asked, self.fields, |known| {
                        self.is_open.set(self.is_open.get() || known.is_ambiguous());
                        out.extend_from_slice(part.table.value(known.value).as_bytes());
                    });
                }
            }
            // `Classes::add` refuses them.
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
