//! The fields of a head, with their received order and case.
//!
//! All names and values share one buffer. A field therefore needs no allocation of its own, and the
//! memory of one head is reused for the next ([`Fields::clear`]).

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use semantics::{EditFields, UsualName, UsualNames};

use crate::cursor::{Cursor, Stop};

/// A list of field lines. A name may occur in several lines.
#[derive(Clone, Default)]
pub struct Fields {
    /// The names, which are ASCII, and the values.
    text: Vec<u8>,
    lines: Vec<Line>,
    /// The usual names among the lines. Most lookups are for absent fields, and this answers them.
    usual: UsualNames,
    /// Filter of the other names: their bits ([`bit`]), including bits of some removed names.
    unusual: u64,
}

/// Start and end offsets in [`Fields::text`].
type Place = (u32, u32);

#[derive(Clone, Copy)]
struct Line {
    name: Place,
    value: Place,
    /// The name as a usual name, if it is one.
    usual: Option<UsualName>,
}

impl Line {
    fn name_range(self) -> Range<usize> {
        self.name.0 as usize..self.name.1 as usize
    }

    fn value_range(self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }
}

/// Returns the filter bit of a name, ignoring case.
fn bit(name: &[u8]) -> u64 {
    let (first, last) = match name {
        [first, .., last] => (*first | 0x20, *last | 0x20),
        [only] => (*only | 0x20, 0),
        [] => (0, 0),
    };
    let mixed = name.len() * 5 + usize::from(first) * 7 + usize::from(last) * 3;
    1 << (mixed % 64)
}

