//! Header fields as this crate reads and edits them, whatever holds them: a map, the bytes of a
//! stored head, or a parsed head of HTTP/1.1.
//!
//! The methods are not called as those of `HeaderMap`, so that a call with a map in hand says which
//! of both it means.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::settings::usual_names::{UsualName, UsualNames};

/// Header fields that can be read. A field has as many lines as it was sent in.
pub trait Fields {
    /// Returns name and value of every line. A name is in the case in which it came.
    fn all(&self) -> impl Iterator<Item = (&str, &[u8])>;

    /// Returns the lines of a field in their order. `name` is in lower case.
    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let all = self.all();
        all.filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the lines of a field in their order.
    fn lines<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.lines_named(name.as_str())
    }

    /// Returns the first line of a field.
    fn line<'a>(&'a self, name: &HeaderName) -> Option<&'a [u8]> {
        self.lines(name).next()
    }

    /// Returns whether a field has a line.
    fn has(&self, name: &HeaderName) -> bool {
        self.line(name).is_some()
    }

    /// Returns whether one of these fields has a line.
    fn has_any(&self, names: UsualNames) -> bool {
        self.usual_names().meets(names)
    }

    /// Returns the usual names that fields have.
    fn usual_names(&self) -> UsualNames {
        self.all().filter_map(|(name, _)| UsualName::of(name)).collect()
    }

    /// Returns name and value of the lines whose names are in a list: `usual` are the usual names
    /// in it, `unusual` says which others are.
    fn lines_in(
        &self,
        usual: UsualNames,
        unusual: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, &[u8])> {
        self.all().filter(move |(name, _)| usual.has_or(name, &unusual))
    }
}

/// Header fields that can be changed.
pub trait EditFields: Fields {
    /// Removes all lines of a field; returns whether there were any.
    fn remove_lines(&mut self, name: &HeaderName) -> bool;

    /// Removes the fields whose names are in a list: `usual` are the usual names in it, `unusual`
    /// says which others are, and is given them in the case in which they came.
    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool);

    /// Puts one line in place of all lines of a field.
    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue);

    /// Adds a line behind the lines of a field.
    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue);
}

impl Fields for HeaderMap {
    fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    fn lines<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    fn line<'a>(&'a self, name: &HeaderName) -> Option<&'a [u8]> {
        self.get(name).map(HeaderValue::as_bytes)
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.contains_key(name)
    }

    fn has_any(&self, names: UsualNames) -> bool {
        names.iter().any(|name| self.contains_key(name.as_str()))
    }
}

impl EditFields for HeaderMap {
    fn remove_lines(&mut self, name: &HeaderName) -> bool {
        self.remove(name).is_some()
    }

    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool) {
        let is_gone = |name: &&HeaderName| usual.has_or(name.as_str(), &unusual);
        let gone: Vec<HeaderName> = self.keys().filter(is_gone).cloned().collect();
        for name in gone {
            self.remove(name);
        }
    }

    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.insert(name, value.clone());
    }

    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.append(name, value.clone());
    }
}

/// Returns the only line of a field; `None` when there is none, or several.
pub(crate) fn only_line<'a>(fields: &'a impl Fields, name: &HeaderName) -> Option<&'a [u8]> {
    let mut lines = fields.lines(name);
    let line = lines.next()?;
    lines.next().is_none().then_some(line)
}
