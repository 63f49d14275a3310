//! The fields of a head, in the order and in the case in which they came.
//!
//! All names lie in one text and all values in another, so that a head needs no memory of its own
//! for each field, and the memory of a head can be used again for the next ([`Fields::clear`]).

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use semantics::EditFields;

/// A list of fields. A name may occur in several lines.
#[derive(Clone, Default)]
pub struct Fields {
    names: String,
    values: Vec<u8>,
    lines: Vec<Line>,
    /// A bit for each name ([`bit`]): most lookups are for fields that are absent.
    present: u64,
}

/// The begin and the end of a part of a text.
pub(crate) type Place = (u32, u32);

/// The place of one field.
#[derive(Clone, Copy)]
struct Line {
    name: Place,
    value: Place,
}

impl Line {
    fn name_range(self) -> Range<usize> {
        self.name.0 as usize..self.name.1 as usize
    }

    fn value_range(self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }
}

/// Returns the bit of a name in any case.
fn bit(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (first, last) = match bytes {
        [first, .., last] => (*first | 0x20, *last | 0x20),
        [only] => (*only | 0x20, 0),
        [] => (0, 0),
    };
    let mixed = bytes.len() * 5 + usize::from(first) * 7 + usize::from(last) * 3;
    1 << (mixed % 64)
}

impl Fields {
    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes all fields; their memory is kept for others.
    pub fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.lines.clear();
        self.present = 0;
    }

    /// Returns the bytes of memory that it keeps.
    pub fn capacity(&self) -> usize {
        self.names.capacity() + self.values.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Returns the text of all names, and of names that were removed.
    pub(crate) fn names_text(&self) -> &str {
        &self.names
    }

    /// Returns where the name of each line lies in [`Fields::names_text`].
    pub(crate) fn name_places(&self) -> impl ExactSizeIterator<Item = Place> {
        self.lines.iter().map(|line| line.name)
    }

    /// Returns the text of all values, and of values that were removed.
    pub(crate) fn values_text(&self) -> &[u8] {
        &self.values
    }

    /// Returns where the value of each line lies in [`Fields::values_text`].
    pub(crate) fn value_places(&self) -> impl Iterator<Item = Place> {
        self.lines.iter().map(|line| line.value)
    }

    /// Returns where a part of a value lies among the values of all lines: it stays there until the
    /// fields are cleared, whatever is edited. `None`: it is no part of one.
    pub fn place_of(&self, part: &[u8]) -> Option<Range<usize>> {
        let begin = part.as_ptr().addr().checked_sub(self.values.as_ptr().addr())?;
        let end = begin + part.len();
        (end <= self.values.len()).then_some(begin..end)
    }

    /// Returns what lies at such a place.
    pub fn at_place(&self, place: Range<usize>) -> &[u8] {
        self.values.get(place).unwrap_or_default()
    }

    /// Returns the bits of all names ([`Fields::bit`]).
    pub(crate) fn bits(&self) -> u64 {
        self.present
    }

    /// Returns the bit of a name in any case.
    pub(crate) fn bit(name: &str) -> u64 {
        bit(name)
    }

    /// Appends a line.
    ///
    /// # Panics
    ///
    /// When names or values have more than 4 GiB in all.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let place = |begin: usize, length: usize| {
            let at = |at: usize| u32::try_from(at).expect("a head has less than 4 GiB");
            (at(begin), at(begin + length))
        };
        let line = Line {
            name: place(self.names.len(), name.len()),
            value: place(self.values.len(), value.len()),
        };
        self.names.push_str(name);
        self.values.extend_from_slice(value);
        self.present |= bit(name);
        self.lines.push(line);
    }

    /// Returns the values of the lines with this name, which is in lower case.
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let lines = if self.present & bit(name) == 0 { &[] } else { &*self.lines };
        lines.iter().filter(move |line| self.is(**line, name)).map(|line| self.value(*line))
    }

    /// Returns the value of the first line with this name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Returns name and value of each line.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|line| (&self.names[line.name_range()], self.value(*line)))
    }

    fn is(&self, line: Line, name: &str) -> bool {
        (line.name.1 - line.name.0) as usize == name.len()
            && self.names.as_bytes()[line.name_range()].eq_ignore_ascii_case(name.as_bytes())
    }

    fn value(&self, line: Line) -> &[u8] {
        &self.values[line.value_range()]
    }

    /// Removes the lines with this name, which is in lower case.
    pub fn remove_all(&mut self, name: &str) {
        if self.present & bit(name) != 0 {
            let names = &self.names;
            self.lines.retain(|line| !names[line.name_range()].eq_ignore_ascii_case(name));
        }
    }

    /// Removes all lines but the first with this name, which is in lower case.
    pub fn keep_first(&mut self, name: &str) {
        let (names, mut seen) = (&self.names, false);
        self.lines.retain(|line| {
            let is = names[line.name_range()].eq_ignore_ascii_case(name);
            !is || !std::mem::replace(&mut seen, true)
        });
    }

    /// Puts the fields of a map into it, in place of its own.
    pub fn read_map(&mut self, map: &HeaderMap) {
        self.clear();
        map.iter().for_each(|(name, value)| self.push(name.as_str(), value.as_bytes()));
    }

    /// Makes a map of them, which shares one copy of the values. Names are in lower case there. A
    /// field that a map cannot hold is left out: a parsed head has none.
    pub fn to_map(&self, spare: usize) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.lines.len() + spare);
        let values = Bytes::copy_from_slice(&self.values);
        for line in &self.lines {
            let name = HeaderName::from_bytes(self.names[line.name_range()].as_bytes());
            let value = HeaderValue::from_maybe_shared(values.slice(line.value_range()));
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        map
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.iter().map(|(name, value)| (name, value.escape_ascii().to_string()));
        f.debug_map().entries(lines).finish()
    }
}

impl semantics::Fields for Fields {
    fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter()
    }

    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name)
    }
}

impl EditFields for Fields {
    fn remove_lines(&mut self, name: &HeaderName) -> bool {
        let before = self.lines.len();
        self.remove_all(name.as_str());
        self.lines.len() < before
    }

    fn remove_where(&mut self, unwanted: impl Fn(&str) -> bool) {
        let names = &self.names;
        self.lines.retain(|line| !unwanted(&names[line.name_range()]));
    }

    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.remove_all(name.as_str());
        self.push(name.as_str(), value.as_bytes());
    }

    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.push(name.as_str(), value.as_bytes());
    }
}