impl Fields {
    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes all fields and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.usual = UsualNames::NONE;
        self.unusual = 0;
    }

    /// Returns the number of bytes allocated.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Returns the names of the lines.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|line| self.name(line))
    }

    /// Returns the buffer of all names and values, including removed ones.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the range of each line's value in [`Fields::text`].
    pub(crate) fn value_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.lines.iter().map(|line| line.value_range())
    }

    /// Appends a line.
    ///
    /// # Panics
    ///
    /// If the names and values exceed 4 GiB in total.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let end = |text: &Vec<u8>| u32::try_from(text.len()).expect("a head has less than 4 GiB");
        let begin = end(&self.text);
        self.text.extend_from_slice(name.as_bytes());
        let middle = end(&self.text);
        self.text.extend_from_slice(value);
        let usual = UsualName::of(name);
        self.note(usual, || name.as_bytes());
        let (name, value) = ((begin, middle), (middle, end(&self.text)));
        self.lines.push(Line { name, value, usual });
    }

    /// Notes that a line has this name; `usual` is the result of [`UsualName::of`] for it.
    #[inline(always)]
    fn note<'a>(&mut self, usual: Option<UsualName>, name: impl FnOnce() -> &'a [u8]) {
        match usual {
            Some(usual) => self.usual.insert(usual),
            None => self.unusual |= bit(name()),
        }
    }

    /// Replaces all fields with those at `cursor`, which it moves behind the head. Without the end
    /// of the head there are no fields.
    pub(crate) fn parse(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        self.clear();
        let parsed = self.parse_lines(cursor);
        match parsed {
            Ok(()) => self.text.extend_from_slice(cursor.passed()),
            Err(_) => self.clear(),
        }
        parsed
    }

    fn parse_lines(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let mut at = *cursor;
        let place = |begin: usize, end: usize| (begin as u32, end as u32);
        while !at.head_end()? {
            let begin = at.position();
            let (end, usual) = at.name()?;
            self.note(usual, || &at.passed()[begin..]);
            let name = place(begin, end);
            let (begin, end) = at.value()?;
            self.lines.push(Line { name, value: place(begin, end), usual });
        }
        *cursor = at;
        Ok(())
    }

    /// Returns the values of the lines named `name`, which must be in lower case.
    #[inline]
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let usual = UsualName::of(name);
        let lines = if self.may_have(usual, name) { &*self.lines } else { &[] };
        let named = lines.iter().filter(move |line| self.is(line, usual, name));
        named.map(|line| self.value(*line))
    }

    /// Returns the values of the lines with a usual name.
    #[inline]
    pub fn all_of(&self, name: UsualName) -> impl Iterator<Item = &[u8]> {
        let lines = if self.usual.has(name) { &*self.lines } else { &[] };
        let named = lines.iter().filter(move |line| line.usual == Some(name));
        named.map(|line| self.value(*line))
    }

    /// Returns the value of the first line named `name`, which must be in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        match UsualName::of(name) {
            Some(usual) => self.all_of(usual).next(),
            None => self.get_all(name).next(),
        }
    }

    /// Returns the name and value of each line.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|line| (self.name_text(line), self.value(*line)))
    }

    /// Returns whether a line may have this name; `usual` is the result of [`UsualName::of`] for
    /// it.
    #[inline]
    fn may_have(&self, usual: Option<UsualName>, name: &str) -> bool {
        usual
            .map_or_else(|| self.unusual & bit(name.as_bytes()) != 0, |usual| self.usual.has(usual))
    }

    #[inline]
    fn is(&self, line: &Line, usual: Option<UsualName>, name: &str) -> bool {
        line.usual == usual
            && (usual.is_some() || self.name(line).eq_ignore_ascii_case(name.as_bytes()))
    }

    fn name(&self, line: &Line) -> &[u8] {
        &self.text[line.name_range()]
    }

    fn name_text(&self, line: &Line) -> &str {
        std::str::from_utf8(self.name(line)).unwrap_or_default()
    }

    /// Returns whether the name of `line` is in the list, which has the form that
    /// [`lines_in`](semantics::Fields::lines_in) takes.
    fn is_in(&self, line: &Line, usual: UsualNames, unusual: &impl Fn(&str) -> bool) -> bool {
        line.usual.map_or_else(|| unusual(self.name_text(line)), |name| usual.has(name))
    }

    /// Returns whether any line may be in a list with these usual names.
    fn may_have_any(&self, usual: UsualNames) -> bool {
        self.unusual != 0 || self.usual.meets(usual)
    }

    #[inline]
    fn value(&self, line: Line) -> &[u8] {
        &self.text[line.value_range()]
    }

    /// Removes the lines named `name`, which must be in lower case.
    pub fn remove_all(&mut self, name: &str) {
        let usual = UsualName::of(name);
        if self.may_have(usual, name) {
            self.retain(|fields, line| !fields.is(line, usual, name));
            usual.into_iter().for_each(|usual| self.usual.remove(usual));
        }
    }

    fn retain(&mut self, mut wanted: impl FnMut(&Fields, &Line) -> bool) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.retain(|line| wanted(self, line));
        self.lines = lines;
    }

    /// Removes all but the first line named `name`, which must be in lower case.
    pub fn keep_first(&mut self, name: &str) {
        let (usual, mut seen) = (UsualName::of(name), false);
        self.retain(|fields, line| {
            !fields.is(line, usual, name) || !std::mem::replace(&mut seen, true)
        });
    }

    /// Replaces all fields with those of `map`.
    pub fn read_map(&mut self, map: &HeaderMap) {
        self.clear();
        map.iter().for_each(|(name, value)| self.push(name.as_str(), value.as_bytes()));
    }

    /// Returns the fields as a map whose values share one copied buffer. Reserves space for `spare`
    /// more fields. Names become lower case. Fields that a map cannot hold are left out; a parsed
    /// head has none.
    pub fn to_map(&self, spare: usize) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.lines.len() + spare);
        let text = Bytes::copy_from_slice(&self.text);
        for line in &self.lines {
            let name = HeaderName::from_bytes(&text[line.name_range()]);
            let value = HeaderValue::from_maybe_shared(text.slice(line.value_range()));
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
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (self.name(line), self.value(*line)))
    }

    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name)
    }

    fn lines_of(&self, name: UsualName) -> impl Iterator<Item = &[u8]> {
        self.all_of(name)
    }

    fn line<'a>(&'a self, name: &HeaderName) -> Option<&'a [u8]> {
        self.get(name.as_str())
    }

    fn has(&self, name: &HeaderName) -> bool {
        let name = name.as_str();
        match UsualName::of(name) {
            Some(usual) => self.usual.has(usual),
            None => self.get_all(name).next().is_some(),
        }
    }

    fn has_any(&self, names: UsualNames) -> bool {
        self.usual.meets(names)
    }

    fn usual_names(&self) -> UsualNames {
        self.usual
    }

    fn lines_in(
        &self,
        usual: UsualNames,
        unusual: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, &[u8])> {
        let lines = if self.may_have_any(usual) { &*self.lines } else { &[] };
        let named = lines.iter().filter(move |line| self.is_in(line, usual, &unusual));
        named.map(|line| (self.name_text(line), self.value(*line)))
    }
}

