//! Traits by which this crate reads and edits header fields in a map, in the bytes of a stored
//! head, or in a parsed HTTP/1.1 head.
//!
//! Method names differ from those of `HeaderMap`, so that a call on a map is unambiguous.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::settings::usual_names::{UsualName, UsualNames};

/// Header fields that can be read. A field has as many lines as were received.
pub trait Fields {
    /// Returns the name and value of every line. Names are ASCII, in their original case.
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// Returns the lines of a field in order. `name` is in lower case.
    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let all = self.all();
        all.filter(move |(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Returns the lines of a field in order.
    fn lines<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.lines_named(name.as_str())
    }

    /// Returns the lines of a field with a usual name, in order.
    fn lines_of(&self, name: UsualName) -> impl Iterator<Item = &[u8]> {
        self.lines_named(name.as_str())
    }

    /// Returns the first line of a field.
    fn line<'a>(&'a self, name: &HeaderName) -> Option<&'a [u8]> {
        self.lines(name).next()
    }

    /// Returns whether a field has any line.
    fn has(&self, name: &HeaderName) -> bool {
        self.line(name).is_some()
    }

    /// Returns whether any of these fields has a line.
    fn has_any(&self, names: UsualNames) -> bool {
        self.usual_names().meets(names)
    }

    /// Returns the usual names among the fields.
    fn usual_names(&self) -> UsualNames {
        self.all().filter_map(|(name, _)| UsualName::of(name)).collect()
    }

    /// Returns the name and value of all lines whose names are in a list. `usual` holds the usual
    /// names in the list; `unusual` returns whether another name is in it.
    fn lines_in(
        &self,
        usual: UsualNames,
        unusual: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, &[u8])> {
        let all = self.all().filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, value)));
        all.filter(move |(name, _)| usual.has_or(name, &unusual))
    }
}

/// Header fields that can be edited.
pub trait EditFields: Fields {
    /// Removes all lines of a field. Returns whether there were any.
    fn remove_lines(&mut self, name: &HeaderName) -> bool;

    /// Removes all fields whose names are in a list. `usual` holds the usual names in the list;
    /// `unusual` returns whether another name, given in its original case, is in it.
    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool);

    /// Replaces all lines of a field with one line.
    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue);

    /// Appends a line to a field.
    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue);
}

impl Fields for HeaderMap {
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
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

/// Returns the only line of a field; `None` if there are none or several.
pub(crate) fn only_line<'a>(fields: &'a impl Fields, name: &HeaderName) -> Option<&'a [u8]> {
    let mut lines = fields.lines(name);
    let line = lines.next()?;
    lines.next().is_none().then_some(line)
}