impl EditFields for Fields {
    fn remove_lines(&mut self, name: &HeaderName) -> bool {
        let before = self.lines.len();
        self.remove_all(name.as_str());
        self.lines.len() < before
    }

    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool) {
        if self.may_have_any(usual) {
            self.retain(|fields, line| !fields.is_in(line, usual, &unusual));
            self.usual = self.usual.without(usual);
        }
    }

    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.remove_all(name.as_str());
        self.push(name.as_str(), value.as_bytes());
    }

    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.push(name.as_str(), value.as_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use semantics::Fields as _;

    use super::*;

    const NAMES: [&str; 8] =
        ["Host", "ACCEPT", "accept", "Cookie", "X-A", "x-a", "X-b", "X-Forwarded-For"];

    /// Returns the values of the lines in a list, found by comparing every name.
    fn plainly(fields: &Fields, is_in: impl Fn(&str) -> bool) -> Vec<&[u8]> {
        let lines = fields.iter().filter(|(name, _)| is_in(&name.to_ascii_lowercase()));
        lines.map(|(_, value)| value).collect()
    }

    #[test]
    fn lines_are_found_by_what_is_known_of_their_names() {
        let usual = UsualNames::all_in(|name| matches!(name, "accept" | "x-forwarded-for"));
        let unusual = |name: &str| name.eq_ignore_ascii_case("x-b");
        let is_in = |name: &str| matches!(name, "accept" | "x-forwarded-for" | "x-b");
        let mut random = fastrand::Rng::with_seed(7);
        let mut fields = Fields::default();
        for number in 0..4000_u32 {
            let name = NAMES[random.usize(..NAMES.len())];
            let lower = name.to_ascii_lowercase();
            match random.u8(..16) {
                0 => fields.clear(),
                1 => fields.remove_all(&lower),
                2 => fields.keep_first(&lower),
                3 => {
                    let left = plainly(&fields, |name| !is_in(name)).concat();
                    fields.remove_in(usual, unusual);
                    assert_eq!(plainly(&fields, |_| true).concat(), left);
                }
                _ => fields.push(name, &number.to_le_bytes()),
            }
            for name in NAMES.map(str::to_ascii_lowercase) {
                let expected = plainly(&fields, |known| known == name);
                assert_eq!(fields.get_all(&name).collect::<Vec<_>>(), expected);
                let name: HeaderName = name.parse().unwrap();
                assert_eq!(fields.has(&name), !expected.is_empty());
            }
            let found: Vec<_> = fields.lines_in(usual, unusual).map(|(_, value)| value).collect();
            assert_eq!(found, plainly(&fields, is_in));
            let names = fields.iter().filter_map(|(name, _)| UsualName::of(name));
            assert_eq!(fields.usual_names(), names.collect());
        }
    }
}
